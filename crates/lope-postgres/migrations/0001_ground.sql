-- The ground: definitions, runs, queue, journal, mail, runners, and the ordered byte tables.
--
-- Tables and columns have the same names in every SQL store. Times are UTC milliseconds since 1970; the views at the end
-- show them as timestamps. Names sort as bytes, whatever the database's own order is. `{schema}` is the schema's name.

create table {schema}.meta (
    key   text collate "C" not null primary key,
    value text not null
);

create table {schema}.workflows (
    version     bytea not null primary key,
    name        text collate "C" not null,
    body        bytea not null,
    deployed_at bigint not null
);

create index workflows_name on {schema}.workflows (name, deployed_at);

-- A run as long as it is remembered. Written when it is admitted and when it ends; what changes in between is in `queue`.
-- What its end changes stands last and in no index, and pages keep room: so the end is written beside the beginning, as the
-- difference alone, and no index hears of it.
create table {schema}.runs (
    run_id           uuid not null primary key,
    parent_run       uuid,
    created_at       bigint not null,
    weight           bigint not null,
    priority         smallint not null,
    workflow         text collate "C" not null,
    version          bytea not null,
    queue            text collate "C" not null,
    realm            text collate "C" not null,
    key              text collate "C",
    parent_execution text collate "C",
    tags             jsonb not null,
    law              bigint not null,
    epoch            bigint not null,
    head             bigint not null,
    mail             bigint not null,
    finished_at      bigint,
    status           text collate "C" not null,
    result           bytea,
    error            bytea
) with (fillfactor = 45, autovacuum_vacuum_scale_factor = 0.05);

create unique index runs_key on {schema}.runs (key) where key is not null;
create index runs_created on {schema}.runs (created_at, run_id);
create index runs_workflow on {schema}.runs (workflow, created_at, run_id);
create index runs_parent on {schema}.runs (parent_run, created_at, run_id) where parent_run is not null;

-- A run's tags, for listing by tag in the order of creation. A run that did not complete has one more, without a name, whose
-- value is its status: most runs complete, and a listing of those that did not must not walk over those that did.
create table {schema}.run_tags (
    tag        text collate "C" not null,
    value      text collate "C" not null,
    created_at bigint not null,
    run_id     uuid not null,
    primary key (tag, value, created_at, run_id)
);

create index run_tags_run on {schema}.run_tags (run_id);

-- Unfinished runs, one narrow row each: who has them, when they are due, what they wait for. Rows come and go all the
-- time: pages keep room for the next version of a row, and vacuum comes early.
create table {schema}.queue (
    run_id     uuid not null primary key,
    owner      uuid,
    due        bigint not null,
    epoch      bigint not null,
    head       bigint not null,
    mail       bigint not null,
    taken      bigint not null,
    created_at bigint not null,
    law        bigint not null,
    weight     bigint not null,
    priority   smallint not null,
    queue      text collate "C" not null,
    realm      text collate "C" not null,
    status     text collate "C" not null,
    parked     text collate "C"
) with (
    fillfactor = 45,
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.2
);

-- The realm stands before the priority, so that a runner never walks over runs that it cannot serve.
create index queue_claim on {schema}.queue (queue, realm, priority, due) where owner is null and parked is null;
create index queue_owner on {schema}.queue (owner, run_id) where owner is not null;
create index queue_mailed on {schema}.queue (owner, run_id) where owner is not null and mail > taken;
-- Most runs are queued or at work: what else there is must not be searched for among them.
create index queue_status on {schema}.queue (status, created_at, run_id) where status not in ('queued', 'running');

