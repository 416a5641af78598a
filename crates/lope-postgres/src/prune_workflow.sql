-- As prune.sql, over the runs of one workflow ($7).
with seen as materialized (
    select r.run_id, r.created_at, r.finished_at < $1 and (cardinality($2) = 0 or r.status = any ($2)) as meant
    from {schema}.runs r
    where r.workflow = $7 and (r.created_at, r.run_id) > ($4, $5) and r.created_at < $1
    order by r.created_at, r.run_id
    limit $6
),
{prune_tail}
