//! How states and events are stored: MessagePack with field names, large values apart.
//!
//! A value of `INLINE_MAX` bytes or more is stored once by content (a `Blob`) and referred to.
//! Reading is therefore two steps: `Stored::read` says which blobs are needed, `open` puts them in
//! their places. A value of the user's that looks like a reference is stored as a blob too, so that
//! a reference is always one.

use lope_model::value::{from_msgpack, to_msgpack};
use lope_model::{Blob, Digest, Value, limit};
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

use super::event::{Event, EventKind, Settled};
use super::state::{End, Exec, Exit, Job, Life, State, Work, WorkItem};
use super::weight::weight;

/// The name of a tag that stands for a blob.
const BLOB: &str = "$blob";
/// How snapshots are written; the first byte of each.
const FORMAT: u8 = 1;

/// Bytes that hold no state or event of a law that this program knows.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("cannot be read: {0}")]
pub struct BadRow(String);

/// Something read whose large values are still elsewhere.
#[derive(Debug)]
pub struct Stored<T> {
    inner: T,
    needs: Vec<Digest>,
}

impl State {
    /// A snapshot. Large values go to `blobs`. It is changed while it is written, and then as it
    /// was.
    pub fn encode(&mut self, blobs: &mut Vec<Blob>) -> Vec<u8> {
        let mut bytes = vec![FORMAT];
        write(self, &mut bytes, blobs);
        bytes
    }

    /// Reads a snapshot; `blob` gives the large values it asks for.
    pub fn decode(
        bytes: &[u8],
        blob: impl FnMut(Digest) -> Option<Vec<u8>>,
    ) -> Result<Self, BadRow> {
        Stored::<Self>::read(bytes)?.load(blob)
    }
}

impl Event {
    /// A journal row's body. Large values go to `blobs`. It is changed while it is written, and
    /// then as it was.
    pub fn encode(&mut self, blobs: &mut Vec<Blob>) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(96);
        write(self, &mut bytes, blobs);
        bytes
    }

    /// Reads a row's body; `blob` gives the large values it asks for.
    pub fn decode(
        bytes: &[u8],
        blob: impl FnMut(Digest) -> Option<Vec<u8>>,
    ) -> Result<Self, BadRow> {
        Stored::<Self>::read(bytes)?.load(blob)
    }
}

impl State {
    /// About how many bytes its values take in memory.
    pub fn weight(&mut self) -> usize {
        let mut bytes = 0;
        self.each_value(&mut |value| bytes += weight(value));
        bytes
    }
}

impl Stored<State> {
    pub fn read(bytes: &[u8]) -> Result<Self, BadRow> {
        let stored: Self = match bytes.split_first() {
            Some((&FORMAT, body)) => read(body)?,
            Some((format, _)) => {
                return Err(BadRow(format!(
                    "a snapshot of format {format}, this program knows {FORMAT}"
                )));
            }
            None => return Err(BadRow("an empty snapshot".into())),
        };
        let law = stored.inner.law;
        if law > crate::LAW {
            return Err(BadRow(format!(
                "a snapshot of law {law}, this program knows {}",
                crate::LAW
            )));
        }
        Ok(stored)
    }

    /// The state, with its large values from `blob`.
    pub fn load(self, blob: impl FnMut(Digest) -> Option<Vec<u8>>) -> Result<State, BadRow> {
        let mut state = fill(self.inner, blob)?;
        state.rebuild();
        Ok(state)
    }
}

impl Stored<Event> {
    pub fn read(bytes: &[u8]) -> Result<Self, BadRow> {
        read(bytes)
    }

    /// The event, with its large values from `blob`.
    pub fn load(self, blob: impl FnMut(Digest) -> Option<Vec<u8>>) -> Result<Event, BadRow> {
        fill(self.inner, blob)
    }
}

impl<T> Stored<T> {
    /// The blobs that it needs.
    pub fn needs(&self) -> &[Digest] {
        &self.needs
    }
}

