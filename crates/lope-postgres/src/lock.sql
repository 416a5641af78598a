-- Lock the queue rows of these runs ($1, sorted) in the order of their ids, as every statement does that locks several.
select q.run_id
from unnest($1) with ordinality as i (run_id, ordinal)
    join {schema}.queue q on q.run_id = i.run_id
order by i.ordinal
for update of q
