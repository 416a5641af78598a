-- Scopes ($1 table, $2 scope) were written so many times ($3).
insert into {schema}.table_scopes as s (tbl, scope, version)
select i.tbl, i.scope, i.writes from unnest($1, $2, $3) as i (tbl, scope, writes)
on conflict (tbl, scope) do update set version = s.version + excluded.version
