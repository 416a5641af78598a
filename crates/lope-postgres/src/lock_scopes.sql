-- Lock scopes ($1 table, $2 scope, sorted) in their order. Answer: their versions.
select s.version
from unnest($1, $2) with ordinality as i (tbl, scope, ordinal)
    join {schema}.table_scopes s on s.tbl = i.tbl and s.scope = i.scope
order by i.ordinal
for update of s
