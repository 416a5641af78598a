-- Scopes that were never written get a row, so that there is something to lock ($1 table, $2 scope, sorted).
insert into {schema}.table_scopes (tbl, scope, version)
select i.tbl, i.scope, 0 from unnest($1, $2) as i (tbl, scope)
where not exists (select from {schema}.table_scopes s where s.tbl = i.tbl and s.scope = i.scope)
on conflict do nothing
