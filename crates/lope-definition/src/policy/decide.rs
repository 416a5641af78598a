//! What follows a failed attempt: another one, the fallback, or the end of the step.
//!
//! Work that was refused until a time is tried again then, and does not count. A user's error is
//! retried as the policy says (by default not at all). A worker that died is retried a few times
//! even if the policy is silent. A runner that died is not judged here: its losses have a budget of
//! their own.

use lope_model::failure::kind;
use lope_model::policy::Backoff;
use lope_model::{Failure, Policy, Span, Timestamp};

use super::delay::delay;

/// Retries after a lost worker, where the policy says nothing about retries.
pub const WORKER_LOST_RETRIES: u32 = 3;
/// How often an attempt may be lost with its runner, where the policy does not say.
pub const LOSS_BUDGET: u32 = 20;

/// How an execution has been tried so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tried {
    /// Failed attempts, the one under judgement included if it counts.
    pub failures: u32,
    /// When the first attempt was opened.
    pub first_at: Timestamp,
    /// When the attempt under judgement failed.
    pub now: Timestamp,
    /// Was the attempt under judgement the fallback's?
    pub fell_back: bool,
}

/// What follows.
#[derive(Clone, PartialEq, Debug)]
pub enum FailureVerdict {
    /// Another attempt, not before this time.
    Retry(Timestamp),
    /// The fallback, once.
    Fallback,
    /// The step fails with this.
    Fail(Failure),
}

/// Judges a failed attempt. `jitter` is asked for at most once.
pub fn after_failure<E>(
    policy: &Policy<E>,
    tried: Tried,
    failure: Failure,
    jitter: impl FnOnce() -> u64,
) -> FailureVerdict {
    if let Some(at) = failure.again_at {
        return retry_at(policy, tried, failure, at.max(tried.now));
    }
    if tried.fell_back {
        return FailureVerdict::Fail(failure);
    }
    let (retries, wait) = budget(policy, tried, &failure, jitter);
    if tried.failures > retries || !is_retried(policy, &failure) {
        return give_up(policy, failure);
    }
    retry_at(policy, tried, failure, tried.now.plus(wait))
}

/// Another attempt, if the deadline leaves time for it.
fn retry_at<E>(
    policy: &Policy<E>,
    tried: Tried,
    failure: Failure,
    next: Timestamp,
) -> FailureVerdict {
    match policy
        .deadline
        .map(|deadline| (deadline, tried.first_at.plus(deadline)))
    {
        Some((deadline, last)) if next > last => {
            let failure = past_deadline(failure, deadline, tried.failures);
            if tried.fell_back {
                return FailureVerdict::Fail(failure);
            }
            give_up(policy, failure)
        }
        Some(_) | None => FailureVerdict::Retry(next),
    }
}

/// Does the policy retry failures of this type?
pub fn is_retried<E>(policy: &Policy<E>, failure: &Failure) -> bool {
    let named = |kinds: &Option<Vec<std::sync::Arc<str>>>| {
        kinds
            .as_ref()
            .map(|kinds| kinds.iter().any(|kind| failure.is_a(kind)))
    };
    !named(&policy.never_retry_on).unwrap_or(false) && named(&policy.retry_on).unwrap_or(true)
}

/// How many retries there are, and how long to wait for the next.
fn budget<E>(
    policy: &Policy<E>,
    tried: Tried,
    failure: &Failure,
    jitter: impl FnOnce() -> u64,
) -> (u32, Span) {
    if policy.retries.is_none() && failure.is_a(kind::WORKER_LOST) {
        let patient: Policy = Policy {
            backoff: Some(Backoff::Jitter),
            ..Policy::default()
        };
        return (WORKER_LOST_RETRIES, delay(&patient, tried.failures, jitter));
    }
    (
        policy.retries.unwrap_or(0),
        delay(policy, tried.failures, jitter),
    )
}

fn give_up<E>(policy: &Policy<E>, failure: Failure) -> FailureVerdict {
    if policy.fallback.is_some() {
        FailureVerdict::Fallback
    } else {
        FailureVerdict::Fail(failure)
    }
}

/// Handlers for the last failure still match: its type and bases are bases of this one.
fn past_deadline(last: Failure, deadline: Span, failures: u32) -> Failure {
    let message = format!(
        "the deadline of {deadline} leaves no time for attempt {}: {}",
        failures + 1,
        last.message
    );
    let bases = [std::sync::Arc::clone(&last.kind)]
        .into_iter()
        .chain(last.bases.iter().map(std::sync::Arc::clone));
    Failure {
        kind: kind::DEADLINE.into(),
        bases: bases.collect(),
        message,
        again_at: None,
        ..last
    }
}

#[cfg(test)]
mod tests {
    use lope_model::policy::Fallback;

    use super::*;

    fn tried(failures: u32) -> Tried {
        Tried {
            failures,
            first_at: Timestamp::EPOCH,
            now: Timestamp::from_millis(i64::from(failures) * 100),
            fell_back: false,
        }
    }

    fn decided(policy: &Policy, failures: u32, kind: &str) -> FailureVerdict {
        after_failure(policy, tried(failures), Failure::new(kind, "no"), || 0)
    }

