//! Drawing a batch: from the messages that were found, the oldest are taken, and the leases on them
//! are written down.
//!
//! Messages that stand together and have no lease yet share one row, a *stretch*, so that a batch
//! costs one write and not one a message; a message that stands alone, failed before or outlived
//! its holder has a row of its own.

use lope_model::Epoch;
use lope_store::tables::{Guard, Write};

use super::availability::LeaseRow;
use super::lease::{Claimer, fresh, taken};
use crate::key::{LeaseKey, MessagePosition, WorkerId};
use crate::record::Lease;

/// A message that was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReadMessage {
    pub position: MessagePosition,
    pub frame: Vec<u8>,
}

/// What was read of a stretch whose holder is gone: as many messages as one takeover takes, and
/// where the next one stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AbandonedStretch {
    pub row: LeaseRow,
    pub found: Vec<ReadMessage>,
    pub rest: Option<MessagePosition>,
}

/// All that was found of one source.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Candidates {
    /// Leases of single messages, and the messages, if they are still there.
    pub singles: Vec<(LeaseRow, Option<ReadMessage>)>,
    pub abandoned: Vec<AbandonedStretch>,
    /// Messages without a lease, by the gap they stand in.
    pub unleased: Vec<Vec<ReadMessage>>,
}

/// A lease that the claimer holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeldLease {
    pub key: LeaseKey,
    pub lease: Lease,
    pub bytes: Vec<u8>,
}

/// A message that was taken, and which of the leases covers it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlannedMessage {
    pub position: MessagePosition,
    pub frame: Vec<u8>,
    pub lease_index: usize,
}

/// What was taken, and what must be committed before any of it is handled.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClaimPlan {
    pub messages: Vec<PlannedMessage>,
    pub leases: Vec<HeldLease>,
    pub guards: Vec<Guard>,
    pub writes: Vec<Write>,
}

/// Draws from one source after the other into one claim.
#[derive(Debug)]
pub struct ClaimPlanner<'a> {
    pub worker: WorkerId,
    pub claimer: &'a Claimer,
    pub epoch: Epoch,
}

impl Candidates {
    /// The first position that is not taken when only `wanted` messages are; none when all are.
    fn cut(&self, wanted: usize) -> Option<MessagePosition> {
        let singles = self.singles.iter().filter_map(|(_, found)| found.as_ref());
        let abandoned = self.abandoned.iter().flat_map(|abandoned| &abandoned.found);
        let positions = singles
            .chain(abandoned)
            .chain(self.unleased.iter().flatten())
            .map(|found| found.position);
        let mut positions: Vec<MessagePosition> = positions.collect();
        (positions.len() > wanted).then(|| *positions.select_nth_unstable(wanted).1)
    }
}

