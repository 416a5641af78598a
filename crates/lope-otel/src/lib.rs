//! Traces and metrics for OpenTelemetry: what a runner did goes to a collector, by OTLP over HTTP as
//! JSON.
//!
//! A run that ended here becomes one trace: the run, its executions below it, their attempts below
//! those, with the times of its journal. What a runner counted goes with it now and then. A
//! collector that is away costs spans, never runs. Nothing of inputs and outputs is sent.

mod export_settings;
mod exporter;
mod metrics;
mod spans;

pub use export_settings::{BadExport, ExportSettings};
pub use exporter::Exporter;
