//! What happens in a runner, for whoever watches: events to subscribe to, metrics to read,
//! `tracing` spans.
//!
//! Events come from the runner alone; a flow that is advanced by hand emits none.

mod executors;
mod metrics;
mod recorder;
mod store;

use std::sync::Arc;
use std::time::Duration;

use lope_model::{Failure, RunId, Timestamp};

pub(crate) use executors::observed as observed_executors;
pub use metrics::Metrics;
pub(crate) use recorder::Telemetry;
pub(crate) use store::observed as observed_store;

pub const WORKFLOW_START: &str = "lope.runner.workflow.start";
pub const WORKFLOW_STOP: &str = "lope.runner.workflow.stop";
pub const WORKFLOW_EXCEPTION: &str = "lope.runner.workflow.exception";
pub const STEP_START: &str = "lope.runner.step.start";
pub const STEP_STOP: &str = "lope.runner.step.stop";
pub const STEP_EXCEPTION: &str = "lope.runner.step.exception";
pub const STORE_START: &str = "lope.runner.store.start";
pub const STORE_STOP: &str = "lope.runner.store.stop";
pub const STORE_EXCEPTION: &str = "lope.runner.store.exception";
/// An attempt failed and another will be made. It comes beside the exception of the attempt.
pub const STEP_RETRY: &str = "lope.runner.step.retry";

/// The names of the events that come in threes: a start, and a stop or an exception.
pub const fn event_names() -> [&'static str; 9] {
    [
        WORKFLOW_START,
        WORKFLOW_STOP,
        WORKFLOW_EXCEPTION,
        STEP_START,
        STEP_STOP,
        STEP_EXCEPTION,
        STORE_START,
        STORE_STOP,
        STORE_EXCEPTION,
    ]
}

/// Something that happened. Fields that do not apply are absent.
#[derive(Clone, PartialEq, Debug)]
pub struct TelemetryEvent {
    /// One of the constants here.
    pub name: &'static str,
    pub at: Timestamp,
    pub runner: Arc<str>,
    /// How long it took; of a stop or an exception.
    pub duration: Option<Duration>,
    pub run: Option<RunId>,
    /// The id that the program gave the workflow.
    pub id: Option<Arc<str>>,
    /// The name of the flow.
    pub workflow: Option<Arc<str>>,
    /// The path of the step in the flow.
    pub step: Option<Arc<str>>,
    pub execution: Option<Arc<str>>,
    pub attempt: Option<u32>,
    /// The verb of the store.
    pub operation: Option<&'static str>,
    pub error: Option<Failure>,
}
