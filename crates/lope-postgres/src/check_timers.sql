-- Timers that are not found under the worker that they name, and workers of timers that are not there. At most $1.
select format('timer %s is not found under its worker', encode(r.key, 'hex'))
from {schema}.table_rows r
where r.tbl = 4
    and not exists (select from {schema}.timer_workers w where w.worker = substr(r.value, 17, 8) and w.key = r.key)
union all
select format('timer %s is found under a worker and is not there', encode(w.key, 'hex'))
from {schema}.timer_workers w
where not exists (
        select from {schema}.table_rows r where r.tbl = 4 and r.key = w.key and substr(r.value, 17, 8) = w.worker
    )
limit $1
