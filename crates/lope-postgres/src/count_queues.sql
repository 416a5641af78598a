-- How deep the queues are: due, due later, owned, parked, and since when the oldest of the due has waited.
select q.queue,
       count(*) filter (where q.owner is null and q.parked is null and q.due <= c.now),
       count(*) filter (where q.owner is null and q.parked is null and q.due > c.now),
       count(*) filter (where q.owner is not null),
       count(*) filter (where q.owner is null and q.parked is not null),
       min(greatest(q.due, q.created_at)) filter (where q.owner is null and q.parked is null and q.due <= c.now)
from {schema}.queue q, (select {now} as now) c
group by q.queue
order by q.queue
