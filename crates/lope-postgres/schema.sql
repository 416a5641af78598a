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

create table lope.projects (
    path text collate "C" not null,
    revision bigint not null,
    name text collate "C" not null,
    registered_at text collate "C" not null,
    last_seen_at text collate "C" not null,
    enabled bigint not null default 1,
    settings text collate "C" not null,
    primary key (path)
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
    started_at bigint,
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
    id text collate "C" not null,
    revision bigint not null,
    status text collate "C" not null default 'idle'::text,
    pid bigint,
    pid_started text collate "C" not null,
    boot_id text collate "C" not null,
    host text collate "C" not null,
    project_path text collate "C",
    section_id text collate "C",
    place bigint not null,
    current_task_id text collate "C",
    started_at text collate "C" not null,
    completed_at text collate "C",
    heartbeat_at text collate "C" not null,
    beat bigint not null,
    awake bigint not null,
    stop text collate "C",
    error text collate "C",
    primary key (id)
);

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
    started_at bigint,
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

create table lope.sections (
    project_path text collate "C" not null,
    section_id text collate "C" not null,
    revision bigint not null,
    skipped bigint not null,
    decided_at text collate "C" not null,
    primary key (project_path, section_id)
);

create table lope.sessions (
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
    process text not null default ''::text,
    primary key (runner_id)
) with (fillfactor=50, autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=500);

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

create table lope.task_attempts (
    task_id text collate "C" not null,
    number bigint not null,
    revision bigint not null,
    project_path text collate "C" not null,
    role text collate "C" not null,
    agent text collate "C" not null,
    runner_id text collate "C" not null,
    epoch bigint not null,
    run_id text collate "C",
    execution text collate "C",
    started_at text collate "C" not null,
    ended_at text collate "C",
    stop_reason text collate "C",
    counted bigint not null,
    exit_code bigint,
    wall_ms bigint not null,
    cost_micros bigint not null,
    tokens bigint not null,
    session text collate "C",
    summary text collate "C",
    log text collate "C",
    worktree text collate "C",
    primary key (task_id, number)
);

create table lope.task_events (
    task_id text collate "C" not null,
    number bigint not null,
    revision bigint not null,
    at text collate "C" not null,
    kind text collate "C" not null,
    author text collate "C" not null,
    message text collate "C" not null,
    primary key (task_id, number)
);

create table lope.task_hooks (
    task_id text collate "C" not null,
    number bigint not null,
    hook text collate "C" not null,
    revision bigint not null,
    project_path text collate "C" not null,
    body text collate "C" not null,
    made_at text collate "C" not null,
    tries bigint not null,
    due_at text collate "C" not null,
    primary key (task_id, number, hook)
);

create table lope.task_locks (
    task_id text collate "C" not null,
    revision bigint not null,
    project_path text collate "C" not null,
    section_id text collate "C",
    runner_id text collate "C" not null,
    epoch bigint not null,
    acquired_at text collate "C" not null,
    expires_at text collate "C" not null,
    expires bigint not null,
    boot_id text collate "C" not null,
    primary key (task_id)
);

create table lope.tasks (
    id text collate "C" not null,
    revision bigint not null,
    project_path text collate "C" not null,
    section_id text collate "C",
    title text collate "C" not null,
    description text collate "C" not null,
    status text collate "C" not null,
    priority bigint not null,
    dependencies text collate "C" not null,
    source_file text collate "C",
    epoch bigint not null,
    attempts bigint not null,
    rejections bigint not null,
    interrupted bigint not null,
    not_before text collate "C",
    reason text collate "C",
    decided_by text collate "C",
    review text collate "C" not null,
    budget text collate "C" not null,
    session text collate "C",
    parent_id text collate "C",
    question text collate "C",
    answer text collate "C",
    result text collate "C",
    created_at text collate "C" not null,
    updated_at text collate "C" not null,
    completed_at text collate "C",
    primary key (id)
);

create table lope.timer_workers (
    worker bytea not null,
    key bytea not null,
    primary key (worker, key)
) with (autovacuum_vacuum_scale_factor=0.02);

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

