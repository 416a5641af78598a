-- Lock the records of runs that mail may reopen ($1, sorted), in the order of their ids.
select r.run_id
from unnest($1) with ordinality as i (run_id, ordinal)
    join {schema}.runs r on r.run_id = i.run_id
order by i.ordinal
for update of r