/// Something that holds values, each of which may be stored apart.
trait HasValues {
    fn each_value(&mut self, visit: &mut dyn FnMut(&mut Value));
}

/// Large values give way to references while it is written.
fn write<T: HasValues + Serialize>(holder: &mut T, bytes: &mut Vec<u8>, blobs: &mut Vec<Blob>) {
    let mut apart = Vec::new();
    holder.each_value(&mut |value| {
        if reference(value).is_none() && weight(value) < limit::INLINE_MAX {
            return;
        }
        let bytes = to_msgpack(value);
        let digest = Digest::of(&bytes);
        apart.push(std::mem::replace(
            value,
            Value::tag(BLOB, Value::str(digest.to_string())),
        ));
        if !blobs.iter().any(|blob| blob.digest == digest) {
            blobs.push(Blob { digest, bytes });
        }
    });
    let mut writer = rmp_serde::Serializer::new(bytes).with_struct_map();
    holder
        .serialize(&mut writer)
        .expect("every state and event has a MessagePack form");
    if !apart.is_empty() {
        let mut apart = apart.into_iter();
        let mut put_back =
            |value: &mut Value| *value = apart.next().expect("there are as many as were taken out");
        holder.each_value(&mut |value| {
            if reference(value).is_some() {
                put_back(value);
            }
        });
    }
}

fn read<T: HasValues + DeserializeOwned>(bytes: &[u8]) -> Result<Stored<T>, BadRow> {
    let mut inner: T = rmp_serde::from_slice(bytes).map_err(|error| BadRow(error.to_string()))?;
    let mut needs = Vec::new();
    inner.each_value(&mut |value| needs.extend(reference(value)));
    needs.sort_unstable();
    needs.dedup();
    Ok(Stored { inner, needs })
}

fn fill<T: HasValues>(
    mut holder: T,
    mut blob: impl FnMut(Digest) -> Option<Vec<u8>>,
) -> Result<T, BadRow> {
    let mut failed = None;
    holder.each_value(&mut |value| {
        let Some(digest) = reference(value) else {
            return;
        };
        match blob(digest).map(|bytes| from_msgpack(&bytes)) {
            Some(Ok(found)) => *value = found,
            Some(Err(error)) => failed = Some(BadRow(format!("blob {digest}: {error}"))),
            None => failed = Some(BadRow(format!("blob {digest} is missing or damaged"))),
        }
    });
    failed.map_or(Ok(holder), Err)
}

/// The blob that a value stands for, if it stands for one.
fn reference(value: &Value) -> Option<Digest> {
    match value {
        Value::Tag(tag) if &*tag.name == BLOB => tag.value.as_str()?.parse().ok(),
        _ => None,
    }
}

impl HasValues for Event {
    fn each_value(&mut self, visit: &mut dyn FnMut(&mut Value)) {
        match &mut self.kind {
            EventKind::Start(start) => {
                visit(&mut start.env);
                start.input.iter_mut().for_each(|fed| visit(&mut fed.value));
            }
            EventKind::Input(fed) => visit(&mut fed.value),
            EventKind::Outcome(outcome) => in_settled(&mut outcome.result, visit),
            EventKind::Signal { value, .. } => visit(value),
            EventKind::Child { result, .. } => in_settled(result, visit),
            EventKind::Timer
            | EventKind::Cancel { .. }
            | EventKind::Pause { .. }
            | EventKind::Resume => {}
            EventKind::Adopted { .. }
            | EventKind::Refused { .. }
            | EventKind::Dispatched { .. }
            | EventKind::Returned { .. } => {}
            EventKind::Retry { .. } | EventKind::Close | EventKind::Forked { .. } => {}
        }
    }
}

fn in_settled(result: &mut Settled, visit: &mut dyn FnMut(&mut Value)) {
    match result {
        Settled::Done(value) => visit(value),
        Settled::Failed(failure) => visit(&mut failure.detail),
        Settled::Cancelled => {}
    }
}