CREATE UNIQUE INDEX runners_project ON lope.runners USING btree (project_path, place) WHERE (status = ANY (ARRAY['idle'::text, 'running'::text]));

CREATE UNIQUE INDEX runners_section ON lope.runners USING btree (project_path, section_id) WHERE ((status = ANY (ARRAY['idle'::text, 'running'::text])) AND (section_id IS NOT NULL));

CREATE INDEX runners_status ON lope.runners USING btree (status);

CREATE INDEX runs_created ON lope.runs USING btree (created_at, run_id);

CREATE UNIQUE INDEX runs_key ON lope.runs USING btree (key) WHERE (key IS NOT NULL);

CREATE INDEX runs_parent ON lope.runs USING btree (parent_run, created_at, run_id) WHERE (parent_run IS NOT NULL);

CREATE INDEX runs_workflow ON lope.runs USING btree (workflow, created_at, run_id);

CREATE INDEX schedules_due ON lope.schedules USING btree (due) WHERE (due IS NOT NULL);

CREATE INDEX schedules_waits ON lope.schedules USING btree (last_run) WHERE (waits = 1);

CREATE INDEX task_attempts_project ON lope.task_attempts USING btree (project_path, started_at);

CREATE INDEX task_locks_runner ON lope.task_locks USING btree (runner_id);

CREATE UNIQUE INDEX task_locks_section ON lope.task_locks USING btree (project_path, section_id);

CREATE INDEX tasks_open ON lope.tasks USING btree (project_path, status);

CREATE INDEX tasks_status ON lope.tasks USING btree (status);

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
    to_timestamp((((COALESCE(q.started_at, r.started_at))::numeric / 1000.0))::double precision) AS started_at,
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

create view lope.sessions_view as
SELECT sessions.runner_id,
    sessions.name,
    sessions.host,
    sessions.pid,
    sessions.program,
    to_timestamp((((sessions.started_at)::numeric / 1000.0))::double precision) AS started_at,
    to_timestamp((((sessions.heartbeat_at)::numeric / 1000.0))::double precision) AS heartbeat_at,
    to_timestamp((((sessions.ended_at)::numeric / 1000.0))::double precision) AS ended_at,
    ( SELECT count(*) AS count
           FROM lope.queue
          WHERE (queue.owner = sessions.runner_id)) AS owns
   FROM lope.sessions;

create view lope.workflows_view as
SELECT encode(workflows.version, 'hex'::text) AS version,
    workflows.name,
    to_timestamp((((workflows.deployed_at)::numeric / 1000.0))::double precision) AS deployed_at,
    length(workflows.body) AS bytes
   FROM lope.workflows;

comment on table lope.blobs is 'a large value of a run, once by content; journal and snapshot refer to it';

comment on column lope.blobs.bytes is 'the value';

comment on column lope.blobs.digest is 'digest of the bytes';

comment on column lope.blobs.run_id is 'the run it belongs to';

comment on table lope.journal is 'an event of a run, in order, without gaps';

comment on column lope.journal.at is 'when it happened, by its owner''s clock; never before the row in front of it';

comment on column lope.journal.body is 'the event, opaque to the store';

comment on column lope.journal.event is 'its name, for people';

comment on column lope.journal.run_id is 'the run it happened to';

comment on column lope.journal.seq is 'its place in the journal, from 1';

comment on table lope.mail is 'what was delivered to a run; taken mail keeps its id and loses its body';

comment on column lope.mail.at is 'when it arrived';

comment on column lope.mail.body is 'what was sent, opaque to the store';

comment on column lope.mail.id is 'the sender''s, unique per run: the same mail sent twice arrives once';

comment on column lope.mail.kind is 'signal, input, cancel, child…';

comment on column lope.mail.number is 'rises with arrival, from 1';

comment on column lope.mail.run_id is 'the run it was delivered to';

comment on column lope.mail.taken is '0 waits, 1 taken or dropped';

comment on table lope.meta is 'a fact about the store';

comment on column lope.meta.key is 'which fact: schema_version, created_at; copy_from while a copy fills the store';

comment on column lope.meta.value is 'what it is, as text';

comment on table lope.projects is 'a folder whose tasks are worked on';

