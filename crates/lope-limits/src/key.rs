//! What a limit is called, and where its row is.

use std::fmt;
use std::sync::Arc;

use lope_model::{Digest, Timestamp};
use lope_store::tables::{At, TableId};

/// The table that limits live in, by name: its place differs from store to store.
pub(crate) const TABLE: &str = "limits";

/// First bytes of rows: what kind of limit they are, or that they list outcomes by their time.
pub(crate) const OUTCOME: u8 = b'o';
pub(crate) const PERMITS: u8 = b'p';
pub(crate) const CIRCUIT: u8 = b'c';
pub(crate) const RATE: u8 = b'r';
pub(crate) const QUEUE_RATE: u8 = b'q';
pub(crate) const BY_TIME: u8 = b't';

/// What users call a kind of row.
pub(crate) const fn kind_name(kind: u8) -> &'static str {
    match kind {
        OUTCOME => "the idempotency key",
        PERMITS => "the concurrency key",
        CIRCUIT => "the circuit",
        RATE => "the rate",
        QUEUE_RATE => "the rate of queue",
        _ => "the limit",
    }
}

/// One limit of a store.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LimitKey {
    /// Attempts with an equal idempotency key have one effect.
    Outcome(Arc<str>),
    /// At most so many attempts with an equal key are at work at once.
    Permits(Arc<str>),
    Circuit(Arc<str>),
    Rate(Arc<str>),
    /// How often runs of a queue begin.
    QueueRate(Arc<str>),
}

impl LimitKey {
    pub fn name(&self) -> &Arc<str> {
        match self {
            Self::Outcome(name)
            | Self::Permits(name)
            | Self::Circuit(name)
            | Self::Rate(name)
            | Self::QueueRate(name) => name,
        }
    }

    const fn kind(&self) -> u8 {
        match self {
            Self::Outcome(_) => OUTCOME,
            Self::Permits(_) => PERMITS,
            Self::Circuit(_) => CIRCUIT,
            Self::Rate(_) => RATE,
            Self::QueueRate(_) => QUEUE_RATE,
        }
    }

    /// Keys of users may be long; rows are found by their digest.
    pub(crate) fn at(&self, table: TableId) -> At {
        let digest = Digest::of(self.name().as_bytes());
        At::new(table, [&[self.kind()], &digest.as_bytes()[..]].concat())
    }
}

impl fmt::Display for LimitKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} '{}'", kind_name(self.kind()), self.name())
    }
}

/// The row that lists an outcome by its time.
pub(crate) fn by_time(table: TableId, done_at: Timestamp, outcome: &At) -> At {
    At::new(
        table,
        [&time_prefix(done_at)[..], &outcome.key[..]].concat(),
    )
}

/// Where the rows of a time begin.
pub(crate) fn time_prefix(at: Timestamp) -> [u8; 9] {
    let mut key = [BY_TIME; 9];
    key[1..].copy_from_slice(&at.millis().max(0).to_be_bytes());
    key
}

/// The outcome that a row of the list by time stands for.
pub(crate) fn listed(table: TableId, key: &[u8]) -> Option<At> {
    key.get(9..)
        .filter(|key| !key.is_empty())
        .map(|key| At::new(table, key))
}
