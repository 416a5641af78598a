-- The snapshots of these runs ($1).
select s.run_id, s.seq, s.law, s.body
from unnest($1) as i (run_id)
    join {schema}.snapshots s on s.run_id = i.run_id
