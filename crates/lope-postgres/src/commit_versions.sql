-- Children that may not enter: neither is their version ($3) known nor are they there already, by id ($1) or key ($2).
select i.run_id
from unnest($1, $2, $3) as i (run_id, key, version)
where not exists (select from {schema}.workflows w where w.version = i.version)
    and not exists (select from {schema}.runs r where r.run_id = i.run_id)
    and not exists (select from {schema}.runs k where k.key = i.key)
