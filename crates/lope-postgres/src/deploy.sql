-- Keep a definition ($1 version, $2 name, $3 body) as the latest of its name, if the version is unknown. A version is made of its
-- body: where another one stands, that was damaged, and is mended.
insert into {schema}.workflows as w (version, name, body, deployed_at)
select $1, $2, $3, greatest({now}, (select max(o.deployed_at) + 1 from {schema}.workflows o where o.name = $2))
on conflict (version) do update set body = excluded.body where w.body <> excluded.body
