-- Partitions of weeks that ended a day ago or earlier, the oldest first: name, first id, first id behind.
select p.name,
       rpad(lpad(to_hex((extract(epoch from p.week) * 1000)::bigint), 12, '0'), 32, '0')::uuid,
       rpad(lpad(to_hex((extract(epoch from p.week + interval '7 days') * 1000)::bigint), 12, '0'), 32, '0')::uuid
from (
        select substr(c.relname, 9) as name, to_timestamp(substr(c.relname, 10), 'YYYYMMDD')::timestamp as week
        from pg_inherits i join pg_class c on c.oid = i.inhrelid
        where i.inhparent = '{schema}.journal'::regclass and c.relname ~ '^journal_w[0-9]{8}$'
    ) p
where p.week + interval '8 days' < clock_timestamp() at time zone 'UTC'
order by p.week
