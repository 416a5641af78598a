-- Mail of these runs ($1) that waits, in order of arrival.
select m.run_id, m.number, m.id, m.kind, m.body, m.at
from unnest($1) as i (run_id),
    lateral (
        select m.run_id, m.number, m.id, m.kind, m.body, m.at
        from {schema}.mail m
        where m.run_id = i.run_id and m.taken = 0
        order by m.number
    ) m
