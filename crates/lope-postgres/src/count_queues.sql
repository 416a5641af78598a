-- How deep the queues are: due, due later, owned, parked, and since when the oldest of the due has waited.
-- Every row is at or behind the least id: so said, the rows are found through their index, and room that a longer queue left
-- is not read.
select q.queue,
       count(*) filter (where q.owner is null and q.parked is null and q.due <= c.now),
       count(*) filter (where q.owner is null and q.parked is null and q.due > c.now),
       count(*) filter (where q.owner is not null),
       count(*) filter (where q.owner is null and q.parked is not null),
       min(greatest(q.due, q.created_at)) filter (where q.owner is null and q.parked is null and q.due <= c.now)
from {schema}.queue q, (select {now} as now) c
where q.run_id >= '00000000-0000-0000-0000-000000000000'
group by q.queue
order by q.queue
