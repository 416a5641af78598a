-- As remove_record.sql, without the record, which is on a damaged page: its owner, does that live, and how much went.
with owned as materialized (
    select q.owner, exists (
        select from {schema}.sessions s
        where s.runner_id = q.owner and s.ended_at is null and s.expires > least({now}, $2)
    ) as lives
    from {schema}.queue q where q.run_id = $1 for update of q
),
free as materialized (
    select 1 where not exists (select from owned o where o.lives)
),
no_queue as (
    delete from {schema}.queue d using free where d.run_id = $1 returning 1
)
select (select o.owner from owned o),
       coalesce((select o.lives from owned o), false),
       (select count(*) from no_queue)
