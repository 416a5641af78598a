-- The records of these runs ($1), with their results.
select {record}, r.result, r.error
from unnest($1) as i (run_id)
    join {schema}.runs r on r.run_id = i.run_id
    left join {schema}.queue q on q.run_id = i.run_id
