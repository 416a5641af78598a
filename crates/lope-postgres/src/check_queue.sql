-- Runs and their places in the queue that do not belong together. At most $1.
select format('run %s is in the queue and has no record, or one that has ended', q.run_id)
from {schema}.queue q left join {schema}.runs r on r.run_id = q.run_id
where r.run_id is null or r.status in ('completed', 'failed', 'cancelled')
union all
select format('run %s is live and not in the queue', r.run_id)
from {schema}.runs r left join {schema}.queue q on q.run_id = r.run_id
where r.status = 'live' and q.run_id is null
union all
select format('run %s is damaged: no runner looks for it where it stands in the queue, which is not what its record says', q.run_id)
from {schema}.queue q join {schema}.runs r on r.run_id = q.run_id
where q.queue <> r.queue or q.realm <> r.realm or q.priority <> r.priority
limit $1
