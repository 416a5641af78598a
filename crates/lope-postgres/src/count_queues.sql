-- How deep the queues are: due, due later, owned, parked.
select q.queue,
       count(*) filter (where q.owner is null and q.parked is null and q.due <= c.now),
       count(*) filter (where q.owner is null and q.parked is null and q.due > c.now),
       count(*) filter (where q.owner is not null),
       count(*) filter (where q.owner is null and q.parked is not null)
from {schema}.queue q, (select {now} as now) c
group by q.queue
order by q.queue
