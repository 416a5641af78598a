//! The library face of Lope: durable workflows inside a Rust program.
//!
//! A [`Flow`] is built from closures; a [`Runner`] starts it under an id, feeds it, and brings it
//! to its end through crashes and restarts. A [`Client`] looks at runs and steers them without
//! working. This is the only room that names a backend: [`stores`] turns a URL into a store; and
//! the only one that the binary names.
//!
//! ```
//! # #[tokio::main] async fn main() -> lope::Result<()> {
//! let flow = lope::Flow::builder("orders")
//!     .step("price", |amount: i64| async move { Ok(amount * 10) })
//!     .step("tax", |price: i64| async move { Ok(price / 5) })
//!     .after("price")
//!     .join("bill", ["price", "tax"], |(price, tax): (i64, i64)| async move { Ok(price + tax) })
//!     .policy(lope::policy("tax").retries(3).backoff(lope::Backoff::Exponential))
//!     .build()?;
//!
//! let runner = lope::Runner::open("memory:").await?;
//! runner.start_workflow("order-17", &flow, lope::StartOptions::default()).await?;
//! let result = runner.run_to_end("order-17", 7).await?;
//! assert_eq!(result.value::<i64>()?, 84);
//! # Ok(()) }
//! ```

pub mod agents;
mod client;
mod clock;
pub mod config;
pub mod convert;
pub mod copy;
pub mod describe;
pub mod doctor;
pub mod drive;
mod error;
pub mod executors;
mod flows;
mod host;
pub mod mailbox;
mod mailbox_send;
#[cfg(feature = "measure")]
pub mod measure;
pub mod reactive;
mod redaction;
mod results;
mod runner;
pub mod runs;
pub mod schedules;
pub mod secrets;
mod space_upkeep;
mod step_error;
pub mod stores;
pub mod telemetry;
pub mod tokens;
pub mod workers;
pub mod workflows;

pub use client::{Client, PreparedRun};
pub use error::{Error, Result};
pub use flows::{BAD_VALUE, ByHand, Facts, Flow, FlowBuilder, Match, PolicyRule, Work, policy};
pub use lope_definition::{Checkpoint, RedactedPath};
pub use lope_engine::{Breakdown, QueueLimits, Settings};
pub use lope_flow::law::Settled;
pub use lope_model::policy::Backoff;
pub use lope_model::{Failure, RunId, Value};
pub use lope_redaction::Redaction;
pub use lope_store::runs::RunStatus;
pub use lope_workers::{FunctionCall, InheritedEnvironment, process_tree};
pub use results::{Completion, InputResult, Results};
pub use runner::{
    LiveWorkflow, PendingAttempt, RunOptions, Runner, RunnerBuilder, StartOptions, Stop, Workflow,
};
pub use step_error::{StepError, StepResult};

/// The guide, whose examples are compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/embedding.md")]
struct Guide;

/// The guide to the mailbox; its commands are run by the tests of the binary.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/mailbox.md")]
struct MailboxGuide;

/// The guide to schedules, likewise.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/schedules.md")]
struct ScheduleGuide;
