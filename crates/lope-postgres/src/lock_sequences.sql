-- Lock sequences ($1 names, sorted) in their order. Answer: the numbers they gave last.
select s.next
from unnest($1) with ordinality as i (name, place)
    join {schema}.table_sequences s on s.name = i.name
order by i.place
for update of s
