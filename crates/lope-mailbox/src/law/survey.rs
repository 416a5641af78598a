//! What the leases of a worker leave open: which messages may be taken, and between which places unleased ones can stand.

use std::collections::BTreeSet;
use std::fmt;

use lope_model::Moment;

use super::lease::{Claimer, Standing, standing};
use crate::key::{Lane, LeaseKey, Place};
use crate::record::{Lease, Owner};

/// A row of the lease table, with the bytes that guard it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeaseRow {
    pub key: LeaseKey,
    pub lease: Lease,
    pub bytes: Vec<u8>,
}

/// A part of a lane without a stretch: from a place up to another, without it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gap {
    pub from: Place,
    pub to: Option<Place>,
}

/// One lane of a worker, as its leases show it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Survey {
    /// Single messages that may be taken, in order.
    pub singles: Vec<LeaseRow>,
    /// Stretches whose holder is gone, in order.
    pub fallen: Vec<LeaseRow>,
    /// Places with a lease of their own, open or closed.
    pub leased: BTreeSet<Place>,
    /// Where stretches lie, open or closed, in order.
    pub stretches: Vec<(Place, Place)>,
    /// Leases that keep the claimer out.
    pub busy: usize,
    /// When the first of them ends.
    pub next: Option<Moment>,
}

/// Who asks, what it remembers of its own leases, and who is known to be gone.
pub struct Judge<'a> {
    pub claimer: &'a Claimer,
    pub remembers: &'a dyn Fn(&Lease) -> bool,
    pub is_gone: &'a dyn Fn(&Owner) -> bool,
}

impl fmt::Debug for Judge<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Judge").field("claimer", self.claimer).finish_non_exhaustive()
    }
}

impl Survey {
    /// Sort the leases of one lane. Rows come in the order of their keys.
    pub fn of(rows: &[LeaseRow], lane: Lane, judge: &Judge<'_>) -> Self {
        let mut survey = Self::default();
        for row in rows {
            match row.key {
                LeaseKey::Single(place) if place.lane() == lane => {
                    survey.leased.insert(place);
                    if survey.is_open(row, judge) {
                        survey.singles.push(row.clone());
                    }
                }
                LeaseKey::Stretch(first) if first.lane() == lane => {
                    survey.stretches.push((first, row.lease.through.unwrap_or(first)));
                    if survey.is_open(row, judge) {
                        survey.fallen.push(row.clone());
                    }
                }
                LeaseKey::Head | LeaseKey::Single(_) | LeaseKey::Stretch(_) => {}
            }
        }
        survey
    }

    fn is_open(&mut self, row: &LeaseRow, judge: &Judge<'_>) -> bool {
        if (judge.remembers)(&row.lease) {
            return false;
        }
        match standing(&row.lease, judge.claimer, judge.is_gone) {
            Standing::Open => true,
            Standing::Closed(until) => {
                self.busy += 1;
                self.next = Some(self.next.map_or(until, |next| next.min(until)));
                false
            }
        }
    }

    /// The parts of the lane from `from` up to `end` that no stretch covers, in order.
    pub fn gaps(&self, from: Place, end: Option<Place>) -> Vec<Gap> {
        let mut gaps = Vec::new();
        let mut at = Some(from);
        for (first, through) in &self.stretches {
            let Some(open) = at else { break };
            if *through < open {
                continue;
            }
            if open < *first {
                gaps.push(Gap { from: open, to: Some(*first) });
            }
            at = through.next();
        }
        gaps.extend(at.map(|from| Gap { from, to: None }));
        gaps.into_iter().filter_map(|gap| within(gap, end)).collect()
    }
}

fn within(gap: Gap, end: Option<Place>) -> Option<Gap> {
    let to = match (gap.to, end) {
        (Some(to), Some(end)) => Some(to.min(end)),
        (to, end) => to.or(end),
    };
    to.is_none_or(|to| gap.from < to).then_some(Gap { to, ..gap })
}

