-- The rest of claim.sql, claim_many.sql and claim_bounded.sql: what was picked is weighed, taken and told.
weighed as materialized (
    select p.run_id, row_number() over w as ordinal, sum(p.weight) over w as weight
    from picked p
    window w as (order by p.priority desc, p.due, p.run_id rows unbounded preceding)
),
taken as (
    update {schema}.queue q
    set owner = $1, epoch = q.epoch + 1, started_at = coalesce(q.started_at, {now})
    from weighed w
    where q.run_id = w.run_id and (w.ordinal = 1 or w.weight <= $4)
    returning w.ordinal, q.run_id, q.epoch, q.queue, q.priority, q.realm, q.law, q.weight, q.mail, q.due,
        q.head, q.taken
)
select c.now,
       exists (select from me),
       (select count(*) from heads),
       case when (select count(*) from heads) < $3 then (
           select min(n.due)
           from unnest($5, $6, $7) as l (queue, realm, priority),
               lateral (
                   select q.due from {schema}.queue q
                   where q.queue = l.queue and q.realm = l.realm and q.priority = l.priority
                       and q.owner is null and q.parked is null
                       and q.due > c.now and q.due < 9223372036854775807 and q.law <= $2
                   order by q.due
                   limit 1
               ) n
       ) end,
       t.run_id, t.epoch, r.version, t.queue, t.priority, t.realm, t.law, t.weight, t.mail, t.due, t.head, t.taken
from clock c left join taken t on true left join {schema}.runs r on r.run_id = t.run_id
order by t.ordinal
