//! Drawing a batch: from the messages that were found, the oldest are taken, and the leases on them are written down.
//!
//! Messages that stand together and have no lease yet share one row, a *stretch*, so that a batch costs one write and not
//! one a message; a message that stands alone, failed before or outlived its holder has a row of its own.

use lope_model::Epoch;
use lope_store::tables::{Guard, Write};

use super::lease::{Claimer, fresh, taken};
use super::survey::LeaseRow;
use crate::key::{LeaseKey, Place, WorkerId};
use crate::record::Lease;

/// A message that was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    pub place: Place,
    pub frame: Vec<u8>,
}

/// What was read of a stretch whose holder is gone: as many messages as one takeover takes, and where the next one stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fallen {
    pub row: LeaseRow,
    pub found: Vec<Found>,
    pub rest: Option<Place>,
}

/// All that was found of one lane.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Finds {
    /// Leases of single messages, and the messages, if they are still there.
    pub singles: Vec<(LeaseRow, Option<Found>)>,
    pub fallen: Vec<Fallen>,
    /// Messages without a lease, by the gap they stand in.
    pub unleased: Vec<Vec<Found>>,
}

/// A lease that the claimer holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holding {
    pub key: LeaseKey,
    pub lease: Lease,
    pub bytes: Vec<u8>,
}

/// A message that was taken, and which of the holdings covers it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Drawn {
    pub place: Place,
    pub frame: Vec<u8>,
    pub holding: usize,
}

/// What was taken, and what must be committed before any of it is handled.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Draw {
    pub messages: Vec<Drawn>,
    pub holdings: Vec<Holding>,
    pub guards: Vec<Guard>,
    pub writes: Vec<Write>,
}

/// Draws from one lane after the other into one claim.
#[derive(Debug)]
pub struct Drawer<'a> {
    pub worker: WorkerId,
    pub claimer: &'a Claimer,
    pub epoch: Epoch,
}

impl Finds {
    /// The first place that is not taken when only `wanted` messages are; none when all are.
    fn cut(&self, wanted: usize) -> Option<Place> {
        let singles = self.singles.iter().filter_map(|(_, found)| found.as_ref());
        let fallen = self.fallen.iter().flat_map(|fallen| &fallen.found);
        let places = singles.chain(fallen).chain(self.unleased.iter().flatten()).map(|found| found.place);
        let mut places: Vec<Place> = places.collect();
        (places.len() > wanted).then(|| *places.select_nth_unstable(wanted).1)
    }
}

impl Drawer<'_> {
    /// Take the oldest `wanted` messages.
    pub fn draw(&self, finds: Finds, wanted: usize, draw: &mut Draw) {
        let cut = finds.cut(wanted);
        let is_taken = |found: &Found| cut.is_none_or(|cut| found.place < cut);
        for (row, found) in finds.singles {
            match found {
                Some(found) if is_taken(&found) => self.take_single(&row, found, draw),
                Some(_) => {}
                None => self.forget(&row, draw),
            }
        }
        for mut fallen in finds.fallen {
            let left = fallen.found.split_off(fallen.found.partition_point(is_taken));
            fallen.rest = left.first().map(|found| found.place).or(fallen.rest);
            self.take_fallen(fallen, draw);
        }
        for mut found in finds.unleased {
            found.truncate(found.partition_point(is_taken));
            self.take_unleased(found, draw);
        }
    }

    fn take_single(&self, row: &LeaseRow, found: Found, draw: &mut Draw) {
        let lease = taken(&row.lease, self.claimer, self.epoch, None);
        draw.guards.push(Guard::Equals(row.key.at(self.worker), row.bytes.clone()));
        self.hold(row.key, lease, vec![found], draw);
    }

    /// Take the first part of a stretch; what is left of it stays as it was, for the next claim.
    fn take_fallen(&self, fallen: Fallen, draw: &mut Draw) {
        let Fallen { row, found, rest } = fallen;
        if found.is_empty() {
            if rest.is_none() {
                self.forget(&row, draw);
            }
            return;
        }
        self.forget(&row, draw);
        if let Some(rest) = rest {
            draw.writes.push(Write::Put(LeaseKey::Stretch(rest).at(self.worker), row.bytes.clone()));
        }
        let (key, through) = covering(&found);
        self.hold(key, taken(&row.lease, self.claimer, self.epoch, through), found, draw);
    }

    fn take_unleased(&self, found: Vec<Found>, draw: &mut Draw) {
        if found.is_empty() {
            return;
        }
        let (key, through) = covering(&found);
        if through.is_none() {
            draw.guards.push(Guard::Absent(key.at(self.worker)));
        }
        self.hold(key, fresh(self.claimer, self.epoch, through), found, draw);
    }

    fn hold(&self, key: LeaseKey, lease: Lease, found: Vec<Found>, draw: &mut Draw) {
        let (bytes, holding) = (lease.encode(), draw.holdings.len());
        draw.writes.push(Write::Put(key.at(self.worker), bytes.clone()));
        draw.holdings.push(Holding { key, lease, bytes });
        draw.messages.extend(found.into_iter().map(|Found { place, frame }| Drawn { place, frame, holding }));
    }

    /// Remove a lease row that was read.
    fn forget(&self, row: &LeaseRow, draw: &mut Draw) {
        let at = row.key.at(self.worker);
        draw.guards.push(Guard::Equals(at.clone(), row.bytes.clone()));
        draw.writes.push(Write::Delete(at));
    }
}

