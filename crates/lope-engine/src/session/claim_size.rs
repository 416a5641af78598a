//! How many runs a claim asks for. Runs that leave as fast as they come, those that only sleep and
//! wake, are taken in batches that grow, since a claim costs a transaction whatever it takes; runs
//! that stay are left to other runners beyond the usual batch.
//!
//! A runner has room for as many as it may take, unless it could not renew its session with them in
//! hand. Then it goes on with half of them, and with more again for as long as it keeps up: on a
//! machine that is too busy it does little rather than nothing.

use lope_model::limit;

/// So many times the usual batch is asked for at most.
const GROWTH_MAX: usize = 4;
/// With each session that is renewed in time there is room for this share more.
const ROOM_GROWTH: usize = 8;

#[derive(Debug)]
pub(super) struct ClaimSize {
    usual: usize,
    size: usize,
    asked: usize,
    /// Runs that left since the last claim was answered.
    left: usize,
    most: usize,
    /// Runs that it may have in hand now.
    pub(super) room: usize,
}

impl ClaimSize {
    pub(super) fn new(usual: usize, most: usize) -> Self {
        Self {
            usual,
            size: usual,
            asked: 0,
            left: 0,
            most,
            room: most,
        }
    }

    /// So many in hand were too many.
    pub(super) fn shrink(&mut self, resident: usize) {
        self.room = (resident.min(self.room) / 2).max(1);
    }

    /// The session was renewed in time.
    pub(super) fn grow(&mut self) {
        let more = self.room.div_ceil(ROOM_GROWTH);
        self.room = self.room.saturating_add(more).min(self.most);
    }

    /// Ask for as many as there is room for.
    pub(super) fn ask(&mut self, room: usize) -> usize {
        self.asked = self.size.min(room);
        self.asked
    }

    pub(super) fn left(&mut self, runs: usize) {
        self.left = self.left.saturating_add(runs);
    }

    /// So many came.
    pub(super) fn answered(&mut self, runs: usize) {
        let is_full = runs > 0 && runs >= self.asked;
        let drains = self.left >= self.asked.div_ceil(2);
        let most = self.usual.saturating_mul(GROWTH_MAX).min(limit::CLAIM_MAX);
        self.size = match (is_full, drains) {
            (true, true) => (self.size * 2).min(most),
            (true, false) => self.size / 2,
            (false, _) => 0,
        }
        .max(self.usual);
        self.left = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Claims of which all that is asked for comes, and of which so many leave before the next.
    fn sizes(claims: usize, leave: impl Fn(usize) -> usize) -> Vec<usize> {
        let mut size = ClaimSize::new(500, 10_000);
        let claim = |_| {
            let asked = size.ask(10_000);
            size.answered(asked);
            size.left(leave(asked));
            asked
        };
        (0..claims).map(claim).collect()
    }

    #[test]
    fn batches_grow_while_runs_leave_as_fast_as_they_come() {
        assert_eq!(
            sizes(6, |asked| asked),
            [500, 500, 1_000, 2_000, 2_000, 2_000]
        );
        assert_eq!(sizes(4, |_| 0), [500; 4]);
    }

    #[test]
    fn a_batch_is_the_usual_one_again_when_the_queue_is_empty_or_runs_stay() {
        let mut size = ClaimSize::new(500, 10_000);
        for _ in 0..4 {
            let asked = size.ask(10_000);
            size.left(asked);
            size.answered(asked);
        }
        assert_eq!(size.ask(10_000), 2_000);
        assert_eq!(size.ask(7), 7, "there is room for no more");
        size.ask(10_000);
        size.answered(2_000);
        assert_eq!(size.ask(10_000), 1_000, "nobody left");
        size.left(1_000);
        size.answered(999);
        assert_eq!(size.ask(10_000), 500, "the queue is empty");
    }

    #[test]
    fn half_of_what_was_too_much_and_then_step_by_step_all_of_it_again() {
        let mut size = ClaimSize::new(500, 1_000);
        size.grow();
        assert_eq!(size.room, 1_000);
        size.shrink(100);
        assert_eq!(size.room, 50);
        size.shrink(400);
        assert_eq!(size.room, 25, "of those there was room for");
        let grown = [(); 4].map(|()| {
            size.grow();
            size.room
        });
        assert_eq!(grown, [29, 33, 38, 43]);
        (0..10).for_each(|_| size.shrink(0));
        assert_eq!(size.room, 1, "never none");
        (0..100).for_each(|_| size.grow());
        assert_eq!(size.room, 1_000);
    }
}
