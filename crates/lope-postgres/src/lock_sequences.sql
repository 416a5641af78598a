-- Lock sequences ($1 names, sorted) in their order. Answer: the numbers they gave last.
select s.next
from unnest($1) with ordinality as i (name, ordinal)
    join {schema}.table_sequences s on s.name = i.name
order by i.ordinal
for update of s
