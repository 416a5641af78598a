-- A heartbeat of runner $1 extends its session, unless that has ended or expired; it is judged by no later time than $2.
-- Answer: the time, and the new expiry.
with clock as materialized (
    select {now} as now
)
update {schema}.sessions r
set heartbeat_at = c.now, expires = c.now + r.lease
from clock c
where r.runner_id = $1 and r.ended_at is null and r.expires > least(c.now, $2)
returning r.heartbeat_at, r.expires
