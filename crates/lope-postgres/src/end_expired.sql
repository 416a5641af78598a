-- Sessions that have expired end, except those in which a claim is just under way. Answer: whose.
with clock as materialized (
    select {now} as now
),
expired as materialized (
    select r.runner_id from {schema}.runners r, clock c
    where r.ended_at is null and r.expires <= c.now
    order by r.runner_id
    for update of r skip locked
)
update {schema}.runners r
set ended_at = c.now
from expired e, clock c
where r.runner_id = e.runner_id
returning r.runner_id
