//! How many runs a runner takes: as many as it may, unless it could not renew its session with them
//! in hand. Then it goes on with half of them, and with more again for as long as it keeps up: a
//! runner on a machine that is too busy does little rather than nothing.

/// With each session that is renewed in time, by this share more.
const GROWTH: usize = 8;

#[derive(Debug)]
pub(super) struct Room {
    most: usize,
    runs: usize,
}

impl Room {
    pub(super) fn new(most: usize) -> Self {
        Self { most, runs: most }
    }

    pub(super) fn runs(&self) -> usize {
        self.runs
    }

    /// So many in hand were too many.
    pub(super) fn shrink(&mut self, resident: usize) {
        self.runs = (resident.min(self.runs) / 2).max(1);
    }

    /// The session was renewed in time.
    pub(super) fn grow(&mut self) {
        let more = self.runs.div_ceil(GROWTH);
        self.runs = self.runs.saturating_add(more).min(self.most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_what_was_too_much_and_then_step_by_step_all_of_it_again() {
        let mut room = Room::new(1_000);
        room.grow();
        assert_eq!(room.runs(), 1_000);
        room.shrink(100);
        assert_eq!(room.runs(), 50);
        room.shrink(400);
        assert_eq!(room.runs(), 25, "of those there was room for");
        let grown: Vec<usize> = std::iter::repeat_with(|| {
            room.grow();
            room.runs()
        })
        .take(4)
        .collect();
        assert_eq!(grown, [29, 33, 38, 43]);
        (0..10).for_each(|_| room.shrink(0));
        assert_eq!(room.runs(), 1, "never none");
        (0..100).for_each(|_| room.grow());
        assert_eq!(room.runs(), 1_000);
    }
}
