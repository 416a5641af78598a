-- The schema of a store in Postgres, as all migrations together give it.

create table lope.blobs (
    run_id uuid not null,
    digest bytea not null,
    bytes bytea not null,
    primary key (run_id, digest)
) partition by range (run_id);

create table lope.blobs_rest partition of lope.blobs default;

create table lope.journal (
    run_id uuid not null,
    seq bigint not null,
    at bigint not null,
    event text collate "C" not null,
    body bytea not null,
    primary key (run_id, seq)
) partition by range (run_id);

create table lope.journal_rest partition of lope.journal default;

create table lope.mail (
    run_id uuid not null,
    number bigint not null,
    at bigint not null,
    taken smallint not null,
    id text collate "C" not null,
    kind text collate "C" not null,
    body bytea not null,
    primary key (run_id, number)
) with (fillfactor=80, autovacuum_vacuum_scale_factor=0.05);

create table lope.meta (
    key text collate "C" not null,
    value text not null,
    primary key (key)
);

create table lope.queue (
    run_id uuid not null,
    owner uuid,
    due bigint not null,
    epoch bigint not null,
    head bigint not null,
    mail bigint not null,
    taken bigint not null,
    created_at bigint not null,
    law bigint not null,
    weight bigint not null,
    priority smallint not null,
    queue text collate "C" not null,
    realm text collate "C" not null,
    status text collate "C" not null,
    parked text collate "C",
    primary key (run_id)
) with (fillfactor=45, autovacuum_vacuum_scale_factor=0.01, autovacuum_vacuum_threshold=5000, autovacuum_vacuum_cost_delay=0, autovacuum_analyze_scale_factor=0.2);

create table lope.run_tags (
    tag text collate "C" not null,
    value text collate "C" not null,
    created_at bigint not null,
    run_id uuid not null,
    primary key (tag, value, created_at, run_id)
);

create table lope.runners (
    runner_id uuid not null,
    started_at bigint not null,
    heartbeat_at bigint not null,
    expires bigint not null,
    lease bigint not null,
    ended_at bigint,
    pid bigint not null,
    name text not null,
    host text not null,
    program text not null,
    serves text not null default ''::text,
    primary key (runner_id)
) with (fillfactor=50, autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=500);

create table lope.runs (
    run_id uuid not null,
    parent_run uuid,
    created_at bigint not null,
    weight bigint not null,
    priority smallint not null,
    workflow text collate "C" not null,
    version bytea not null,
    queue text collate "C" not null,
    realm text collate "C" not null,
    key text collate "C",
    parent_execution text collate "C",
    tags jsonb not null,
    law bigint not null,
    epoch bigint not null,
    head bigint not null,
    mail bigint not null,
    finished_at bigint,
    status text collate "C" not null,
    result bytea,
    error bytea,
    primary key (run_id)
) with (fillfactor=45, autovacuum_vacuum_scale_factor=0.05);

create table lope.schedules (
    name text collate "C" not null,
    revision uuid not null,
    due bigint,
    last_run uuid,
    waits smallint not null,
    body bytea not null,
    primary key (name)
) with (fillfactor=50);

create table lope.snapshots (
    run_id uuid not null,
    seq bigint not null,
    law bigint not null,
    body bytea not null,
    primary key (run_id)
) partition by range (run_id);

create table lope.snapshots_rest partition of lope.snapshots default;

create table lope.table_manifest (
    idx smallint not null,
    name text collate "C" not null,
    scope text collate "C",
    unique (name),
    primary key (idx)
);

create table lope.table_rows (
    tbl smallint not null,
    key bytea not null,
    value bytea not null,
    primary key (tbl, key)
) with (fillfactor=90, autovacuum_vacuum_scale_factor=0.02);

create table lope.table_scopes (
    tbl smallint not null,
    scope bytea not null,
    version bigint not null,
    primary key (tbl, scope)
) with (fillfactor=50);

create table lope.table_sequences (
    name bytea not null,
    next bigint not null,
    primary key (name)
) with (fillfactor=50);

create table lope.workflows (
    version bytea not null,
    name text collate "C" not null,
    body bytea not null,
    deployed_at bigint not null,
    primary key (version)
);

CREATE UNIQUE INDEX mail_id ON lope.mail USING btree (run_id, id);

CREATE INDEX mail_waiting ON lope.mail USING btree (run_id, number) WHERE (taken = 0);

CREATE INDEX queue_claim ON lope.queue USING btree (queue, realm, priority, due) WHERE ((owner IS NULL) AND (parked IS NULL));