comment on column lope.projects.enabled is '1: its tasks are worked on; 0: nobody starts them';

comment on column lope.projects.last_seen_at is 'when a command, a scan or a runner last saw it';

comment on column lope.projects.name is 'what people call it';

comment on column lope.projects.path is 'the folder, absolute';

comment on column lope.projects.registered_at is 'when it was registered';

comment on column lope.projects.revision is 'grows with every change of the row; a write names the one it read';

comment on column lope.projects.settings is 'a JSON object: its own agent, reviewer, budgets, workflow';

comment on table lope.queue is 'an unfinished run, narrow: who has it, when it is due, what it waits for';

comment on column lope.queue.created_at is 'runs.created_at, for listings by status';

comment on column lope.queue.due is 'when it may be claimed; 9223372036854775807: only mail wakes it';

comment on column lope.queue.epoch is 'grows with every change of owner, never restarts';

comment on column lope.queue.head is 'last journal row';

comment on column lope.queue.law is 'the law of its journal: a runner of an older one leaves it alone';

comment on column lope.queue.mail is 'mail ever delivered';

comment on column lope.queue.owner is 'sessions.runner_id of whoever works on it; absent: a claim may take it';

comment on column lope.queue.parked is 'why it is kept out of claims; absent if it is not';

comment on column lope.queue.priority is 'runs.priority, for the order of claims';

comment on column lope.queue.queue is 'runs.queue, which claims name';

comment on column lope.queue.realm is 'runs.realm, which claims name';

comment on column lope.queue.run_id is 'the run';

comment on column lope.queue.started_at is 'when a runner first took it up; absent while it has only waited';

comment on column lope.queue.status is 'what its last owner said: queued, running, idle, sleeping, waiting, paused';

comment on column lope.queue.taken is 'mail taken into the journal, or dropped when the run ended';

comment on column lope.queue.weight is 'runs.weight, so that a claim stays within what a runner has room for';

comment on table lope.run_tags is 'a tag of a run, for listing by tag in the order of creation';

comment on column lope.run_tags.created_at is 'runs.created_at, for the order of a listing';

comment on column lope.run_tags.run_id is 'the run that has the tag';

comment on column lope.run_tags.tag is 'its name; on Postgres, without one, the value is the status of a run that did not complete';

comment on column lope.run_tags.value is 'what the run''s tag says';

comment on table lope.runners is 'a coordinator of agents: a process that works through a projects tasks';

comment on column lope.runners.awake is 'heartbeat_at on its machine''s clock that stands still while the machine sleeps';

comment on column lope.runners.beat is 'heartbeat_at on the clock that judges leases';

comment on column lope.runners.boot_id is 'the boot of its machine';

comment on column lope.runners.completed_at is 'when it ended';

comment on column lope.runners.current_task_id is 'the task it works on';

comment on column lope.runners.error is 'why it failed';

comment on column lope.runners.heartbeat_at is 'when it was last known to live';

comment on column lope.runners.host is 'its machine';

comment on column lope.runners.id is 'the runner, a UUID';

comment on column lope.runners.pid is 'its process';

comment on column lope.runners.pid_started is 'when that process started, in the kernel''s ticks: with pid and boot it names one process for ever';

comment on column lope.runners.place is 'its place among the runners of the project, from 1 to maxConcurrent';

comment on column lope.runners.project_path is 'which project it works on';

comment on column lope.runners.revision is 'grows with every change of the row; a write names the one it read';

comment on column lope.runners.section_id is 'the section it is focused on';

comment on column lope.runners.started_at is 'when it started';

comment on column lope.runners.status is 'idle, running, completed, failed';

comment on column lope.runners.stop is 'how it is asked to stop: drain, cancel, kill';

comment on table lope.runs is 'a run as long as it is remembered: what was said at its admission, how it ended; what changes while it lives is in queue';

comment on column lope.runs.created_at is 'when it was admitted';

comment on column lope.runs.epoch is 'changes of owner once it has ended; while live, queue.epoch counts';

comment on column lope.runs.error is 'why it failed, opaque to the store';

comment on column lope.runs.finished_at is 'when it ended; absent while live';

