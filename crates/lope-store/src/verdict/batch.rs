//! Do the guards of a batch hold, and may its writes make what they make?

use std::borrow::Cow;

use lope_model::Digest;

use crate::tables::{At, Batch, Conflict, Guard, Manifest};

/// What a store knows of a row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RowFacts<'a> {
    Absent,
    /// There; its value was not asked for, so nothing can be said of it.
    Unread,
    Digest(Digest),
    Value(Cow<'a, [u8]>),
}

/// Where the facts about rows and scopes come from, each gathered when a guard asks for it.
pub trait TableFacts {
    /// Why a fact could not be gathered.
    type Fault;
    fn is_there(&mut self, at: &At) -> Result<bool, Self::Fault>;
    fn row(&mut self, at: &At) -> Result<RowFacts<'_>, Self::Fault>;
    /// 0 for a scope that was never written.
    fn scope_version(&mut self, scope: &At) -> Result<u64, Self::Fault>;
}

/// All guards hold, or the first that does not is named.
pub fn guards<F: TableFacts>(
    batch: &Batch,
    manifest: &Manifest,
    facts: &mut F,
) -> Result<Result<(), Conflict>, F::Fault> {
    for (index, guard) in batch.guards.iter().enumerate() {
        if !holds(guard, manifest, facts)? {
            let at = guard.at().clone();
            return Ok(Err(Conflict { index, at }));
        }
    }
    Ok(Ok(()))
}

fn holds<F: TableFacts>(
    guard: &Guard,
    manifest: &Manifest,
    facts: &mut F,
) -> Result<bool, F::Fault> {
    Ok(match guard {
        Guard::Absent(at) => !facts.is_there(at)?,
        Guard::Equals(at, value) => facts.row(at)?.equals(value),
        Guard::Unchanged(at, digest) => facts.row(at)?.has_digest(digest),
        Guard::ScopeUnchanged(at, version) => match manifest.scope_of(at) {
            Some(scope) => facts.scope_version(&scope)? == *version,
            None => *version == 0,
        },
    })
}

impl RowFacts<'_> {
    fn equals(&self, value: &[u8]) -> bool {
        match self {
            Self::Absent | Self::Unread => false,
            Self::Digest(digest) => *digest == Digest::of(value),
            Self::Value(found) => &**found == value,
        }
    }

    fn has_digest(&self, digest: &Digest) -> bool {
        match self {
            Self::Absent | Self::Unread => false,
            Self::Digest(found) => found == digest,
            Self::Value(found) => Digest::of(found) == *digest,
        }
    }
}

/// A `Create` makes a key that is not there, as the writes before it leave the table; of a batch
/// whose `Create` meets a key nothing is written. `write`: its place among the writes.
pub fn create(batch: &Batch, write: usize, at: &At, is_there: bool) -> Result<(), Conflict> {
    if !is_there {
        return Ok(());
    }
    Err(Conflict {
        index: batch.guards.len() + write,
        at: at.clone(),
    })
}
