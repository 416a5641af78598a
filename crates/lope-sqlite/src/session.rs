//! Sessions: a runner's row in the registry, extended by heartbeats, ended by its release, its
//! expiry, another boot, or the proof that its process is dead.

use lope_model::{Moment, RunId, RunnerId, limit};
use lope_store::StoreError;
use lope_store::runs::{
    Beat, ClaimedRun, Mail, Register, RunnerRecord, Serves, SessionLost, SessionResult, TakenOver,
    Takeover,
};
use rusqlite::{OptionalExtension, Row, params};

use crate::columns;
use crate::damaged_run::{self, DamagedRun};
use crate::failure::Worked;
use crate::options::RUNNER_MEMORY;
use crate::query;
use crate::tx::Tx;

const HELD: &str = "SELECT lease FROM sessions WHERE runner_id = ?1 AND ended_at IS NULL AND expires > ?2 AND boot_id = ?3";
const REGISTER: &str =
    "INSERT OR REPLACE INTO sessions (runner_id, name, host, pid, program, started_at, heartbeat_at, expires,
     lease, boot_id, ended_at, serves, process) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6, ?7, ?8, ?9, NULL, ?10, ?11)";
const ANNOUNCE: &str = "UPDATE sessions SET serves = ?2 WHERE runner_id = ?1";
const FORGET: &str = "DELETE FROM sessions WHERE ended_at < ?1 AND NOT EXISTS (SELECT 1 FROM queue WHERE owner = runner_id)
     OR ended_at IS NOT NULL AND length(runner_id) <> 16";
const BEAT: &str = "UPDATE sessions SET heartbeat_at = ?2, expires = ?3 WHERE runner_id = ?1";
const OPEN: &str = "SELECT runner_id, expires, boot_id FROM sessions WHERE ended_at IS NULL";
const END: &str = "UPDATE sessions SET ended_at = ?2 WHERE runner_id = ?1 AND ended_at IS NULL";
pub(crate) const NEXT_OWNER: &str =
    "SELECT min(owner) FROM queue INDEXED BY queue_owner WHERE owner IS NOT NULL AND owner > ?1";
pub(crate) const PUT_BACK: &str = "UPDATE queue SET owner = NULL, epoch = epoch + 1, due = ?2
     WHERE run_id IN (SELECT run_id FROM queue INDEXED BY queue_owner WHERE owner = ?1 LIMIT ?3)";
pub(crate) const OWNED: &str =
    "SELECT q.run_id, q.epoch, r.version, q.queue, q.priority, q.realm, q.law, q.weight, q.mail, q.due, q.head, q.taken
     FROM queue AS q INDEXED BY queue_owner JOIN runs AS r ON r.run_id = q.run_id
     WHERE q.owner = ?1 AND q.run_id > ?2 ORDER BY q.run_id LIMIT ?3";
pub(crate) const WAITING: &str = "SELECT run_id FROM queue INDEXED BY queue_mail
     WHERE owner = ?1 AND owner IS NOT NULL AND mail > taken ORDER BY run_id LIMIT ?2";
const RUNNERS: &str = "SELECT runner_id, name, host, pid, program, started_at, heartbeat_at,
       ended_at IS NULL AND expires > ?1 AND boot_id = ?2, ended_at,
       (SELECT count(*) FROM queue WHERE owner = runner_id), serves, process
     FROM sessions ORDER BY started_at DESC, runner_id DESC LIMIT ?3";
const IS_OWNER: &str = "SELECT 1 FROM queue INDEXED BY queue_owner WHERE owner = ?1";
const DISOWNED: &str =
    "SELECT run_id FROM queue INDEXED BY queue_owner WHERE owner = ?1 ORDER BY run_id LIMIT ?2";
const DROP_UNREADABLE: &str = "DELETE FROM sessions WHERE runner_id = ?1";
const IS_OPEN: &str = "SELECT 1 FROM sessions WHERE runner_id = ?1 AND ended_at IS NULL";

/// Does the runner's session live?
pub(crate) fn is_held(tx: &Tx<'_>, runner: RunnerId) -> Worked<bool> {
    Ok(lease(tx, runner)?.is_some())
}

fn lease(tx: &Tx<'_>, runner: RunnerId) -> Worked<Option<i64>> {
    let given = params![runner.as_bytes(), tx.moment.0, tx.inner.options.boot_id];
    Ok(tx
        .statement(HELD)?
        .query_row(given, |row| row.get(0))
        .optional()?)
}

