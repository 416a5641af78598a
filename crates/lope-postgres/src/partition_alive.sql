-- How many runs have ids from $1 to before $2, and how many journal rows these have; looks at no more than $3 runs.
select count(*), coalesce(sum(greatest(r.head, q.head)), 0)::bigint
from (select r.run_id, r.head from {schema}.runs r where r.run_id >= $1 and r.run_id < $2 limit $3) r
    left join {schema}.queue q on q.run_id = r.run_id
