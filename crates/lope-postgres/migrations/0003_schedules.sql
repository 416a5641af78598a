-- What starts runs again and again.
create table {schema}.schedules (
    name     text collate "C" not null primary key,
    revision uuid not null,
    due      bigint,
    last_run uuid,
    waits    smallint not null,
    body     bytea not null
) with (fillfactor = 50);

create index schedules_due on {schema}.schedules (due) where due is not null;
create index schedules_waits on {schema}.schedules (last_run) where waits = 1;

comment on table {schema}.schedules is 'what starts runs again and again';
comment on column {schema}.schedules.revision is 'of the last change; every change has another';
comment on column {schema}.schedules.due is 'when it is looked at next; absent: no time makes it due';
comment on column {schema}.schedules.last_run is 'the run that it started last';
comment on column {schema}.schedules.waits is '1: also due when its last run has ended';
comment on column {schema}.schedules.body is 'opaque to the store';

create view {schema}.schedules_view as
select name, to_timestamp(due / 1000.0) as due, last_run, waits, length(body) as bytes
from {schema}.schedules;
