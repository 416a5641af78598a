-- Commits of runs that end: the queue row goes, guarded as in commit_hold.sql, the record gets its end, waiting mail is
-- dropped (its ids stay). Mail that came while this statement waited for the row cannot be seen by it: the run is left out
-- then, and judged again. Journal rows and so on are $1 to $12; from $13 one element a run, sorted by id.
with input as materialized (
    select i.*, {now} as now, (select q.mail from {schema}.queue q where q.run_id = i.run_id) as mail
    from unnest($13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23) as i
        (run_id, owner, epoch, after, rows, snapshot, law, status, seen, result, error)
),
written as (
    delete from {schema}.queue q
    using input i
    where q.run_id = i.run_id and q.owner = i.owner and q.epoch = i.epoch
        and q.head = coalesce(i.after, q.head)
        and q.head + i.rows >= coalesce(i.snapshot, 0)
        and q.mail = i.mail and q.mail <= coalesce(i.seen, q.mail)
    returning q.run_id, q.epoch, q.head + i.rows as head, q.mail, q.taken, coalesce(i.law, q.law) as law,
        i.status, i.result, i.error, i.now, q.started_at
),
ended as (
    update {schema}.runs r
    set status = w.status, started_at = w.started_at, finished_at = w.now, epoch = w.epoch, head = w.head, mail = w.mail, law = w.law,
        result = w.result, error = w.error
    from written w
    where r.run_id = w.run_id
    returning r.run_id, r.created_at, r.status
),
marked as (
    insert into {schema}.run_tags (tag, value, created_at, run_id)
    select '', e.status, e.created_at, e.run_id from ended e where e.status <> 'completed'
),
dropped_mail as (
    update {schema}.mail m
    set taken = 1, body = ''
    from written w
    where w.mail > w.taken and m.run_id = w.run_id and m.taken = 0
),
{append}
select w.run_id, w.mail from written w
