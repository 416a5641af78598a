//! How large the portions are in which a prune deletes: it follows from how long they take.

use std::time::Duration;

/// A portion that takes longer is too large,
const PORTION_SLOW: Duration = Duration::from_millis(2);
/// and one that takes less may grow.
const PORTION_QUICK: Duration = Duration::from_micros(500);

/// How often the first portion is halved: nobody knows yet how slow the machine is.
const BEGINNING: u32 = 3;

/// How large portions are, as a part of what they may be at most: half as large after one that took
/// long, twice as large after one that did not. They begin small, and what was found is kept from
/// prune to prune.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PrunePace {
    /// How often they were halved.
    pub(crate) halved: u32,
}

impl Default for PrunePace {
    fn default() -> Self {
        Self { halved: BEGINNING }
    }
}

impl PrunePace {
    pub(crate) fn portion(self, most: usize) -> usize {
        (most >> self.halved.min(usize::BITS - 1)).max(1)
    }

    /// After a portion of so many rows, of which there may be `most`, that took so long.
    pub(crate) fn after(self, rows: usize, most: usize, took: Duration) -> Self {
        // One that was not full says nothing about larger ones.
        let was_full = rows >= self.portion(most);
        let halved = if took > PORTION_SLOW && self.portion(most) > 1 {
            self.halved + 1
        } else if took < PORTION_QUICK && was_full {
            self.halved.saturating_sub(1)
        } else {
            self.halved
        };
        Self { halved }
    }
}
