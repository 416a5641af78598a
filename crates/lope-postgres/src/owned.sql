-- What runner $1 owns, by run id, at most $3 after $2.
select q.run_id, q.epoch, r.version, q.queue, q.priority, q.realm, q.law, q.weight, q.mail, q.due, q.head, q.taken
from {schema}.queue q join {schema}.runs r on r.run_id = q.run_id
where q.owner = $1 and q.run_id > coalesce($2, '00000000-0000-0000-0000-000000000000')
order by q.run_id
limit $3
