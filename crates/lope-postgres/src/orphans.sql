-- Are there runs whose owner's session has ended?
with recursive owners (owner) as (
    (select q.owner from {schema}.queue q where q.owner is not null order by q.owner limit 1)
    union all
    select (select q.owner from {schema}.queue q where q.owner > o.owner order by q.owner limit 1)
    from owners o where o.owner is not null
)
select exists (
    select from owners o
    where o.owner is not null
        and not exists (select from {schema}.sessions r where r.runner_id = o.owner and r.ended_at is null)
)
