//! Receiving events: which of them say something to a run, and what each sets in motion.

use lope_model::RunId;

use super::event::{Event, EventKind};
use super::machine::Machine;
use super::state::{Begun, Life, WorkItem};

impl Machine<'_> {
    /// Does the event say anything to this run? Duplicates, late outcomes and what comes after the
    /// end do not.
    pub(crate) fn concerns(&self, event: &Event) -> bool {
        let state = &*self.state;
        match (&state.life, &event.kind) {
            (Life::Fresh, kind) => matches!(kind, EventKind::Start(_)),
            (Life::Failed(_), EventKind::Retry { .. }) => state.halted.is_some(),
            (Life::Failed(_), EventKind::Forked { run, .. }) => self.is_another(*run),
            (Life::Completed | Life::Cancelled | Life::Failed(_), _) | (_, EventKind::Start(_)) => {
                false
            }
            (life @ (Life::Live | Life::Cancelling), kind) => {
                self.concerns_live(*life == Life::Live, event, kind)
            }
        }
    }

    fn concerns_live(&self, live: bool, event: &Event, kind: &EventKind) -> bool {
        let state = &*self.state;
        match kind {
            EventKind::Start(_) | EventKind::Retry { .. } => false,
            EventKind::Input(fed) => {
                let mut known = state
                    .inputs
                    .values()
                    .map(|input| &input.fed)
                    .chain(&state.queue);
                live && !state.closed && !known.any(|other| other.id == fed.id)
            }
            EventKind::Outcome(it) => self
                .find_in_flight(&it.execution, it.attempt, it.epoch)
                .is_some(),
            EventKind::Refused {
                execution,
                attempt,
                epoch,
                ..
            }
            | EventKind::Dispatched {
                execution,
                attempt,
                epoch,
            }
            | EventKind::Returned {
                execution,
                attempt,
                epoch,
            } => self.find_in_flight(execution, *attempt, *epoch).is_some(),
            EventKind::Child {
                execution, child, ..
            } => self.waits_for_child(execution, *child).is_some(),
            EventKind::Timer => state
                .next_wake()
                .is_some_and(|due| due <= event.at.max(state.at)),
            EventKind::Signal { .. } | EventKind::Cancel { .. } => true,
            EventKind::Pause { .. } => live && state.paused.is_none(),
            EventKind::Resume => state.paused.is_some(),
            EventKind::Adopted { epoch, .. } => *epoch > state.epoch,
            EventKind::Close => live && self.is_open() && !state.closed,
            EventKind::Forked { run, .. } => self.is_another(*run),
        }
    }

    fn is_another(&self, run: RunId) -> bool {
        self.state
            .run
            .as_ref()
            .is_some_and(|identity| identity.id != run)
    }

    /// Takes an event that concerns the run.
    pub(crate) fn receive(&mut self, event: Event) {
        self.state.at = self.state.at.max(event.at);
        self.state.busy = true;
        self.state.mix_event(&event);
        match event.kind {
            EventKind::Start(start) => self.start_run(*start),
            EventKind::Input(fed) => self.feed(*fed),
            EventKind::Outcome(it) => {
                if let Some(exec) = self.find_in_flight(&it.execution, it.attempt, it.epoch) {
                    self.attempt_ended(exec, it.result);
                }
            }
            EventKind::Timer => self.enqueue(WorkItem::Timers),
            EventKind::Signal { name, value } => self.signal(name, value),
            EventKind::Child {
                execution,
                child,
                result,
            } => {
                if let Some(exec) = self.waits_for_child(&execution, child) {
                    self.attempt_ended(exec, result);
                }
            }
            EventKind::Cancel { force } => self.cancel_run(force),
            EventKind::Pause { reason } => {
                self.state.paused = Some(reason.unwrap_or_else(|| "asked to".into()));
            }
            EventKind::Resume => self.state.paused = None,
            EventKind::Adopted { epoch, budget } => self.adopt(epoch, budget),
            EventKind::Refused {
                execution,
                attempt,
                epoch,
                until,
                reason,
            } => {
                if let Some(exec) = self.find_in_flight(&execution, attempt, epoch) {
                    self.refused(exec, until, reason);
                }
            }
            EventKind::Dispatched {
                execution,
                attempt,
                epoch,
            } => {
                if let Some(exec) = self.find_in_flight(&execution, attempt, epoch) {
                    self.knows_begun(exec, Begun::Yes);
                }
            }
            EventKind::Returned {
                execution,
                attempt,
                epoch,
            } => {
                if let Some(exec) = self.find_in_flight(&execution, attempt, epoch) {
                    self.knows_begun(exec, Begun::No);
                }
            }
            EventKind::Retry { epoch } => self.retry(epoch),
            EventKind::Close => self.close(),
            EventKind::Forked { run, epoch } => self.fork(run, epoch),
        }
    }
}
