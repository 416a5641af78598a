//! Whether a failed message is tried again, and when. Jitter comes from the message's position and
//! its attempt, so that the same history gives the same delays.

use lope_model::Span;

use crate::key::MessagePosition;

/// How often and how soon a message is tried again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Retry {
    /// Attempts with a retryable failure before a message is given up.
    pub budget: u32,
    /// The delay before the second attempt; it doubles with each further one.
    pub base: Span,
    pub max: Span,
    /// Commits in a row that may find a read changed before that counts as a failed attempt.
    pub conflicts: u32,
    /// Attempts that may be lost with their worker before a message is given up. The first few are
    /// counted for everything that was in hand, the others only for a message that was with its
    /// handler.
    pub losses: u32,
}

/// What a failure calls for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RetryDecision {
    Again { delay: Span },
    GiveUp,
}

/// The delay between two commits that found a read changed is short: the other writer is done
/// already.
const CONFLICT_BASE: Span = Span::from_millis(1);
const CONFLICT_MAX: Span = Span::from_millis(32);
/// How long a message rests with which one worker after the other dies: doubled each time, up to
/// the longest.
const LOSS_BASE: Span = Span::from_millis(50);
const LOSS_MAX: Span = Span::from_secs(10);

impl Default for Retry {
    fn default() -> Self {
        Self {
            budget: 4,
            base: Span::from_millis(50),
            max: Span::from_secs(10),
            conflicts: 16,
            losses: 20,
        }
    }
}

impl Retry {
    /// After a failure that may pass by itself. Attempts that were lost with their worker do not
    /// eat the budget.
    pub fn after_failure(
        &self,
        attempts: u32,
        lost: u32,
        position: MessagePosition,
    ) -> RetryDecision {
        let failed = attempts.saturating_sub(lost);
        if failed >= self.budget {
            return RetryDecision::GiveUp;
        }
        RetryDecision::Again {
            delay: backoff(
                self.base,
                self.max,
                failed,
                position.salt() ^ u64::from(attempts),
            ),
        }
    }

    /// Has the message been lost with its worker too often to be tried again?
    pub fn is_lost(&self, lost: u32) -> bool {
        lost > self.losses
    }

    /// How long to wait after the given number of conflicts in a row.
    pub fn after_conflict(conflicts: u32, position: MessagePosition) -> Span {
        backoff(CONFLICT_BASE, CONFLICT_MAX, conflicts, position.salt())
    }
}

/// How long a message rests that took its worker with it, not for the first time.
pub fn after_loss(again: u32) -> Span {
    LOSS_BASE
        .times(1_u64.checked_shl(again).unwrap_or(u64::MAX))
        .min(LOSS_MAX)
}

/// `base × 2^(count−1)`, at most `max`, then anywhere between half and the whole of it.
fn backoff(base: Span, max: Span, count: u32, salt: u64) -> Span {
    let factor = 1_u64
        .checked_shl(count.saturating_sub(1))
        .unwrap_or(u64::MAX);
    let whole = base.times(factor).min(max).millis();
    let half = whole / 2;
    Span::from_millis(half + spread(salt ^ u64::from(count)) % (whole - half + 1))
}

/// A number that looks random and is the same for the same input.
fn spread(seed: u64) -> u64 {
    let mut mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const POSITION: MessagePosition = MessagePosition::Inbox(17);

    /// "Retryable failure (busy, conflict): back off and try again within a budget (default 4),
    /// then dead letter."
    #[test]
    fn the_fourth_failure_is_the_last() {
        let retry = Retry::default();
        for attempts in 1..4 {
            assert!(
                matches!(
                    retry.after_failure(attempts, 0, POSITION),
                    RetryDecision::Again { .. }
                ),
                "{attempts}"
            );
        }
        assert_eq!(retry.after_failure(4, 0, POSITION), RetryDecision::GiveUp);
        assert_eq!(retry.after_failure(9, 0, POSITION), RetryDecision::GiveUp);
    }

    #[test]
    fn lost_attempts_have_a_budget_of_their_own() {
        let retry = Retry {
            losses: 2,
            ..Retry::default()
        };
        assert!(matches!(
            retry.after_failure(5, 2, POSITION),
            RetryDecision::Again { .. }
        ));
        assert_eq!(retry.after_failure(6, 2, POSITION), RetryDecision::GiveUp);
        assert_eq!(
            [1, 2, 3].map(|lost| retry.is_lost(lost)),
            [false, false, true]
        );
    }

    #[test]
    fn delays_double_up_to_the_largest_with_jitter_in_the_upper_half() {
        let retry = Retry {
            budget: 60,
            ..Retry::default()
        };
        for attempts in 1..59 {
            let RetryDecision::Again { delay } = retry.after_failure(attempts, 0, POSITION) else {
                panic!("within the budget")
            };
            let whole = retry.base.times(1 << (attempts - 1).min(20)).min(retry.max);
            assert!(
                delay >= Span::from_millis(whole.millis() / 2) && delay <= whole,
                "{attempts}: {delay} of {whole}"
            );
        }
    }

    #[test]
    fn places_differ_and_the_same_history_gives_the_same_delay() {
        let retry = Retry::default();
        let delays: std::collections::BTreeSet<String> = (0..50)
            .map(|seq| {
                format!(
                    "{:?}",
                    retry.after_failure(1, 0, MessagePosition::Inbox(seq))
                )
            })
            .collect();
        assert!(delays.len() > 10, "{delays:?}");
        assert_eq!(
            retry.after_failure(2, 0, POSITION),
            retry.after_failure(2, 0, POSITION)
        );
        assert!(Retry::after_conflict(1, POSITION) <= Span::from_millis(1));
        assert!(Retry::after_conflict(40, POSITION) <= Span::from_millis(32));
    }
}