comment on column lope.runs.head is 'last journal row once it has ended; while live, queue.head counts';

comment on column lope.runs.key is 'the user''s idempotency key, unique';

comment on column lope.runs.law is 'the law of its journal; while live, queue.law counts';

comment on column lope.runs.mail is 'mail ever delivered once it has ended; while live, queue.mail counts';

comment on column lope.runs.parent_execution is 'the execution of the parent that started it';

comment on column lope.runs.parent_run is 'the run that started it, if one did';

comment on column lope.runs.priority is '0 to 9, higher first';

comment on column lope.runs.queue is 'where it waits when it is not owned';

comment on column lope.runs.realm is 'what a runner must serve to take it';

comment on column lope.runs.result is 'what it returned, opaque to the store';

comment on column lope.runs.run_id is 'the run; its first bits are the time of its admission';

comment on column lope.runs.started_at is 'when a runner first took it up, once it has ended; while live, queue.started_at counts';

comment on column lope.runs.status is 'live (see queue.status), completed, failed, cancelled';

comment on column lope.runs.tags is 'a JSON object of texts, indexed by run_tags';

comment on column lope.runs.version is 'workflows.version: the definition it runs by';

comment on column lope.runs.weight is 'bytes it takes in memory, roughly';

comment on column lope.runs.workflow is 'the name of its workflow';

comment on table lope.schedules is 'what starts runs again and again';

comment on column lope.schedules.body is 'the schedule, opaque to the store';

comment on column lope.schedules.due is 'when it is looked at next; absent: no time makes it due';

comment on column lope.schedules.last_run is 'the run that it started last';

comment on column lope.schedules.name is 'the schedule''s name';

comment on column lope.schedules.revision is 'of the last change; every change has another';

comment on column lope.schedules.waits is '1: also due when its last run has ended';

comment on table lope.sections is 'a part of a projects task list that was decided about';

comment on column lope.sections.decided_at is 'when that was decided';

comment on column lope.sections.project_path is 'projects.path';

comment on column lope.sections.revision is 'grows with every change of the row; a write names the one it read';

comment on column lope.sections.section_id is 'tasks.section_id';

comment on column lope.sections.skipped is '1: none of its tasks is started';

comment on table lope.sessions is 'a runner''s session: a process that works or worked; one heartbeat extends every lease it holds';

comment on column lope.sessions.ended_at is 'when the session ended; absent while it lives';

comment on column lope.sessions.expires is 'when its leases end, in milliseconds of the clock that judges them: the server''s on Postgres, time since boot on SQLite';

comment on column lope.sessions.heartbeat_at is 'when it was last heard of';

comment on column lope.sessions.host is 'the machine it runs on';

comment on column lope.sessions.lease is 'milliseconds a heartbeat is good for';

comment on column lope.sessions.name is 'the name it was given';

comment on column lope.sessions.pid is 'its process';

comment on column lope.sessions.process is 'what names its process among all that ever were, so that one of the same machine can tell when it is gone';

comment on column lope.sessions.program is 'program and version';

comment on column lope.sessions.runner_id is 'the runner; a process that starts again is another one';

comment on column lope.sessions.serves is 'the queues and realms it serves, a line each';

comment on column lope.sessions.started_at is 'when it registered';

comment on table lope.snapshots is 'a run''s folded state at a journal position; the youngest replaces the one before';

comment on column lope.snapshots.body is 'the state, opaque to the store';

comment on column lope.snapshots.law is 'the law it was folded under';

comment on column lope.snapshots.run_id is 'the run';

comment on column lope.snapshots.seq is 'last journal row folded into it';

comment on table lope.table_manifest is 'a byte table';

comment on column lope.table_manifest.idx is 'its index, by which everything else names it';

comment on column lope.table_manifest.name is 'its name';

comment on column lope.table_manifest.scope is 'what guards on ranges hold on to: table, prefix:8, or nothing';

comment on table lope.table_rows is 'a row of a byte table, sorted by key as bytes';

comment on column lope.table_rows.key is 'its key';

comment on column lope.table_rows.tbl is 'table_manifest.idx';

comment on column lope.table_rows.value is 'its value';

