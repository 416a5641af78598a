-- Due runs that nobody owns go to runner $1, if its session is held: lane by lane in the order given ($5 queue, $6 realm,
-- $7 priority, $8 claim_cursor: nothing older is looked at), each lane by due time, no run of a later law than $2, at most $3 runs
-- of at most $4 weight together (the first whatever it weighs). All lanes are of one queue and realm, so that the order of
-- lanes is the order of claims; rows that others have locked are stepped over. $9: sessions are judged by no later time.
-- Answer: the time, whether the session is held, when to come again, and the runs, one a row.
with clock as materialized (
    select {now} as now
),
me as materialized (
    select r.runner_id from {schema}.sessions r, clock c
    where r.runner_id = $1 and r.ended_at is null and r.expires > least(c.now, $9)
    for key share of r
),
picked as materialized (
    select p.*
    from me, clock c, unnest($5, $6, $7, $8) as l (queue, realm, priority, claim_cursor),
        lateral (
            select q.run_id, q.priority, q.due, q.weight
            from {schema}.queue q
            where q.queue = l.queue and q.realm = l.realm and q.priority = l.priority
                and q.owner is null and q.parked is null
                and q.due >= l.claim_cursor and q.due <= c.now and q.law <= $2
            order by q.due
            limit $3
            for update of q skip locked
        ) p
    limit $3
),
heads as (
    select p.run_id from picked p
),
{claim_tail}
