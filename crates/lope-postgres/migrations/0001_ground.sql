-- The ground: definitions, runs, queue, journal, mail, sessions, schedules, and the ordered byte tables.
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
    started_at       bigint,
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
    parked     text collate "C",
    started_at bigint
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

-- Sessions of runners: processes that work or worked. One heartbeat here extends every lease of the runner.
create table {schema}.sessions (
    runner_id    uuid not null primary key,
    started_at   bigint not null,
    heartbeat_at bigint not null,
    expires      bigint not null,
    lease        bigint not null,
    ended_at     bigint,
    pid          bigint not null,
    name         text not null,
    host         text not null,
    program      text not null,
    serves       text not null default '',
    process      text not null default ''
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- What starts runs again and again.
create table {schema}.schedules (
    name     text collate "C" not null primary key,
    revision uuid not null,
    due      bigint,
    last_run uuid,
    waits    smallint not null,
    body     bytea not null
) with (fillfactor = 50);

create index schedules_due on {schema}.schedules (due) where due is not null;
create index schedules_waits on {schema}.schedules (last_run) where waits = 1;

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

-- the timers (table 4) by the worker that they name. An index on the values would make every write of every table one of an
-- index, so these rows are kept by triggers, which only a timer fires,
create table {schema}.timer_workers (
    worker bytea not null,
    key    bytea not null,
    primary key (worker, key)
) with (autovacuum_vacuum_scale_factor = 0.02);

create function {schema}.keep_timer_worker() returns trigger language plpgsql as $function$
begin
    if tg_op <> 'INSERT' then
        delete from {schema}.timer_workers w where w.worker = substr(old.value, 17, 8) and w.key = old.key;
    end if;
    if tg_op <> 'DELETE' then
        insert into {schema}.timer_workers (worker, key) values (substr(new.value, 17, 8), new.key);
    end if;
    return null;
end
$function$;

create trigger timer_armed after insert on {schema}.table_rows
    for each row when (new.tbl = 4) execute function {schema}.keep_timer_worker();
create trigger timer_gone after delete on {schema}.table_rows
    for each row when (old.tbl = 4) execute function {schema}.keep_timer_worker();
create trigger timer_changed after update on {schema}.table_rows
    for each row when (new.tbl = 4) execute function {schema}.keep_timer_worker();

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

-- The board: what people let agents work on. Times here are text in RFC 3339, as in the other SQL stores; `datetime` shows
-- them as SQLite's function of that name does.
create table {schema}.projects (
    path          text collate "C" not null primary key,
    revision      bigint not null,
    name          text collate "C" not null,
    registered_at text collate "C" not null,
    last_seen_at  text collate "C" not null,
    enabled       bigint not null default 1,
    settings      text collate "C" not null
);

create table {schema}.sections (
    project_path text collate "C" not null,
    section_id   text collate "C" not null,
    revision     bigint not null,
    skipped      bigint not null,
    decided_at   text collate "C" not null,
    primary key (project_path, section_id)
);

create table {schema}.tasks (
    id           text collate "C" not null primary key,
    revision     bigint not null,
    project_path text collate "C" not null,
    section_id   text collate "C",
    title        text collate "C" not null,
    description  text collate "C" not null,
    status       text collate "C" not null,
    priority     bigint not null,
    dependencies text collate "C" not null,
    source_file  text collate "C",
    epoch        bigint not null,
    attempts     bigint not null,
    rejections   bigint not null,
    interrupted  bigint not null,
    not_before   text collate "C",
    reason       text collate "C",
    decided_by   text collate "C",
    review       text collate "C" not null,
    budget       text collate "C" not null,
    session      text collate "C",
    parent_id    text collate "C",
    question     text collate "C",
    answer       text collate "C",
    result       text collate "C",
    created_at   text collate "C" not null,
    updated_at   text collate "C" not null,
    completed_at text collate "C"
);

create index tasks_open on {schema}.tasks (project_path, status);
create index tasks_status on {schema}.tasks (status);

create table {schema}.task_locks (
    task_id      text collate "C" not null primary key,
    revision     bigint not null,
    project_path text collate "C" not null,
    section_id   text collate "C",
    runner_id    text collate "C" not null,
    epoch        bigint not null,
    acquired_at  text collate "C" not null,
    expires_at   text collate "C" not null,
    expires      bigint not null,
    boot_id      text collate "C" not null
);

create index task_locks_runner on {schema}.task_locks (runner_id);
create unique index task_locks_section on {schema}.task_locks (project_path, section_id);

create table {schema}.task_attempts (
    task_id      text collate "C" not null,
    number       bigint not null,
    revision     bigint not null,
    project_path text collate "C" not null,
    role         text collate "C" not null,
    agent        text collate "C" not null,
    runner_id    text collate "C" not null,
    epoch        bigint not null,
    run_id       text collate "C",
    execution    text collate "C",
    started_at   text collate "C" not null,
    ended_at     text collate "C",
    stop_reason  text collate "C",
    counted      bigint not null,
    exit_code    bigint,
    wall_ms      bigint not null,
    cost_micros  bigint not null,
    tokens       bigint not null,
    session      text collate "C",
    summary      text collate "C",
    log          text collate "C",
    worktree     text collate "C",
    primary key (task_id, number)
);

create index task_attempts_project on {schema}.task_attempts (project_path, started_at);

create table {schema}.task_events (
    task_id  text collate "C" not null,
    number   bigint not null,
    revision bigint not null,
    at       text collate "C" not null,
    kind     text collate "C" not null,
    author   text collate "C" not null,
    message  text collate "C" not null,
    primary key (task_id, number)
);

create table {schema}.task_hooks (
    task_id      text collate "C" not null,
    number       bigint not null,
    hook         text collate "C" not null,
    revision     bigint not null,
    project_path text collate "C" not null,
    body         text collate "C" not null,
    made_at      text collate "C" not null,
    tries        bigint not null,
    due_at       text collate "C" not null,
    primary key (task_id, number, hook)
);

create table {schema}.runners (
    id              text collate "C" not null primary key,
    revision        bigint not null,
    status          text collate "C" not null default 'idle',
    pid             bigint,
    pid_started     text collate "C" not null,
    boot_id         text collate "C" not null,
    host            text collate "C" not null,
    project_path    text collate "C",
    section_id      text collate "C",
    place           bigint not null,
    current_task_id text collate "C",
    started_at      text collate "C" not null,
    completed_at    text collate "C",
    heartbeat_at    text collate "C" not null,
    beat            bigint not null,
    awake           bigint not null,
    stop            text collate "C",
    error           text collate "C"
);

create unique index runners_project on {schema}.runners (project_path, place) where status in ('idle', 'running');
create unique index runners_section on {schema}.runners (project_path, section_id) where status in ('idle', 'running') and section_id is not null;
create index runners_status on {schema}.runners (status);

create function {schema}.datetime(value text) returns text language sql stable parallel safe
    return to_char(value::timestamptz at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS');

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
       to_timestamp(r.created_at / 1000.0) as created_at,
       to_timestamp(coalesce(q.started_at, r.started_at) / 1000.0) as started_at,
       to_timestamp(r.finished_at / 1000.0) as finished_at
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

create view {schema}.sessions_view as
select runner_id, name, host, pid, program, to_timestamp(started_at / 1000.0) as started_at,
       to_timestamp(heartbeat_at / 1000.0) as heartbeat_at, to_timestamp(ended_at / 1000.0) as ended_at,
       (select count(*) from {schema}.queue where owner = runner_id) as owns
from {schema}.sessions;

create view {schema}.workflows_view as
select encode(version, 'hex') as version, name, to_timestamp(deployed_at / 1000.0) as deployed_at, length(body) as bytes
from {schema}.workflows;

create view {schema}.schedules_view as
select name, to_timestamp(due / 1000.0) as due, last_run, waits, length(body) as bytes
from {schema}.schedules;

comment on table {schema}.meta is 'a fact about the store';
comment on column {schema}.meta.key is 'which fact: schema_version, created_at; copy_from while a copy fills the store';
comment on column {schema}.meta.value is 'what it is, as text';
comment on table {schema}.workflows is 'a definition, by version';
comment on column {schema}.workflows.version is 'digest of the definition';
comment on column {schema}.workflows.name is 'the workflow''s name; many versions share it';
comment on column {schema}.workflows.body is 'the definition, opaque to the store';
comment on column {schema}.workflows.deployed_at is 'when it last became the latest of its name; differs between versions of a name';
comment on table {schema}.runs is 'a run as long as it is remembered: what was said at its admission, how it ended; what changes while it lives is in queue';
comment on column {schema}.runs.run_id is 'the run; its first bits are the time of its admission';
comment on column {schema}.runs.parent_run is 'the run that started it, if one did';
comment on column {schema}.runs.created_at is 'when it was admitted';
comment on column {schema}.runs.weight is 'bytes it takes in memory, roughly';
comment on column {schema}.runs.priority is '0 to 9, higher first';
comment on column {schema}.runs.workflow is 'the name of its workflow';
comment on column {schema}.runs.version is 'workflows.version: the definition it runs by';
comment on column {schema}.runs.queue is 'where it waits when it is not owned';
comment on column {schema}.runs.realm is 'what a runner must serve to take it';
comment on column {schema}.runs.key is 'the user''s idempotency key, unique';
comment on column {schema}.runs.parent_execution is 'the execution of the parent that started it';
comment on column {schema}.runs.tags is 'a JSON object of texts, indexed by run_tags';
comment on column {schema}.runs.law is 'the law of its journal; while live, queue.law counts';
comment on column {schema}.runs.epoch is 'changes of owner once it has ended; while live, queue.epoch counts';
comment on column {schema}.runs.head is 'last journal row once it has ended; while live, queue.head counts';
comment on column {schema}.runs.mail is 'mail ever delivered once it has ended; while live, queue.mail counts';
comment on column {schema}.runs.started_at is 'when a runner first took it up, once it has ended; while live, queue.started_at counts';
comment on column {schema}.runs.finished_at is 'when it ended; absent while live';
comment on column {schema}.runs.status is 'live (see queue.status), completed, failed, cancelled';
comment on column {schema}.runs.result is 'what it returned, opaque to the store';
comment on column {schema}.runs.error is 'why it failed, opaque to the store';
comment on table {schema}.run_tags is 'a tag of a run, for listing by tag in the order of creation';
comment on column {schema}.run_tags.tag is 'its name; on Postgres, without one, the value is the status of a run that did not complete';
comment on column {schema}.run_tags.value is 'what the run''s tag says';
comment on column {schema}.run_tags.created_at is 'runs.created_at, for the order of a listing';
comment on column {schema}.run_tags.run_id is 'the run that has the tag';
comment on table {schema}.queue is 'an unfinished run, narrow: who has it, when it is due, what it waits for';
comment on column {schema}.queue.run_id is 'the run';
comment on column {schema}.queue.owner is 'sessions.runner_id of whoever works on it; absent: a claim may take it';
comment on column {schema}.queue.due is 'when it may be claimed; 9223372036854775807: only mail wakes it';
comment on column {schema}.queue.epoch is 'grows with every change of owner, never restarts';
comment on column {schema}.queue.head is 'last journal row';
comment on column {schema}.queue.mail is 'mail ever delivered';
comment on column {schema}.queue.taken is 'mail taken into the journal, or dropped when the run ended';
comment on column {schema}.queue.created_at is 'runs.created_at, for listings by status';
comment on column {schema}.queue.started_at is 'when a runner first took it up; absent while it has only waited';
comment on column {schema}.queue.law is 'the law of its journal: a runner of an older one leaves it alone';
comment on column {schema}.queue.weight is 'runs.weight, so that a claim stays within what a runner has room for';
comment on column {schema}.queue.priority is 'runs.priority, for the order of claims';
comment on column {schema}.queue.queue is 'runs.queue, which claims name';
comment on column {schema}.queue.realm is 'runs.realm, which claims name';
comment on column {schema}.queue.status is 'what its last owner said: queued, running, idle, sleeping, waiting, paused';
comment on column {schema}.queue.parked is 'why it is kept out of claims; absent if it is not';
comment on table {schema}.journal is 'an event of a run, in order, without gaps';
comment on column {schema}.journal.run_id is 'the run it happened to';
comment on column {schema}.journal.seq is 'its place in the journal, from 1';
comment on column {schema}.journal.at is 'when it happened, by its owner''s clock; never before the row in front of it';
comment on column {schema}.journal.event is 'its name, for people';
comment on column {schema}.journal.body is 'the event, opaque to the store';
comment on table {schema}.snapshots is 'a run''s folded state at a journal position; the youngest replaces the one before';
comment on column {schema}.snapshots.run_id is 'the run';
comment on column {schema}.snapshots.seq is 'last journal row folded into it';
comment on column {schema}.snapshots.law is 'the law it was folded under';
comment on column {schema}.snapshots.body is 'the state, opaque to the store';
comment on table {schema}.blobs is 'a large value of a run, once by content; journal and snapshot refer to it';
comment on column {schema}.blobs.run_id is 'the run it belongs to';
comment on column {schema}.blobs.digest is 'digest of the bytes';
comment on column {schema}.blobs.bytes is 'the value';
comment on table {schema}.mail is 'what was delivered to a run; taken mail keeps its id and loses its body';
comment on column {schema}.mail.run_id is 'the run it was delivered to';
comment on column {schema}.mail.number is 'rises with arrival, from 1';
comment on column {schema}.mail.at is 'when it arrived';
comment on column {schema}.mail.taken is '0 waits, 1 taken or dropped';
comment on column {schema}.mail.id is 'the sender''s, unique per run: the same mail sent twice arrives once';
comment on column {schema}.mail.kind is 'signal, input, cancel, child…';
comment on column {schema}.mail.body is 'what was sent, opaque to the store';
comment on table {schema}.sessions is 'a runner''s session: a process that works or worked; one heartbeat extends every lease it holds';
comment on column {schema}.sessions.runner_id is 'the runner; a process that starts again is another one';
comment on column {schema}.sessions.started_at is 'when it registered';
comment on column {schema}.sessions.heartbeat_at is 'when it was last heard of';
comment on column {schema}.sessions.expires is 'when its leases end, in milliseconds of the clock that judges them: the server''s on Postgres, time since boot on SQLite';
comment on column {schema}.sessions.lease is 'milliseconds a heartbeat is good for';
comment on column {schema}.sessions.ended_at is 'when the session ended; absent while it lives';
comment on column {schema}.sessions.pid is 'its process';
comment on column {schema}.sessions.name is 'the name it was given';
comment on column {schema}.sessions.host is 'the machine it runs on';
comment on column {schema}.sessions.program is 'program and version';
comment on column {schema}.sessions.serves is 'the queues and realms it serves, a line each';
comment on column {schema}.sessions.process is 'what names its process among all that ever were, so that one of the same machine can tell when it is gone';
comment on table {schema}.schedules is 'what starts runs again and again';
comment on column {schema}.schedules.name is 'the schedule''s name';
comment on column {schema}.schedules.revision is 'of the last change; every change has another';
comment on column {schema}.schedules.due is 'when it is looked at next; absent: no time makes it due';
comment on column {schema}.schedules.last_run is 'the run that it started last';
comment on column {schema}.schedules.waits is '1: also due when its last run has ended';
comment on column {schema}.schedules.body is 'the schedule, opaque to the store';
comment on table {schema}.table_manifest is 'a byte table';
comment on column {schema}.table_manifest.idx is 'its index, by which everything else names it';
comment on column {schema}.table_manifest.name is 'its name';
comment on column {schema}.table_manifest.scope is 'what guards on ranges hold on to: table, prefix:8, or nothing';
comment on table {schema}.table_rows is 'a row of a byte table, sorted by key as bytes';
comment on column {schema}.table_rows.tbl is 'table_manifest.idx';
comment on column {schema}.table_rows.key is 'its key';
comment on column {schema}.table_rows.value is 'its value';
comment on table {schema}.timer_workers is 'whose each timer is, kept by triggers of table_rows';
comment on column {schema}.timer_workers.worker is 'the worker that the message of the timer names, as its frame has it';
comment on column {schema}.timer_workers.key is 'table_rows.key of the timer';
comment on table {schema}.table_scopes is 'how often a scope was written';
comment on column {schema}.table_scopes.tbl is 'table_manifest.idx';
comment on column {schema}.table_scopes.scope is 'what the keys of the scope have in common';
comment on column {schema}.table_scopes.version is 'grows with every write to a key in it';
comment on table {schema}.table_sequences is 'the numbers that appends take';
comment on column {schema}.table_sequences.name is 'the sequence';
comment on column {schema}.table_sequences.next is 'the number that an append took last';
comment on table {schema}.projects is 'a folder whose tasks are worked on';
comment on column {schema}.projects.path is 'the folder, absolute';
comment on column {schema}.projects.revision is 'grows with every change of the row; a write names the one it read';
comment on column {schema}.projects.name is 'what people call it';
comment on column {schema}.projects.registered_at is 'when it was registered';
comment on column {schema}.projects.last_seen_at is 'when a command, a scan or a runner last saw it';
comment on column {schema}.projects.enabled is '1: its tasks are worked on; 0: nobody starts them';
comment on column {schema}.projects.settings is 'a JSON object: its own agent, reviewer, budgets, workflow';
comment on table {schema}.sections is 'a part of a projects task list that was decided about';
comment on column {schema}.sections.project_path is 'projects.path';
comment on column {schema}.sections.section_id is 'tasks.section_id';
comment on column {schema}.sections.revision is 'grows with every change of the row; a write names the one it read';
comment on column {schema}.sections.skipped is '1: none of its tasks is started';
comment on column {schema}.sections.decided_at is 'when that was decided';
comment on table {schema}.tasks is 'a piece of work for an agent';
comment on column {schema}.tasks.id is 'the task, a UUID';
comment on column {schema}.tasks.revision is 'grows with every change of the row; a write names the one it read';
comment on column {schema}.tasks.project_path is 'projects.path';
comment on column {schema}.tasks.section_id is 'the part of the list it belongs to; two runners never work in one';
comment on column {schema}.tasks.title is 'what is to be done, in a line';
comment on column {schema}.tasks.description is 'what is to be done, in full';
comment on column {schema}.tasks.status is 'pending, in_progress, review, completed, failed, skipped, blocked';
comment on column {schema}.tasks.priority is '0 to 9, higher first';
comment on column {schema}.tasks.dependencies is 'a JSON array of task ids that must be completed first';
comment on column {schema}.tasks.source_file is 'the specification it comes from, as FILE#PART';
comment on column {schema}.tasks.epoch is 'grows with every claim, never restarts';
comment on column {schema}.tasks.attempts is 'attempts that count';
comment on column {schema}.tasks.rejections is 'how often a review sent it back';
comment on column {schema}.tasks.interrupted is '1: work on it was begun and did not end; it goes before what was never begun';
comment on column {schema}.tasks.not_before is 'not to be started before: the reset of a usage limit, the next wake-up';
comment on column {schema}.tasks.reason is 'why it is where it is: the last stop reason, a person''s words';
comment on column {schema}.tasks.decided_by is 'person: automation leaves this decision alone';
comment on column {schema}.tasks.review is 'who reviews it: agent, person, none';
comment on column {schema}.tasks.budget is 'a JSON object: limits of its own on attempts, wall time, cost';
comment on column {schema}.tasks.session is 'the agent''s own session, with which the next attempt goes on';
comment on column {schema}.tasks.parent_id is 'the task that it was split from';
comment on column {schema}.tasks.question is 'what a person is asked; the task waits for the answer';
comment on column {schema}.tasks.answer is 'what the person said';
comment on column {schema}.tasks.result is 'what the agent said at its end';
comment on column {schema}.tasks.created_at is 'when it was added';
comment on column {schema}.tasks.updated_at is 'when it last changed';
comment on column {schema}.tasks.completed_at is 'when it was completed, failed or skipped';
comment on table {schema}.task_locks is 'a task somebody works on; gone when it is released';
comment on column {schema}.task_locks.task_id is 'tasks.id';
comment on column {schema}.task_locks.revision is 'grows with every change of the row; a write names the one it read';
comment on column {schema}.task_locks.project_path is 'tasks.project_path';
comment on column {schema}.task_locks.section_id is 'tasks.section_id';
comment on column {schema}.task_locks.runner_id is 'runners.id of the holder';
comment on column {schema}.task_locks.epoch is 'tasks.epoch of the claim';
comment on column {schema}.task_locks.acquired_at is 'when it was claimed';
comment on column {schema}.task_locks.expires_at is 'when it ends unless it is renewed, for people';
comment on column {schema}.task_locks.expires is 'the same in milliseconds of the clock that judges leases';
comment on column {schema}.task_locks.boot_id is 'the boot that expires belongs to, on SQLite; another boot voids it';
comment on table {schema}.task_attempts is 'one start of an agent for a task';
comment on column {schema}.task_attempts.task_id is 'tasks.id';
comment on column {schema}.task_attempts.number is 'which start it was, from 1, counted or not';
comment on column {schema}.task_attempts.revision is 'grows with every change of the row; a write names the one it read';
comment on column {schema}.task_attempts.project_path is 'tasks.project_path';
comment on column {schema}.task_attempts.role is 'work or review';
comment on column {schema}.task_attempts.agent is 'which agent of the configuration';
comment on column {schema}.task_attempts.runner_id is 'runners.id of whoever started it';
comment on column {schema}.task_attempts.epoch is 'tasks.epoch under which it ran';
comment on column {schema}.task_attempts.run_id is 'the run of the task''s workflow';
comment on column {schema}.task_attempts.execution is 'which step of that run it was for';
comment on column {schema}.task_attempts.started_at is 'when it was started';
comment on column {schema}.task_attempts.ended_at is 'when it ended; absent while it runs';
comment on column {schema}.task_attempts.stop_reason is 'why it ended: success, exit, timeout, hang, limit, budget, cancel, drain, lost_lock, …';
comment on column {schema}.task_attempts.counted is '1: it counts against the attempts of the task';
comment on column {schema}.task_attempts.exit_code is 'of the agent, if it had one';
comment on column {schema}.task_attempts.wall_ms is 'how long it ran';
comment on column {schema}.task_attempts.cost_micros is 'what it cost, in millionths of a dollar';
comment on column {schema}.task_attempts.tokens is 'tokens in and out';
comment on column {schema}.task_attempts.session is 'the agent''s own session';
comment on column {schema}.task_attempts.summary is 'the last words of the agent, or what went wrong';
comment on column {schema}.task_attempts.log is 'the file of its output, below the home folder';
comment on column {schema}.task_attempts.worktree is 'the git worktree that it worked in';
comment on table {schema}.task_events is 'what people and programs said about a task';
comment on column {schema}.task_events.task_id is 'tasks.id';
comment on column {schema}.task_events.number is 'which event it was, from 1';
comment on column {schema}.task_events.revision is 'grows with every change of the row; a write names the one it read';
comment on column {schema}.task_events.at is 'when it happened';
comment on column {schema}.task_events.kind is 'note, question, answer, approved, rejected, skipped, reset, refused, …';
comment on column {schema}.task_events.author is 'person, agent, runner';
comment on column {schema}.task_events.message is 'what was said';
comment on table {schema}.task_hooks is 'what a hook is to be told of a task; gone when it was told';
comment on column {schema}.task_hooks.task_id is 'tasks.id';
comment on column {schema}.task_hooks.number is 'tasks.revision of the change that is told';
comment on column {schema}.task_hooks.hook is 'which hook of the configuration: the SHA-256 of its command or URL';
comment on column {schema}.task_hooks.revision is 'grows with every change of the row; a write names the one it read';
comment on column {schema}.task_hooks.project_path is 'tasks.project_path';
comment on column {schema}.task_hooks.body is 'what it is told, as JSON';
comment on column {schema}.task_hooks.made_at is 'when the task came to stand so';
comment on column {schema}.task_hooks.tries is 'how often it was told';
comment on column {schema}.task_hooks.due_at is 'when it is told next; while somebody tells it, until when he may take';
comment on table {schema}.runners is 'a coordinator of agents: a process that works through a projects tasks';
comment on column {schema}.runners.id is 'the runner, a UUID';
comment on column {schema}.runners.revision is 'grows with every change of the row; a write names the one it read';
comment on column {schema}.runners.status is 'idle, running, completed, failed';
comment on column {schema}.runners.pid is 'its process';
comment on column {schema}.runners.pid_started is 'when that process started, in the kernel''s ticks: with pid and boot it names one process for ever';
comment on column {schema}.runners.boot_id is 'the boot of its machine';
comment on column {schema}.runners.host is 'its machine';
comment on column {schema}.runners.project_path is 'which project it works on';
comment on column {schema}.runners.section_id is 'the section it is focused on';
comment on column {schema}.runners.place is 'its place among the runners of the project, from 1 to maxConcurrent';
comment on column {schema}.runners.current_task_id is 'the task it works on';
comment on column {schema}.runners.started_at is 'when it started';
comment on column {schema}.runners.completed_at is 'when it ended';
comment on column {schema}.runners.heartbeat_at is 'when it was last known to live';
comment on column {schema}.runners.beat is 'heartbeat_at on the clock that judges leases';
comment on column {schema}.runners.awake is 'heartbeat_at on its machine''s clock that stands still while the machine sleeps';
comment on column {schema}.runners.stop is 'how it is asked to stop: drain, cancel, kill';
comment on column {schema}.runners.error is 'why it failed';
