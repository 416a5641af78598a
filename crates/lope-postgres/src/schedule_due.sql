-- Schedules that are due, or wait for a run that has ended; at most $1, none while the store is being filled. One row at least: the clock, when the next one is due by
-- its time, whether any waits for its last run.
with clock as materialized (
    select {now} as now
),
found as materialized (
    select s.*, q.run_id is not null as running
    from clock c, {schema}.schedules s left join {schema}.queue q on q.run_id = s.last_run
    where (s.due <= c.now or (s.waits = 1 and q.run_id is null))
        and not exists (select from {schema}.meta m where m.key = 'copy_from')
    order by s.due nulls last, s.name
    limit $1
)
select f.name, f.revision, f.due, f.last_run, f.waits, f.body, f.running, c.now,
       (select min(n.due) from {schema}.schedules n where n.due > c.now),
       exists (select from {schema}.schedules w where w.waits = 1)
from clock c left join found f on true
order by f.due nulls last, f.name
