//! What one runner knows of a rate: the starts it has in store, and when those that it turned away
//! come again.
//!
//! Who is turned away is told a time, so that no more come then than the runner may expect to let
//! through; a newcomer does not pass those that wait. The times are this runner's guess: other
//! runners take from the same rate, and then the guess was wrong and another is made.

use std::sync::Arc;

use foldhash::HashMap;
use lope_definition::policy::Limiter;
use lope_model::policy::RateLimit;
use lope_model::{RunId, RunnerId, Span, Timestamp};

use crate::holder::AttemptRef;
use crate::rate_row::{RateRow, StartsInStore};

/// Most places that are remembered; beyond that, those long past are forgotten.
const EXPECTED_MAX: usize = 10_000;
const EXPECTED_FOR: Span = Span::from_secs(3_600);

/// Whose place it is, whoever owns the run by then.
type AttemptKey = (RunId, Arc<str>, u32);

fn attempt_key(attempt: &AttemptRef) -> AttemptKey {
    let execution = Arc::clone(&attempt.execution);
    (attempt.run, execution, attempt.attempt)
}

/// Who asks for a start of a rate, and when.
#[derive(Clone, Copy)]
pub(crate) struct RateRequest<'a> {
    pub(crate) rate: &'a RateLimit,
    pub(crate) runner: RunnerId,
    pub(crate) now: Timestamp,
}

/// One rate, as one runner knows it.
#[derive(Debug, Default)]
pub(crate) struct RateLine {
    limiter: Limiter,
    stored: Option<StartsInStore>,
    expected: HashMap<AttemptKey, Timestamp>,
}

/// What a turn would change of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct LineDraft {
    limiter: Limiter,
    stored: Option<StartsInStore>,
    /// Where the line ends, if somebody waits in it.
    reserved: Vec<(AttemptKey, Timestamp)>,
    gone: Vec<AttemptKey>,
}

impl RateLine {
    pub(crate) fn draft(&self) -> LineDraft {
        LineDraft {
            limiter: self.limiter.clone(),
            stored: self.stored,
            ..LineDraft::default()
        }
    }

    pub(crate) fn apply(&mut self, draft: LineDraft, now: Timestamp) {
        self.limiter = draft.limiter;
        self.stored = draft.stored;
        for key in &draft.gone {
            self.expected.remove(key);
        }
        self.expected.extend(draft.reserved);
        if self.expected.len() >= EXPECTED_MAX {
            self.expected
                .retain(|_, expected_at| expected_at.plus(EXPECTED_FOR) > now);
        }
    }

    /// May the attempt start now with what is in store, so that the table need not be asked? One that
    /// has its place behind others has it there.
    pub(crate) fn use_stored(&mut self, now: Timestamp, attempt: &AttemptRef) -> bool {
        let waits = match self.expected_at(attempt) {
            Some(expected_at) => expected_at > now,
            None => self.limiter.last().is_some_and(|last| last > now),
        };
        if waits || !use_one(&mut self.stored, now) {
            return false;
        }
        self.expected.remove(&attempt_key(attempt));
        true
    }

    fn expected_at(&self, attempt: &AttemptRef) -> Option<Timestamp> {
        self.expected.get(&attempt_key(attempt)).copied()
    }
}

impl LineDraft {
    /// May the attempt start now? If not, when to ask again.
    pub(crate) fn admit(
        &mut self,
        line: &RateLine,
        row: &mut RateRow,
        request: RateRequest<'_>,
        attempt: &AttemptRef,
    ) -> Result<(), Timestamp> {
        let now = request.now;
        let waits = self.limiter.last().is_some_and(|last| last > now);
        match line.expected_at(attempt) {
            Some(expected_at) if expected_at > now => return Err(expected_at),
            None if waits => return Err(self.reserve(row, request, attempt)),
            Some(_) | None => {}
        }
        if use_one(&mut self.stored, now) || self.take(row, request) {
            self.gone.push(attempt_key(attempt));
            return Ok(());
        }
        Err(self.reserve(row, request, attempt))
    }

    fn take(
        &mut self,
        row: &mut RateRow,
        RateRequest { rate, runner, now }: RateRequest<'_>,
    ) -> bool {
        if let Some(stored) = self.stored.take() {
            row.settle(runner, &stored);
        }
        if row.free(rate, now) == 0 {
            return false;
        }
        row.take(rate, runner, now, 1);
        self.stored = row.store(rate, runner, now);
        true
    }

    /// A place at the end of the line. Runners share the rate, so each expects its part.
    fn reserve(
        &mut self,
        row: &RateRow,
        RateRequest { rate, runner, now }: RateRequest<'_>,
        attempt: &AttemptRef,
    ) -> Timestamp {
        let share = RateLimit {
            count: (rate.count / row.runners(runner)).max(1),
            ..rate.clone()
        };
        let earliest = if row.free(rate, now) == 0 {
            row.next_free(rate, now)
        } else {
            now
        };
        let expected_at = self.limiter.reserve(&share, earliest);
        self.reserved.push((attempt_key(attempt), expected_at));
        expected_at
    }
}

/// One of the starts in store, if one may still be used.
fn use_one(stored: &mut Option<StartsInStore>, now: Timestamp) -> bool {
    match stored {
        Some(stored) if stored.left > 0 && now <= stored.until => {
            stored.left -= 1;
            stored.used += 1;
            stored.last_used = now;
            true
        }
        Some(_) | None => false,
    }
}
