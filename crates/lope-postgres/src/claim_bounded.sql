-- As claim_many.sql, for queues with a bound: with what has an owner now, no more than $9 runs of these queues have one
-- afterwards. Whoever claims from them has its turn (claim_lock.sql) before this statement looks, in the same round trip: a
-- runner that is stopped leaves no transaction open. $10: sessions are judged by no later time.
with clock as materialized (
    select {now} as now
),
me as materialized (
    select r.runner_id from {schema}.sessions r, clock c
    where r.runner_id = $1 and r.ended_at is null and r.expires > least(c.now, $10)
    for key share of r
),
room as materialized (
    select greatest(0, least($3, $9 - count(*))) as runs
    from {schema}.queue q where q.owner is not null and q.queue = any ($5)
),
heads as materialized (
    select h.run_id
    from me, clock c, unnest($5, $6, $7, $8) as l (queue, realm, priority, claim_cursor),
        lateral (
            select q.run_id, q.priority, q.due
            from {schema}.queue q
            where q.queue = l.queue and q.realm = l.realm and q.priority = l.priority
                and q.owner is null and q.parked is null
                and q.due >= l.claim_cursor and q.due <= c.now and q.law <= $2
            order by q.due
            limit (select m.runs from room m)
        ) h
    order by h.priority desc, h.due, h.run_id
    limit (select m.runs from room m)
),
picked as materialized (
    select q.run_id, q.priority, q.due, q.weight
    from heads h join {schema}.queue q on q.run_id = h.run_id
    where q.owner is null and q.parked is null
    for update of q skip locked
),
{claim_tail}
