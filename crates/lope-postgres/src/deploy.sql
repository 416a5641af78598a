-- Keep a definition ($1 version, $2 name, $3 body) as the latest of its name, if the version is unknown.
insert into {schema}.workflows (version, name, body, deployed_at)
select $1, $2, $3, greatest({now}, (select max(w.deployed_at) + 1 from {schema}.workflows w where w.name = $2))
on conflict (version) do nothing
