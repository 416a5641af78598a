//! Is a command one that every store can carry out? Each store asks here first, so that all refuse
//! alike.
//!
//! A refused command is a bug or bad input (`StoreError::Refused`) and writes nothing, of none of
//! the commands in the call. What depends on what is stored (a stale epoch, a gap) is answered by
//! the verbs themselves.

use std::collections::{BTreeMap, HashSet};

use lope_model::limit;

use super::{
    Admit, Blob, Deliver, Deploy, JournalRow, Register, RunCommit, ScheduleWrite, Serves, Snapshot,
    Then, Wake,
};
use crate::error::{StoreError, StoreResult};
use crate::tables::Append;

/// Longest mail id, path of an execution, or tag value: paths of nested steps grow longer than
/// names.
const PATH_MAX: usize = limit::KEY_MAX;
/// Largest snapshot: large values are beside it, so this bounds the number of things a run
/// remembers.
pub const SNAPSHOT_MAX: usize = 16 * limit::PAYLOAD_MAX;

/// Most queues and realms that a runner serves.
pub const SERVES_MAX: usize = 10_000;

pub fn deploy(deploy: &Deploy) -> StoreResult<()> {
    name("workflow", &deploy.name)?;
    payload("a definition", &deploy.body)
}

pub fn register(register: &Register) -> StoreResult<()> {
    text("runner name", &register.name, limit::NAME_MAX)?;
    text("host", &register.host, limit::KEY_MAX)?;
    text("program", &register.program, limit::NAME_MAX)?;
    serves(&register.serves)
}

pub fn serves(serves: &Serves) -> StoreResult<()> {
    match serves.queues.len() + serves.realms.len() {
        count if count > SERVES_MAX => Err(StoreError::refused(format!(
            "a runner serves at most {SERVES_MAX} things"
        ))),
        _ => Ok(()),
    }
}

/// What names a run that is to be admitted.
pub fn run_names(
    workflow: &str,
    key: Option<&str>,
    tags: &BTreeMap<String, String>,
) -> StoreResult<()> {
    name("workflow", workflow)?;
    key.iter().try_for_each(|key| name("key", key))?;
    self::tags(tags)
}

pub fn admits(admits: &[Admit]) -> StoreResult<()> {
    number("admissions", admits.len())?;
    admits.iter().try_for_each(admit)
}

pub fn deliveries(deliveries: &[Deliver]) -> StoreResult<()> {
    number("deliveries", deliveries.len())?;
    deliveries.iter().try_for_each(deliver)
}

pub fn schedule(write: &ScheduleWrite) -> StoreResult<()> {
    name("schedule", &write.schedule.name)?;
    bytes(
        "a schedule with its input",
        &write.schedule.body,
        limit::SCHEDULE_MAX,
    )?;
    write.admit.iter().try_for_each(admit)?;
    write.mail.iter().try_for_each(deliver)
}

/// Also: each run appears once in a call.
pub fn commits(commits: &[RunCommit]) -> StoreResult<()> {
    number("commits", commits.len())?;
    let mut runs = HashSet::with_capacity(commits.len());
    for commit in commits {
        if !runs.insert(commit.run) {
            return Err(StoreError::refused(format!(
                "run {} appears twice in one commit",
                commit.run
            )));
        }
        self::commit(commit)?;
    }
    Ok(())
}

fn commit(commit: &RunCommit) -> StoreResult<()> {
    number(
        "rows of a commit",
        commit.rows.len() + commit.blobs.len() + commit.taken.len(),
    )?;
    commit.rows.iter().try_for_each(row)?;
    commit.blobs.iter().try_for_each(blob)?;
    commit.snapshot.iter().try_for_each(snapshot)?;
    admits(&commit.children)?;
    deliveries(&commit.deliveries)?;
    number("messages of a commit", commit.mailbox_sends.len())?;
    commit.mailbox_sends.iter().try_for_each(Append::validate)?;
    match &commit.then {
        Then::Hold(_) => Ok(()),
        Then::Release(release) => match &release.wake {
            Wake::At(_) | Wake::OnMail => Ok(()),
            Wake::Parked(reason) => text("reason", reason, PATH_MAX),
        },
        Then::Finish(finish) => finish
            .result
            .iter()
            .chain(&finish.error)
            .try_for_each(|bytes| payload("a result", bytes)),
    }
}

fn admit(admit: &Admit) -> StoreResult<()> {
    run_names(&admit.workflow, admit.key.as_deref(), &admit.tags)?;
    admit
        .parent
        .iter()
        .try_for_each(|parent| text("execution", &parent.execution, PATH_MAX))?;
    number("rows of an admission", admit.rows.len() + admit.blobs.len())?;
    admit.rows.iter().try_for_each(row)?;
    admit.blobs.iter().try_for_each(blob)?;
    admit.snapshot.iter().try_for_each(snapshot)?;
    let first = admit
        .snapshot
        .as_ref()
        .map_or(1, |snapshot| snapshot.seq + 1);
    if admit
        .rows
        .iter()
        .zip(first..)
        .any(|(row, seq)| row.seq != seq)
    {
        return Err(StoreError::refused(format!(
            "the first journal rows of run {} do not follow {first}",
            admit.run
        )));
    }
    Ok(())
}

fn tags(tags: &BTreeMap<String, String>) -> StoreResult<()> {
    if tags.len() > limit::TAGS_MAX {
        return Err(StoreError::refused(format!(
            "a run has at most {} tags",
            limit::TAGS_MAX
        )));
    }
    tags.iter().try_for_each(|(tag, value)| {
        name("tag", tag)?;
        text("tag value", value, PATH_MAX)
    })
}

fn deliver(deliver: &Deliver) -> StoreResult<()> {
    text("mail id", &deliver.id, PATH_MAX)?;
    name("mail kind", &deliver.kind)?;
    payload("mail", &deliver.body)
}

fn row(row: &JournalRow) -> StoreResult<()> {
    name("event", &row.event)?;
    payload("a journal row", &row.body)
}

fn blob(blob: &Blob) -> StoreResult<()> {
    payload("a value", &blob.bytes)
}

fn snapshot(snapshot: &Snapshot) -> StoreResult<()> {
    bytes("a snapshot", &snapshot.body, SNAPSHOT_MAX)
}

fn name(what: &str, text: &str) -> StoreResult<()> {
    if text.is_empty() {
        return Err(StoreError::refused(format!("the {what} is empty")));
    }
    self::text(what, text, limit::NAME_MAX)
}

/// No store of text takes a zero byte in it.
fn text(what: &str, text: &str, max: usize) -> StoreResult<()> {
    if text.len() > max || text.contains('\0') {
        return Err(StoreError::refused(format!(
            "the {what} is longer than {max} bytes or holds a zero byte"
        )));
    }
    Ok(())
}

fn payload(what: &str, bytes: &[u8]) -> StoreResult<()> {
    self::bytes(what, bytes, limit::PAYLOAD_MAX)
}

fn bytes(what: &str, bytes: &[u8], max: usize) -> StoreResult<()> {
    if bytes.len() > max {
        return Err(StoreError::refused(format!(
            "{what} is larger than {max} bytes"
        )));
    }
    Ok(())
}

fn number(what: &str, count: usize) -> StoreResult<()> {
    if count > limit::COMMIT_ROWS_MAX {
        return Err(StoreError::refused(format!(
            "{what}: at most {}",
            limit::COMMIT_ROWS_MAX
        )));
    }
    Ok(())
}
