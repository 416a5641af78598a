//! Counters and histograms of one runner, readable in the program and as Prometheus text.

use std::fmt;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use lope_workers::Pool;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

type Labels = [(&'static str, &'static str); 1];

/// Metrics as a table: field, kind, name and what it tells.
macro_rules! metrics {
    ($($field:ident: $kind:ty = $made:expr, $name:literal, $about:literal;)*) => {
        /// What a runner counts.
        pub struct Metrics {
            registry: Registry,
            pool: OnceLock<Weak<Pool>>,
            $($field: $kind,)*
        }

        impl Metrics {
            pub(super) fn new(runner: &str) -> Self {
                let labels = [("runner".into(), runner.to_owned().into())];
                let mut registry = Registry::with_labels(labels.into_iter());
                $(let $field = $made;
                registry.register($name, $about, <$kind>::clone(&$field));)*
                Self { registry, pool: OnceLock::new(), $($field,)* }
            }
        }
    };
}

metrics! {
    started: Counter = Counter::default(), "lope_workflows_started", "Workflows started or resumed, and runs taken up for the first time";
    inputs: Family<Labels, Counter> = Family::default(), "lope_inputs", "Inputs settled, by outcome";
    steps: Family<Labels, Counter> = Family::default(), "lope_steps", "Attempts ended, by outcome";
    retries: Counter = Counter::default(), "lope_step_retries", "Attempts that failed and are made again";
    step_seconds: Histogram = seconds(), "lope_step_seconds", "Time of an attempt";
    store_calls: Family<Labels, Counter> = Family::default(), "lope_store_calls", "Calls of the store, by verb";
    store_failures: Counter = Counter::default(), "lope_store_failures", "Calls that the store did not answer";
    store_seconds: Histogram = seconds(), "lope_store_seconds", "Time of a call of the store";
    commit_seconds: Histogram = seconds(), "lope_commit_seconds", "Time of a commit of runs";
    commit_runs: Histogram = counts(), "lope_commit_runs", "Runs that one commit writes";
    leases_lost: Counter = Counter::default(), "lope_leases_lost", "Times that the runner had lost its lease";
    workers: Gauge = Gauge::default(), "lope_workers", "Worker processes that do the runner's actions";
}

/// From 10 µs to about 2 minutes.
fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(1e-5, 4.0, 13))
}

/// From 1 to 4,096.
fn counts() -> Histogram {
    Histogram::new(exponential_buckets(1.0, 2.0, 13))
}

impl Metrics {
    /// Everything, as Prometheus (OpenMetrics) text.
    pub fn encode(&self) -> String {
        let pool = self.pool.get().and_then(Weak::upgrade);
        let workers = pool.map_or(0, |pool| pool.workers().len());
        self.workers.set(i64::try_from(workers).unwrap_or(i64::MAX));
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("writing to a string does not fail");
        text
    }

    /// The pool whose workers are counted.
    pub(crate) fn count_workers_of(&self, pool: &Arc<Pool>) {
        // A runner has one pool.
        let _ = self.pool.set(Arc::downgrade(pool));
    }

    /// Workflows started or resumed, and runs that others started and that were first taken up here.
    pub fn started(&self) -> u64 {
        self.started.get()
    }

    /// Inputs that settled with a value.
    pub fn inputs_done(&self) -> u64 {
        read(&self.inputs, "outcome", "done")
    }

    pub fn inputs_failed(&self) -> u64 {
        read(&self.inputs, "outcome", "failed")
    }

    /// Attempts that ended with an output.
    pub fn steps_done(&self) -> u64 {
        read(&self.steps, "outcome", "done")
    }

    /// Attempts that failed.
    pub fn steps_failed(&self) -> u64 {
        read(&self.steps, "outcome", "failed")
    }

    pub fn retries(&self) -> u64 {
        self.retries.get()
    }

    /// Calls of one verb of the store.
    pub fn store_calls(&self, operation: &'static str) -> u64 {
        read(&self.store_calls, "operation", operation)
    }

    pub fn store_failures(&self) -> u64 {
        self.store_failures.get()
    }

    pub(super) fn count_start(&self) {
        self.started.inc();
    }

    pub(super) fn count_input(&self, outcome: &'static str) {
        self.inputs.get_or_create(&[("outcome", outcome)]).inc();
    }

    pub(super) fn count_attempt(&self, outcome: &'static str, took: Option<Duration>) {
        self.steps.get_or_create(&[("outcome", outcome)]).inc();
        took.iter()
            .for_each(|took| self.step_seconds.observe(took.as_secs_f64()));
    }

    pub(super) fn count_commit(&self, runs: usize, took: Duration) {
        self.commit_runs.observe(runs as f64);
        self.commit_seconds.observe(took.as_secs_f64());
    }

    pub(super) fn count_lost_lease(&self) {
        self.leases_lost.inc();
    }

    pub(super) fn count_retry(&self) {
        self.retries.inc();
    }

    pub(super) fn count_call(&self, operation: &'static str, took: Duration, failed: bool) {
        self.store_calls
            .get_or_create(&[("operation", operation)])
            .inc();
        self.store_seconds.observe(took.as_secs_f64());
        if failed {
            self.store_failures.inc();
        }
    }
}

fn read(family: &Family<Labels, Counter>, label: &'static str, value: &'static str) -> u64 {
    family
        .get(&[(label, value)])
        .map_or(0, |counter| counter.get())
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Metrics({} steps done)", self.steps_done())
    }
}
