-- The session of runner $1 ends, after the claims that are under way in it.
with me as materialized (
    select r.runner_id from {schema}.sessions r where r.runner_id = $1 and r.ended_at is null for update
)
update {schema}.sessions r
set ended_at = {now}
from me
where r.runner_id = me.runner_id
