-- The $1 youngest runners of the registry.
select r.runner_id, r.name, r.host, r.pid, r.program, r.started_at, r.heartbeat_at,
       r.ended_at is null and r.expires > {now}, r.ended_at,
       (select count(*) from {schema}.queue q where q.owner = r.runner_id), r.serves, r.process
from {schema}.sessions r
order by r.started_at desc, r.runner_id desc
limit $1
