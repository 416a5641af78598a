-- Delete at most $4 runs that ended before $1, in one of the ways $2 (none given: any), of workflow $3 (null: any). A run that
-- is just being reopened is left alone. Answer: how many were deleted, and how many were found, one more at most.
with found as materialized (
    select r.run_id, row_number() over (order by r.finished_at) as place
    from (
        select r.run_id, r.finished_at
        from {schema}.runs r
        where r.finished_at < $1
            and (cardinality($2) = 0 or r.status = any ($2))
            and ($3 is null or r.workflow = $3)
        order by r.finished_at
        limit $4 + 1
        for update of r skip locked
    ) r
),
chosen as materialized (
    select f.run_id from found f where f.place <= $4
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
    delete from {schema}.runs r using chosen c where r.run_id = c.run_id returning 1
)
select (select count(*) from gone), (select count(*) from found)
