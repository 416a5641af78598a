-- Runs enter with their place in the queue, their tags, their first journal rows ($1 to $12, see append.sql). A run whose
-- id or key is taken, or whose version was never deployed, is left out; if another process takes one meanwhile, the statement
-- fails and is sent again. Answer: what was created, and whether it is owned.
-- $13: the runners that runs may be born to, locked so that no takeover slips in between; $14 on: one element a run.
with clock as materialized (
    select {now} as now
),
holders as materialized (
    select r.runner_id from {schema}.sessions r, clock c
    where r.runner_id = any ($13) and r.ended_at is null and r.expires > c.now
    order by r.runner_id for key share of r
),
input as materialized (
    select i.*, case when (i.claimed_by in (select h.runner_id from holders h)) is true then i.claimed_by end as owner, c.now
    from clock c, unnest($14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28) as i
        (run_id, claimed_by, due, law, weight, head, priority, workflow, version, queue, realm, key, tags,
         parent_run, parent_execution)
),
written as (
    insert into {schema}.runs
        (run_id, parent_run, created_at, weight, priority, workflow, version, queue, realm, key, parent_execution, tags,
         law, epoch, head, mail, finished_at, status, result, error)
    select i.run_id, i.parent_run, i.now, i.weight, i.priority, i.workflow, i.version, i.queue, i.realm, i.key,
           i.parent_execution, i.tags::jsonb, i.law, 0, i.head, 0, null, 'live', null, null
    from input i
    where exists (select from {schema}.workflows w where w.version = i.version)
        and not exists (select from {schema}.runs r where r.run_id = i.run_id)
        and (i.key is null or not exists (select from {schema}.runs k where k.key = i.key))
    returning run_id
),
queued as (
    insert into {schema}.queue
        (run_id, owner, due, epoch, head, mail, taken, created_at, law, weight, priority, queue, realm, status, parked,
         started_at)
    select i.run_id, i.owner, greatest(i.due, i.now), (i.owner is not null)::int, i.head, 0, 0, i.now, i.law, i.weight,
           i.priority, i.queue, i.realm, 'queued', null, case when i.owner is not null then i.now end
    from input i
    where (i.run_id in (select w.run_id from written w)) is true
),
tagged as (
    insert into {schema}.run_tags (tag, value, created_at, run_id)
    select t.key, t.value, i.now, i.run_id
    from input i, jsonb_each_text(i.tags::jsonb) t
    where i.tags <> '{}' and (i.run_id in (select w.run_id from written w)) is true
),
{append}
select i.run_id, i.owner is not null
from input i
where (i.run_id in (select w.run_id from written w)) is true
