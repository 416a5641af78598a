-- How many runs of the queues $1 have an owner.
select count(*) from {schema}.queue q where q.owner is not null and q.queue = any($1)
