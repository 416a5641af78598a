//! The mailbox of seed 000 with the engine behind it: everything of `lope-mailbox`, and the
//! handlers that it cannot have by itself: per message a run of a workflow, an action of a worker,
//! or a program.

mod workflow;

#[cfg(feature = "measure")]
pub use lope_mailbox::bench;
pub use lope_mailbox::{
    About, Armed, AsyncFnHandler, BadMessage, Boot, BootError, Consumer, ConsumerConfig,
    ConsumerError, ConsumerLoop, ConsumerLoopError, ConsumerPool, ConsumerState, Context, Counters,
    Counting, Dead, Depth, Handled, HandledFuture, Handler, HandlerError, IsGone, LATENCY_BOUNDS,
    Leased, Mailbox, MailboxCounts, MailboxError, NestedScope, Queued, Sent, Series, Stats,
    StopSignal, SyncFnHandler, Tally, TimerQuery, Until, WorkerStats, boot, handler, plain,
};
pub use lope_mailbox::{frame, key, law, limit, message, record, time, trace};

pub use lope_workers::action_handler::{ActionHandler, NEVER_FAILURE, run_key};
pub use lope_workers::process_handler as process;

pub use workflow::{WorkflowHandler, WorkflowSource};
