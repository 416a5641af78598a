-- Run $1 goes with all that belongs to it, unless a runner that lives owns it, judged by no later time than $2: its owner, does that live, and how much went.
{remove_free},
no_rows as (
    delete from {schema}.journal d using free where d.run_id = $1 returning 1
),
no_snapshots as (
    delete from {schema}.snapshots d using free where d.run_id = $1 returning 1
),
no_blobs as (
    delete from {schema}.blobs d using free where d.run_id = $1 returning 1
),
no_mail as (
    delete from {schema}.mail d using free where d.run_id = $1 returning 1
),
no_tags as (
    delete from {schema}.run_tags d using free where d.run_id = $1 returning 1
),
no_queue as (
    delete from {schema}.queue d using free where d.run_id = $1 returning 1
),
gone as (
    delete from {schema}.runs d using free where d.run_id = $1 returning 1
)
select (select o.owner from owned o),
       coalesce((select o.lives from owned o), false),
       (select count(*) from gone) + (select count(*) from no_queue) + (select count(*) from no_rows)
