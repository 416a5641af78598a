//! Which queues the next claim asks for, and how much it may take. Queues without limits are
//! claimed together; one with a limit has a claim of its own, so that the limit holds. Lanes take
//! turns. Rates are asked of the store with the claim.

use std::collections::BTreeSet;

use lope_model::{QueueName, RunId, Span};
use lope_store::runs::ClaimedRun;

use crate::settings::{QueueLimit, Settings};

/// Queues that are claimed together.
#[derive(Debug)]
pub(super) struct ClaimLane {
    pub(super) queues: Vec<QueueName>,
    limit: QueueLimit,
    at_work: BTreeSet<RunId>,
}

/// All lanes, and whose turn it is.
#[derive(Debug)]
pub(super) struct ClaimLanes {
    all: Vec<ClaimLane>,
    next: usize,
    /// Lanes in a row that had nothing due, and the shortest pause that one of them asked for.
    idle: usize,
    pause: Option<Span>,
}

impl ClaimLanes {
    pub(super) fn new(settings: &Settings) -> Self {
        let is_limited = |queue: &QueueName| {
            settings
                .queue_limits
                .get(queue)
                .is_some_and(QueueLimit::holds_back)
        };
        let (limited, free): (Vec<QueueName>, Vec<QueueName>) =
            settings.queues.iter().cloned().partition(is_limited);
        let lane = |queues: Vec<QueueName>, limit| ClaimLane {
            queues,
            limit,
            at_work: BTreeSet::new(),
        };
        let mut lanes: Vec<ClaimLane> = limited
            .into_iter()
            .map(|queue| lane(vec![queue.clone()], settings.queue_limits[&queue].clone()))
            .collect();
        if !free.is_empty() || lanes.is_empty() {
            lanes.insert(0, lane(free, QueueLimit::default()));
        }
        Self {
            all: lanes,
            next: 0,
            idle: 0,
            pause: None,
        }
    }

    /// The lane to claim for now, and how many runs it has room for; those without room are passed
    /// over.
    pub(super) fn next(&mut self) -> Option<(&ClaimLane, usize)> {
        for _ in 0..self.all.len() {
            let room = self.all[self.next].room();
            if room > 0 {
                return Some((&self.all[self.next], room));
            }
            self.next = (self.next + 1) % self.all.len();
        }
        None
    }

    /// The claim of the lane whose turn it was is not answered: the others do not wait for it.
    pub(super) fn failed(&mut self) {
        self.next = (self.next + 1) % self.all.len();
    }

    /// The claim of the lane whose turn it was is answered: how long to pause before the next.
    pub(super) fn answered(&mut self, runs: &[ClaimedRun], pause: Span) -> Span {
        let lane = &mut self.all[self.next];
        lane.take(runs);
        self.next = (self.next + 1) % self.all.len();
        if !runs.is_empty() {
            (self.idle, self.pause) = (0, None);
            return Span::ZERO;
        }
        self.idle += 1;
        let shortest = self.pause.map_or(pause, |shortest| shortest.min(pause));
        if self.idle < self.all.len() {
            self.pause = Some(shortest);
            return Span::ZERO;
        }
        (self.idle, self.pause) = (0, None);
        shortest
    }

    /// Runs came besides those claimed.
    pub(super) fn found(&mut self, runs: &[ClaimedRun]) {
        for run in runs {
            let lane = self
                .all
                .iter_mut()
                .find(|lane| lane.is_bounded() && lane.queues.contains(&run.queue));
            if let Some(lane) = lane {
                lane.at_work.insert(run.run);
            }
        }
    }

    /// Runs left. True: a lane that was full has room now.
    pub(super) fn left(&mut self, runs: &[RunId]) -> bool {
        let mut freed = false;
        for lane in self.all.iter_mut().filter(|lane| lane.is_bounded()) {
            let was_full = lane.is_full();
            lane.at_work.retain(|run| !runs.contains(run));
            freed |= was_full && !lane.is_full();
        }
        freed
    }

    pub(super) fn clear(&mut self) {
        self.all.iter_mut().for_each(|lane| lane.at_work.clear());
        (self.next, self.idle, self.pause) = (0, 0, None);
    }
}

impl ClaimLane {
    /// Most runs of it that may be at work in the whole store.
    pub(super) fn most(&self) -> Option<u32> {
        self.limit.concurrency
    }

    fn is_bounded(&self) -> bool {
        self.limit.concurrency.is_some()
    }

    fn is_full(&self) -> bool {
        self.limit
            .concurrency
            .is_some_and(|most| self.at_work.len() >= most as usize)
    }

    /// How many runs may be taken now; a rate bounds the claim besides.
    fn room(&self) -> usize {
        self.limit.concurrency.map_or(usize::MAX, |most| {
            (most as usize).saturating_sub(self.at_work.len())
        })
    }

    fn take(&mut self, runs: &[ClaimedRun]) {
        if self.is_bounded() {
            self.at_work.extend(runs.iter().map(|run| run.run));
        }
    }
}
