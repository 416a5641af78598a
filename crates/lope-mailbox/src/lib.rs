//! Durable messages, timers and workers on the byte tables of a store.
//!
//! A worker has an inbox; a message in it is claimed, handled and acknowledged, and what the
//! handler wrote, emitted and armed becomes true in the same commit that removes the message. The
//! bytes are those of seed 000.

#[cfg(feature = "bench")]
pub mod bench;
mod boot;
mod config;
mod consumer;
mod consumer_loop;
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
pub mod record;
mod stop;
pub mod time;
pub mod trace;

pub use boot::boot;
pub use config::{Boot, ConsumerConfig, IsGone};
pub use consumer::{Consumer, ConsumerState, Tally};
pub use consumer_loop::{ConsumerLoop, ConsumerLoopError, ConsumerPool, Until};
pub use context::{About, Context, NestedScope};
pub use counters::{Counters, LATENCY_BOUNDS, MailboxCounts, Series};
pub use error::{BadMessage, BootError, ConsumerError, HandlerError};
pub use handler::{AsyncFnHandler, Handled, HandledFuture, Handler, SyncFnHandler, handler, plain};
pub use mailbox::{
    Armed, Counting, Dead, Depth, Leased, Mailbox, MailboxError, Queued, Sent, Stats, TimerQuery,
    WorkerStats,
};
pub use stop::StopSignal;
