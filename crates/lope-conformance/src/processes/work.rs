//! How much the processes do together.

use std::time::Duration;

/// How many processes share the store.
pub const PROCESSES: usize = 8;

/// How much each process does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Workload {
    /// Runs that each admits.
    pub runs: usize,
    /// Keys under which all try to admit.
    pub shared_keys: usize,
    /// Guarded increments and appends that each makes.
    pub increments: usize,
    /// How long a process waits for the runs to end: one that sleeps over its signal never does.
    pub patience: Duration,
}

impl Workload {
    /// A sample for every test run, or ten times as much when `LOPE_CHAOS=full`.
    pub fn chosen() -> Self {
        let full = std::env::var("LOPE_CHAOS").is_ok_and(|chaos| chaos == "full");
        let sample = Self {
            runs: 20,
            shared_keys: 12,
            increments: 20,
            patience: Duration::from_mins(1),
        };
        let whole = Self {
            runs: 200,
            shared_keys: 100,
            increments: 200,
            patience: Duration::from_mins(10),
        };
        if full { whole } else { sample }
    }
}
