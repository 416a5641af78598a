//! The events of a space, in the order they came, and what became of those that are done.
//!
//! An event whose stream nobody handles lets the others pass and waits for a while. An event that
//! is delivered again gets the receipt it had; one that nobody handled gets another try.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use lope_model::{Failure, Timestamp};

use super::command::SpaceCommand;
use crate::limit;
use lope_cells::address::CellAddress;
use lope_cells::json::Json;

/// Something that was sent to a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamEvent {
    /// Given by the sender; an event with the same id is the same event.
    pub id: Arc<str>,
    pub stream: CellAddress,
    pub payload: Json,
}

/// Something that waits for its turn: an event of a stream, or a command.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrival {
    Event(StreamEvent),
    Command(SpaceCommand),
}

impl Arrival {
    pub fn id(&self) -> &Arc<str> {
        match self {
            Self::Event(event) => &event.id,
            Self::Command(command) => &command.id,
        }
    }

    /// The stream whose handler it waits for.
    fn stream(&self) -> Option<&CellAddress> {
        match self {
            Self::Event(event) => Some(&event.stream),
            Self::Command(_) => None,
        }
    }
}

/// What became of an event.
#[derive(Clone, Debug, PartialEq)]
pub struct EventReceipt {
    pub event: Arc<str>,
    pub outcome: EventOutcome,
}

impl EventReceipt {
    /// Whether nobody handled the event.
    pub fn is_dead(&self) -> bool {
        match self.outcome {
            EventOutcome::NoHandler => true,
            EventOutcome::Handled | EventOutcome::Failed(_) => false,
        }
    }
}

/// How an event ended.
#[derive(Clone, Debug, PartialEq)]
pub enum EventOutcome {
    /// Its handler's writes are saved with this receipt.
    Handled,
    /// Its handler failed and wrote nothing.
    Failed(Failure),
    /// Nobody handled its stream for too long; it is with the dead letters.
    NoHandler,
}

/// What is done with an event that arrives.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Offered {
    Queued,
    /// Nobody handled it before; it is in the line again.
    Again,
    /// It is in the line already.
    Known,
    Done(EventReceipt),
    /// Too many wait for its stream.
    Full,
}

#[derive(Debug, Default)]
pub(super) struct EventQueue {
    line: VecDeque<(Timestamp, Arrival)>,
    queued: BTreeSet<Arc<str>>,
    backlog: BTreeMap<CellAddress, usize>,
    receipts: BTreeMap<Arc<str>, EventReceipt>,
    oldest: VecDeque<Arc<str>>,
}

impl EventQueue {
    pub(super) fn offer(&mut self, now: Timestamp, arrival: Arrival) -> Offered {
        let known = self.receipts.get(arrival.id());
        let is_dead = known.is_some_and(EventReceipt::is_dead);
        if let Some(receipt) = known.filter(|_| !is_dead) {
            return Offered::Done(receipt.clone());
        }
        if self.queued.contains(arrival.id()) {
            return Offered::Known;
        }
        if let Some(stream) = arrival.stream() {
            let backlog = self.backlog.entry(stream.clone()).or_default();
            if *backlog >= limit::BACKLOG_MAX {
                return Offered::Full;
            }
            *backlog += 1;
        }
        if is_dead {
            self.receipts.remove(arrival.id());
            self.oldest.retain(|id| id != arrival.id());
        }
        self.queued.insert(arrival.id().clone());
        self.line.push_back((now, arrival));
        if is_dead {
            Offered::Again
        } else {
            Offered::Queued
        }
    }

    /// Puts an event that could not be handled yet before all others.
    pub(super) fn put_back(&mut self, now: Timestamp, event: StreamEvent) {
        *self.backlog.entry(event.stream.clone()).or_default() += 1;
        self.queued.insert(event.id.clone());
        self.line.push_front((now, Arrival::Event(event)));
    }

    /// The first command, or event that somebody handles.
    pub(super) fn take(&mut self, is_handled: impl Fn(&CellAddress) -> bool) -> Option<Arrival> {
        let mut line = self.line.iter();
        let index = line.position(|(_, arrival)| arrival.stream().is_none_or(&is_handled))?;
        self.remove(index)
    }

    /// The first event that waited too long for somebody who handles it.
    pub(super) fn take_expired(
        &mut self,
        now: Timestamp,
        is_handled: impl Fn(&CellAddress) -> bool,
    ) -> Option<StreamEvent> {
        let mut line = self.line.iter();
        let index = line.position(|(since, arrival)| {
            let is_handled = arrival.stream().is_none_or(&is_handled);
            since.plus(limit::HANDLER_WAIT) <= now && !is_handled
        })?;
        match self.remove(index)? {
            Arrival::Event(event) => Some(event),
            Arrival::Command(_) => None,
        }
    }

    /// When the first event will have waited too long.
    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        let first = self.line.front();
        first.map(|(since, _)| since.plus(limit::HANDLER_WAIT))
    }

    pub(super) fn has(&self, is_handled: impl Fn(&CellAddress) -> bool) -> bool {
        let mut line = self.line.iter();
        line.any(|(_, arrival)| arrival.stream().is_none_or(&is_handled))
    }

    /// Whether an event or a command is in the line.
    pub(super) fn is_queued(&self, id: &str) -> bool {
        self.queued.contains(id)
    }

    /// Remembers what became of an event, and forgets the oldest of too many.
    pub(super) fn remember(&mut self, receipt: EventReceipt) {
        self.oldest.push_back(receipt.event.clone());
        self.receipts.insert(receipt.event.clone(), receipt);
        if self.oldest.len() > limit::RECEIPTS_MAX
            && let Some(oldest) = self.oldest.pop_front()
        {
            self.receipts.remove(&oldest);
        }
    }

    /// Sends events that wait on to where their streams lead by now.
    pub(super) fn readdress(&mut self, lead: impl Fn(&CellAddress) -> Option<CellAddress>) {
        for (_, arrival) in &mut self.line {
            let Arrival::Event(event) = arrival else {
                continue;
            };
            let stream = lead(&event.stream);
            let Some(stream) = stream.filter(|stream| *stream != event.stream) else {
                continue;
            };
            leave(&mut self.backlog, &event.stream);
            *self.backlog.entry(stream.clone()).or_default() += 1;
            event.stream = stream;
        }
    }

    fn remove(&mut self, index: usize) -> Option<Arrival> {
        let (_, arrival) = self.line.remove(index)?;
        self.queued.remove(arrival.id());
        if let Some(stream) = arrival.stream() {
            leave(&mut self.backlog, stream);
        }
        Some(arrival)
    }
}

/// One event less waits for a stream.
fn leave(backlog: &mut BTreeMap<CellAddress, usize>, stream: &CellAddress) {
    if let Some(waiting) = backlog.get_mut(stream) {
        *waiting -= 1;
        if *waiting == 0 {
            backlog.remove(stream);
        }
    }
}
