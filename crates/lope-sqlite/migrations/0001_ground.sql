-- The ground: definitions, runs, queue, journal, mail, sessions, schedules, and the ordered byte tables.
--
-- Tables and columns have the same names in every SQL store. Times are UTC milliseconds since 1970, except `expires`
-- (see `sessions`). Ids are 16 bytes, digests 32; the views at the end show them as text. The comments inside each
-- statement are kept by SQLite: `sqlite3 FILE .schema` prints them.

CREATE TABLE meta (
    key   TEXT NOT NULL PRIMARY KEY, -- schema_version, created_at
    value TEXT NOT NULL
) WITHOUT ROWID, STRICT;

CREATE TABLE workflows (
    version     BLOB NOT NULL PRIMARY KEY, -- digest of the definition
    name        TEXT NOT NULL,
    body        BLOB NOT NULL,             -- the definition, opaque to the store
    deployed_at INTEGER NOT NULL           -- when it last became the latest of its name; differs between versions of a name
) WITHOUT ROWID, STRICT;

CREATE INDEX workflows_name ON workflows (name, deployed_at);

-- A run as long as it is remembered. Written when it is admitted and when it ends; what changes in between is in `queue`.
CREATE TABLE runs (
    run_id           BLOB NOT NULL PRIMARY KEY,
    workflow         TEXT NOT NULL,
    version          BLOB NOT NULL,    -- workflows.version
    key              TEXT,             -- the user's idempotency key, unique
    status           TEXT NOT NULL,    -- live (see queue.status), completed, failed, cancelled
    queue            TEXT NOT NULL,
    priority         INTEGER NOT NULL, -- 0 to 9, higher first
    realm            TEXT NOT NULL,    -- what a runner must serve to take it
    law              INTEGER NOT NULL, -- of its journal; while live, queue.law counts
    weight           INTEGER NOT NULL, -- bytes it takes in memory, roughly
    tags             TEXT NOT NULL,    -- JSON object; indexed by run_tags
    parent_run       BLOB,             -- the run that started it,
    parent_execution TEXT,             -- and the execution in that run
    created_at       INTEGER NOT NULL,
    started_at       INTEGER,          -- when a runner first took it up; while live, queue.started_at counts
    finished_at      INTEGER,          -- absent while live
    epoch            INTEGER NOT NULL, -- these three count once it has ended; while live, queue's do
    head             INTEGER NOT NULL, -- last journal row
    mail             INTEGER NOT NULL, -- mail ever delivered
    result           BLOB,
    error            BLOB
) WITHOUT ROWID, STRICT;

CREATE UNIQUE INDEX runs_key ON runs (key) WHERE key IS NOT NULL;
CREATE INDEX runs_status ON runs (status, created_at) WHERE status <> 'live';
CREATE INDEX runs_workflow ON runs (workflow, created_at);
CREATE INDEX runs_parent ON runs (parent_run, created_at) WHERE parent_run IS NOT NULL;
CREATE INDEX runs_finished ON runs (finished_at) WHERE finished_at IS NOT NULL;

-- A run's tags, for listing by tag in the order of creation.
CREATE TABLE run_tags (
    tag        TEXT NOT NULL,
    value      TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    run_id     BLOB NOT NULL,
    PRIMARY KEY (tag, value, created_at, run_id)
) WITHOUT ROWID, STRICT;

-- Unfinished runs, one narrow row each: who has them, when they are due, what they wait for.
CREATE TABLE queue (
    run_id     BLOB NOT NULL PRIMARY KEY,
    queue      TEXT NOT NULL,
    realm      TEXT NOT NULL,
    priority   INTEGER NOT NULL,
    due        INTEGER NOT NULL, -- 9223372036854775807: only mail wakes it
    owner      BLOB,             -- sessions.runner_id
    epoch      INTEGER NOT NULL, -- grows with every change of owner, never restarts
    head       INTEGER NOT NULL, -- last journal row
    mail       INTEGER NOT NULL, -- mail ever delivered
    taken      INTEGER NOT NULL, -- mail taken into the journal, or dropped when the run ended
    law        INTEGER NOT NULL,
    weight     INTEGER NOT NULL,
    status     TEXT NOT NULL,    -- what its last owner said: queued, running, idle, sleeping, waiting, paused
    parked     TEXT,             -- why it is kept out of claims
    created_at INTEGER NOT NULL,
    started_at INTEGER           -- when a runner first took it up; absent while it has only waited
) WITHOUT ROWID, STRICT;

