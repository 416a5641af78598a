-- Children of commits: is their version ($3) known, and are they there already, by id ($1) or key ($2)?
select i.run_id,
       exists (select from {schema}.workflows w where w.version = i.version),
       exists (select from {schema}.runs r where r.run_id = i.run_id)
           or exists (select from {schema}.runs k where k.key = i.key)
from unnest($1, $2, $3) as i (run_id, key, version)
