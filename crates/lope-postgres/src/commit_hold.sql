-- Commits of runs that live on: held by their owner or given back to the queue. Guarded by owner, epoch and journal head in
-- the row itself, which a waiting statement looks at again once it has the lock. Journal rows and so on are $1 to $12 (see
-- append.sql); from $13 one element a run, sorted by id. Answer: the runs that were written, with their mail counters.
with input as materialized (
    select i.*, {now} as now
    from unnest($13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25) as i
        (run_id, owner, epoch, after, rows, snapshot, law, status, taken, release, due, seen, parked)
),
written as (
    update {schema}.queue q
    set head = q.head + i.rows,
        law = coalesce(i.law, q.law),
        status = i.status,
        taken = q.taken + case when i.taken is null then 0 else (
            select count(*) from {schema}.mail m
            where m.run_id = q.run_id and m.taken = 0 and m.number = any (i.taken::bigint[])
        ) end,
        owner = case when i.release then null else q.owner end,
        due = case when not i.release then q.due when q.mail > i.seen then i.now else greatest(i.due, i.now) end,
        parked = case when not i.release then q.parked when q.mail > i.seen then null else i.parked end
    from input i
    where q.run_id = i.run_id and q.owner = i.owner and q.epoch = i.epoch
        and q.head = coalesce(i.after, q.head)
        and q.head + i.rows >= coalesce(i.snapshot, 0)
    returning q.run_id, q.mail, i.taken as took
),
taken_mail as (
    update {schema}.mail m
    set taken = 1, body = ''
    from written w, unnest(w.took::bigint[]) as t (number)
    where w.took is not null and m.run_id = w.run_id and m.number = t.number and m.taken = 0
),
{append}
select w.run_id, w.mail from written w
