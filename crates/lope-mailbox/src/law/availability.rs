//! What the leases of a worker leave open: which messages may be taken, and between which positions
//! unleased ones can stand.

use std::collections::BTreeSet;
use std::fmt;

use lope_model::Moment;

use super::lease::{Claimability, Claimer, claimability};
use crate::key::{LeaseKey, MessagePosition, MessageSource};
use crate::record::{Lease, Owner};

/// A row of the lease table, with the bytes that guard it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeaseRow {
    pub key: LeaseKey,
    pub lease: Lease,
    pub bytes: Vec<u8>,
}

/// A part of a source without a stretch: from a position up to another, without it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gap {
    pub from: MessagePosition,
    pub to: Option<MessagePosition>,
}

/// One source of a worker, as its leases show it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Availability {
    /// Single messages that may be taken, in order.
    pub singles: Vec<LeaseRow>,
    /// Stretches whose holder is gone, in order.
    pub abandoned: Vec<LeaseRow>,
    /// Places with a lease of their own, open or closed.
    pub leased: BTreeSet<MessagePosition>,
    /// Where stretches lie, open or closed, in order.
    pub stretches: Vec<(MessagePosition, MessagePosition)>,
    /// Leases that keep the claimer out.
    pub busy: usize,
    /// When the first of them ends.
    pub next: Option<Moment>,
}

/// Who asks, what it remembers of its own leases, and who is known to be gone.
pub struct ClaimFacts<'a> {
    pub claimer: &'a Claimer,
    pub remembers: &'a dyn Fn(&Lease) -> bool,
    pub is_gone: &'a dyn Fn(&Owner) -> bool,
}

impl fmt::Debug for ClaimFacts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClaimFacts")
            .field("claimer", self.claimer)
            .finish_non_exhaustive()
    }
}

impl Availability {
    /// Sort the leases of one source. Rows come in the order of their keys.
    pub fn of(rows: &[LeaseRow], source: MessageSource, facts: &ClaimFacts<'_>) -> Self {
        let mut availability = Self::default();
        for row in rows {
            match row.key {
                LeaseKey::Single(position) if position.source() == source => {
                    availability.leased.insert(position);
                    if availability.is_open(row, facts) {
                        availability.singles.push(row.clone());
                    }
                }
                LeaseKey::Stretch(first) if first.source() == source => {
                    availability
                        .stretches
                        .push((first, row.lease.through.unwrap_or(first)));
                    if availability.is_open(row, facts) {
                        availability.abandoned.push(row.clone());
                    }
                }
                LeaseKey::Head | LeaseKey::Single(_) | LeaseKey::Stretch(_) => {}
            }
        }
        availability
    }

    fn is_open(&mut self, row: &LeaseRow, facts: &ClaimFacts<'_>) -> bool {
        if (facts.remembers)(&row.lease) {
            return false;
        }
        match claimability(&row.lease, facts.claimer, facts.is_gone) {
            Claimability::Open => true,
            Claimability::Closed(until) => {
                self.busy += 1;
                self.next = Some(self.next.map_or(until, |next| next.min(until)));
                false
            }
        }
    }

    /// The parts of the source from `from` up to `end` that no stretch covers, in order.
    pub fn gaps(&self, from: MessagePosition, end: Option<MessagePosition>) -> Vec<Gap> {
        let mut gaps = Vec::new();
        let mut at = Some(from);
        for (first, through) in &self.stretches {
            let Some(open) = at else { break };
            if *through < open {
                continue;
            }
            if open < *first {
                gaps.push(Gap {
                    from: open,
                    to: Some(*first),
                });
            }
            at = through.next();
        }
        gaps.extend(at.map(|from| Gap { from, to: None }));
        gaps.into_iter()
            .filter_map(|gap| within(gap, end))
            .collect()
    }
}

fn within(gap: Gap, end: Option<MessagePosition>) -> Option<Gap> {
    let to = match (gap.to, end) {
        (Some(to), Some(end)) => Some(to.min(end)),
        (to, end) => to.or(end),
    };
    to.is_none_or(|to| gap.from < to)
        .then_some(Gap { to, ..gap })
}

#[cfg(test)]
mod tests {
    use lope_model::{Epoch, Span};

    use super::*;
    use crate::law::lease::{fresh, waiting};