-- What happened to a run, in order, without gaps. Partitions hold the runs of a day, by the time in their ids (a child
-- keeps its parent's), so that space is given back by dropping a partition once its runs are pruned. Ids of other days,
-- and the last runs of a partition that is retired, live in the partition `_rest`.
create table {schema}.journal (
    run_id uuid not null,
    seq    bigint not null,
    at     bigint not null,
    event  text collate "C" not null,
    body   bytea not null,
    primary key (run_id, seq)
) partition by range (run_id);

create table {schema}.journal_rest partition of {schema}.journal default;

-- A run's folded state at a journal position; the youngest replaces the one before.
create table {schema}.snapshots (
    run_id uuid not null primary key,
    seq    bigint not null,
    law    bigint not null,
    body   bytea not null
) partition by range (run_id);

create table {schema}.snapshots_rest partition of {schema}.snapshots default;

-- Large values of a run, once each by content; journal and snapshot refer to them.
create table {schema}.blobs (
    run_id uuid not null,
    digest bytea not null,
    bytes  bytea not null,
    primary key (run_id, digest)
) partition by range (run_id);

create table {schema}.blobs_rest partition of {schema}.blobs default;

-- Mail to runs. Taken mail keeps its id, so that the same mail sent twice arrives once, and loses its body.
create table {schema}.mail (
    run_id uuid not null,
    number bigint not null,
    at     bigint not null,
    taken  smallint not null,
    id     text collate "C" not null,
    kind   text collate "C" not null,
    body   bytea not null,
    primary key (run_id, number)
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);

create unique index mail_id on {schema}.mail (run_id, id);
create index mail_waiting on {schema}.mail (run_id, number) where taken = 0;

-- Processes that work or worked. One heartbeat here extends every lease of the runner.
create table {schema}.runners (
    runner_id    uuid not null primary key,
    started_at   bigint not null,
    heartbeat_at bigint not null,
    expires      bigint not null,
    lease        bigint not null,
    ended_at     bigint,
    pid          bigint not null,
    name         text not null,
    host         text not null,
    program      text not null
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- The byte tables: which there are,
create table {schema}.table_manifest (
    idx   smallint not null primary key,
    name  text collate "C" not null unique,
    scope text collate "C"
);

-- their rows, sorted by key as bytes,
create table {schema}.table_rows (
    tbl   smallint not null,
    key   bytea not null,
    value bytea not null,
    primary key (tbl, key)
) with (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02);

-- how often each scope was written,
create table {schema}.table_scopes (
    tbl     smallint not null,
    scope   bytea not null,
    version bigint not null,
    primary key (tbl, scope)
) with (fillfactor = 50);

-- and the numbers that appends took last.
create table {schema}.table_sequences (
    name bytea not null primary key,
    next bigint not null
) with (fillfactor = 50);

insert into {schema}.table_manifest (idx, name, scope) values
    (0, 'app_state', 'table'), (1, 'inbox', null), (2, 'outbox', null), (3, 'leases', null), (4, 'timers', null),
    (5, 'dedupe', null), (6, 'dead_letter', null);

-- For people.
create view {schema}.runs_view as
select r.run_id, r.workflow, r.key,
       case when r.status <> 'live' then r.status
            when q.status = 'queued' and q.owner is not null then 'running'
            when q.status = 'running' and q.owner is null then 'queued'
            else q.status end as status,
       r.queue, r.priority, r.realm, r.tags, q.owner,
       coalesce(q.epoch, r.epoch) as epoch, coalesce(q.head, r.head) as head, coalesce(q.mail, r.mail) as mail,
       r.parent_run, encode(r.version, 'hex') as version,
       to_timestamp(r.created_at / 1000.0) as created_at, to_timestamp(r.finished_at / 1000.0) as finished_at
from {schema}.runs r left join {schema}.queue q on q.run_id = r.run_id;

create view {schema}.queue_view as
select run_id, queue, realm, priority,
       case when due = 9223372036854775807 then 'infinity' else to_timestamp(due / 1000.0) end as due,
       owner, epoch, head, mail - taken as waiting_mail, status, parked
from {schema}.queue;

create view {schema}.journal_view as
select run_id, seq, to_timestamp(at / 1000.0) as at, event, length(body) as bytes
from {schema}.journal;

create view {schema}.mail_view as
select run_id, number, id, kind, to_timestamp(at / 1000.0) as at, taken, length(body) as bytes
from {schema}.mail;

create view {schema}.runners_view as
select runner_id, name, host, pid, program, to_timestamp(started_at / 1000.0) as started_at,
       to_timestamp(heartbeat_at / 1000.0) as heartbeat_at, to_timestamp(ended_at / 1000.0) as ended_at,
       (select count(*) from {schema}.queue where owner = runner_id) as owns
from {schema}.runners;

create view {schema}.workflows_view as
select encode(version, 'hex') as version, name, to_timestamp(deployed_at / 1000.0) as deployed_at, length(body) as bytes
from {schema}.workflows;

comment on table {schema}.meta is 'schema_version, created_at';
comment on table {schema}.workflows is 'Definitions by version';
comment on column {schema}.workflows.version is 'digest of the definition';
comment on column {schema}.workflows.body is 'the definition, opaque to the store';
comment on column {schema}.workflows.deployed_at is 'when it last became the latest of its name; differs between versions of a name';
comment on table {schema}.runs is 'A run as long as it is remembered; what changes while it lives is in queue';
comment on column {schema}.runs.version is 'workflows.version';
comment on column {schema}.runs.key is 'the user''s idempotency key, unique';
comment on column {schema}.runs.status is 'live (see queue.status), completed, failed, cancelled';
comment on column {schema}.runs.priority is '0 to 9, higher first';
comment on column {schema}.runs.realm is 'what a runner must serve to take it';
comment on column {schema}.runs.law is 'of its journal; while live, queue.law counts';
comment on column {schema}.runs.weight is 'bytes it takes in memory, roughly';
comment on column {schema}.runs.tags is 'indexed by run_tags';
comment on column {schema}.runs.parent_run is 'the run that started it';
comment on column {schema}.runs.parent_execution is 'the execution of the parent that started it';
comment on column {schema}.runs.finished_at is 'absent while live';
comment on column {schema}.runs.epoch is 'counts once it has ended; while live, queue.epoch does';
comment on column {schema}.runs.head is 'last journal row once it has ended; while live, queue.head is';
comment on column {schema}.runs.mail is 'mail ever delivered once it has ended; while live, queue.mail is';
comment on table {schema}.run_tags is 'A run''s tags, for listing by tag in the order of creation';
comment on column {schema}.run_tags.tag is 'its name; without one, the value is the status of a run that did not complete';
comment on table {schema}.queue is 'Unfinished runs: who has them, when they are due, what they wait for';
comment on column {schema}.queue.due is '9223372036854775807: only mail wakes it';
comment on column {schema}.queue.owner is 'runners.runner_id';
comment on column {schema}.queue.epoch is 'grows with every change of owner, never restarts';
comment on column {schema}.queue.head is 'last journal row';
comment on column {schema}.queue.mail is 'mail ever delivered';
comment on column {schema}.queue.taken is 'mail taken into the journal, or dropped when the run ended';
comment on column {schema}.queue.status is 'what its last owner said: queued, running, idle, sleeping, waiting, paused';
comment on column {schema}.queue.parked is 'why it is kept out of claims';
comment on table {schema}.journal is 'What happened to a run, in order, without gaps';
comment on column {schema}.journal.seq is 'from 1';
comment on column {schema}.journal.event is 'its name, for people';
comment on column {schema}.journal.body is 'opaque to the store';
comment on table {schema}.snapshots is 'A run''s folded state at a journal position';
comment on column {schema}.snapshots.seq is 'last journal row folded into it';
comment on table {schema}.blobs is 'Large values of a run, once each by content';
comment on table {schema}.mail is 'Mail to runs; taken mail keeps its id and loses its body';
comment on column {schema}.mail.number is 'rises with arrival, from 1';
comment on column {schema}.mail.id is 'the sender''s, unique per run';
comment on column {schema}.mail.kind is 'signal, input, cancel, child…';
comment on column {schema}.mail.taken is '0 waits, 1 taken or dropped';
comment on table {schema}.runners is 'Processes that work or worked';
comment on column {schema}.runners.expires is 'milliseconds on this server''s clock, which judges leases';
comment on column {schema}.runners.lease is 'milliseconds a heartbeat is good for';
comment on column {schema}.runners.ended_at is 'absent while the session lives';
comment on table {schema}.table_manifest is 'The byte tables of this store';
comment on column {schema}.table_manifest.scope is 'what guards on ranges hold on to: table, prefix:8, or nothing';
comment on table {schema}.table_rows is 'Rows of the byte tables, sorted by key as bytes';
comment on column {schema}.table_rows.tbl is 'table_manifest.idx';
comment on table {schema}.table_scopes is 'How often each scope was written';
comment on table {schema}.table_sequences is 'The numbers that appends took last';
