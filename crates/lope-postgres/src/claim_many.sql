-- As claim.sql, for lanes of several queues or realms: the heads of all lanes are merged by priority and due time first, then
-- locked. What others have locked meanwhile is left to them, and the claimer is told to come again at once. $9: as there.
with clock as materialized (
    select {now} as now
),
me as materialized (
    select r.runner_id from {schema}.sessions r, clock c
    where r.runner_id = $1 and r.ended_at is null and r.expires > least(c.now, $9)
    for key share of r
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
            limit $3
        ) h
    order by h.priority desc, h.due, h.run_id
    limit $3
),
picked as materialized (
    select q.run_id, q.priority, q.due, q.weight
    from heads h join {schema}.queue q on q.run_id = h.run_id
    where q.owner is null and q.parked is null
    for update of q skip locked
),
{claim_tail}
