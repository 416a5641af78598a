-- As remove_record.sql, without the record, which is on a damaged page: its owner, does that live, and how much went.
{remove_free},
no_queue as (
    delete from {schema}.queue d using free where d.run_id = $1 returning 1
)
select (select o.owner from owned o),
       coalesce((select o.lives from owned o), false),
       (select count(*) from no_queue)