impl ClaimPlanner<'_> {
    /// Take the oldest `wanted` messages.
    pub fn plan(&self, candidates: Candidates, wanted: usize, plan: &mut ClaimPlan) {
        let cut = candidates.cut(wanted);
        let is_taken = |found: &ReadMessage| cut.is_none_or(|cut| found.position < cut);
        for (row, found) in candidates.singles {
            match found {
                Some(found) if is_taken(&found) => self.take_single(&row, found, plan),
                Some(_) => {}
                None => self.forget(&row, plan),
            }
        }
        for mut abandoned in candidates.abandoned {
            let left = abandoned
                .found
                .split_off(abandoned.found.partition_point(is_taken));
            abandoned.rest = left.first().map(|found| found.position).or(abandoned.rest);
            self.take_abandoned(abandoned, plan);
        }
        for mut found in candidates.unleased {
            found.truncate(found.partition_point(is_taken));
            self.take_unleased(found, plan);
        }
    }

    fn take_single(&self, row: &LeaseRow, found: ReadMessage, plan: &mut ClaimPlan) {
        let lease = taken(&row.lease, self.claimer, self.epoch, None);
        plan.guards
            .push(Guard::Equals(row.key.at(self.worker), row.bytes.clone()));
        self.hold(row.key, lease, vec![found], plan);
    }

    /// Take the first part of a stretch; what is left of it stays as it was, for the next claim.
    fn take_abandoned(&self, abandoned: AbandonedStretch, plan: &mut ClaimPlan) {
        let AbandonedStretch { row, found, rest } = abandoned;
        if found.is_empty() {
            if rest.is_none() {
                self.forget(&row, plan);
            }
            return;
        }
        self.forget(&row, plan);
        if let Some(rest) = rest {
            plan.writes.push(Write::Put(
                LeaseKey::Stretch(rest).at(self.worker),
                row.bytes.clone(),
            ));
        }
        let (key, through) = covering(&found);
        self.hold(
            key,
            taken(&row.lease, self.claimer, self.epoch, through),
            found,
            plan,
        );
    }

    fn take_unleased(&self, found: Vec<ReadMessage>, plan: &mut ClaimPlan) {
        if found.is_empty() {
            return;
        }
        let (key, through) = covering(&found);
        if through.is_none() {
            plan.guards.push(Guard::Absent(key.at(self.worker)));
        }
        self.hold(key, fresh(self.claimer, self.epoch, through), found, plan);
    }

    fn hold(&self, key: LeaseKey, lease: Lease, found: Vec<ReadMessage>, plan: &mut ClaimPlan) {
        let bytes = lease.encode();
        let lease_index = plan.leases.len();
        plan.writes
            .push(Write::Put(key.at(self.worker), bytes.clone()));
        plan.leases.push(HeldLease { key, lease, bytes });
        plan.messages
            .extend(
                found
                    .into_iter()
                    .map(|ReadMessage { position, frame }| PlannedMessage {
                        position,
                        frame,
                        lease_index,
                    }),
            );
    }

    /// Remove a lease row that was read.
    fn forget(&self, row: &LeaseRow, plan: &mut ClaimPlan) {
        let at = row.key.at(self.worker);
        plan.guards
            .push(Guard::Equals(at.clone(), row.bytes.clone()));
        plan.writes.push(Write::Delete(at));
    }
}

/// The key and the last position of a lease on these messages: a stretch, or the message's own if
/// it is only one.
fn covering(found: &[ReadMessage]) -> (LeaseKey, Option<MessagePosition>) {
    match found {
        [one] => (LeaseKey::Single(one.position), None),
        [first, .., last] => (LeaseKey::Stretch(first.position), Some(last.position)),
        [] => unreachable!("nobody leases no message"),
    }
}

#[cfg(test)]
mod tests {
    use lope_model::{Moment, Span};
    use lope_store::tables::At;

    use super::*;
    use crate::law::lease::waiting;
    use crate::record::Owner;

    fn claimer(name: &str, now: i64) -> Claimer {
        Claimer {
            owner: Owner::new(name).unwrap(),
            now: Moment(now),
            term: Span::from_millis(100),
            since: None,
        }
    }

    fn worker() -> WorkerId {
        WorkerId::new(7).unwrap()
    }

    fn found(positions: &[u64]) -> Vec<ReadMessage> {
        positions
            .iter()
            .map(|seq| ReadMessage {
                position: MessagePosition::Inbox(*seq),
                frame: vec![*seq as u8],
            })
            .collect()
    }

    fn row(key: LeaseKey, lease: Lease) -> LeaseRow {
        LeaseRow {
            key,
            bytes: lease.encode(),
            lease,
        }
    }

    fn single(seq: u64) -> LeaseRow {
        let held = fresh(&claimer("b", 0), Epoch(1), None);
        row(
            LeaseKey::Single(MessagePosition::Inbox(seq)),
            waiting(&held, Moment(0), Span::ZERO),
        )
    }

    fn stretch(first: u64, last: u64) -> LeaseRow {
        row(
            LeaseKey::Stretch(MessagePosition::Inbox(first)),
            fresh(
                &claimer("b", 0),
                Epoch(1),
                Some(MessagePosition::Inbox(last)),
            ),
        )
    }

    fn planned(candidates: Candidates, wanted: usize) -> ClaimPlan {
        let mut plan = ClaimPlan::default();
        ClaimPlanner {
            worker: worker(),
            claimer: &claimer("me", 500),
            epoch: Epoch(9),
        }
        .plan(candidates, wanted, &mut plan);
        plan
    }

    fn positions(plan: &ClaimPlan) -> Vec<MessagePosition> {
        let mut positions: Vec<MessagePosition> = plan
            .messages
            .iter()
            .map(|message| message.position)
            .collect();
        positions.sort_unstable();
        positions
    }

    fn inbox(seqs: &[u64]) -> Vec<MessagePosition> {
        seqs.iter()
            .map(|seq| MessagePosition::Inbox(*seq))
            .collect()
    }