    fn fails_as(verdict: &FailureVerdict) -> Option<&str> {
        match verdict {
            FailureVerdict::Fail(failure) => Some(&failure.kind),
            FailureVerdict::Retry(_) | FailureVerdict::Fallback => None,
        }
    }

    #[test]
    fn retries_are_counted_and_then_spent() {
        let policy = Policy {
            retries: Some(2),
            ..Policy::default()
        };
        assert_eq!(
            decided(&policy, 1, "E"),
            FailureVerdict::Retry(Timestamp::from_millis(100))
        );
        assert_eq!(
            decided(&policy, 2, "E"),
            FailureVerdict::Retry(Timestamp::from_millis(200))
        );
        assert_eq!(fails_as(&decided(&policy, 3, "E")), Some("E"));
        assert_eq!(fails_as(&decided(&Policy::default(), 1, "E")), Some("E"));
    }

    #[test]
    fn types_decide_what_is_retried() {
        let mut policy = Policy {
            retries: Some(9),
            retry_on: Some(vec!["Net".into()]),
            ..Policy::default()
        };
        assert!(matches!(
            decided(&policy, 1, "Net"),
            FailureVerdict::Retry(_)
        ));
        assert_eq!(fails_as(&decided(&policy, 1, "E")), Some("E"));
        policy = Policy {
            retries: Some(9),
            never_retry_on: Some(vec!["Base".into()]),
            ..Policy::default()
        };
        let mut failure = Failure::new("E", "no");
        failure.bases = vec!["Base".into()];
        assert!(matches!(
            after_failure(&policy, tried(1), failure, || 0),
            FailureVerdict::Fail(_)
        ));
    }

    /// "A usage limit with a reset time waits until then and costs no attempt."
    #[test]
    fn work_that_is_refused_until_a_time_is_tried_again_then_whatever_the_policy_says() {
        let refused = |policy: &Policy, tried: Tried, until: i64| {
            let mut failure = Failure::new("UsageLimit", "no");
            failure.again_at = Some(Timestamp::from_millis(until));
            after_failure(policy, tried, failure, || 0)
        };
        let at = |millis| FailureVerdict::Retry(Timestamp::from_millis(millis));
        let fell_back = Tried {
            fell_back: true,
            ..tried(1)
        };
        let never = Policy {
            never_retry_on: Some(vec!["*".into()]),
            ..Policy::default()
        };
        assert_eq!(refused(&Policy::default(), tried(1), 5_000), at(5_000));
        assert_eq!(refused(&never, tried(9), 5_000), at(5_000));
        assert_eq!(refused(&Policy::default(), fell_back, 5_000), at(5_000));
        assert_eq!(refused(&Policy::default(), tried(3), 100), at(300), "past");
        let policy = Policy {
            deadline: Some(Span::from_secs(4)),
            ..Policy::default()
        };
        let late = refused(&policy, tried(1), 5_000);
        assert_eq!(fails_as(&late), Some(kind::DEADLINE));
        assert!(!matches!(late, FailureVerdict::Fail(last) if last.again_at.is_some()));
        assert_eq!(refused(&policy, tried(1), 4_000), at(4_000));
    }

    #[test]
    fn a_lost_worker_is_retried_though_the_policy_is_silent() {
        for failures in 1..=WORKER_LOST_RETRIES {
            assert!(matches!(
                decided(&Policy::default(), failures, kind::WORKER_LOST),
                FailureVerdict::Retry(_)
            ));
        }
        assert_eq!(
            fails_as(&decided(&Policy::default(), 4, kind::WORKER_LOST)),
            Some(kind::WORKER_LOST)
        );
        let strict = Policy {
            retries: Some(0),
            ..Policy::default()
        };
        assert_eq!(
            fails_as(&decided(&strict, 1, kind::WORKER_LOST)),
            Some(kind::WORKER_LOST)
        );
    }

    #[test]
    fn a_deadline_stops_new_attempts_and_keeps_the_cause() {
        let policy = Policy {
            retries: Some(9),
            base_delay: Some(Span::from_millis(50)),
            deadline: Some(Span::from_millis(200)),
            ..Policy::default()
        };
        assert!(matches!(decided(&policy, 1, "E"), FailureVerdict::Retry(_)));
        let FailureVerdict::Fail(failure) = decided(&policy, 2, "E") else {
            panic!("the deadline has passed")
        };
        assert!(
            failure.is_a(kind::DEADLINE) && failure.is_a("E"),
            "{failure:?}"
        );
    }

    #[test]
    fn a_fallback_comes_once_after_the_retries() {
        let policy = Policy {
            retries: Some(1),
            fallback: Some(Fallback::Value(lope_model::Value::Null)),
            ..Policy::default()
        };
        assert!(matches!(decided(&policy, 1, "E"), FailureVerdict::Retry(_)));
        assert_eq!(decided(&policy, 2, "E"), FailureVerdict::Fallback);
        let again = after_failure(
            &policy,
            Tried {
                fell_back: true,
                ..tried(3)
            },
            Failure::new("E", "no"),
            || 0,
        );
        assert_eq!(fails_as(&again), Some("E"));
    }
}