impl HasValues for State {
    fn each_value(&mut self, visit: &mut dyn FnMut(&mut Value)) {
        self.run.iter_mut().for_each(|run| visit(&mut run.env));
        let fed = self
            .inputs
            .values_mut()
            .map(|input| &mut input.fed)
            .chain(&mut self.queue);
        fed.for_each(|fed| visit(&mut fed.value));
        for act in self.acts.values_mut() {
            act.slots.iter_mut().flatten().for_each(&mut *visit);
            act.exit.iter_mut().for_each(|exit| in_exit(exit, visit));
        }
        self.execs
            .values_mut()
            .for_each(|exec| in_exec(exec, visit));
        self.signals
            .values_mut()
            .flatten()
            .chain(self.totals.values_mut())
            .for_each(&mut *visit);
        self.heap.iter_mut().for_each(|heap| visit(&mut heap.pages));
        self.tasks.iter_mut().for_each(|task| in_task(task, visit));
        if let Some(halted) = &mut self.halted {
            halted.fed.iter_mut().for_each(|fed| visit(&mut fed.value));
            halted
                .tasks
                .iter_mut()
                .for_each(|task| in_task(task, visit));
        }
        if let Life::Failed(failure) = &mut self.life {
            visit(&mut failure.detail);
        }
    }
}

fn in_exec(exec: &mut Exec, visit: &mut dyn FnMut(&mut Value)) {
    match &mut exec.work {
        Work::Attempt(attempt) => {
            attempt
                .last
                .iter_mut()
                .for_each(|failure| visit(&mut failure.detail));
            match &mut attempt.job {
                Job::Worker(job) => {
                    visit(&mut job.with);
                    job.idempotency_key.iter_mut().for_each(&mut *visit);
                    job.concurrency.iter_mut().for_each(|(_, key)| visit(key));
                }
                Job::Child { input, .. } => visit(input),
            }
        }
        Work::Send(sending) => visit(&mut sending.body),
        Work::Each(each) => {
            visit(&mut each.items);
            if let Some(results) = &mut each.results {
                results
                    .chunks
                    .iter_mut()
                    .chain(&mut results.tail)
                    .chain(results.early.values_mut())
                    .for_each(&mut *visit);
            }
            each.ending.iter_mut().for_each(|end| in_end(end, visit));
        }
        Work::Try(held) => held.pending.iter_mut().for_each(|end| in_end(end, visit)),
        Work::Race(branches) | Work::All(branches) => {
            branches.outputs.values_mut().for_each(&mut *visit);
            branches
                .ending
                .iter_mut()
                .for_each(|end| in_end(end, visit));
        }
        Work::Sleep(_) | Work::Wait(_) | Work::Turn(_) | Work::Block(_) | Work::While(_) => {}
    }
}

fn in_task(task: &mut WorkItem, visit: &mut dyn FnMut(&mut Value)) {
    match task {
        WorkItem::Ended { end, .. } | WorkItem::InputEnded { end, .. } => in_end(end, visit),
        WorkItem::Leave { exit, .. } => in_exit(exit, visit),
        WorkItem::Open { .. }
        | WorkItem::Fill { .. }
        | WorkItem::Timers
        | WorkItem::Turns { .. }
        | WorkItem::Outgoing { .. } => {}
    }
}

fn in_end(end: &mut End, visit: &mut dyn FnMut(&mut Value)) {
    match end {
        End::Done(value) => visit(value),
        End::Exit(exit) => in_exit(exit, visit),
    }
}

fn in_exit(exit: &mut Exit, visit: &mut dyn FnMut(&mut Value)) {
    match exit {
        Exit::Return(value) => visit(value),
        Exit::Failed(failure) => visit(&mut failure.detail),
        Exit::Break | Exit::Continue | Exit::Cancelled => {}
    }
}