    fn put(plan: &ClaimPlan, key: LeaseKey) -> Option<Lease> {
        let at: At = key.at(worker());
        plan.writes.iter().find_map(|write| match write {
            Write::Put(to, bytes) if *to == at => Some(Lease::decode(bytes).unwrap()),
            _ => None,
        })
    }

    #[test]
    fn messages_that_stand_together_share_one_row() {
        let plan = planned(
            Candidates {
                unleased: vec![found(&[3, 4, 9]), found(&[20])],
                ..Candidates::default()
            },
            10,
        );
        assert_eq!(positions(&plan), inbox(&[3, 4, 9, 20]));
        assert_eq!(plan.writes.len(), 2);
        let lease = put(&plan, LeaseKey::Stretch(MessagePosition::Inbox(3))).unwrap();
        assert_eq!(
            (lease.through, lease.attempts, lease.epoch),
            (Some(MessagePosition::Inbox(9)), 1, Epoch(9))
        );
        assert_eq!(
            put(&plan, LeaseKey::Single(MessagePosition::Inbox(20)))
                .unwrap()
                .through,
            None
        );
    }

    /// "Poll takes the lowest sequence of *this* worker, up to the batch"
    #[test]
    fn the_lowest_are_taken_wherever_they_come_from() {
        let candidates = Candidates {
            singles: vec![
                (single(2), found(&[2]).pop()),
                (single(8), found(&[8]).pop()),
            ],
            abandoned: vec![AbandonedStretch {
                row: stretch(3, 6),
                found: found(&[3, 5]),
                rest: None,
            }],
            unleased: vec![found(&[1, 7, 9])],
        };
        assert_eq!(
            positions(&planned(candidates.clone(), 3)),
            inbox(&[1, 2, 3])
        );
        assert_eq!(
            positions(&planned(candidates, 99)),
            inbox(&[1, 2, 3, 5, 7, 8, 9])
        );
    }

    #[test]
    fn what_is_left_of_a_fallen_stretch_stays_for_the_next_claim() {
        let abandoned = AbandonedStretch {
            row: stretch(3, 90),
            found: found(&[3, 5]),
            rest: Some(MessagePosition::Inbox(6)),
        };
        let plan = planned(
            Candidates {
                abandoned: vec![abandoned.clone()],
                ..Candidates::default()
            },
            10,
        );
        let mine = put(&plan, LeaseKey::Stretch(MessagePosition::Inbox(3))).unwrap();
        assert_eq!(
            (mine.attempts, mine.lost, mine.through),
            (2, 1, Some(MessagePosition::Inbox(5)))
        );
        assert_eq!(
            put(&plan, LeaseKey::Stretch(MessagePosition::Inbox(6))),
            Some(abandoned.row.lease.clone())
        );
        assert_eq!(
            plan.guards,
            [Guard::Equals(
                abandoned.row.key.at(worker()),
                abandoned.row.bytes.clone()
            )]
        );
        let cut = planned(
            Candidates {
                abandoned: vec![abandoned.clone()],
                ..Candidates::default()
            },
            1,
        );
        assert_eq!(positions(&cut), inbox(&[3]));
        assert_eq!(
            put(&cut, LeaseKey::Stretch(MessagePosition::Inbox(5))),
            Some(abandoned.row.lease)
        );
    }

    #[test]
    fn leases_on_what_is_gone_are_removed() {
        let gone = AbandonedStretch {
            row: stretch(3, 9),
            found: vec![],
            rest: None,
        };
        let plan = planned(
            Candidates {
                singles: vec![(single(2), None)],
                abandoned: vec![gone],
                ..Candidates::default()
            },
            4,
        );
        let deletes = plan
            .writes
            .iter()
            .filter(|write| matches!(write, Write::Delete(_)))
            .count();
        assert_eq!((plan.messages.len(), deletes, plan.guards.len()), (0, 2, 2));
    }

    #[test]
    fn nothing_is_written_for_what_is_not_taken() {
        let candidates = Candidates {
            singles: vec![(single(5), found(&[5]).pop())],
            unleased: vec![found(&[1])],
            ..Candidates::default()
        };
        let plan = planned(candidates, 1);
        assert_eq!((positions(&plan), plan.writes.len()), (inbox(&[1]), 1));
    }
}
