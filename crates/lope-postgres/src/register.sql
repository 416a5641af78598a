-- A runner ($1 id, $2 name, $3 host, $4 pid, $5 program, $6 lease, $8 what it serves, $9 process) enters the registry; runners that ended longer than $7 ago
-- and own nothing leave it. Answer: the time, and when the session expires.
with clock as materialized (
    select {now} as now
),
forgotten as (
    delete from {schema}.sessions r
    using clock c
    where r.ended_at < c.now - $7 and r.runner_id <> $1
        and not exists (select from {schema}.queue q where q.owner = r.runner_id)
)
insert into {schema}.sessions as r
    (runner_id, started_at, heartbeat_at, expires, lease, ended_at, pid, name, host, program, serves, process)
select $1, c.now, c.now, c.now + $6, $6, null, $4, $2, $3, $5, $8, $9 from clock c
on conflict (runner_id) do update
    set started_at = excluded.started_at, heartbeat_at = excluded.heartbeat_at, expires = excluded.expires,
        lease = excluded.lease, ended_at = null, pid = excluded.pid, name = excluded.name, host = excluded.host,
        program = excluded.program, serves = excluded.serves, process = excluded.process
returning r.heartbeat_at, r.expires
