//! The bounds of values, links and documents, by name. What is beyond one is refused or given up
//! with an error that says so.

use lope_model::Span;
use lope_model::limit::{COMMIT_ROWS_MAX, PAYLOAD_MAX};

/// Links followed from one address before it counts as leading nowhere.
pub const HOPS_MAX: usize = 100;

/// Longest entity id that may be stored, in bytes: with the name of its space it is a key of a
/// table, which has at most 1,024. An inline (`data:`) id is never a key.
pub const ENTITY_ID_MAX: usize = 640;

/// Longest name of a space, in bytes.
pub const SPACE_NAME_MAX: usize = 256;

/// Deepest value that may be written.
pub const DEPTH_MAX: usize = 128;

/// Most parts that one projected read may have, all links followed.
pub const PROJECTED_MAX: usize = 250_000;

/// Runs of one node in one pass before it has to wait.
pub const RUNS_PER_PASS_MAX: u32 = 10;

/// The first wait of a node that does not settle, and the longest.
pub const BACKOFF_FIRST: Span = Span::from_millis(250);
pub const BACKOFF_MAX: Span = Span::from_millis(2_000);

/// Messages that may follow from each other, from node to node, before each next one has to wait; and
/// how many of them before that are told.
pub const CHAIN_MAX: u32 = 100;
pub const CHAIN_TOLD: u32 = 16;

/// Changes of one wave that its history has one by one; of those beyond it, the documents alone.
pub const HISTORY_CHANGES_MAX: usize = 5_000;

/// Longest value, as text, that the history of a cell keeps.
pub const HISTORY_VALUE_MAX: usize = 1_024;

/// Messages to other spaces that may wait because those have no room for them.
pub const POSTS_MAX: usize = 10_000;

/// Longest message to another space, in bytes, and all of those together that one run of a node sends.
pub const POST_MAX: usize = PAYLOAD_MAX - 64 * 1_024;

/// Largest document, in bytes; and what the record of a failure may take beyond that.
pub const DOCUMENT_MAX: usize = PAYLOAD_MAX - 64 * 1_024;
pub const DOCUMENT_RESERVED: usize = 48 * 1_024;

/// Rows that the documents of one wave may take, and their bytes. A wave with half of either in it, or
/// with so many nodes that ran, is saved before everything has come to rest, and the next one goes on.
pub const WAVE_ROWS_MAX: usize = COMMIT_ROWS_MAX / 4 * 3;
pub const WAVE_BYTES_MAX: usize = 512 * 1_024 * 1_024;
pub const WAVE_NODES_MAX: usize = COMMIT_ROWS_MAX / 4;

/// Longest row, in bytes, of a document that is written whole whenever it changes; and the first of
/// the rows that hold what changed of a longer one.
pub const DOCUMENT_WHOLE_MAX: usize = 4 * 1_024;

/// Rows that hold what changed of a long document; each may be sixteen times as long as the one
/// before.
pub const DOCUMENT_LEVELS: usize = 3;
