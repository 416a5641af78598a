-- Messages ($1 table, $2 prefix, $3 sequence, $4 value) are put at their prefix and the next number of their sequence, whose row
-- the caller has locked. A key that is there already is never overwritten: numbers go on behind the last one under the prefix.
with given as materialized (
    select g.tbl, g.prefix, g.sequence, g.value, row_number() over (partition by g.sequence order by g.ordinal) as nth
    from unnest($1, $2, $3, $4) with ordinality as g (tbl, prefix, sequence, value, ordinal)
),
based as materialized (
    select d.sequence, greatest(s.next, max(coalesce(o.number, 0))) as last
    from (select distinct g.tbl, g.prefix, g.sequence from given g) d
        join {schema}.table_sequences s on s.name = d.sequence
        left join lateral (
            select ('x' || encode(substr(r.key, length(d.prefix) + 1), 'hex'))::bit(64)::bigint as number
            from {schema}.table_rows r
            where r.tbl = d.tbl and r.key > d.prefix || int8send(s.next)
                and r.key < d.prefix || '\x7fffffffffffffff'::bytea and length(r.key) = length(d.prefix) + 8
            order by r.key desc
            limit 1
        ) o on true
    group by d.sequence, s.next
),
numbered as (
    update {schema}.table_sequences s
    set next = b.last + c.rows
    from based b join (select g.sequence, count(*) as rows from given g group by g.sequence) c on c.sequence = b.sequence
    where s.name = b.sequence
)
insert into {schema}.table_rows (tbl, key, value)
select g.tbl, g.prefix || int8send(b.last + g.nth), g.value
from given g join based b on b.sequence = g.sequence
