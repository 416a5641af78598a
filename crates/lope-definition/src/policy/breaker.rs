//! A circuit breaker: closed until failures come in a row, open for a while, then half open for one
//! probe.
//!
//! Held by an engine and shared by runs; it is told the time and never asks for it.

use lope_model::Timestamp;
use lope_model::policy::CircuitBreaker;

/// May an attempt start?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    Go,
    /// Not now; ask again at this time.
    Wait(Timestamp),
}

/// One circuit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Breaker {
    /// Everything passes; so many failures have come in a row.
    #[default]
    Closed,
    Failing(u32),
    /// Nothing passes before this time.
    Open(Timestamp),
    /// One probe is out since this time.
    HalfOpen(Timestamp),
}

impl Breaker {
    /// Asks for a start. A probe whose outcome never came is given up after `reset`.
    pub fn admit(&mut self, settings: &CircuitBreaker, now: Timestamp) -> Admission {
        match *self {
            Self::Closed | Self::Failing(_) => Admission::Go,
            Self::Open(until) if now < until => Admission::Wait(until),
            Self::HalfOpen(since) if now < since.plus(settings.reset) => {
                Admission::Wait(since.plus(settings.reset))
            }
            Self::Open(_) | Self::HalfOpen(_) => {
                *self = Self::HalfOpen(now);
                Admission::Go
            }
        }
    }

    /// Tells how an attempt that was let through ended.
    pub fn record(&mut self, settings: &CircuitBreaker, now: Timestamp, succeeded: bool) {
        *self = match (*self, succeeded) {
            (Self::Closed | Self::Failing(_) | Self::HalfOpen(_), true) => Self::Closed,
            (Self::HalfOpen(_), false) => Self::Open(now.plus(settings.reset)),
            (Self::Closed, false) => Self::after(settings, 1, now),
            (Self::Failing(count), false) => Self::after(settings, count + 1, now),
            (Self::Open(until), true | false) => Self::Open(until),
        };
    }

    fn after(settings: &CircuitBreaker, failures: u32, now: Timestamp) -> Self {
        if failures >= settings.failures {
            Self::Open(now.plus(settings.reset))
        } else {
            Self::Failing(failures)
        }
    }
}

#[cfg(test)]
mod tests {
    use lope_model::Span;

    use super::*;

    const fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn settings() -> CircuitBreaker {
        CircuitBreaker {
            failures: 2,
            reset: Span::from_millis(100),
            name: None,
        }
    }

    #[test]
    fn every_state_and_outcome() {
        let rows = [
            (Breaker::Closed, true, Breaker::Closed),
            (Breaker::Closed, false, Breaker::Failing(1)),
            (Breaker::Failing(1), true, Breaker::Closed),
            (Breaker::Failing(1), false, Breaker::Open(at(150))),
            (Breaker::HalfOpen(at(40)), true, Breaker::Closed),
            (Breaker::HalfOpen(at(40)), false, Breaker::Open(at(150))),
            (Breaker::Open(at(60)), true, Breaker::Open(at(60))),
            (Breaker::Open(at(60)), false, Breaker::Open(at(60))),
        ];
        for (before, succeeded, after) in rows {
            let mut breaker = before;
            breaker.record(&settings(), at(50), succeeded);
            assert_eq!(breaker, after, "{before:?} {succeeded}");
        }
    }

    #[test]
    fn every_state_and_request() {
        let rows = [
            (Breaker::Closed, Admission::Go, Breaker::Closed),
            (Breaker::Failing(1), Admission::Go, Breaker::Failing(1)),
            (
                Breaker::Open(at(60)),
                Admission::Wait(at(60)),
                Breaker::Open(at(60)),
            ),
            (
                Breaker::Open(at(50)),
                Admission::Go,
                Breaker::HalfOpen(at(50)),
            ),
            (
                Breaker::HalfOpen(at(10)),
                Admission::Wait(at(110)),
                Breaker::HalfOpen(at(10)),
            ),
            (
                Breaker::HalfOpen(at(-50)),
                Admission::Go,
                Breaker::HalfOpen(at(50)),
            ),
        ];
        for (before, answer, after) in rows {
            let mut breaker = before;
            assert_eq!(breaker.admit(&settings(), at(50)), answer, "{before:?}");
            assert_eq!(breaker, after);
        }
    }
}
