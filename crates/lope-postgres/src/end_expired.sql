-- Sessions that have expired end, except those in which a claim is just under way; they are judged by no later time than $1.
-- One that would last longer than its lease was renewed before the clock was set back: it lasts for one lease from now.
-- Answer: the time, and whose ended.
with clock as materialized (
    select {now} as now
),
expired as materialized (
    select r.runner_id from {schema}.sessions r, clock c
    where r.ended_at is null and r.expires <= least(c.now, $1)
    order by r.runner_id
    for update of r skip locked
),
ended as (
    update {schema}.sessions r
    set ended_at = c.now
    from expired e, clock c
    where r.runner_id = e.runner_id
    returning r.runner_id
),
too_long as materialized (
    select r.runner_id from {schema}.sessions r, clock c
    where r.ended_at is null and r.expires > c.now + r.lease + 2000
    order by r.runner_id
    for update of r skip locked
),
shortened as (
    update {schema}.sessions r
    set expires = c.now + r.lease
    from too_long t, clock c
    where r.runner_id = t.runner_id
)
select c.now, e.runner_id from clock c left join ended e on true
