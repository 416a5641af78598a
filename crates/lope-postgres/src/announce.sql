-- Runner $1 serves $2 from now on, if its session is held; that is judged by no later time than $3. Answer: one row if it is.
update {schema}.sessions r set serves = $2
where r.runner_id = $1 and r.ended_at is null and r.expires > least({now}, $3)
returning 1::bigint
