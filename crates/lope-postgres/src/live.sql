-- Of the runners $1, those whose sessions live; they are judged by no later time than $2.
select r.runner_id
from {schema}.sessions r
where r.runner_id = any ($1) and r.ended_at is null and r.expires > least({now}, $2)
