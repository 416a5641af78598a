-- Sequences that never gave a number get a row, so that there is something to lock ($1 names, sorted).
insert into {schema}.table_sequences (name, next)
select i.name, 0 from unnest($1) as i (name)
where not exists (select from {schema}.table_sequences s where s.name = i.name)
on conflict do nothing