comment on table lope.table_scopes is 'how often a scope was written';

comment on column lope.table_scopes.scope is 'what the keys of the scope have in common';

comment on column lope.table_scopes.tbl is 'table_manifest.idx';

comment on column lope.table_scopes.version is 'grows with every write to a key in it';

comment on table lope.table_sequences is 'the numbers that appends take';

comment on column lope.table_sequences.name is 'the sequence';

comment on column lope.table_sequences.next is 'the number that an append took last';

comment on table lope.task_attempts is 'one start of an agent for a task';

comment on column lope.task_attempts.agent is 'which agent of the configuration';

comment on column lope.task_attempts.cost_micros is 'what it cost, in millionths of a dollar';

comment on column lope.task_attempts.counted is '1: it counts against the attempts of the task';

comment on column lope.task_attempts.ended_at is 'when it ended; absent while it runs';

comment on column lope.task_attempts.epoch is 'tasks.epoch under which it ran';

comment on column lope.task_attempts.execution is 'which step of that run it was for';

comment on column lope.task_attempts.exit_code is 'of the agent, if it had one';

comment on column lope.task_attempts.log is 'the file of its output, below the home folder';

comment on column lope.task_attempts.number is 'which start it was, from 1, counted or not';

comment on column lope.task_attempts.project_path is 'tasks.project_path';

comment on column lope.task_attempts.revision is 'grows with every change of the row; a write names the one it read';

comment on column lope.task_attempts.role is 'work or review';

comment on column lope.task_attempts.run_id is 'the run of the task''s workflow';

comment on column lope.task_attempts.runner_id is 'runners.id of whoever started it';

comment on column lope.task_attempts.session is 'the agent''s own session';

comment on column lope.task_attempts.started_at is 'when it was started';

comment on column lope.task_attempts.stop_reason is 'why it ended: success, exit, timeout, hang, limit, budget, cancel, drain, lost_lock, …';

comment on column lope.task_attempts.summary is 'the last words of the agent, or what went wrong';

comment on column lope.task_attempts.task_id is 'tasks.id';

comment on column lope.task_attempts.tokens is 'tokens in and out';

comment on column lope.task_attempts.wall_ms is 'how long it ran';

comment on column lope.task_attempts.worktree is 'the git worktree that it worked in';

comment on table lope.task_events is 'what people and programs said about a task';

comment on column lope.task_events.at is 'when it happened';

comment on column lope.task_events.author is 'person, agent, runner';

comment on column lope.task_events.kind is 'note, question, answer, approved, rejected, skipped, reset, refused, …';

comment on column lope.task_events.message is 'what was said';

comment on column lope.task_events.number is 'which event it was, from 1';

comment on column lope.task_events.revision is 'grows with every change of the row; a write names the one it read';

comment on column lope.task_events.task_id is 'tasks.id';

comment on table lope.task_hooks is 'what a hook is to be told of a task; gone when it was told';

comment on column lope.task_hooks.body is 'what it is told, as JSON';

comment on column lope.task_hooks.due_at is 'when it is told next; while somebody tells it, until when he may take';

comment on column lope.task_hooks.hook is 'which hook of the configuration: the SHA-256 of its command or URL';

comment on column lope.task_hooks.made_at is 'when the task came to stand so';

comment on column lope.task_hooks.number is 'tasks.revision of the change that is told';

comment on column lope.task_hooks.project_path is 'tasks.project_path';

comment on column lope.task_hooks.revision is 'grows with every change of the row; a write names the one it read';

comment on column lope.task_hooks.task_id is 'tasks.id';

comment on column lope.task_hooks.tries is 'how often it was told';

comment on table lope.task_locks is 'a task somebody works on; gone when it is released';

comment on column lope.task_locks.acquired_at is 'when it was claimed';

comment on column lope.task_locks.boot_id is 'the boot that expires belongs to, on SQLite; another boot voids it';

comment on column lope.task_locks.epoch is 'tasks.epoch of the claim';

comment on column lope.task_locks.expires is 'the same in milliseconds of the clock that judges leases';

comment on column lope.task_locks.expires_at is 'when it ends unless it is renewed, for people';