/// The lock file is taken before the row is written: from the moment others see the session they
/// also see that its process lives.
pub(crate) fn register(tx: &Tx<'_>, register: &Register) -> Worked<Beat> {
    tx.inner.runner_locks.take(register.runner)?;
    leave_lost(tx, register.runner)?;
    let beat = beat(tx, register.lease.millis().cast_signed());
    tx.statement(REGISTER)?.execute(params![
        register.runner.as_bytes(),
        register.name,
        register.host,
        register.pid,
        register.program,
        tx.now.millis(),
        beat.expires.0,
        register.lease.millis().cast_signed(),
        tx.inner.options.boot_id,
        register.serves.to_string(),
        register.process,
    ])?;
    tx.statement(FORGET)?
        .execute([tx.now.minus(RUNNER_MEMORY).millis()])?;
    Ok(beat)
}

/// A process whose session was lost begins again as another runner: the files of those it was
/// before go.
fn leave_lost(tx: &Tx<'_>, but: RunnerId) -> Worked<()> {
    let mut held = tx.inner.runner_locks.all_held();
    held.retain(|runner| *runner != but);
    for runner in held {
        if !is_held(tx, runner)? {
            tx.inner.runner_locks.leave(runner);
        }
    }
    Ok(())
}

fn beat(tx: &Tx<'_>, lease: i64) -> Beat {
    Beat {
        now: tx.now,
        moment: tx.moment,
        expires: Moment(tx.moment.0.saturating_add(lease)),
    }
}

pub(crate) fn heartbeat(tx: &Tx<'_>, runner: RunnerId) -> Worked<SessionResult<Beat>> {
    let Some(lease) = lease(tx, runner)? else {
        return Ok(Err(SessionLost));
    };
    let beat = beat(tx, lease);
    tx.statement(BEAT)?.execute(params![
        runner.as_bytes(),
        beat.now.millis(),
        beat.expires.0
    ])?;
    Ok(Ok(beat))
}

pub(crate) fn announce(
    tx: &Tx<'_>,
    runner: RunnerId,
    serves: &Serves,
) -> Worked<SessionResult<()>> {
    if !is_held(tx, runner)? {
        return Ok(Err(SessionLost));
    }
    tx.statement(ANNOUNCE)?
        .execute(params![runner.as_bytes(), serves.to_string()])?;
    Ok(Ok(()))
}

/// End what is dead, then put back runs of ended sessions, up to the limit.
pub(crate) fn takeover(tx: &Tx<'_>, takeover: Takeover) -> Worked<TakenOver> {
    let ended = dead(tx)?;
    for runner in &ended {
        tx.statement(END)?
            .execute(params![runner.as_bytes(), tx.now.millis()])?;
    }
    let (mut runs, mut more) = (0, false);
    for owner in ended_owners(tx)? {
        let room = takeover.limit.saturating_sub(runs as usize);
        tell_unreadable(tx, &owner, room)?;
        runs += put_back(tx, &owner, room)?;
        more = more || tx.statement(IS_OWNER)?.exists([&owner])?;
    }
    Ok(TakenOver { ended, runs, more })
}

/// Open sessions whose time is over, or whose process is gone. One whose id cannot be read is
/// nobody's: it is told once and leaves the registry.
fn dead(tx: &Tx<'_>) -> Worked<Vec<RunnerId>> {
    let mut open = tx.statement(OPEN)?;
    let mut rows = open.query([])?;
    let mut dead = Vec::new();
    let mut unreadable = Vec::new();
    while let Some(row) = rows.next()? {
        let id: Vec<u8> = row.get(0)?;
        let Ok(bytes) = <[u8; 16]>::try_from(id.as_slice()) else {
            unreadable.push(id);
            continue;
        };
        let runner = RunnerId::from_bytes(bytes);
        let is_over = row.get::<_, i64>(1)? <= tx.moment.0
            || columns::text_bytes(row, 2)? != tx.inner.options.boot_id.as_bytes();
        if is_over || !tx.inner.runner_locks.is_taken(runner) {
            dead.push(runner);
        }
    }
    for id in unreadable {
        let session = columns::hex(&id);
        tracing::error!(%session, "a session whose runner cannot be read leaves the registry");
        tx.statement(DROP_UNREADABLE)?.execute([&id])?;
    }
    Ok(dead)
}

/// Owners without an open session; one that cannot be read has none.
fn ended_owners(tx: &Tx<'_>) -> Worked<Vec<Vec<u8>>> {
    let mut next = tx.statement(NEXT_OWNER)?;
    let mut is_open = tx.statement(IS_OPEN)?;
    let mut ended = Vec::new();
    let mut after: Vec<u8> = Vec::new();
    if tx.statement(IS_OWNER)?.exists([&after])? {
        ended.push(after.clone());
    }
    loop {
        let owner = next.query_row([&after], |row| row.get::<_, Option<Vec<u8>>>(0))?;
        let Some(owner) = owner else {
            return Ok(ended);
        };
        if owner.len() != columns::ID_BYTES || !is_open.exists([&owner])? {
            ended.push(owner.clone());
        }
        after = owner;
    }
}

