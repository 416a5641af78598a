//! Counters and histograms of one runner, readable in the program and as Prometheus text.

use std::fmt;
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

type Labels = [(&'static str, &'static str); 1];

/// What a runner counts.
pub struct Metrics {
    registry: Registry,
    started: Counter,
    inputs: Family<Labels, Counter>,
    steps: Family<Labels, Counter>,
    retries: Counter,
    step_seconds: Histogram,
    store_calls: Family<Labels, Counter>,
    store_failures: Counter,
    store_seconds: Histogram,
}

impl Metrics {
    pub(super) fn new(runner: &str) -> Self {
        let labels = [("runner".into(), runner.to_owned().into())];
        let mut registry = Registry::with_labels(labels.into_iter());
        // From 10 µs to about 2 minutes.
        let seconds = || Histogram::new(exponential_buckets(1e-5, 4.0, 13));
        let metrics = Self {
            started: Counter::default(),
            inputs: Family::default(),
            steps: Family::default(),
            retries: Counter::default(),
            step_seconds: seconds(),
            store_calls: Family::default(),
            store_failures: Counter::default(),
            store_seconds: seconds(),
            registry: Registry::default(),
        };
        registry.register(
            "lope_workflows_started",
            "Workflows started or resumed",
            metrics.started.clone(),
        );
        registry.register(
            "lope_inputs",
            "Inputs settled, by outcome",
            metrics.inputs.clone(),
        );
        registry.register(
            "lope_steps",
            "Attempts ended, by outcome",
            metrics.steps.clone(),
        );
        registry.register(
            "lope_step_retries",
            "Attempts that failed and are made again",
            metrics.retries.clone(),
        );
        registry.register(
            "lope_step_seconds",
            "Time of an attempt",
            metrics.step_seconds.clone(),
        );
        registry.register(
            "lope_store_calls",
            "Calls of the store, by verb",
            metrics.store_calls.clone(),
        );
        registry.register(
            "lope_store_failures",
            "Calls that the store did not answer",
            metrics.store_failures.clone(),
        );
        registry.register(
            "lope_store_seconds",
            "Time of a call of the store",
            metrics.store_seconds.clone(),
        );
        Self {
            registry,
            ..metrics
        }
    }

    /// Everything, as Prometheus (OpenMetrics) text.
    pub fn encode(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("writing to a string does not fail");
        text
    }

    /// Workflows started or resumed.
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
