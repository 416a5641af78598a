//! The bounds of the reactive runner, by name. What is beyond one is refused or given up with an
//! error that says so.

pub use lope_cells::limit::{
    BACKOFF_FIRST, BACKOFF_MAX, CHAIN_MAX, DOCUMENT_LEVELS, DOCUMENT_MAX, DOCUMENT_RESERVED,
    DOCUMENT_WHOLE_MAX, POST_MAX, POSTS_MAX, RUNS_PER_PASS_MAX, WAVE_BYTES_MAX, WAVE_NODES_MAX,
    WAVE_ROWS_MAX,
};
use lope_model::Span;
use lope_model::limit::PAYLOAD_MAX;

/// Events that may wait for one stream.
pub const BACKLOG_MAX: usize = 256;

/// How long an event waits for a handler before it is a dead letter.
pub const HANDLER_WAIT: Span = Span::from_secs(30);

/// Events handled before what they changed is brought up to date and saved.
pub const EVENTS_PER_WAVE_MAX: usize = 256;

/// Receipts that are remembered, so that an event that is delivered again takes effect once.
pub const RECEIPTS_MAX: usize = 16_384;

/// How long a receipt is kept in a store.
pub const RECEIPT_KEPT: Span = Span::from_secs(7 * 24 * 60 * 60);

/// Waves of a space whose changes are kept.
pub const HISTORY_MAX: u64 = 1_000;

/// Processes from one that was started in its own right down to the last of its children.
pub const PROCESS_DEPTH_MAX: usize = 64;

/// Children that one node may have.
pub const CHILDREN_MAX: usize = 10_000;

/// Processes of one space, all together.
pub const PROCESSES_MAX: usize = 16_384;

/// Runs of nodes before whoever hosts the space looks whether it is to stop.
pub const RUNS_PER_SLICE_MAX: usize = 256;

/// Documents that one read from outside may go through.
pub const DOCUMENTS_MAX: usize = 10_000;

/// Recipes met as values that are kept; beyond it they are read anew when they are met again.
pub const DISCOVERED_RECIPES_MAX: usize = 1_024;

/// Messages that are moved to other spaces at a time, and their bytes.
pub const POSTS_AT_ONCE: usize = 1_000;
pub const POST_BYTES_AT_ONCE: usize = 32 * 1_024 * 1_024;

/// How soon messages are tried again for which another space had no room.
pub const POST_AGAIN: Span = Span::from_millis(500);

/// Longest record of a node, and of the changes of a wave, in bytes; what is beyond is left out.
pub const RECORD_MAX: usize = PAYLOAD_MAX / 2;

/// Longest message of a failure that is kept, in bytes.
pub const FAILURE_MAX: usize = 8 * 1_024;