    fn claimer(name: &str, now: i64) -> Claimer {
        Claimer {
            owner: Owner::new(name).unwrap(),
            now: Moment(now),
            term: Span::from_millis(100),
            since: None,
        }
    }

    fn row(key: LeaseKey, lease: Lease) -> LeaseRow {
        LeaseRow {
            key,
            bytes: lease.encode(),
            lease,
        }
    }

    fn single(seq: u64, by: &str, at: i64) -> LeaseRow {
        row(
            LeaseKey::Single(MessagePosition::Inbox(seq)),
            fresh(&claimer(by, at), Epoch(1), None),
        )
    }

    fn stretch(first: u64, last: u64, by: &str, at: i64) -> LeaseRow {
        let lease = fresh(
            &claimer(by, at),
            Epoch(1),
            Some(MessagePosition::Inbox(last)),
        );
        row(LeaseKey::Stretch(MessagePosition::Inbox(first)), lease)
    }

    fn availability(rows: &[LeaseRow], now: i64) -> Availability {
        let facts = ClaimFacts {
            claimer: &claimer("me", now),
            remembers: &|_| false,
            is_gone: &|_| false,
        };
        Availability::of(rows, MessageSource::Inbox, &facts)
    }

    fn gap(from: u64, to: Option<u64>) -> Gap {
        Gap {
            from: MessagePosition::Inbox(from),
            to: to.map(MessagePosition::Inbox),
        }
    }

    #[test]
    fn leases_are_sorted_into_open_and_closed() {
        let late = row(
            LeaseKey::Single(MessagePosition::Inbox(6)),
            waiting(&single(6, "b", 0).lease, Moment(40), Span::from_millis(30)),
        );
        let rows = [
            single(1, "b", 0),
            single(2, "me", 0),
            stretch(3, 5, "b", -60),
            late,
            stretch(8, 9, "b", 20),
        ];
        let at_50 = availability(&rows, 50);
        assert_eq!(at_50.singles, [rows[1].clone()]);
        assert_eq!(at_50.abandoned, [rows[2].clone()]);
        assert_eq!((at_50.busy, at_50.next), (3, Some(Moment(70))));
        assert_eq!(at_50.leased.len(), 3);
        let at_100 = availability(&rows, 100);
        assert_eq!(
            (at_100.singles.len(), at_100.abandoned.len(), at_100.next),
            (3, 1, Some(Moment(120)))
        );
    }

    #[test]
    fn what_the_claimer_remembers_is_neither_open_nor_in_its_way() {
        let rows = [stretch(3, 5, "me", 0)];
        let facts = ClaimFacts {
            claimer: &claimer("me", 1),
            remembers: &|_| true,
            is_gone: &|_| false,
        };
        let availability = Availability::of(&rows, MessageSource::Inbox, &facts);
        assert_eq!(
            (
                availability.abandoned.len(),
                availability.busy,
                availability.stretches.len()
            ),
            (0, 0, 1)
        );
    }

    #[test]
    fn gaps_lie_between_stretches() {
        let rows = [
            stretch(3, 5, "b", 0),
            stretch(6, 9, "b", 0),
            stretch(20, 20, "b", 0),
        ];
        let availability = availability(&rows, 1);
        assert_eq!(
            availability.gaps(MessagePosition::Inbox(0), None),
            [gap(0, Some(3)), gap(10, Some(20)), gap(21, None)]
        );
        assert_eq!(
            availability.gaps(MessagePosition::Inbox(4), Some(MessagePosition::Inbox(15))),
            [gap(10, Some(15))]
        );
        assert_eq!(
            availability.gaps(MessagePosition::Inbox(30), None),
            [gap(30, None)]
        );
        assert_eq!(
            availability.gaps(MessagePosition::Inbox(0), Some(MessagePosition::Inbox(0))),
            []
        );
    }

    #[test]
    fn other_lanes_are_left_out() {
        let rows = [single(1, "b", 0), stretch(3, 5, "b", 0)];
        let facts = ClaimFacts {
            claimer: &claimer("me", 0),
            remembers: &|_| false,
            is_gone: &|_| false,
        };
        assert_eq!(
            Availability::of(&rows, MessageSource::Timers, &facts),
            Availability::default()
        );
    }
}
