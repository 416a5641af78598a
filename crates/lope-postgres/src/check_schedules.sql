-- Schedules that wait for a run that they never started. At most $1.
select format('schedule %s waits for a run that it never started', s.name)
from {schema}.schedules s
where s.waits = 1 and s.last_run is null
limit $1
