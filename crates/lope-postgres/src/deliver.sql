-- Mail ($1 run, $2 id, $3 kind, $4 body, $5 reach: 0 live, 1 unpark, 2 reopen) goes before its runs, whose queue rows the
-- caller has locked, and the records of those it may reopen: only what failed is reopened. $6: how much mail may wait
-- for a run, this one included. Answer for each, in order: what became of it, and how much mail
-- was ever delivered to its run.
with clock as materialized (
    select {now} as now
),
found as materialized (
    select i.ordinal, i.run_id, i.id, i.kind, i.body, i.reach, i.room,
           q.run_id is not null as live,
           coalesce(q.mail, r.mail) as mail,
           coalesce(q.mail - q.taken, 0) as waiting,
           case when r.run_id is null then 'missing'
                when exists (select from {schema}.mail m where m.run_id = i.run_id and m.id = i.id) then 'duplicate'
                when q.run_id is null and (i.reach < 2 or r.status <> 'failed') then 'finished'
                when row_number() over (partition by i.run_id, i.id order by i.ordinal) > 1 then 'copy'
                else 'fresh' end as state
    from unnest($1, $2, $3, $4, $5, $6) with ordinality as i (run_id, id, kind, body, reach, room, ordinal)
        left join {schema}.runs r on r.run_id = i.run_id
        left join {schema}.queue q on q.run_id = i.run_id
),
ranked as materialized (
    select j.*, row_number() over (partition by j.run_id, j.state, j.room order by j.ordinal) as rank from found j
),
decided as materialized (
    select r.*, r.state = 'fresh' and r.waiting + r.rank <= r.room as accepted from ranked r
),
numbered as materialized (
    select d.*, row_number() over (partition by d.run_id, d.accepted order by d.ordinal) as nth from decided d
),
kept as (
    insert into {schema}.mail (run_id, number, at, taken, id, kind, body)
    select d.run_id, d.mail + d.nth, c.now, 0, d.id, d.kind, d.body from numbered d, clock c where d.accepted
),
totals as materialized (
    select d.run_id, d.live, count(*) as arrived, bool_or(d.reach > 0) as unpark
    from decided d where d.accepted group by d.run_id, d.live
),
woken as (
    update {schema}.queue q
    set mail = q.mail + t.arrived, due = least(q.due, c.now), parked = case when t.unpark then null else q.parked end
    from totals t, clock c
    where t.live and q.run_id = t.run_id
),
reopened as (
    insert into {schema}.queue
        (run_id, owner, due, epoch, head, mail, taken, created_at, law, weight, priority, queue, realm, status, parked,
         started_at)
    select r.run_id, null, c.now, r.epoch, r.head, r.mail + t.arrived, r.mail, r.created_at, r.law, r.weight, r.priority,
           r.queue, r.realm, 'queued', null, r.started_at
    from totals t join {schema}.runs r on r.run_id = t.run_id, clock c
    where not t.live
),
revived as (
    update {schema}.runs r
    set status = 'live', finished_at = null, result = null, error = null
    from totals t
    where not t.live and r.run_id = t.run_id
),
unmarked as (
    delete from {schema}.run_tags g using totals t where not t.live and g.run_id = t.run_id and g.tag = ''
)
select case when d.state not in ('fresh', 'copy') then d.state
            when d.accepted then 'accepted'
            when bool_or(d.accepted) over (partition by d.run_id, d.id) then 'duplicate'
            else 'full' end,
       coalesce(d.mail, 0) + count(*) filter (where d.accepted) over (partition by d.run_id)
from decided d
order by d.ordinal
