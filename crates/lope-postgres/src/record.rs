//! Rows of the server become values of the model. What cannot be one is damage, and says where.

use std::collections::BTreeMap;

use lope_model::{
    Digest, Epoch, Priority, QueueName, Realm, RunId, RunnerId, Timestamp, VersionId,
};
use lope_store::StoreError;
use lope_store::runs::{FinalStatus, JournalRow, LiveStatus, Mail, Parent, RunRecord, RunStatus};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::failure::Worked;

/// The columns of a record, of `runs r` and, while the run lives, `queue q`. Results come last and
/// only when asked for.
pub(crate) const RECORD: &str = "r.run_id, r.workflow, r.version, r.key, r.status, q.status, r.queue, r.priority, r.realm, \
    coalesce(q.law, r.law), r.tags::text, r.parent_run, r.parent_execution, r.created_at, r.finished_at, q.due, q.owner, \
    coalesce(q.epoch, r.epoch), coalesce(q.head, r.head), coalesce(q.mail, r.mail), q.parked, \
    coalesce(q.started_at, r.started_at)";

/// Where the results stand behind [`RECORD`].
const RESULT: usize = 22;

/// A record without its results.
pub(crate) fn listed(row: &Row) -> Worked<RunRecord> {
    let owner = row.get::<_, Option<Uuid>>(16).map(RunnerId::from_uuid);
    let parent = row.get::<_, Option<Uuid>>(11).map(RunId::from_uuid);
    Ok(RunRecord {
        run: RunId::from_uuid(row.get(0)),
        workflow: row.get(1),
        version: version(row.get(2))?,
        key: row.get(3),
        status: status(row.get(4), row.get(5), owner.is_some())?,
        queue: queue_name(row.get(6))?,
        priority: priority(row.get(7))?,
        realm: realm(row.get(8))?,
        law: count(row, 9, "law")?,
        tags: tags(row.get(10))?,
        parent: parent.map(|run| Parent {
            run,
            execution: row.get::<_, Option<String>>(12).unwrap_or_default(),
        }),
        created_at: Timestamp::from_millis(row.get(13)),
        started_at: row.get::<_, Option<i64>>(21).map(Timestamp::from_millis),
        finished_at: row.get::<_, Option<i64>>(14).map(Timestamp::from_millis),
        due: row.get::<_, Option<i64>>(15).map(Timestamp::from_millis),
        owner,
        epoch: Epoch(count(row, 17, "epoch")?),
        head: count(row, 18, "head")?,
        mail: count(row, 19, "mail")?,
        parked: row.get(20),
        result: None,
        error: None,
    })
}

/// A record with its error behind it, as a list has it.
pub(crate) fn listed_with_error(row: &Row) -> Worked<RunRecord> {
    Ok(RunRecord {
        error: row.get(RESULT),
        ..listed(row)?
    })
}

/// A record with its results.
pub(crate) fn shown(row: &Row) -> Worked<RunRecord> {
    Ok(RunRecord {
        result: row.get(RESULT),
        error: row.get(RESULT + 1),
        ..listed(row)?
    })
}

/// A record with its results and, behind them, whether it stands in the queue under another queue,
/// realm or priority than its own, where no runner looks for it.
pub(crate) fn placed(row: &Row) -> Worked<RunRecord> {
    if row.get::<_, Option<bool>>(RESULT + 2) == Some(true) {
        return Err(StoreError::corrupt("it stands elsewhere in the queue than it says").into());
    }
    shown(row)
}

fn status(kept: &str, said: Option<&str>, owned: bool) -> Worked<RunStatus> {
    match said {
        Some(said) => {
            let said = LiveStatus::parse(said).ok_or_else(|| damage("a status", said))?;
            Ok(RunStatus::of_live(said, owned))
        }
        None => Ok(RunStatus::Final(
            FinalStatus::parse(kept).ok_or_else(|| damage("the end of a run", kept))?,
        )),
    }
}

/// Four columns: number, position in time, name, body.
pub(crate) fn journal_row(row: &Row, at: usize) -> JournalRow {
    JournalRow {
        seq: row.get::<_, i64>(at) as u64,
        at: Timestamp::from_millis(row.get(at + 1)),
        event: row.get::<_, &str>(at + 2).into(),
        body: row.get(at + 3),
    }
}

/// Five columns: number, id, kind, body, time.
pub(crate) fn mail(row: &Row, at: usize) -> Mail {
    Mail {
        number: row.get::<_, i64>(at) as u64,
        id: row.get(at + 1),
        kind: row.get(at + 2),
        body: row.get(at + 3),
        at: Timestamp::from_millis(row.get(at + 4)),
    }
}

/// A number that is never below zero.
pub(crate) fn count<T: TryFrom<i64>>(row: &Row, at: usize, name: &str) -> Worked<T> {
    let unreadable = |_| StoreError::corrupt(format!("its {name} cannot be read"));
    Ok(T::try_from(row.get(at)).map_err(unreadable)?)
}

pub(crate) fn version(bytes: &[u8]) -> Worked<VersionId> {
    let bytes: [u8; 32] = bytes
        .try_into()
        .map_err(|_| damage("a version", &format!("{} bytes", bytes.len())))?;
    Ok(VersionId(Digest::from_bytes(bytes)))
}

pub(crate) fn queue_name(text: &str) -> Worked<QueueName> {
    QueueName::parse(text).map_err(|_| damage("a queue", text).into())
}

pub(crate) fn realm(text: &str) -> Worked<Realm> {
    Realm::parse(text).map_err(|_| damage("a realm", text).into())
}

pub(crate) fn priority(level: i16) -> Worked<Priority> {
    Priority::new(i64::from(level)).map_err(|_| damage("a priority", &level.to_string()).into())
}

fn tags(text: &str) -> Worked<BTreeMap<String, String>> {
    serde_json::from_str(text).map_err(|_| damage("the tags of a run", text).into())
}

fn damage(what: &str, found: &str) -> StoreError {
    StoreError::corrupt(format!("{what} is '{found}'"))
}
