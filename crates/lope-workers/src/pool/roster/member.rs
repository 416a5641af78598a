//! One worker as the roster sees it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lope_model::{Moment, Span};

use super::{ActionNames, TaskId};

/// Where a worker stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// Its process is on its way.
    Starting,
    Ready,
    /// Worn or stuck; it works on until its replacement is there.
    Retiring,
    /// It finishes what it has.
    Draining,
    /// Told to die.
    Dying,
}

/// A worker.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) stage: Stage,
    pub(super) remote: bool,
    pub(super) actions: ActionNames,
    pub(super) credits: usize,
    pub(super) in_flight: BTreeSet<TaskId>,
    /// Tasks that were told to end, and until when they may take.
    pub(super) cancelled: BTreeMap<TaskId, Moment>,
    /// Its only task is alone, until then.
    pub(super) alone_until: Option<Moment>,
    pub(super) served: u64,
    pub(super) last_heard: Moment,
    pub(super) blocked: Span,
    /// It holds a task that does not end; when it will be killed at the latest.
    pub(super) stuck_until: Option<Moment>,
    /// When it must have said its first word.
    pub(super) start_until: Option<Moment>,
}

impl Member {
    pub(super) fn starting(until: Moment) -> Self {
        let mut member = Self::ready(Moment(0), Arc::default(), 0, false);
        member.stage = Stage::Starting;
        member.start_until = Some(until);
        member
    }

    pub(super) fn ready(now: Moment, actions: ActionNames, credits: usize, remote: bool) -> Self {
        Self {
            stage: Stage::Ready,
            remote,
            actions,
            credits,
            in_flight: BTreeSet::new(),
            cancelled: BTreeMap::new(),
            alone_until: None,
            served: 0,
            last_heard: now,
            blocked: Span::ZERO,
            stuck_until: None,
            start_until: None,
        }
    }

    pub(super) fn serves(&self, action: &str) -> bool {
        self.actions.contains(action)
    }

    /// May it get tasks, now or when a credit comes back?
    pub(super) fn accepts(&self) -> bool {
        matches!(self.stage, Stage::Ready | Stage::Retiring) && self.stuck_until.is_none()
    }

    pub(super) fn is_free(&self) -> bool {
        self.accepts() && self.alone_until.is_none() && self.in_flight.len() < self.credits
    }

    /// Does it hold nothing but tasks that were told to end?
    pub(super) fn only_cancelled(&self) -> bool {
        self.in_flight
            .iter()
            .all(|task| self.cancelled.contains_key(task))
    }
}
