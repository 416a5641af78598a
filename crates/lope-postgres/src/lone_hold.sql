-- One commit of a run that its owner holds on to, with nothing but journal rows ($6 to $9) and a status ($5): guarded by owner
-- ($2), epoch ($3) and journal head ($4) as in commit_hold.sql. Answer: the run and its mail counter, if it was written.
with written as (
    update {schema}.queue q
    set head = q.head + cardinality($6), status = $5
    where q.run_id = $1 and q.owner = $2 and q.epoch = $3 and q.head = coalesce($4, q.head)
    returning q.run_id, q.mail
),
kept_rows as (
    insert into {schema}.journal (run_id, seq, at, event, body)
    select w.run_id, r.seq, r.at, r.event, r.body
    from written w, unnest($6, $7, $8, $9) as r (seq, at, event, body)
)
select w.run_id, w.mail from written w
