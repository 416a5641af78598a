//! The server's wall clock as this process has seen it go, held against a clock that nobody sets.
//!
//! Sessions expire by the server's clock, because it is the only one that all runners see. When it
//! is set forward, every session would be over at once; so no statement judges a session by a later
//! time than this process expects. When the step has lasted so long that every runner that lives
//! has renewed its session, the new time counts. A step back makes expiries that lie too far ahead;
//! `end_expired.sql` brings those back by itself. Locks of tasks are judged in the same way.

use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Clocks that differ by less than this were not set.
const TOLERANCE: i64 = 2_000;
/// How long a step forward is held back, at least, and in leases.
const HELD_BACK: Duration = Duration::from_secs(60);
const HELD_BACK_LEASES: u32 = 2;

/// What is known of the server's clock.
#[derive(Debug, Default)]
pub(crate) struct ServerClock(Mutex<Option<ClockReading>>);

#[derive(Debug, Clone, Copy)]
struct ClockReading {
    /// The server's clock showed this when ours showed that.
    server: i64,
    at: Instant,
    /// Since when it has shown a later time than it should.
    ahead_since: Option<Instant>,
}

impl ServerClock {
    /// The latest time that it can show if it was not set: sessions are judged by no later one.
    pub(crate) fn latest(&self) -> i64 {
        let now = Instant::now();
        self.lock().map_or(i64::MAX, |reading| {
            reading.expected(now).saturating_add(TOLERANCE)
        })
    }

    /// It showed a time, somewhen between the sending of a request and now; this runner's lease is
    /// so long.
    pub(crate) fn observe(&self, sent: Instant, server: i64, lease: Duration) {
        let now = Instant::now();
        let mut known = self.lock();
        *known = Some(match *known {
            None => ClockReading::fresh(server, now),
            Some(reading) => reading.after(sent, now, server, lease),
        });
    }

    fn lock(&self) -> MutexGuard<'_, Option<ClockReading>> {
        self.0.lock().expect("nobody panics while holding it")
    }
}

impl ClockReading {
    const fn fresh(server: i64, at: Instant) -> Self {
        Self {
            server,
            at,
            ahead_since: None,
        }
    }

    /// What the server's clock shows at that time if it was not set.
    fn expected(&self, at: Instant) -> i64 {
        let passed = at.saturating_duration_since(self.at).as_millis();
        self.server
            .saturating_add(i64::try_from(passed).unwrap_or(i64::MAX))
    }

    fn after(self, sent: Instant, now: Instant, server: i64, lease: Duration) -> Self {
        if server <= self.expected(now).saturating_add(TOLERANCE) {
            let is_earlier = server < self.expected(sent);
            let is_later = server > self.expected(now);
            return match (is_earlier, is_later) {
                (true, _) => Self::fresh(server, sent),
                (_, true) => Self::fresh(server, now),
                (false, false) => Self {
                    ahead_since: None,
                    ..self
                },
            };
        }
        let since = self.ahead_since.unwrap_or(now);
        let held_back = HELD_BACK.max(lease * HELD_BACK_LEASES);
        if now.saturating_duration_since(since) >= held_back {
            tracing::warn!("the server's clock was set forward; leases are judged by it now");
            return Self::fresh(server, now);
        }
        if self.ahead_since.is_none() {
            tracing::warn!(
                ahead = server - self.expected(now),
                "the server's clock was set forward; no lease ends because of that"
            );
        }
        Self {
            ahead_since: Some(since),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(15);

    fn at(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn a_clock_that_is_slewed_or_slow_to_answer_was_not_set() {
        let start = Instant::now();
        let reading = ClockReading::fresh(1_000_000, start);
        let slewed = reading.after(at(start, 10), at(start, 10), 1_011_000, LEASE);
        assert_eq!(slewed.expected(at(start, 20)), 1_021_000);
        let slow = reading.after(at(start, 10), at(start, 30), 1_012_000, LEASE);
        assert_eq!(slow.expected(at(start, 20)), 1_020_000);
    }

    #[test]
    fn a_step_forward_counts_only_when_every_runner_must_have_seen_it() {
        let start = Instant::now();
        let hour = 3_600_000;
        let mut reading = ClockReading::fresh(0, start);
        for seconds in 1..60 {
            let server = hour + 1_000 * i64::try_from(seconds).unwrap();
            reading = reading.after(at(start, seconds), at(start, seconds), server, LEASE);
            assert!(reading.expected(at(start, seconds)) < 60_000);
        }
        reading = reading.after(at(start, 61), at(start, 61), hour + 61_000, LEASE);
        assert_eq!(reading.expected(at(start, 61)), hour + 61_000);
    }

    #[test]
    fn a_step_back_counts_at_once_and_one_that_was_undone_never() {
        let start = Instant::now();
        let reading = ClockReading::fresh(10_000_000, start);
        let back = reading.after(at(start, 1), at(start, 1), 5_000_000, LEASE);
        assert_eq!(back.expected(at(start, 2)), 5_001_000);
        let ahead = reading.after(at(start, 1), at(start, 1), 20_000_000, LEASE);
        assert!(ahead.ahead_since.is_some());
        let again = ahead.after(at(start, 70), at(start, 70), 10_070_000, LEASE);
        assert_eq!(
            (again.ahead_since, again.expected(at(start, 80))),
            (None, 10_080_000)
        );
    }
}
