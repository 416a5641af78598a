-- Runs whose record cannot be read. At most $1.
select format('run %s is damaged: its %s cannot be read', r.run_id, case
    when length(r.version) <> 32 then 'version'
    when r.priority not between 0 and 9 or q.priority not between 0 and 9 then 'priority'
    when r.workflow = '' then 'workflow'
    when r.realm = '' or q.realm = '' then 'realm'
    when r.queue = '' or q.queue = '' then 'queue'
    when coalesce(q.epoch, r.epoch) < 0 then 'epoch'
    when coalesce(q.head, r.head) < 0 then 'head'
    when jsonb_typeof(r.tags) <> 'object' or r.tags @? '$.* ? (@.type() != "string")' then 'tags'
    else 'status' end)
from {schema}.runs r left join {schema}.queue q on q.run_id = r.run_id
where length(r.version) <> 32
    or r.priority not between 0 and 9 or q.priority not between 0 and 9
    or r.workflow = '' or r.realm = '' or r.queue = '' or q.realm = '' or q.queue = ''
    or coalesce(q.epoch, r.epoch) < 0 or coalesce(q.head, r.head) < 0
    or jsonb_typeof(r.tags) <> 'object' or r.tags @? '$.* ? (@.type() != "string")'
    or q.status not in ('queued', 'running', 'idle', 'sleeping', 'waiting', 'paused')
    or r.status not in ('live', 'completed', 'failed', 'cancelled')
limit $1
