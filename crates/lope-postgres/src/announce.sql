-- Runner $1 serves $2 from now on, if its session is held. Answer: one row if it is.
update {schema}.runners r set serves = $2
where r.runner_id = $1 and r.ended_at is null and r.expires > {now}
returning 1::bigint
