-- The journal of these runs ($1) behind their snapshots, each in order.
select j.run_id, j.seq, j.at, j.event, j.body
from unnest($1) as i (run_id)
    left join {schema}.snapshots s on s.run_id = i.run_id,
    lateral (
        select j.run_id, j.seq, j.at, j.event, j.body
        from {schema}.journal j
        where j.run_id = i.run_id and j.seq > coalesce(s.seq, 0)
        order by j.seq
    ) j
