//! How long to wait before the next attempt. Jitter comes from a hash of seed, execution and
//! attempt, so a replay waits as long as the first time.

use lope_model::policy::Backoff;
use lope_model::{Digest, Policy, Span};

/// The first delay of a backoff that names none.
pub const BASE_DELAY: Span = Span::from_secs(1);
/// The longest delay of a backoff that names none.
pub const MAX_DELAY: Span = Span::from_secs(3_600);

/// The delay after the failure number `failures` (from 1). A base delay without a backoff is the
/// same every time.
pub fn delay<E>(policy: &Policy<E>, failures: u32, jitter: impl FnOnce() -> u64) -> Span {
    let base = policy.base_delay.unwrap_or(BASE_DELAY);
    let grown = match (policy.backoff, policy.base_delay) {
        (None, None) | (Some(Backoff::None), _) => return Span::ZERO,
        (None, Some(fixed)) => fixed,
        (Some(Backoff::Linear), _) => base.times(u64::from(failures)),
        (Some(Backoff::Exponential | Backoff::Jitter), _) => base.times(
            1_u64
                .checked_shl(failures.saturating_sub(1))
                .unwrap_or(u64::MAX),
        ),
    };
    let capped = grown.min(policy.max_delay.unwrap_or(MAX_DELAY));
    match policy.backoff {
        Some(Backoff::Jitter) => shaken(capped, jitter()),
        Some(Backoff::None | Backoff::Linear | Backoff::Exponential) | None => capped,
    }
}

/// Anywhere between half and the whole of a delay.
fn shaken(whole: Span, by: u64) -> Span {
    let half = whole.millis() / 2;
    Span::from_millis(whole.millis() - half + by % (half + 1))
}

/// The number that shakes one delay.
pub fn jitter(seed: u64, execution: &str, attempt: u32) -> u64 {
    Digest::of_parts(&[
        &seed.to_le_bytes(),
        execution.as_bytes(),
        &attempt.to_le_bytes(),
    ])
    .short()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(backoff: Option<Backoff>, base: Option<u64>, max: Option<u64>) -> Policy {
        let span = |millis: Option<u64>| millis.map(Span::from_millis);
        Policy {
            backoff,
            base_delay: span(base),
            max_delay: span(max),
            ..Policy::default()
        }
    }

    #[test]
    fn delays_grow_as_the_backoff_says_up_to_the_cap() {
        use Backoff::{Exponential, Linear, None as No};
        let rows = [
            (policy(None, None, None), [0, 0, 0, 0]),
            (policy(Some(No), Some(500), None), [0, 0, 0, 0]),
            (policy(None, Some(500), None), [500, 500, 500, 500]),
            (
                policy(Some(Linear), Some(500), None),
                [500, 1_000, 1_500, 2_000],
            ),
            (
                policy(Some(Exponential), Some(500), None),
                [500, 1_000, 2_000, 4_000],
            ),
            (
                policy(Some(Exponential), Some(500), Some(1_500)),
                [500, 1_000, 1_500, 1_500],
            ),
            (
                policy(Some(Exponential), None, None),
                [1_000, 2_000, 4_000, 8_000],
            ),
        ];
        for (policy, expected) in rows {
            let got = [1, 2, 3, 4].map(|failures| delay(&policy, failures, || 0).millis());
            assert_eq!(got, expected, "{policy:?}");
        }
        assert_eq!(
            delay(&policy(Some(Exponential), Some(1), None), 90, || 0),
            MAX_DELAY
        );
    }

    #[test]
    fn jitter_stays_within_bounds_and_repeats() {
        let policy = policy(Some(Backoff::Jitter), Some(1_000), Some(60_000));
        for attempt in 1..20 {
            let whole = 1_000_u64.checked_shl(attempt - 1).unwrap().min(60_000);
            let by = jitter(7, "mail/3/send", attempt);
            let got = delay(&policy, attempt, || by).millis();
            assert!(
                (whole / 2..=whole).contains(&got),
                "{attempt}: {got} of {whole}"
            );
            assert_eq!(
                got,
                delay(&policy, attempt, || jitter(7, "mail/3/send", attempt)).millis()
            );
        }
        assert_ne!(jitter(7, "a", 1), jitter(8, "a", 1));
        assert_ne!(jitter(7, "a", 1), jitter(7, "a", 2));
    }
}
