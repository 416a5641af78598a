//! The limits of the mailbox, by name.

use lope_model::Span;

/// Most messages that one tick takes.
pub const BATCH_MAX: usize = 4_096;
/// Longest message id that can be sent, emitted or armed, in bytes: it must fit into a key of the
/// dedupe table.
pub const ID_MAX: usize = lope_model::limit::MESSAGE_ID_MAX;
/// Largest message, as a frame: it must fit into a row, also as a dead letter with its reason.
pub const FRAME_MAX: usize = lope_model::limit::PAYLOAD_MAX - 8 * 1_024;
/// A value up to this size guards itself; of a larger one its digest does.
pub const GUARD_INLINE_MAX: usize = 256;
/// Most writes and guards of steps that wait to be committed together.
pub const GROUP_ROWS_MAX: usize = 50_000;
/// Most bytes of steps that wait to be committed together.
pub const GROUP_BYTES_MAX: usize = 32 * 1_024 * 1_024;
/// Shortest term of a lease; a shorter one would be spent on its own commit.
pub const LEASE_MIN: Span = Span::from_millis(50);
/// Most rows of the lease table that are read at a time.
pub const LEASES_PAGE: usize = 1_000;
/// Most timers that are read at a time while looking for those of one worker.
pub const TIMERS_PAGE: usize = 1_000;
/// Most pages of timers that one claim looks through.
pub const TIMER_PAGES_MAX: usize = 16;
/// Most outbox rows that are forwarded at a time.
pub const FORWARD_MAX: usize = 1_000;
/// Claims that may lose against another claimer in a row before a tick goes on without.
pub const CLAIM_TRIES: u32 = 16;
/// Most rows of the dedupe table that one round of upkeep looks at.
pub const DEDUPE_PAGE: usize = 256;
/// Rows of a table that are counted before one says that there are more, and of each worker in a
/// table with more.
pub const COUNTED_MAX: usize = 100_000;
pub const COUNTED_EACH: usize = 1_000;