comment on column lope.task_locks.project_path is 'tasks.project_path';

comment on column lope.task_locks.revision is 'grows with every change of the row; a write names the one it read';

comment on column lope.task_locks.runner_id is 'runners.id of the holder';

comment on column lope.task_locks.section_id is 'tasks.section_id';

comment on column lope.task_locks.task_id is 'tasks.id';

comment on table lope.tasks is 'a piece of work for an agent';

comment on column lope.tasks.answer is 'what the person said';

comment on column lope.tasks.attempts is 'attempts that count';

comment on column lope.tasks.budget is 'a JSON object: limits of its own on attempts, wall time, cost';

comment on column lope.tasks.completed_at is 'when it was completed, failed or skipped';

comment on column lope.tasks.created_at is 'when it was added';

comment on column lope.tasks.decided_by is 'person: automation leaves this decision alone';

comment on column lope.tasks.dependencies is 'a JSON array of task ids that must be completed first';

comment on column lope.tasks.description is 'what is to be done, in full';

comment on column lope.tasks.epoch is 'grows with every claim, never restarts';

comment on column lope.tasks.id is 'the task, a UUID';

comment on column lope.tasks.interrupted is '1: work on it was begun and did not end; it goes before what was never begun';

comment on column lope.tasks.not_before is 'not to be started before: the reset of a usage limit, the next wake-up';

comment on column lope.tasks.parent_id is 'the task that it was split from';

comment on column lope.tasks.priority is '0 to 9, higher first';

comment on column lope.tasks.project_path is 'projects.path';

comment on column lope.tasks.question is 'what a person is asked; the task waits for the answer';

comment on column lope.tasks.reason is 'why it is where it is: the last stop reason, a person''s words';

comment on column lope.tasks.rejections is 'how often a review sent it back';

comment on column lope.tasks.result is 'what the agent said at its end';

comment on column lope.tasks.review is 'who reviews it: agent, person, none';

comment on column lope.tasks.revision is 'grows with every change of the row; a write names the one it read';

comment on column lope.tasks.section_id is 'the part of the list it belongs to; two runners never work in one';

comment on column lope.tasks.session is 'the agent''s own session, with which the next attempt goes on';

comment on column lope.tasks.source_file is 'the specification it comes from, as FILE#PART';

comment on column lope.tasks.status is 'pending, in_progress, review, completed, failed, skipped, blocked';

comment on column lope.tasks.title is 'what is to be done, in a line';

comment on column lope.tasks.updated_at is 'when it last changed';

comment on table lope.timer_workers is 'whose each timer is, kept by triggers of table_rows';

comment on column lope.timer_workers.key is 'table_rows.key of the timer';

comment on column lope.timer_workers.worker is 'the worker that the message of the timer names, as its frame has it';

comment on table lope.workflows is 'a definition, by version';

comment on column lope.workflows.body is 'the definition, opaque to the store';

comment on column lope.workflows.deployed_at is 'when it last became the latest of its name; differs between versions of a name';

comment on column lope.workflows.name is 'the workflow''s name; many versions share it';

comment on column lope.workflows.version is 'digest of the definition';

create function lope.keep_timer_worker() returns trigger language plpgsql as $function$
begin
    if tg_op <> 'INSERT' then
        delete from lope.timer_workers w where w.worker = substr(old.value, 17, 8) and w.key = old.key;
    end if;
    if tg_op <> 'DELETE' then
        insert into lope.timer_workers (worker, key) values (substr(new.value, 17, 8), new.key);
    end if;
    return null;
end
$function$;

CREATE TRIGGER timer_armed AFTER INSERT ON lope.table_rows FOR EACH ROW WHEN ((new.tbl = 4)) EXECUTE FUNCTION lope.keep_timer_worker();

CREATE TRIGGER timer_changed AFTER UPDATE ON lope.table_rows FOR EACH ROW WHEN ((new.tbl = 4)) EXECUTE FUNCTION lope.keep_timer_worker();

CREATE TRIGGER timer_gone AFTER DELETE ON lope.table_rows FOR EACH ROW WHEN ((old.tbl = 4)) EXECUTE FUNCTION lope.keep_timer_worker();
