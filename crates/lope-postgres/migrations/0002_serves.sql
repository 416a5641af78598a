-- What a runner serves, so that a run that nobody takes can be told why.
alter table {schema}.runners add column serves text not null default '';
comment on column {schema}.runners.serves is 'a line for each queue and realm';