CREATE INDEX queue_mailed ON lope.queue USING btree (owner, run_id) WHERE ((owner IS NOT NULL) AND (mail > taken));

CREATE INDEX queue_owner ON lope.queue USING btree (owner, run_id) WHERE (owner IS NOT NULL);

CREATE INDEX queue_status ON lope.queue USING btree (status, created_at, run_id) WHERE (status <> ALL (ARRAY['queued'::text, 'running'::text]));

CREATE INDEX run_tags_run ON lope.run_tags USING btree (run_id);

CREATE INDEX runs_created ON lope.runs USING btree (created_at, run_id);

CREATE UNIQUE INDEX runs_key ON lope.runs USING btree (key) WHERE (key IS NOT NULL);

CREATE INDEX runs_parent ON lope.runs USING btree (parent_run, created_at, run_id) WHERE (parent_run IS NOT NULL);

CREATE INDEX runs_workflow ON lope.runs USING btree (workflow, created_at, run_id);

CREATE INDEX schedules_due ON lope.schedules USING btree (due) WHERE (due IS NOT NULL);

CREATE INDEX schedules_waits ON lope.schedules USING btree (last_run) WHERE (waits = 1);

CREATE INDEX workflows_name ON lope.workflows USING btree (name, deployed_at);

create view lope.journal_view as
SELECT journal.run_id,
    journal.seq,
    to_timestamp((((journal.at)::numeric / 1000.0))::double precision) AS at,
    journal.event,
    length(journal.body) AS bytes
   FROM lope.journal;

create view lope.mail_view as
SELECT mail.run_id,
    mail.number,
    mail.id,
    mail.kind,
    to_timestamp((((mail.at)::numeric / 1000.0))::double precision) AS at,
    mail.taken,
    length(mail.body) AS bytes
   FROM lope.mail;

create view lope.queue_view as
SELECT queue.run_id,
    queue.queue,
    queue.realm,
    queue.priority,
        CASE
            WHEN (queue.due = '9223372036854775807'::bigint) THEN 'infinity'::timestamp with time zone
            ELSE to_timestamp((((queue.due)::numeric / 1000.0))::double precision)
        END AS due,
    queue.owner,
    queue.epoch,
    queue.head,
    (queue.mail - queue.taken) AS waiting_mail,
    queue.status,
    queue.parked
   FROM lope.queue;

create view lope.runners_view as
SELECT runners.runner_id,
    runners.name,
    runners.host,
    runners.pid,
    runners.program,
    to_timestamp((((runners.started_at)::numeric / 1000.0))::double precision) AS started_at,
    to_timestamp((((runners.heartbeat_at)::numeric / 1000.0))::double precision) AS heartbeat_at,
    to_timestamp((((runners.ended_at)::numeric / 1000.0))::double precision) AS ended_at,
    ( SELECT count(*) AS count
           FROM lope.queue
          WHERE (queue.owner = runners.runner_id)) AS owns
   FROM lope.runners;

create view lope.runs_view as
SELECT r.run_id,
    r.workflow,
    r.key,
        CASE
            WHEN (r.status <> 'live'::text) THEN r.status
            WHEN ((q.status = 'queued'::text) AND (q.owner IS NOT NULL)) THEN 'running'::text
            WHEN ((q.status = 'running'::text) AND (q.owner IS NULL)) THEN 'queued'::text
            ELSE q.status
        END AS status,
    r.queue,
    r.priority,
    r.realm,
    r.tags,
    q.owner,
    COALESCE(q.epoch, r.epoch) AS epoch,
    COALESCE(q.head, r.head) AS head,
    COALESCE(q.mail, r.mail) AS mail,
    r.parent_run,
    encode(r.version, 'hex'::text) AS version,
    to_timestamp((((r.created_at)::numeric / 1000.0))::double precision) AS created_at,
    to_timestamp((((r.finished_at)::numeric / 1000.0))::double precision) AS finished_at
   FROM (lope.runs r
     LEFT JOIN lope.queue q ON ((q.run_id = r.run_id)));

create view lope.schedules_view as
SELECT schedules.name,
    to_timestamp((((schedules.due)::numeric / 1000.0))::double precision) AS due,
    schedules.last_run,
    schedules.waits,
    length(schedules.body) AS bytes
   FROM lope.schedules;

