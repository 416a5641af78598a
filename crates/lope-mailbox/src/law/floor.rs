//! Where to begin reading a lane, so that a claim does not walk again over what was handled before.
//!
//! Rows are numbered when they are committed, but commits may become visible out of order, so a floor is never kept for
//! good: it is dropped when the lane was read to its end, and after some reads in any case.

use crate::key::Place;

/// Reads from a floor before the lane is read from its beginning again.
const READS: u32 = 32;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Floor {
    at: Option<Place>,
    reads: u32,
}

impl Floor {
    /// The first place to read.
    pub fn from(&self, beginning: Place) -> Place {
        self.at.unwrap_or(beginning).max(beginning)
    }

    /// A read went up to `last` and found that there is more behind it.
    pub fn rise(&mut self, last: Place) {
        self.reads += 1;
        self.at = if self.reads < READS { last.next() } else { None };
        if self.at.is_none() {
            self.reads = 0;
        }
    }

    /// The lane was read to its end, or something may stand below the floor.
    pub fn reset(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Place = Place::Inbox(0);

    #[test]
    fn a_floor_rises_with_reads_and_is_dropped_now_and_then() {
        let mut floor = Floor::default();
        assert_eq!(floor.from(START), START);
        floor.rise(Place::Inbox(9));
        assert_eq!(floor.from(START), Place::Inbox(10));
        floor.reset();
        assert_eq!(floor.from(START), START);
        let dropped = (0..64).filter(|read| {
            floor.rise(Place::Inbox(100 + read));
            floor.from(START) == START
        });
        assert_eq!(dropped.count(), 2);
    }
}
