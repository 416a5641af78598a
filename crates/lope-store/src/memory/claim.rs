//! `claim`: the heads of all lanes that the runner can serve, merged by priority and due time.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, btree_set};

use lope_model::{Priority, RunId, Timestamp, limit};

use super::queue_index::{ClaimLane, DueRuns};
use super::state::RunState;
use crate::clock::Reading;
use crate::runs::{Claim, Claimed, ClaimedRun, SessionLost, SessionResult};

/// What goes first: highest priority, then earliest due. The lane's number finds the next one of
/// the same lane.
type LaneHead = Reverse<(Reverse<Priority>, Timestamp, RunId, usize)>;

/// Due runs of several lanes in the order of claims.
struct Merge<'a> {
    lanes: Vec<(Priority, btree_set::Iter<'a, (Timestamp, RunId)>)>,
    heads: BinaryHeap<LaneHead>,
    now: Timestamp,
    /// When the first run that is not due yet will be.
    next_due: Option<Timestamp>,
}

impl RunState {
    pub(super) fn claim(&mut self, claim: &Claim, reading: Reading) -> SessionResult<Claimed> {
        if !self.is_held(claim.runner, reading.moment) {
            return Err(SessionLost);
        }
        let (picked, next_due) = if claim.only.is_empty() {
            let limit = claim.limit.min(self.room(claim));
            self.pick(
                &Claim {
                    limit,
                    ..claim.clone()
                },
                reading.now,
            )
        } else {
            self.pick_named(claim, reading.now)
        };
        let runs = picked
            .into_iter()
            .filter_map(|run| self.take(run, claim, reading.now))
            .collect();
        Ok(Claimed {
            now: reading.now,
            runs,
            next_due,
        })
    }

    fn take(&mut self, run: RunId, claim: &Claim, now: Timestamp) -> Option<ClaimedRun> {
        self.change(run, |entry| {
            entry.hand_to(Some(claim.runner));
            entry.record.started_at.get_or_insert(now);
            entry.claimed()
        })
    }

    /// How many more runs of the claim's queues may have an owner.
    fn room(&self, claim: &Claim) -> usize {
        let Some(most) = claim.most else {
            return usize::MAX;
        };
        let owned = self
            .queue_index
            .owners()
            .flat_map(|(_, holding)| &holding.runs);
        let counts = |run: &&RunId| {
            self.runs
                .get(run)
                .is_some_and(|entry| claim.queues.contains(&entry.record.queue))
        };
        (most as usize).saturating_sub(owned.filter(counts).count())
    }

    /// The runs to take, and when to come again if those are all that are due.
    fn pick(&self, claim: &Claim, now: Timestamp) -> (Vec<RunId>, Option<Timestamp>) {
        let mut merge = Merge::new(self.queue_index.lanes_for(claim), now);
        let (mut picked, mut weight) = (Vec::new(), 0_u64);
        while let Some(run) = merge.next() {
            weight = weight.saturating_add(
                self.runs
                    .get(&run)
                    .map_or(0, |entry| u64::from(entry.weight)),
            );
            let is_full = picked.len() >= claim.limit.min(limit::CLAIM_MAX);
            if is_full || (!picked.is_empty() && weight > claim.weight) {
                return (picked, None);
            }
            picked.push(run);
        }
        (picked, merge.next_due)
    }
}

impl RunState {
    /// Of the runs that the claim names, those that are free and due.
    fn pick_named(&self, claim: &Claim, now: Timestamp) -> (Vec<RunId>, Option<Timestamp>) {
        let (mut picked, mut next_due): (Vec<RunId>, Option<Timestamp>) = (Vec::new(), None);
        let named: BTreeSet<RunId> = claim.only.iter().copied().collect();
        for entry in named.iter().filter_map(|run| self.runs.get(run)) {
            let record = &entry.record;
            let is_free = entry.is_live() && record.owner.is_none() && record.parked.is_none();
            match record.due.filter(|_| is_free && record.law <= claim.law) {
                Some(due) if due <= now => picked.push(record.run),
                Some(due) if due < Timestamp::NEVER => {
                    next_due = Some(next_due.map_or(due, |next| next.min(due)));
                }
                Some(_) | None => {}
            }
        }
        picked.truncate(claim.limit.min(limit::CLAIM_MAX));
        (picked, next_due)
    }
}

impl<'a> Merge<'a> {
    fn new(lanes: Vec<(&'a ClaimLane, &'a DueRuns)>, now: Timestamp) -> Self {
        let lanes: Vec<_> = lanes
            .into_iter()
            .map(|(lane, runs)| (lane.priority, runs.iter()))
            .collect();
        let mut merge = Self {
            heads: BinaryHeap::with_capacity(lanes.len()),
            lanes,
            now,
            next_due: None,
        };
        for number in 0..merge.lanes.len() {
            merge.peek(number);
        }
        merge
    }

    fn next(&mut self) -> Option<RunId> {
        let Reverse((_, _, run, number)) = self.heads.pop()?;
        self.peek(number);
        Some(run)
    }

    /// A lane's next run goes among the heads if it is due, or says when to come again.
    fn peek(&mut self, number: usize) {
        let (priority, runs) = &mut self.lanes[number];
        let Some(&(due, run)) = runs.next() else {
            return;
        };
        if due <= self.now {
            self.heads
                .push(Reverse((Reverse(*priority), due, run, number)));
        } else if due < Timestamp::NEVER {
            self.next_due = Some(self.next_due.map_or(due, |earlier| earlier.min(due)));
        }
    }
}
