-- Who owns run $1, does that live, judged by no later time than $2; and one row if nobody does.
with owned as materialized (
    select q.owner, exists (
        select from {schema}.sessions s
        where s.runner_id = q.owner and s.ended_at is null and s.expires > least({now}, $2)
    ) as lives
    from {schema}.queue q where q.run_id = $1 for update of q
),
free as materialized (
    select 1 where not exists (select from owned o where o.lives)
)
