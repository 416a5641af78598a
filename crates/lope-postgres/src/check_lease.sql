-- Owners that the registry does not know. Ended and expired ones are in order: the next takeover deals with them. At most $1.
select format('run %s belongs to runner %s, whom nobody knows', q.run_id, q.owner)
from {schema}.queue q left join {schema}.sessions r on r.runner_id = q.owner
where q.owner is not null and r.runner_id is null
limit $1
