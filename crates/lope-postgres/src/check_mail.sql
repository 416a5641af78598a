-- Runs whose mail counters do not agree with the mail that is there. At most $1.
select format('run %s counts %s waiting mail and has %s', q.run_id, q.mail - q.taken, coalesce(m.waiting, 0))
from {schema}.queue q
    left join (
        select m.run_id, count(*) filter (where m.taken = 0) as waiting from {schema}.mail m group by m.run_id
    ) m on m.run_id = q.run_id
where q.mail - q.taken <> coalesce(m.waiting, 0)
limit $1
