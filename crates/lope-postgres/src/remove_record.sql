-- As remove_run.sql, the run alone: its owner, does that live, and how much went.
{remove_free},
no_queue as (
    delete from {schema}.queue d using free where d.run_id = $1 returning 1
),
gone as (
    delete from {schema}.runs d using free where d.run_id = $1 returning 1
)
select (select o.owner from owned o),
       coalesce((select o.lives from owned o), false),
       (select count(*) from gone) + (select count(*) from no_queue)