#[cfg(test)]
mod tests {
    use lope_model::{Epoch, Span};

    use super::*;
    use crate::law::lease::{fresh, waiting};

    fn claimer(name: &str, now: i64) -> Claimer {
        Claimer { owner: Owner::new(name).unwrap(), now: Moment(now), term: Span::from_millis(100), since: None }
    }

    fn row(key: LeaseKey, lease: Lease) -> LeaseRow {
        LeaseRow { key, bytes: lease.encode(), lease }
    }

    fn single(seq: u64, by: &str, at: i64) -> LeaseRow {
        row(LeaseKey::Single(Place::Inbox(seq)), fresh(&claimer(by, at), Epoch(1), None))
    }

    fn stretch(first: u64, last: u64, by: &str, at: i64) -> LeaseRow {
        let lease = fresh(&claimer(by, at), Epoch(1), Some(Place::Inbox(last)));
        row(LeaseKey::Stretch(Place::Inbox(first)), lease)
    }

    fn survey(rows: &[LeaseRow], now: i64) -> Survey {
        let judge = Judge { claimer: &claimer("me", now), remembers: &|_| false, is_gone: &|_| false };
        Survey::of(rows, Lane::Inbox, &judge)
    }

    fn gap(from: u64, to: Option<u64>) -> Gap {
        Gap { from: Place::Inbox(from), to: to.map(Place::Inbox) }
    }

    #[test]
    fn leases_are_sorted_into_open_and_closed() {
        let late = row(
            LeaseKey::Single(Place::Inbox(6)),
            waiting(&single(6, "b", 0).lease, Moment(40), Span::from_millis(30)),
        );
        let rows = [single(1, "b", 0), single(2, "me", 0), stretch(3, 5, "b", -60), late, stretch(8, 9, "b", 20)];
        let at_50 = survey(&rows, 50);
        assert_eq!(at_50.singles, [rows[1].clone()]);
        assert_eq!(at_50.fallen, [rows[2].clone()]);
        assert_eq!((at_50.busy, at_50.next), (3, Some(Moment(70))));
        assert_eq!(at_50.leased.len(), 3);
        let at_100 = survey(&rows, 100);
        assert_eq!((at_100.singles.len(), at_100.fallen.len(), at_100.next), (3, 1, Some(Moment(120))));
    }

    #[test]
    fn what_the_claimer_remembers_is_neither_open_nor_in_its_way() {
        let rows = [stretch(3, 5, "me", 0)];
        let judge = Judge { claimer: &claimer("me", 1), remembers: &|_| true, is_gone: &|_| false };
        let survey = Survey::of(&rows, Lane::Inbox, &judge);
        assert_eq!((survey.fallen.len(), survey.busy, survey.stretches.len()), (0, 0, 1));
    }

    #[test]
    fn gaps_lie_between_stretches() {
        let rows = [stretch(3, 5, "b", 0), stretch(6, 9, "b", 0), stretch(20, 20, "b", 0)];
        let survey = survey(&rows, 1);
        assert_eq!(survey.gaps(Place::Inbox(0), None), [gap(0, Some(3)), gap(10, Some(20)), gap(21, None)]);
        assert_eq!(survey.gaps(Place::Inbox(4), Some(Place::Inbox(15))), [gap(10, Some(15))]);
        assert_eq!(survey.gaps(Place::Inbox(30), None), [gap(30, None)]);
        assert_eq!(survey.gaps(Place::Inbox(0), Some(Place::Inbox(0))), []);
    }

    #[test]
    fn other_lanes_are_left_out() {
        let rows = [single(1, "b", 0), stretch(3, 5, "b", 0)];
        let judge = Judge { claimer: &claimer("me", 0), remembers: &|_| false, is_gone: &|_| false };
        assert_eq!(Survey::of(&rows, Lane::Timers, &judge), Survey::default());
    }
}
