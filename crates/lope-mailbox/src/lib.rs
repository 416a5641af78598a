//! Durable messages, timers and workers on the byte tables of a store.
//!
//! A worker has an inbox; a message in it is claimed, handled and acknowledged, and what the handler wrote, emitted and
//! armed becomes true in the same commit that removes the message. The bytes are those of seed 000.

#[cfg(feature = "bench")]
pub mod bench;
mod boot;
mod config;
mod context;
mod counters;
mod error;
pub mod frame;
mod group;
mod handler;
pub mod key;
pub mod law;
pub mod limit;
mod mailbox;
pub mod message;
pub mod process;
pub mod record;
mod runner;
mod stop;
pub mod time;
pub mod trace;
mod worker;

pub use boot::boot;
pub use config::{Boot, Config, IsGone};
pub use context::{About, Context, Scope};
pub use counters::{Counters, Counts, LATENCY_BOUNDS, Series};
pub use error::{BadMessage, BootError, HandlerError, RunnerError};
pub use handler::{Handled, HandledFuture, Handler, Plain, Waiting, handler, plain};
pub use mailbox::{
    Armed, Counting, Dead, Depth, Found, Leased, Look, Mailbox, MailboxError, Queued, Sent, Stats, WorkerStats,
};
pub use runner::{Runner, RunnerState, Tally};
pub use stop::Stop;
pub use worker::{Crew, Until, Worker, WorkerError};

/// The guide's example compiles and runs with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/mailbox.md")]
struct Guide;