/// The runs of an owner that cannot be read are named when they are taken over.
fn tell_unreadable(tx: &Tx<'_>, owner: &[u8], limit: usize) -> Worked<()> {
    if owner.len() == columns::ID_BYTES {
        return Ok(());
    }
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut disowned = tx.statement(DISOWNED)?;
    let mut rows = disowned.query(params![owner, limit])?;
    while let Some(row) = rows.next()? {
        let run = columns::written(&row.get::<_, Vec<u8>>(0)?);
        tracing::error!(%run, "a run whose owner cannot be read is taken over");
    }
    Ok(())
}

fn put_back(tx: &Tx<'_>, owner: &[u8], limit: usize) -> Worked<u64> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let runs = tx
        .statement(PUT_BACK)?
        .execute(params![owner, tx.now.millis(), limit])?;
    if runs > 0 {
        tx.made_work();
    }
    Ok(runs as u64)
}

pub(crate) fn release(tx: &Tx<'_>, runner: RunnerId) -> Worked<u64> {
    tx.statement(END)?
        .execute(params![runner.as_bytes(), tx.now.millis()])?;
    put_back(tx, runner.as_bytes(), usize::MAX)
}

/// What a runner owns, and what of it must be set aside.
pub(crate) fn owned(
    tx: &Tx<'_>,
    runner: RunnerId,
    after: Option<RunId>,
    limit: usize,
) -> Worked<(Vec<ClaimedRun>, Vec<DamagedRun>)> {
    let after = after.map_or(Vec::new(), |run| run.as_bytes().to_vec());
    let mut owned = tx.statement(OWNED)?;
    let mut rows = owned.query(params![
        runner.as_bytes(),
        after,
        limit.min(limit::PAGE_MAX) as i64
    ])?;
    let (mut runs, mut damaged) = (Vec::new(), Vec::new());
    while let Some(row) = rows.next()? {
        match damaged_run::read_run(row)? {
            Ok(run) => runs.push(run),
            Err(run) => damaged.push(run),
        }
    }
    Ok((runs, damaged))
}

pub(crate) fn waiting(
    tx: &Tx<'_>,
    runner: RunnerId,
    limit: usize,
) -> Worked<Vec<(RunId, Vec<Mail>)>> {
    let mut waiting = tx.statement(WAITING)?;
    let mut rows = waiting.query(params![
        runner.as_bytes(),
        limit.min(limit::PAGE_MAX) as i64
    ])?;
    let mut runs = Vec::new();
    while let Some(row) = rows.next()? {
        let run = columns::run(row, 0)?;
        match query::waiting_mail(tx, run).map_err(StoreError::from) {
            Ok(mail) => runs.push((run, mail)),
            // The others get theirs.
            Err(error @ StoreError::Corrupt { .. }) => {
                tracing::error!(%error, %run, "mail of a run cannot be read");
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(runs)
}

pub(crate) fn runners(tx: &Tx<'_>, limit: usize) -> Worked<Vec<RunnerRecord>> {
    let mut runners = tx.statement(RUNNERS)?;
    let given = params![
        tx.moment.0,
        tx.inner.options.boot_id,
        limit.min(limit::PAGE_MAX) as i64
    ];
    let mut rows = runners.query(given)?;
    let mut records = Vec::new();
    while let Some(row) = rows.next()? {
        let mut record = match runner_record(row).map_err(StoreError::from) {
            Ok(record) => record,
            // The next takeover says more about it, too.
            Err(StoreError::Corrupt { .. }) => {
                tracing::warn!("a session cannot be read: `lope store check` tells which");
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        // One whose process is gone is dead before its lease ends.
        record.live = record.live && tx.inner.runner_locks.is_taken(record.runner);
        records.push(record);
    }
    Ok(records)
}

/// Whose sessions live. One whose process is gone is dead before its lease ends.
pub(crate) fn live(tx: &Tx<'_>, runners: &[RunnerId]) -> Worked<Vec<bool>> {
    let is_live = |runner: &RunnerId| -> Worked<bool> {
        Ok(is_held(tx, *runner)? && tx.inner.runner_locks.is_taken(*runner))
    };
    runners.iter().map(is_live).collect()
}

fn runner_record(row: &Row<'_>) -> Worked<RunnerRecord> {
    Ok(RunnerRecord {
        runner: columns::runner(row, 0)?,
        name: row.get(1)?,
        host: row.get(2)?,
        pid: row.get(3)?,
        process: row.get(11)?,
        program: row.get(4)?,
        serves: Serves::parse(&row.get::<_, String>(10)?),
        started_at: columns::time(row, 5)?,
        heartbeat_at: columns::time(row, 6)?,
        live: row.get(7)?,
        ended_at: columns::maybe_time(row, 8)?,
        owns: columns::count(row, 9)?,
    })
}
