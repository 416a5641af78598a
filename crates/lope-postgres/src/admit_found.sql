-- Which run has the id ($1) or else the key ($2) of an admission that was left out, of which workflow, and is its version ($3)
-- known?
select coalesce(r.run_id, k.run_id), coalesce(r.workflow, k.workflow), exists (select from {schema}.workflows w where w.version = i.version)
from unnest($1, $2, $3) with ordinality as i (run_id, key, version, ordinal)
    left join {schema}.runs r on r.run_id = i.run_id
    left join {schema}.runs k on k.key = i.key and k.key is not null
order by i.ordinal