-- The realm stands before the priority, so that a runner never walks over runs that it cannot serve.
CREATE INDEX queue_claim ON queue (queue, realm, priority, due) WHERE owner IS NULL AND parked IS NULL;
CREATE INDEX queue_owner ON queue (owner) WHERE owner IS NOT NULL;
CREATE INDEX queue_mail ON queue (owner) WHERE owner IS NOT NULL AND mail > taken;
CREATE INDEX queue_status ON queue (status, created_at);

-- What happened to a run, in order, without gaps.
CREATE TABLE journal (
    run_id BLOB NOT NULL,
    seq    INTEGER NOT NULL, -- from 1
    at     INTEGER NOT NULL,
    event  TEXT NOT NULL,    -- its name, for people
    body   BLOB NOT NULL,    -- opaque to the store
    PRIMARY KEY (run_id, seq)
) WITHOUT ROWID, STRICT;

-- A run's folded state at a journal position; the youngest replaces the one before.
CREATE TABLE snapshots (
    run_id BLOB NOT NULL PRIMARY KEY,
    seq    INTEGER NOT NULL, -- last journal row folded into it
    law    INTEGER NOT NULL,
    body   BLOB NOT NULL
) WITHOUT ROWID, STRICT;

-- Large values of a run, once each by content; journal and snapshot refer to them.
CREATE TABLE blobs (
    run_id BLOB NOT NULL,
    digest BLOB NOT NULL,
    bytes  BLOB NOT NULL,
    PRIMARY KEY (run_id, digest)
) WITHOUT ROWID, STRICT;

-- Mail to runs. Taken mail keeps its id, so that the same mail sent twice arrives once, and loses its body.
CREATE TABLE mail (
    run_id BLOB NOT NULL,
    number INTEGER NOT NULL, -- rises with arrival, from 1
    id     TEXT NOT NULL,    -- the sender's, unique per run
    kind   TEXT NOT NULL,    -- signal, input, cancel, child…
    body   BLOB NOT NULL,
    at     INTEGER NOT NULL,
    taken  INTEGER NOT NULL, -- 0 waits, 1 taken or dropped
    PRIMARY KEY (run_id, number)
) WITHOUT ROWID, STRICT;

CREATE UNIQUE INDEX mail_id ON mail (run_id, id);
CREATE INDEX mail_waiting ON mail (run_id, number) WHERE taken = 0;

-- Sessions of runners: processes that work or worked. One heartbeat here extends every lease of the runner.
CREATE TABLE sessions (
    runner_id    BLOB NOT NULL PRIMARY KEY,
    name         TEXT NOT NULL,
    host         TEXT NOT NULL,
    pid          INTEGER NOT NULL,
    program      TEXT NOT NULL,
    started_at   INTEGER NOT NULL,
    heartbeat_at INTEGER NOT NULL,
    expires      INTEGER NOT NULL, -- milliseconds on the clock that judges leases: since boot, on this machine
    lease        INTEGER NOT NULL, -- milliseconds a heartbeat is good for
    boot_id      TEXT NOT NULL,    -- the boot that `expires` belongs to; another boot voids it
    ended_at     INTEGER,          -- absent while the session lives
    serves       TEXT NOT NULL DEFAULT '', -- the queues and realms it serves, a line each
    process      TEXT NOT NULL DEFAULT '' -- what names its process among all that ever were, so that one of the same machine can tell when it is gone
) WITHOUT ROWID, STRICT;

CREATE INDEX sessions_started ON sessions (started_at);
CREATE INDEX sessions_live ON sessions (expires) WHERE ended_at IS NULL;

-- What starts runs again and again.
CREATE TABLE schedules (
    name     TEXT NOT NULL PRIMARY KEY,
    revision BLOB NOT NULL,    -- of the last change; every change has another
    due      INTEGER,          -- when it is looked at next; absent: no time makes it due
    last_run BLOB,             -- the run that it started last
    waits    INTEGER NOT NULL, -- 1: also due when its last run has ended
    body     BLOB NOT NULL     -- opaque to the store
) WITHOUT ROWID, STRICT;

CREATE INDEX schedules_due ON schedules (due) WHERE due IS NOT NULL;
CREATE INDEX schedules_waits ON schedules (last_run) WHERE waits = 1;

-- The byte tables: which there are,
CREATE TABLE table_manifest (
    idx   INTEGER NOT NULL PRIMARY KEY, -- 0 app_state, 1 inbox, 2 outbox, 3 leases, 4 timers, 5 dedupe, 6 dead_letter, …
    name  TEXT NOT NULL UNIQUE,
    scope TEXT                          -- what guards on ranges hold on to: 'table', 'prefix:8', or nothing
) STRICT;

