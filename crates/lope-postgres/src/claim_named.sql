-- Of the runs $3 those that nobody owns and that are due go to runner $1, if its session is held; no run of a later law than $2,
-- at most $4. Rows that others have locked are left to them, and the claimer is told to come again at once.
-- $5: sessions are judged by no later time. Answer: as claim.sql.
with clock as materialized (
    select {now} as now
),
me as materialized (
    select r.runner_id from {schema}.sessions r, clock c
    where r.runner_id = $1 and r.ended_at is null and r.expires > least(c.now, $5)
    for key share of r
),
named as materialized (
    select q.run_id, q.due, q.due <= c.now as is_due
    from me, clock c, {schema}.queue q
    where q.run_id = any ($3) and q.owner is null and q.parked is null and q.law <= $2
),
picked as materialized (
    select q.run_id
    from {schema}.queue q
    where q.run_id in (select n.run_id from named n where n.is_due order by n.run_id limit $4)
        and q.owner is null and q.parked is null
    order by q.run_id
    for update of q skip locked
),
taken as (
    update {schema}.queue q
    set owner = $1, epoch = q.epoch + 1, started_at = coalesce(q.started_at, {now})
    from picked p
    where q.run_id = p.run_id
    returning q.run_id, q.epoch, q.queue, q.priority, q.realm, q.law, q.weight, q.mail, q.due,
        q.head, q.taken
)
select c.now,
       exists (select from me),
       (select count(*) from named n where n.is_due),
       (select min(n.due) from named n where not n.is_due and n.due < 9223372036854775807),
       t.run_id, t.epoch, r.version, t.queue, t.priority, t.realm, t.law, t.weight, t.mail, t.due, t.head, t.taken
from clock c left join taken t on true left join {schema}.runs r on r.run_id = t.run_id
order by t.run_id