/// The key and the last place of a lease on these messages: a stretch, or the message's own if it is only one.
fn covering(found: &[Found]) -> (LeaseKey, Option<Place>) {
    match found {
        [one] => (LeaseKey::Single(one.place), None),
        [first, .., last] => (LeaseKey::Stretch(first.place), Some(last.place)),
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
        Claimer { owner: Owner::new(name).unwrap(), now: Moment(now), term: Span::from_millis(100), since: None }
    }

    fn worker() -> WorkerId {
        WorkerId::new(7).unwrap()
    }

    fn found(places: &[u64]) -> Vec<Found> {
        places.iter().map(|seq| Found { place: Place::Inbox(*seq), frame: vec![*seq as u8] }).collect()
    }

    fn row(key: LeaseKey, lease: Lease) -> LeaseRow {
        LeaseRow { key, bytes: lease.encode(), lease }
    }

    fn single(seq: u64) -> LeaseRow {
        let held = fresh(&claimer("b", 0), Epoch(1), None);
        row(LeaseKey::Single(Place::Inbox(seq)), waiting(&held, Moment(0), Span::ZERO))
    }

    fn stretch(first: u64, last: u64) -> LeaseRow {
        row(LeaseKey::Stretch(Place::Inbox(first)), fresh(&claimer("b", 0), Epoch(1), Some(Place::Inbox(last))))
    }

    fn drawn(finds: Finds, wanted: usize) -> Draw {
        let mut draw = Draw::default();
        Drawer { worker: worker(), claimer: &claimer("me", 500), epoch: Epoch(9) }.draw(finds, wanted, &mut draw);
        draw
    }

    fn places(draw: &Draw) -> Vec<Place> {
        let mut places: Vec<Place> = draw.messages.iter().map(|message| message.place).collect();
        places.sort_unstable();
        places
    }

    fn inbox(seqs: &[u64]) -> Vec<Place> {
        seqs.iter().map(|seq| Place::Inbox(*seq)).collect()
    }

    fn put(draw: &Draw, key: LeaseKey) -> Option<Lease> {
        let at: At = key.at(worker());
        draw.writes.iter().find_map(|write| match write {
            Write::Put(to, bytes) if *to == at => Some(Lease::decode(bytes).unwrap()),
            _ => None,
        })
    }

    #[test]
    fn messages_that_stand_together_share_one_row() {
        let draw = drawn(Finds { unleased: vec![found(&[3, 4, 9]), found(&[20])], ..Finds::default() }, 10);
        assert_eq!(places(&draw), inbox(&[3, 4, 9, 20]));
        assert_eq!(draw.writes.len(), 2);
        let lease = put(&draw, LeaseKey::Stretch(Place::Inbox(3))).unwrap();
        assert_eq!((lease.through, lease.attempts, lease.epoch), (Some(Place::Inbox(9)), 1, Epoch(9)));
        assert_eq!(put(&draw, LeaseKey::Single(Place::Inbox(20))).unwrap().through, None);
    }

    /// "Poll takes the lowest sequence of *this* worker, up to the batch"
    #[test]
    fn the_lowest_are_taken_wherever_they_come_from() {
        let finds = Finds {
            singles: vec![(single(2), found(&[2]).pop()), (single(8), found(&[8]).pop())],
            fallen: vec![Fallen { row: stretch(3, 6), found: found(&[3, 5]), rest: None }],
            unleased: vec![found(&[1, 7, 9])],
        };
        assert_eq!(places(&drawn(finds.clone(), 3)), inbox(&[1, 2, 3]));
        assert_eq!(places(&drawn(finds, 99)), inbox(&[1, 2, 3, 5, 7, 8, 9]));
    }

    #[test]
    fn what_is_left_of_a_fallen_stretch_stays_for_the_next_claim() {
        let fallen = Fallen { row: stretch(3, 90), found: found(&[3, 5]), rest: Some(Place::Inbox(6)) };
        let draw = drawn(Finds { fallen: vec![fallen.clone()], ..Finds::default() }, 10);
        let mine = put(&draw, LeaseKey::Stretch(Place::Inbox(3))).unwrap();
        assert_eq!((mine.attempts, mine.lost, mine.through), (2, 1, Some(Place::Inbox(5))));
        assert_eq!(put(&draw, LeaseKey::Stretch(Place::Inbox(6))), Some(fallen.row.lease.clone()));
        assert_eq!(draw.guards, [Guard::Equals(fallen.row.key.at(worker()), fallen.row.bytes.clone())]);
        let cut = drawn(Finds { fallen: vec![fallen.clone()], ..Finds::default() }, 1);
        assert_eq!(places(&cut), inbox(&[3]));
        assert_eq!(put(&cut, LeaseKey::Stretch(Place::Inbox(5))), Some(fallen.row.lease));
    }

    #[test]
    fn leases_on_what_is_gone_are_removed() {
        let gone = Fallen { row: stretch(3, 9), found: vec![], rest: None };
        let draw = drawn(Finds { singles: vec![(single(2), None)], fallen: vec![gone], ..Finds::default() }, 4);
        let deletes = draw.writes.iter().filter(|write| matches!(write, Write::Delete(_))).count();
        assert_eq!((draw.messages.len(), deletes, draw.guards.len()), (0, 2, 2));
    }

    #[test]
    fn nothing_is_written_for_what_is_not_taken() {
        let finds =
            Finds { singles: vec![(single(5), found(&[5]).pop())], unleased: vec![found(&[1])], ..Finds::default() };
        let draw = drawn(finds, 1);
        assert_eq!((places(&draw), draw.writes.len()), (inbox(&[1]), 1));
    }
}
