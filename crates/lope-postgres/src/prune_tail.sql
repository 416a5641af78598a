-- The rest of prune.sql and prune_workflow.sql: of the runs that were seen, those that are meant are deleted.
found as materialized (
    select s.run_id, s.created_at, row_number() over (order by s.created_at, s.run_id) as ordinal
    from seen s where s.meant
    order by s.created_at, s.run_id
    limit $3 + 1
),
chosen as materialized (
    select r.run_id
    from found f join {schema}.runs r on r.run_id = f.run_id
    where f.ordinal <= $3 and r.finished_at < $1
    for update of r skip locked
),
no_rows as (
    delete from {schema}.journal d using chosen c where d.run_id = c.run_id
),
no_snapshots as (
    delete from {schema}.snapshots d using chosen c where d.run_id = c.run_id
),
no_blobs as (
    delete from {schema}.blobs d using chosen c where d.run_id = c.run_id
),
no_mail as (
    delete from {schema}.mail d using chosen c where d.run_id = c.run_id
),
no_tags as (
    delete from {schema}.run_tags d using chosen c where d.run_id = c.run_id
),
gone as (
    delete from {schema}.runs r using chosen c where r.run_id = c.run_id returning r.run_id
)
select coalesce((select array_agg(run_id) from gone), '{}'::uuid[]),
       (select count(*) from found),
       (select count(*) from seen),
       l.created_at,
       l.run_id
from (select 1) o left join lateral (
    select s.created_at, s.run_id
    from seen s
    where (select count(*) from found) <= $3
        or (s.created_at, s.run_id) <= (select f.created_at, f.run_id from found f where f.ordinal = $3)
    order by s.created_at desc, s.run_id desc
    limit 1
) l on true
