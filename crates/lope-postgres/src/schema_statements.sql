-- The schema as statements, tables first, then indexes, views, comments, functions and triggers, by name.
with relations as (
    select c.oid, c.relname, c.relkind, c.reloptions, c.relispartition
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = '{schema}' and c.relname !~ '_w[0-9]{8}(_pkey)?$'
),
columns as (
    select a.attrelid, a.attnum, a.attname,
           a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
               || case when a.attcollation <> t.typcollation then ' collate "' || l.collname || '"' else '' end
               || case when a.attnotnull then ' not null' else '' end
               || coalesce(' default ' || pg_get_expr(d.adbin, d.adrelid), '') as text
    from pg_attribute a
        join relations r on r.oid = a.attrelid
        join pg_type t on t.oid = a.atttypid
        left join pg_collation l on l.oid = a.attcollation
        left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
    where a.attnum > 0 and not a.attisdropped
),
constraints as (
    select k.conrelid, k.conname, pg_get_constraintdef(k.oid) as text
    from pg_constraint k join relations r on r.oid = k.conrelid
),
tables as (
    select 1 as part, r.relname as name,
           'create table {schema}.' || r.relname || E' (\n    '
               || (select string_agg(c.text, E',\n    ' order by c.attnum) from columns c where c.attrelid = r.oid)
               || coalesce((select string_agg(E',\n    ' || lower(k.text), '' order by k.conname) from constraints k
                            where k.conrelid = r.oid), '')
               || E'\n)'
               || case when r.relkind = 'p' then ' partition by ' || lower(pg_get_partkeydef(r.oid)) else '' end
               || coalesce(' with (' || array_to_string(r.reloptions, ', ') || ')', '') as text
    from relations r
    where r.relkind in ('r', 'p') and not r.relispartition
    union all
    select 1, r.relname,
           'create table {schema}.' || r.relname || ' partition of '
               || (select p.inhparent::regclass::text from pg_inherits p where p.inhrelid = r.oid) || ' '
               || lower(pg_get_expr(c.relpartbound, c.oid))
    from relations r join pg_class c on c.oid = r.oid
    where r.relkind = 'r' and r.relispartition
),
indexes as (
    select 2 as part, r.relname as name, pg_get_indexdef(r.oid) as text
    from relations r join pg_index i on i.indexrelid = r.oid
    where not i.indisprimary and not r.relispartition
        and not exists (select from pg_constraint k where k.conindid = r.oid)
),
views as (
    select 3 as part, r.relname as name,
           'create view {schema}.' || r.relname || E' as\n' || rtrim(trim(pg_get_viewdef(r.oid)), ';') as text
    from relations r where r.relkind = 'v'
),
comments as (
    select 4 as part, r.relname || coalesce('.' || c.attname, '') as name,
           case when c.attname is null then 'comment on table {schema}.' || r.relname
                else 'comment on column {schema}.' || r.relname || '.' || c.attname end
               || ' is ' || quote_literal(d.description) as text
    from pg_description d
        join relations r on r.oid = d.objoid and d.classoid = 'pg_class'::regclass
        left join columns c on c.attrelid = d.objoid and c.attnum = d.objsubid
),
functions as (
    select 5 as part, p.proname::text as name,
           'create function {schema}.' || p.proname || '() returns trigger language plpgsql as $function$' || p.prosrc || '$function$' as text
    from pg_proc p join pg_namespace n on n.oid = p.pronamespace
    where n.nspname = '{schema}' and p.prorettype = 'trigger'::regtype
),
triggers as (
    select 6 as part, t.tgname::text as name, pg_get_triggerdef(t.oid) as text
    from pg_trigger t join relations r on r.oid = t.tgrelid
    where not t.tgisinternal
)
select text from (
    select * from tables union all select * from indexes union all select * from views union all select * from comments
    union all select * from functions union all select * from triggers
) all_of_it
order by part, name collate "C"
