-- Write a schedule's row ($1 name, $2 revision, $3 due, $4 last run, $5 waits, $6 body), whose place the caller has locked.
insert into {schema}.schedules (name, revision, due, last_run, waits, body)
values ($1, $2, $3, $4, $5, $6)
on conflict (name) do update
set revision = excluded.revision, due = excluded.due, last_run = excluded.last_run, waits = excluded.waits, body = excluded.body
