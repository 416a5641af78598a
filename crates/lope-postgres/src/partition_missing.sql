-- Weeks from this one to $1 weeks ahead that have no partition: name, first id, first id behind.
-- A run id begins with 48 bits of milliseconds, so a time is an id whose other bits are zero.
select 'w' || to_char(week, 'YYYYMMDD'),
       rpad(lpad(to_hex((extract(epoch from week) * 1000)::bigint), 12, '0'), 32, '0')::uuid::text,
       rpad(lpad(to_hex((extract(epoch from week + interval '7 days') * 1000)::bigint), 12, '0'), 32, '0')::uuid::text
from generate_series(0, $1) as ahead,
     date_trunc('week', clock_timestamp() at time zone 'UTC') as this_week,
     lateral (select this_week + ahead * interval '7 days') as weeks (week)
where to_regclass('{schema}.journal_w' || to_char(week, 'YYYYMMDD')) is null
order by 1
