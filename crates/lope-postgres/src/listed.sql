-- The records of these runs ($1), as a listing shows them.
select {record}, case when length(r.error) <= 8192 then r.error end
from unnest($1) as i (run_id)
    join {schema}.runs r on r.run_id = i.run_id
    left join {schema}.queue q on q.run_id = i.run_id