INSERT INTO table_manifest (idx, name, scope) VALUES
    (0, 'app_state', 'table'), (1, 'inbox', NULL), (2, 'outbox', NULL), (3, 'leases', NULL),
    (4, 'timers', NULL), (5, 'dedupe', NULL), (6, 'dead_letter', NULL);

-- their rows, sorted by key as bytes,
CREATE TABLE table_rows (
    tbl   INTEGER NOT NULL, -- table_manifest.idx
    key   BLOB NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (tbl, key)
) WITHOUT ROWID, STRICT;

-- and the timers by the worker that they name,
CREATE INDEX table_rows_timers ON table_rows (substr(value, 17, 8), key) WHERE tbl = 4;

-- how often each scope was written,
CREATE TABLE table_scopes (
    tbl     INTEGER NOT NULL,
    scope   BLOB NOT NULL,
    version INTEGER NOT NULL,
    PRIMARY KEY (tbl, scope)
) WITHOUT ROWID, STRICT;

-- and the numbers that appends take next.
CREATE TABLE table_sequences (
    name BLOB NOT NULL PRIMARY KEY,
    next INTEGER NOT NULL -- from 1
) WITHOUT ROWID, STRICT;

-- The board: what people let agents work on. Times here are text in RFC 3339, so that `datetime(heartbeat_at)` reads them.
CREATE TABLE projects (
    path          TEXT NOT NULL PRIMARY KEY,  -- the folder, absolute
    revision      INTEGER NOT NULL,           -- grows with every change of the row; a write names the one it read
    name          TEXT NOT NULL,              -- what people call it
    registered_at TEXT NOT NULL,              -- when it was registered
    last_seen_at  TEXT NOT NULL,              -- when a command, a scan or a runner last saw it
    enabled       INTEGER NOT NULL DEFAULT 1, -- 1: its tasks are worked on; 0: nobody starts them
    settings      TEXT NOT NULL               -- a JSON object: its own agent, reviewer, budgets, workflow
) WITHOUT ROWID, STRICT;

CREATE TABLE sections (
    project_path TEXT NOT NULL,    -- projects.path
    section_id   TEXT NOT NULL,    -- tasks.section_id
    revision     INTEGER NOT NULL, -- grows with every change of the row; a write names the one it read
    skipped      INTEGER NOT NULL, -- 1: none of its tasks is started
    decided_at   TEXT NOT NULL,    -- when that was decided
    PRIMARY KEY (project_path, section_id)
) WITHOUT ROWID, STRICT;

CREATE TABLE tasks (
    id           TEXT NOT NULL PRIMARY KEY, -- the task, a UUID
    revision     INTEGER NOT NULL,          -- grows with every change of the row; a write names the one it read
    project_path TEXT NOT NULL,             -- projects.path
    section_id   TEXT,                      -- the part of the list it belongs to; two runners never work in one
    title        TEXT NOT NULL,             -- what is to be done, in a line
    description  TEXT NOT NULL,             -- what is to be done, in full
    status       TEXT NOT NULL,             -- pending, in_progress, review, completed, failed, skipped, blocked
    priority     INTEGER NOT NULL,          -- 0 to 9, higher first
    dependencies TEXT NOT NULL,             -- a JSON array of task ids that must be completed first
    source_file  TEXT,                      -- the specification it comes from, as FILE#PART
    epoch        INTEGER NOT NULL,          -- grows with every claim, never restarts
    attempts     INTEGER NOT NULL,          -- attempts that count
    rejections   INTEGER NOT NULL,          -- how often a review sent it back
    interrupted  INTEGER NOT NULL,          -- 1: work on it was begun and did not end; it goes before what was never begun
    not_before   TEXT,                      -- not to be started before: the reset of a usage limit, the next wake-up
    reason       TEXT,                      -- why it is where it is: the last stop reason, a person's words
    decided_by   TEXT,                      -- person: automation leaves this decision alone
    review       TEXT NOT NULL,             -- who reviews it: agent, person, none
    budget       TEXT NOT NULL,             -- a JSON object: limits of its own on attempts, wall time, cost
    session      TEXT,                      -- the agent's own session, with which the next attempt goes on
    parent_id    TEXT,                      -- the task that it was split from
    question     TEXT,                      -- what a person is asked; the task waits for the answer
    answer       TEXT,                      -- what the person said
    result       TEXT,                      -- what the agent said at its end
    created_at   TEXT NOT NULL,             -- when it was added
    updated_at   TEXT NOT NULL,             -- when it last changed
    completed_at TEXT                       -- when it was completed, failed or skipped
) WITHOUT ROWID, STRICT;

