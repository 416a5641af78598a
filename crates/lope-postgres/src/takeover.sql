-- Runs whose owner's session has ended go back to the queue, due now, with a higher epoch; at most $1. Rows that are just
-- being committed are left for the next time. Owners are found by leaping through the index from one to the next.
-- Answer: how many runs.
with recursive owners (owner) as (
    (select q.owner from {schema}.queue q where q.owner is not null order by q.owner limit 1)
    union all
    select (select q.owner from {schema}.queue q where q.owner > o.owner order by q.owner limit 1)
    from owners o where o.owner is not null
),
gone as materialized (
    select o.owner from owners o
    where o.owner is not null
        and not exists (select from {schema}.sessions r where r.runner_id = o.owner and r.ended_at is null)
),
orphans as materialized (
    select f.run_id
    from gone g,
        lateral (
            select q.run_id from {schema}.queue q
            where q.owner = g.owner
            order by q.run_id
            limit $1
            for update of q skip locked
        ) f
    limit $1
),
put_back as (
    update {schema}.queue q
    set owner = null, epoch = q.epoch + 1, due = {now}
    from orphans o
    where q.run_id = o.run_id
    returning 1
)
select count(*) from put_back
