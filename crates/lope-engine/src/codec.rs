//! Between the law's events and the bytes that stores keep: journal rows, mail, results.

use std::collections::HashMap;

use lope_flow::law::{Event, EventKind, State, Stored};
use lope_model::{Digest, Failure, RunId, Value, value};
use lope_store::runs::{Blob, Deliver, JournalRow, Mail, Reach, RunRecord, Snapshot};
use thiserror::Error;

/// Large values by content.
pub type Blobs = HashMap<Digest, Vec<u8>>;

/// Bytes in a store that are not what they should be.
#[derive(Debug, Error)]
#[error("{what} cannot be read: {message}")]
pub struct Unreadable {
    what: String,
    message: String,
}

impl Unreadable {
    /// The replay came to another state than the one that was there when the row was written.
    pub fn diverged(seq: u64) -> Self {
        Self::new(
            "diverged: the journal",
            format!("its replay differs before row {seq}; nothing is guessed"),
        )
    }

    pub fn new(what: impl Into<String>, error: impl ToString) -> Self {
        Self {
            what: what.into(),
            message: error.to_string(),
        }
    }
}

/// An event as a journal row; its large values go to `blobs`.
pub fn row(seq: u64, event: &mut Event, blobs: &mut Vec<Blob>) -> JournalRow {
    let body = event.encode(blobs);
    JournalRow {
        seq,
        at: event.at,
        event: event.kind.word().into(),
        body,
    }
}

/// A state as a snapshot; its large values go to `blobs`.
pub fn snapshot(seq: u64, state: &mut State, blobs: &mut Vec<Blob>) -> Snapshot {
    let body = state.encode(blobs);
    Snapshot {
        seq,
        law: state.law(),
        body,
    }
}

/// Large values as they were found. One that is missing, or is not what its digest says, is left out.
pub fn found(digests: Vec<Digest>, bytes: Vec<Option<Vec<u8>>>) -> Blobs {
    let there = digests
        .into_iter()
        .zip(bytes)
        .filter_map(|(digest, bytes)| Some((digest, bytes?)));
    there
        .filter(|(digest, bytes)| Digest::of(bytes) == *digest)
        .collect()
}

/// The event of a journal row.
pub fn event(row: &JournalRow, blobs: &Blobs) -> Result<Event, Unreadable> {
    let event = Event::decode(&row.body, |digest| blobs.get(&digest).cloned());
    event.map_err(|error| Unreadable::new(format!("journal row {}", row.seq), error))
}

/// What happened in a journal row, with large values left out: enough to tell it apart.
pub fn kind_of(row: &JournalRow) -> Result<EventKind, Unreadable> {
    let nothing = lope_model::value::to_msgpack(&Value::Null);
    let event = Event::decode(&row.body, |_| Some(nothing.clone()));
    event
        .map(|event| event.kind)
        .map_err(|error| Unreadable::new(format!("journal row {}", row.seq), error))
}

/// The state of a snapshot.
pub fn state(snapshot: &Snapshot, blobs: &Blobs) -> Result<State, Unreadable> {
    let state = State::decode(&snapshot.body, |digest| blobs.get(&digest).cloned());
    state.map_err(|error| Unreadable::new("the snapshot", error))
}

/// Which large values a snapshot and rows refer to.
pub fn needs(snapshot: Option<&Snapshot>, rows: &[JournalRow]) -> Result<Vec<Digest>, Unreadable> {
    let mut needs = Vec::new();
    if let Some(snapshot) = snapshot {
        let stored = Stored::<State>::read(&snapshot.body)
            .map_err(|error| Unreadable::new("the snapshot", error))?;
        needs.extend_from_slice(stored.needs());
    }
    for row in rows {
        let stored = Stored::<Event>::read(&row.body);
        let stored =
            stored.map_err(|error| Unreadable::new(format!("journal row {}", row.seq), error))?;
        needs.extend_from_slice(stored.needs());
    }
    needs.sort_unstable();
    needs.dedup();
    Ok(needs)
}

/// Mail that brings an event to a run.
pub fn mail(run: RunId, id: String, kind: &EventKind) -> Deliver {
    let body = rmp_serde::to_vec_named(kind).expect("every event has a MessagePack form");
    Deliver {
        run,
        id,
        kind: kind.word().to_owned(),
        body,
        reach: reach(kind),
        reserved: is_reserved(kind.word()),
    }
}

/// Does mail of this kind steer a run, or end a child? Anybody sends the other kinds, as many as
/// there is room for.
pub fn is_reserved(kind: &str) -> bool {
    !matches!(kind, "signal" | "input")
}

/// The event that mail brings.
pub fn mail_event(mail: &Mail) -> Result<EventKind, Unreadable> {
    rmp_serde::from_slice(&mail.body)
        .map_err(|error| Unreadable::new(format!("mail '{}'", mail.id), error))
}

/// What may move a run that is parked, and what may open one that has ended.
fn reach(kind: &EventKind) -> Reach {
    match kind {
        EventKind::Cancel { .. } | EventKind::Resume | EventKind::Close => Reach::Unpark,
        EventKind::Retry { .. } => Reach::Reopen,
        EventKind::Start(_)
        | EventKind::Input(_)
        | EventKind::Outcome(_)
        | EventKind::Timer
        | EventKind::Signal { .. }
        | EventKind::Child { .. }
        | EventKind::Pause { .. }
        | EventKind::Adopted { .. }
        | EventKind::Refused { .. }
        | EventKind::Dispatched { .. }
        | EventKind::Returned { .. }
        | EventKind::Forked { .. } => Reach::Live,
    }
}

pub fn result_bytes(result: &Value) -> Vec<u8> {
    value::to_msgpack(result)
}

pub fn error_bytes(failure: &Failure) -> Vec<u8> {
    rmp_serde::to_vec_named(failure).expect("every failure has a MessagePack form")
}

/// How a run ended, if it has.
pub fn read_end(record: &RunRecord) -> Result<(Option<Value>, Option<Failure>), Unreadable> {
    let result = record.result.as_deref().map(read_result).transpose()?;
    let error = record.error.as_deref().map(read_error).transpose()?;
    Ok((result, error))
}

pub fn read_result(bytes: &[u8]) -> Result<Value, Unreadable> {
    value::from_msgpack(bytes).map_err(|error| Unreadable::new("the result", error))
}

pub fn read_error(bytes: &[u8]) -> Result<Failure, Unreadable> {
    rmp_serde::from_slice(bytes).map_err(|error| Unreadable::new("the error", error))
}
