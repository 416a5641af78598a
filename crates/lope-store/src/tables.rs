//! The door *Tables*: ordered byte tables, read by key or range, written by guarded batches.
//!
//! A batch is guards and writes, applied together or not at all; the first failing guard is named.
//! Keys sort as bytes. What keys and values mean is the business of the rooms that own the tables.

mod batch;
mod manifest;
pub mod marker;
mod named;

use std::fmt;

pub use batch::{Append, Applied, Batch, BatchReply, Conflict, Guard, Write};
pub use manifest::{BadManifest, Manifest, ScopeRule, TableSpec};
pub use named::find_or_make_table;

use crate::door::{IntoRequest, door};
use crate::error::{StoreError, StoreResult};
use crate::watch::Watch;

/// A table by its index in the manifest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TableId(pub u16);

/// The seven tables of every store, in their fixed places.
impl TableId {
    pub const APP_STATE: Self = Self(0);
    pub const INBOX: Self = Self(1);
    pub const OUTBOX: Self = Self(2);
    pub const LEASES: Self = Self(3);
    pub const TIMERS: Self = Self(4);
    pub const DEDUPE: Self = Self(5);
    pub const DEAD_LETTER: Self = Self(6);
}

impl fmt::Display for TableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Where the value of a timer names its worker. Stores keep the timers in the order of these bytes,
/// too.
pub const TIMER_WORKER: std::ops::Range<usize> = 16..24;

/// The worker that the value of a timer names: fewer bytes, or none, of a value that is too short.
pub fn timer_worker(value: &[u8]) -> &[u8] {
    let end = value.len().min(TIMER_WORKER.end);
    &value[end.min(TIMER_WORKER.start)..end]
}

/// A key in a table.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct At {
    pub table: TableId,
    pub key: Vec<u8>,
}

impl At {
    pub fn new(table: TableId, key: impl Into<Vec<u8>>) -> Self {
        Self {
            table,
            key: key.into(),
        }
    }
}

/// Which way a range is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    Forward,
    Backward,
}

/// Keys `from <= key < to` (no `to`: to the end of the table), at most `limit` of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Range {
    pub table: TableId,
    pub from: Vec<u8>,
    pub to: Option<Vec<u8>>,
    pub direction: Direction,
    pub limit: usize,
}

impl Range {
    /// Every key that begins with `prefix`, forwards.
    pub fn prefix(table: TableId, prefix: &[u8], limit: usize) -> Self {
        let from = prefix.to_vec();
        let to = after_prefix(prefix);
        Self {
            table,
            from,
            to,
            direction: Direction::Forward,
            limit,
        }
    }

    /// Is this a range of the timers?
    pub fn of_timers(&self) -> StoreResult<()> {
        if self.table == TableId::TIMERS {
            return Ok(());
        }
        Err(StoreError::refused(format!(
            "table {} has no workers to look for",
            self.table
        )))
    }

    /// Every key of a table, forwards, without a limit of its own.
    pub fn whole(table: TableId) -> Self {
        Self::prefix(table, b"", usize::MAX)
    }
}

/// The first key behind all keys that begin with `prefix`, if there is one.
pub fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let kept = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut end = prefix[..=kept].to_vec();
    end[kept] += 1;
    Some(end)
}

/// A row of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    pub key: Vec<u8>,
    pub value: Vec<u8>,
}

impl IntoRequest<At> for &At {
    fn into_request(self) -> At {
        self.clone()
    }
}

impl IntoRequest<Manifest> for &Manifest {
    fn into_request(self) -> Manifest {
        self.clone()
    }
}

door! {
    /// Ordered byte tables.
    door Tables, verbs TablesVerbs, request TablesRequest, answer TablesAnswer;

    plain {
        /// Wakes when somebody, in this process or another, has committed to the tables.
        fn watch(&self) -> Watch;
    }

    verbs {
        /// Make the tables of `manifest` exist. A name that stands at another index in the store is
        /// refused. Repeating it changes nothing; two processes at once agree.
        async fn open as Open(manifest: &Manifest => Manifest) -> StoreResult<()>;

        /// The manifest as the store has it. A new store has the seven standard tables.
        async fn manifest as Manifest() -> StoreResult<Manifest>;

        /// The values at these keys, in order, all from one snapshot.
        async fn get as Get(keys: &[At] => Vec<At>) -> StoreResult<Vec<Option<Vec<u8>>>>;

        /// The rows of a range, from one snapshot. A `limit` above `limit::PAGE_MAX` means that many.
        async fn range as Range(range: Range) -> StoreResult<Vec<Row>>;

        /// The rows of a range of the timers whose values name this worker: those that have these bytes
        /// at [`TIMER_WORKER`]. Others' timers are not looked at, however many there are. A range of
        /// another table is refused.
        async fn timers_of as TimersOf(worker: &[u8] => Vec<u8>, range: Range) -> StoreResult<Vec<Row>>;

        /// How many rows a range holds. Counting stops at its `limit`, which may be above
        /// `limit::PAGE_MAX`; it takes time in proportion to what is counted.
        async fn count as Count(range: Range) -> StoreResult<u64>;

        /// The version of a scope: grows with every committed write to a key in it. 0 if never written.
        /// `scope` is what [`Manifest::scope_of`] gives for a key; only for tables whose manifest
        /// declares a scope.
        async fn scope_version as ScopeVersion(scope: &At => At) -> StoreResult<u64>;

        /// Apply each batch on its own, all or nothing, as if one after the other in some order.
        /// Answers in the order of the batches; a conflict in one leaves the others alone. What is
        /// answered as applied is durable.
        async fn commit as Commit(batches: Vec<Batch>) -> StoreResult<Vec<BatchReply>>;

        /// The same for what need not outlive the machine, such as a lease, whose holder dies with it:
        /// seen by everybody at once, lost to nobody's crash, but perhaps to a power failure, and then
        /// with everything that was committed this way after the last flush. A store that gains nothing
        /// by it flushes.
        async fn commit_unflushed as CommitUnflushed(
            batches: Vec<Batch>,
        ) -> StoreResult<Vec<BatchReply>>;
    }
}
