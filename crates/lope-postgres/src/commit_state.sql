-- What stands against commits that were not written: owner, epoch, journal head and mail of these runs ($1), while they live.
select q.run_id, q.owner, q.epoch, q.head, q.mail
from unnest($1) as i (run_id)
    join {schema}.queue q on q.run_id = i.run_id
