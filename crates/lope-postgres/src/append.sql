-- Parts of a larger statement: journal rows ($1 to $5), values ($6 to $8) and snapshots ($9 to $12) of the runs in `written`.
kept_rows as (
    insert into {schema}.journal (run_id, seq, at, event, body)
    select r.run_id, r.seq, r.at, r.event, r.body
    from unnest($1, $2, $3, $4, $5) as r (run_id, seq, at, event, body)
    where (r.run_id in (select w.run_id from written w)) is true
),
kept_blobs as (
    insert into {schema}.blobs (run_id, digest, bytes)
    select b.run_id, b.digest, b.bytes
    from unnest($6, $7, $8) as b (run_id, digest, bytes)
    where (b.run_id in (select w.run_id from written w)) is true
    on conflict do nothing
),
kept_snapshots as (
    insert into {schema}.snapshots (run_id, seq, law, body)
    select s.run_id, s.seq, s.law, s.body
    from unnest($9, $10, $11, $12) as s (run_id, seq, law, body)
    where (s.run_id in (select w.run_id from written w)) is true
    on conflict (run_id) do update set seq = excluded.seq, law = excluded.law, body = excluded.body
)
