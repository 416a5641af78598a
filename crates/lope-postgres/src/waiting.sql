-- Mail not yet taken of at most $2 runs that runner $1 owns.
select f.run_id, m.number, m.id, m.kind, m.body, m.at
from (
        select q.run_id from {schema}.queue q
        where q.owner = $1 and q.mail > q.taken
        order by q.run_id
        limit $2
    ) f
    join {schema}.mail m on m.run_id = f.run_id and m.taken = 0
order by f.run_id, m.number
