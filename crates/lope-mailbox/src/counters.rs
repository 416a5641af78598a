//! What a worker has done so far, in numbers. Counted by the consumer, read by anybody.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper ends of the latency buckets, in microseconds: powers of four from 16 µs to 4.3 s; the last
/// bucket is open.
pub const LATENCY_BOUNDS: [u64; 10] = [
    16, 64, 256, 1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304,
];

/// Counters of one worker, or of several that share them.
#[derive(Debug, Default)]
pub struct Counters {
    attempts: AtomicU64,
    successes: AtomicU64,
    duplicates: AtomicU64,
    conflicts: AtomicU64,
    busy: AtomicU64,
    failures: AtomicU64,
    requeues: AtomicU64,
    dead_letters: AtomicU64,
    forwarded: AtomicU64,
    lost: AtomicU64,
    latency_micros: AtomicU64,
    latency_buckets: [AtomicU64; LATENCY_BOUNDS.len() + 1],
}

/// One reading of the counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MailboxCounts {
    /// Calls of the handler.
    pub attempts: u64,
    /// Messages handled and committed.
    pub successes: u64,
    /// Messages acknowledged without the handler, because they had been handled before.
    pub duplicates: u64,
    /// Commits that found a read changed, and handlers that said conflict.
    pub conflicts: u64,
    /// Handlers that said busy.
    pub busy: u64,
    /// Handlers that failed for good, and frames that could not be handled.
    pub failures: u64,
    /// Messages put back for another attempt.
    pub requeues: u64,
    pub dead_letters: u64,
    /// Outbox rows put into an inbox.
    pub forwarded: u64,
    /// Claims whose lease was lost while a message was in hand.
    pub lost: u64,
    /// Time from the begin of an attempt to its commit, summed over the successes.
    pub latency_micros: u64,
    /// Successes by latency; see `LATENCY_BOUNDS`.
    pub latency_buckets: [u64; LATENCY_BOUNDS.len() + 1],
}

/// One counter as an exporter writes it down: it only grows while its worker lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Series {
    pub name: &'static str,
    pub help: &'static str,
    pub value: u64,
}

/// What is counted one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Count {
    Attempt,
    Duplicate,
    Conflict,
    Busy,
    Failure,
    Requeue,
    DeadLetter,
    Forwarded,
    Lost,
}

impl Counters {
    pub(crate) fn add(&self, count: Count) {
        let counter = match count {
            Count::Attempt => &self.attempts,
            Count::Duplicate => &self.duplicates,
            Count::Conflict => &self.conflicts,
            Count::Busy => &self.busy,
            Count::Failure => &self.failures,
            Count::Requeue => &self.requeues,
            Count::DeadLetter => &self.dead_letters,
            Count::Forwarded => &self.forwarded,
            Count::Lost => &self.lost,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn succeeded(&self, latency: Duration) {
        let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        let bucket = LATENCY_BOUNDS.partition_point(|bound| *bound < micros);
        self.successes.fetch_add(1, Ordering::Relaxed);
        self.latency_micros.fetch_add(micros, Ordering::Relaxed);
        self.latency_buckets[bucket].fetch_add(1, Ordering::Relaxed);
    }

    pub fn read(&self) -> MailboxCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        MailboxCounts {
            attempts: read(&self.attempts),
            successes: read(&self.successes),
            duplicates: read(&self.duplicates),
            conflicts: read(&self.conflicts),
            busy: read(&self.busy),
            failures: read(&self.failures),
            requeues: read(&self.requeues),
            dead_letters: read(&self.dead_letters),
            forwarded: read(&self.forwarded),
            lost: read(&self.lost),
            latency_micros: read(&self.latency_micros),
            latency_buckets: std::array::from_fn(|bucket| read(&self.latency_buckets[bucket])),
        }
    }
}

impl MailboxCounts {
    /// Every counter by name, for exporters. The latency stands beside them: `latency_buckets` by
    /// `LATENCY_BOUNDS`, and its sum.
    pub fn series(&self) -> [Series; 10] {
        let series = |name, help, value| Series { name, help, value };
        [
            series("attempts", "Calls of the handler.", self.attempts),
            series(
                "successes",
                "Messages handled and committed.",
                self.successes,
            ),
            series(
                "duplicates",
                "Messages acknowledged without the handler.",
                self.duplicates,
            ),
            series(
                "conflicts",
                "Commits that found a read changed.",
                self.conflicts,
            ),
            series("busy", "Handlers that said busy.", self.busy),
            series(
                "failures",
                "Handlers that failed for good, and frames that are none.",
                self.failures,
            ),
            series(
                "requeues",
                "Messages put back for another attempt.",
                self.requeues,
            ),
            series("dead_letters", "Messages given up.", self.dead_letters),
            series(
                "forwarded",
                "Outbox rows put into an inbox.",
                self.forwarded,
            ),
            series("lost", "Claims whose lease was lost in hand.", self.lost),
        ]
    }

    /// The counts of two workers together.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            attempts: self.attempts + other.attempts,
            successes: self.successes + other.successes,
            duplicates: self.duplicates + other.duplicates,
            conflicts: self.conflicts + other.conflicts,
            busy: self.busy + other.busy,
            failures: self.failures + other.failures,
            requeues: self.requeues + other.requeues,
            dead_letters: self.dead_letters + other.dead_letters,
            forwarded: self.forwarded + other.forwarded,
            lost: self.lost + other.lost,
            latency_micros: self.latency_micros + other.latency_micros,
            latency_buckets: std::array::from_fn(|at| {
                self.latency_buckets[at] + other.latency_buckets[at]
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// "Counters: attempts, successes, conflicts, busy, other failures, requeues, dead letters,
    /// latency"
    #[test]
    fn an_exporter_reads_every_counter_under_a_name_of_its_own() {
        let counters = Counters::default();
        let kinds = [
            (Count::Attempt, "attempts"),
            (Count::Duplicate, "duplicates"),
            (Count::Conflict, "conflicts"),
            (Count::Busy, "busy"),
            (Count::Failure, "failures"),
            (Count::Requeue, "requeues"),
            (Count::DeadLetter, "dead_letters"),
            (Count::Forwarded, "forwarded"),
            (Count::Lost, "lost"),
        ];
        for (times, (count, _)) in kinds.iter().enumerate() {
            (0..=times).for_each(|_| counters.add(*count));
        }
        let series = counters.read().series();
        for (times, (_, name)) in kinds.iter().enumerate() {
            let found = series.iter().find(|series| series.name == *name).unwrap();
            assert_eq!(
                (found.value, found.help.is_empty()),
                (times as u64 + 1, false),
                "{name}"
            );
        }
        assert_eq!(
            series.iter().filter(|series| series.value == 0).count(),
            1,
            "no success yet"
        );
    }

    #[test]
    fn latencies_fall_into_their_buckets() {
        let counters = Counters::default();
        for micros in [0, 16, 17, 5_000_000] {
            counters.succeeded(Duration::from_micros(micros));
        }
        let counts = counters.read();
        assert_eq!(
            (
                counts.latency_buckets[0],
                counts.latency_buckets[1],
                counts.latency_buckets[10]
            ),
            (2, 1, 1)
        );
        assert_eq!((counts.successes, counts.latency_micros), (4, 5_000_033));
    }
}