create view lope.workflows_view as
SELECT encode(workflows.version, 'hex'::text) AS version,
    workflows.name,
    to_timestamp((((workflows.deployed_at)::numeric / 1000.0))::double precision) AS deployed_at,
    length(workflows.body) AS bytes
   FROM lope.workflows;

comment on table lope.blobs is 'Large values of a run, once each by content';

comment on table lope.journal is 'What happened to a run, in order, without gaps';

comment on column lope.journal.body is 'opaque to the store';

comment on column lope.journal.event is 'its name, for people';

comment on column lope.journal.seq is 'from 1';

comment on table lope.mail is 'Mail to runs; taken mail keeps its id and loses its body';

comment on column lope.mail.id is 'the sender''s, unique per run';

comment on column lope.mail.kind is 'signal, input, cancel, child…';

comment on column lope.mail.number is 'rises with arrival, from 1';

comment on column lope.mail.taken is '0 waits, 1 taken or dropped';

comment on table lope.meta is 'schema_version, created_at';

comment on table lope.queue is 'Unfinished runs: who has them, when they are due, what they wait for';

comment on column lope.queue.due is '9223372036854775807: only mail wakes it';

comment on column lope.queue.epoch is 'grows with every change of owner, never restarts';

comment on column lope.queue.head is 'last journal row';

comment on column lope.queue.mail is 'mail ever delivered';

comment on column lope.queue.owner is 'runners.runner_id';

comment on column lope.queue.parked is 'why it is kept out of claims';

comment on column lope.queue.status is 'what its last owner said: queued, running, idle, sleeping, waiting, paused';

comment on column lope.queue.taken is 'mail taken into the journal, or dropped when the run ended';

comment on table lope.run_tags is 'A run''s tags, for listing by tag in the order of creation';

comment on column lope.run_tags.tag is 'its name; without one, the value is the status of a run that did not complete';

comment on table lope.runners is 'Processes that work or worked';

comment on column lope.runners.ended_at is 'absent while the session lives';

comment on column lope.runners.expires is 'milliseconds on this server''s clock, which judges leases';

comment on column lope.runners.lease is 'milliseconds a heartbeat is good for';

comment on column lope.runners.serves is 'a line for each queue and realm';

comment on table lope.runs is 'A run as long as it is remembered; what changes while it lives is in queue';

comment on column lope.runs.epoch is 'counts once it has ended; while live, queue.epoch does';

comment on column lope.runs.finished_at is 'absent while live';

comment on column lope.runs.head is 'last journal row once it has ended; while live, queue.head is';

comment on column lope.runs.key is 'the user''s idempotency key, unique';

comment on column lope.runs.law is 'of its journal; while live, queue.law counts';

comment on column lope.runs.mail is 'mail ever delivered once it has ended; while live, queue.mail is';

comment on column lope.runs.parent_execution is 'the execution of the parent that started it';

comment on column lope.runs.parent_run is 'the run that started it';

comment on column lope.runs.priority is '0 to 9, higher first';

comment on column lope.runs.realm is 'what a runner must serve to take it';

comment on column lope.runs.status is 'live (see queue.status), completed, failed, cancelled';

comment on column lope.runs.tags is 'indexed by run_tags';

comment on column lope.runs.version is 'workflows.version';

comment on column lope.runs.weight is 'bytes it takes in memory, roughly';

comment on table lope.schedules is 'what starts runs again and again';

comment on column lope.schedules.body is 'opaque to the store';

comment on column lope.schedules.due is 'when it is looked at next; absent: no time makes it due';

comment on column lope.schedules.last_run is 'the run that it started last';

comment on column lope.schedules.revision is 'of the last change; every change has another';

comment on column lope.schedules.waits is '1: also due when its last run has ended';

comment on table lope.snapshots is 'A run''s folded state at a journal position';

comment on column lope.snapshots.seq is 'last journal row folded into it';

comment on table lope.table_manifest is 'The byte tables of this store';

comment on column lope.table_manifest.scope is 'what guards on ranges hold on to: table, prefix:8, or nothing';

comment on table lope.table_rows is 'Rows of the byte tables, sorted by key as bytes';

comment on column lope.table_rows.tbl is 'table_manifest.idx';

comment on table lope.table_scopes is 'How often each scope was written';

comment on table lope.table_sequences is 'The numbers that appends took last';

comment on table lope.workflows is 'Definitions by version';

comment on column lope.workflows.body is 'the definition, opaque to the store';

comment on column lope.workflows.deployed_at is 'when it last became the latest of its name; differs between versions of a name';

comment on column lope.workflows.version is 'digest of the definition';