CREATE INDEX tasks_open ON tasks (project_path, status);

CREATE INDEX tasks_status ON tasks (status);

CREATE TABLE task_locks (
    task_id      TEXT NOT NULL PRIMARY KEY, -- tasks.id
    revision     INTEGER NOT NULL,          -- grows with every change of the row; a write names the one it read
    project_path TEXT NOT NULL,             -- tasks.project_path
    section_id   TEXT,                      -- tasks.section_id
    runner_id    TEXT NOT NULL,             -- runners.id of the holder
    epoch        INTEGER NOT NULL,          -- tasks.epoch of the claim
    acquired_at  TEXT NOT NULL,             -- when it was claimed
    expires_at   TEXT NOT NULL,             -- when it ends unless it is renewed, for people
    expires      INTEGER NOT NULL,          -- the same in milliseconds of the clock that judges leases
    boot_id      TEXT NOT NULL              -- the boot that expires belongs to, on SQLite; another boot voids it
) WITHOUT ROWID, STRICT;

CREATE INDEX task_locks_runner ON task_locks (runner_id);

CREATE UNIQUE INDEX task_locks_section ON task_locks (project_path, section_id);

CREATE TABLE task_attempts (
    task_id      TEXT NOT NULL,    -- tasks.id
    number       INTEGER NOT NULL, -- which start it was, from 1, counted or not
    revision     INTEGER NOT NULL, -- grows with every change of the row; a write names the one it read
    project_path TEXT NOT NULL,    -- tasks.project_path
    role         TEXT NOT NULL,    -- work or review
    agent        TEXT NOT NULL,    -- which agent of the configuration
    runner_id    TEXT NOT NULL,    -- runners.id of whoever started it
    epoch        INTEGER NOT NULL, -- tasks.epoch under which it ran
    run_id       TEXT,             -- the run of the task's workflow
    execution    TEXT,             -- which step of that run it was for
    started_at   TEXT NOT NULL,    -- when it was started
    ended_at     TEXT,             -- when it ended; absent while it runs
    stop_reason  TEXT,             -- why it ended: success, exit, timeout, hang, limit, budget, cancel, drain, lost_lock, …
    counted      INTEGER NOT NULL, -- 1: it counts against the attempts of the task
    exit_code    INTEGER,          -- of the agent, if it had one
    wall_ms      INTEGER NOT NULL, -- how long it ran
    cost_micros  INTEGER NOT NULL, -- what it cost, in millionths of a dollar
    tokens       INTEGER NOT NULL, -- tokens in and out
    session      TEXT,             -- the agent's own session
    summary      TEXT,             -- the last words of the agent, or what went wrong
    log          TEXT,             -- the file of its output, below the home folder
    worktree     TEXT,             -- the git worktree that it worked in
    PRIMARY KEY (task_id, number)
) WITHOUT ROWID, STRICT;

CREATE INDEX task_attempts_project ON task_attempts (project_path, started_at);

CREATE TABLE task_events (
    task_id  TEXT NOT NULL,    -- tasks.id
    number   INTEGER NOT NULL, -- which event it was, from 1
    revision INTEGER NOT NULL, -- grows with every change of the row; a write names the one it read
    at       TEXT NOT NULL,    -- when it happened
    kind     TEXT NOT NULL,    -- note, question, answer, approved, rejected, skipped, reset, refused, …
    author   TEXT NOT NULL,    -- person, agent, runner
    message  TEXT NOT NULL,    -- what was said
    PRIMARY KEY (task_id, number)
) WITHOUT ROWID, STRICT;

CREATE TABLE task_hooks (
    task_id      TEXT NOT NULL,    -- tasks.id
    number       INTEGER NOT NULL, -- tasks.revision of the change that is told
    hook         TEXT NOT NULL,    -- which hook of the configuration: the SHA-256 of its command or URL
    revision     INTEGER NOT NULL, -- grows with every change of the row; a write names the one it read
    project_path TEXT NOT NULL,    -- tasks.project_path
    body         TEXT NOT NULL,    -- what it is told, as JSON
    made_at      TEXT NOT NULL,    -- when the task came to stand so
    tries        INTEGER NOT NULL, -- how often it was told
    due_at       TEXT NOT NULL,    -- when it is told next; while somebody tells it, until when he may take
    PRIMARY KEY (task_id, number, hook)
) WITHOUT ROWID, STRICT;

