-- Lock the rows that are there ($1 table, $2 key, sorted) in their order. Answer: which, and the digest of their value where a
-- guard asks for it ($3).
select r.tbl, r.key, case when i.wanted then sha256(r.value) end
from unnest($1, $2, $3) with ordinality as i (tbl, key, wanted, ordinal)
    join {schema}.table_rows r on r.tbl = i.tbl and r.key = i.key
order by i.ordinal
for update of r
