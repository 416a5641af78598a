-- At most $2 runs of runner $1 go back to the queue, due now, with a higher epoch. Answer: how many.
with held as materialized (
    select q.run_id from {schema}.queue q where q.owner = $1 order by q.run_id limit $2 for update
),
put_back as (
    update {schema}.queue q
    set owner = null, epoch = q.epoch + 1, due = {now}
    from held h
    where q.run_id = h.run_id and q.owner = $1
    returning 1
)
select count(*) from put_back
