//! Every limit has a name, a default and a reason. Settings may change those that rooms expose.

/// Longest name of a workflow, step, queue, realm, signal or key, in bytes.
pub const NAME_MAX: usize = 200;
/// Largest value that a step, an input or a signal may carry, encoded.
pub const PAYLOAD_MAX: usize = 16 * 1024 * 1024;
/// From this encoded size a value is stored once by content and referred to.
pub const INLINE_MAX: usize = 4 * 1024;
/// Deepest nesting of a value; deeper input is refused where it enters.
pub const DEPTH_MAX: usize = 128;
/// Most tags on a run.
pub const TAGS_MAX: usize = 32;
/// Longest key in the byte tables.
pub const KEY_MAX: usize = 1024;
/// Most rows that one range or listing returns.
pub const PAGE_MAX: usize = 10_000;
/// Longest error of a run that a listing shows; a longer one is read with the run.
pub const LISTED_ERROR_MAX: usize = 8 * 1024;
/// Most rows (writes, guards, journal rows) of one commit.
pub const COMMIT_ROWS_MAX: usize = 100_000;
/// Most runs that one claim takes.
pub const CLAIM_MAX: usize = 5_000;
/// Longest id of a message to a mailbox, in bytes: it must fit into a key.
pub const MESSAGE_ID_MAX: usize = 1_000;
/// Largest payload of a message or signal that a workflow sends: it leaves room for its envelope.
pub const MESSAGE_MAX: usize = PAYLOAD_MAX - 16 * 1_024;
/// Most mail that waits for one run.
pub const MAIL_MAX: u64 = 100_000;
/// Room beyond that, which only what steers a run and the ends of its children may use.
pub const MAIL_RESERVED: u64 = 10_000;
/// Most runs that are counted of those that have ended in the same way: a store may have millions.
pub const ENDED_COUNTED_MAX: u64 = 100_000;
/// Largest schedule, its input included, encoded: it is written with every fire.
pub const SCHEDULE_MAX: usize = 256 * 1024;
/// Most ticks of one schedule that wait for its last run to end.
pub const WAITING_TICKS_MAX: usize = 100;
/// Most missed ticks of one schedule that are caught up: older ones are given up.
pub const CATCH_UP_MAX: usize = 100;
/// Most rows that one selection of the board gives.
pub const BOARD_ROWS_MAX: usize = 100_000;
/// Most selections in one read of the board.
pub const BOARD_SELECTS_MAX: usize = 16;
/// Most values that a selection of the board looks for in one column.
pub const BOARD_VALUES_MAX: usize = 1_000;
/// Most changes in one commit to the board.
pub const BOARD_CHANGES_MAX: usize = 1_000;
/// Longest text in a row of the board, in bytes.
pub const BOARD_TEXT_MAX: usize = 256 * 1024;