CREATE TABLE runners (
    id              TEXT NOT NULL PRIMARY KEY,    -- the runner, a UUID
    revision        INTEGER NOT NULL,             -- grows with every change of the row; a write names the one it read
    status          TEXT NOT NULL DEFAULT 'idle', -- idle, running, completed, failed
    pid             INTEGER,                      -- its process
    pid_started     TEXT NOT NULL,                -- when that process started, in the kernel's ticks: with pid and boot it names one process for ever
    boot_id         TEXT NOT NULL,                -- the boot of its machine
    host            TEXT NOT NULL,                -- its machine
    project_path    TEXT,                         -- which project it works on
    section_id      TEXT,                         -- the section it is focused on
    place           INTEGER NOT NULL,             -- its place among the runners of the project, from 1 to maxConcurrent
    current_task_id TEXT,                         -- the task it works on
    started_at      TEXT NOT NULL,                -- when it started
    completed_at    TEXT,                         -- when it ended
    heartbeat_at    TEXT NOT NULL,                -- when it was last known to live
    beat            INTEGER NOT NULL,             -- heartbeat_at on the clock that judges leases
    awake           INTEGER NOT NULL,             -- heartbeat_at on its machine's clock that stands still while the machine sleeps
    stop            TEXT,                         -- how it is asked to stop: drain, cancel, kill
    error           TEXT                          -- why it failed
) WITHOUT ROWID, STRICT;

CREATE UNIQUE INDEX runners_project ON runners (project_path, place) WHERE status IN ('idle', 'running');

CREATE UNIQUE INDEX runners_section ON runners (project_path, section_id) WHERE status IN ('idle', 'running') AND section_id IS NOT NULL;

CREATE INDEX runners_status ON runners (status);

-- For people.
CREATE VIEW runs_view AS
SELECT lower(hex(r.run_id)) AS run_id, r.workflow, r.key,
       CASE WHEN r.status <> 'live' THEN r.status
            WHEN q.status = 'queued' AND q.owner IS NOT NULL THEN 'running'
            WHEN q.status = 'running' AND q.owner IS NULL THEN 'queued'
            ELSE q.status END AS status,
       r.queue, r.priority, r.realm, r.tags, lower(hex(q.owner)) AS owner,
       coalesce(q.epoch, r.epoch) AS epoch, coalesce(q.head, r.head) AS head, coalesce(q.mail, r.mail) AS mail,
       lower(hex(r.parent_run)) AS parent_run, lower(hex(r.version)) AS version,
       datetime(r.created_at / 1000, 'unixepoch') AS created_at,
       datetime(coalesce(q.started_at, r.started_at) / 1000, 'unixepoch') AS started_at,
       datetime(r.finished_at / 1000, 'unixepoch') AS finished_at
FROM runs AS r LEFT JOIN queue AS q ON q.run_id = r.run_id;

CREATE VIEW queue_view AS
SELECT lower(hex(run_id)) AS run_id, queue, realm, priority,
       CASE due WHEN 9223372036854775807 THEN 'on mail' ELSE datetime(due / 1000, 'unixepoch') END AS due,
       lower(hex(owner)) AS owner, epoch, head, mail - taken AS waiting_mail, status, parked
FROM queue;

CREATE VIEW journal_view AS
SELECT lower(hex(run_id)) AS run_id, seq, strftime('%Y-%m-%d %H:%M:%f', at / 1000.0, 'unixepoch') AS at, event,
       length(body) AS bytes
FROM journal;

CREATE VIEW mail_view AS
SELECT lower(hex(run_id)) AS run_id, number, id, kind, datetime(at / 1000, 'unixepoch') AS at, taken, length(body) AS bytes
FROM mail;

CREATE VIEW sessions_view AS
SELECT lower(hex(runner_id)) AS runner_id, name, host, pid, program, datetime(started_at / 1000, 'unixepoch') AS started_at,
       datetime(heartbeat_at / 1000, 'unixepoch') AS heartbeat_at, datetime(ended_at / 1000, 'unixepoch') AS ended_at,
       (SELECT count(*) FROM queue WHERE owner = runner_id) AS owns
FROM sessions;

CREATE VIEW workflows_view AS
SELECT lower(hex(version)) AS version, name, datetime(deployed_at / 1000, 'unixepoch') AS deployed_at, length(body) AS bytes
FROM workflows;

CREATE VIEW schedules_view AS
SELECT name, strftime('%Y-%m-%d %H:%M:%f', due / 1000.0, 'unixepoch') AS due, lower(hex(last_run)) AS last_run, waits,
       length(body) AS bytes
FROM schedules;
