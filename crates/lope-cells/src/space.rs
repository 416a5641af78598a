//! Spaces and what committing means.
//!
//! A commit checks that everything the transaction read still reads the same, by address and
//! extent, and then applies its operations. Writes to other keys of the same document are no
//! conflict. What was changed comes back, document by document, for whoever depends on it.

use std::sync::Arc;

use crate::address::CellAddress;
use crate::error::{CommitError, CommitRefusal};
use crate::id::{EntityId, SpaceName};
use crate::json::Json;
use crate::path::CellPath;
use crate::read::{BeyondBound, Extent, Reads};
use crate::resolve;
use crate::snapshot::SpaceSnapshot;
use crate::transaction::operation::Operation;
use crate::transaction::{EffectRequest, Post, ReadLog, Transaction};

/// The documents of several spaces, and the way to change them.
#[derive(Clone, Debug, Default)]
pub struct Spaces {
    now: SpaceSnapshot,
}

/// What a commit did.
#[derive(Clone, Debug, PartialEq)]
pub struct Committed {
    /// The space that was written, if any, and how many commits have changed it.
    pub space: Option<(SpaceName, u64)>,
    pub changes: Vec<DocumentChange>,
    pub effects: Vec<EffectRequest>,
    /// What is to be asked of spaces, in order.
    pub posts: Vec<Post>,
}

/// A document that a commit changed.
#[derive(Clone, Debug, PartialEq)]
pub struct DocumentChange {
    pub space: SpaceName,
    pub id: EntityId,
    pub before: Option<Json>,
    pub after: Option<Json>,
    /// Where the two differ.
    pub paths: Vec<PathChange>,
}

/// A place in a document that a commit changed.
#[derive(Clone, Debug, PartialEq)]
pub struct PathChange {
    pub path: CellPath,
    /// What stood there, and what stands there now.
    pub before: Option<Json>,
    pub after: Option<Json>,
}

impl DocumentChange {
    /// What stood at a place before, and what stands there now.
    pub(crate) fn at(&self, keys: &[Arc<str>]) -> [Option<&Json>; 2] {
        [&self.before, &self.after].map(|root| root.as_ref()?.at(keys))
    }

    /// The place in the document that `path` leads to.
    pub fn address(&self, path: &CellPath) -> CellAddress {
        CellAddress {
            space: self.space.clone(),
            id: self.id.clone(),
            path: path.clone(),
        }
    }
}

impl Spaces {
    /// The state as it is, for a cheap clone.
    pub fn snapshot(&self) -> &SpaceSnapshot {
        &self.now
    }

    /// A transaction that sees the state as it is.
    pub fn begin(&self) -> Transaction {
        Transaction::on(self.now.clone())
    }

    /// A transaction that sees the state as it is and writes one space; what it writes to others is
    /// asked of them after the commit.
    pub fn begin_in(&self, home: &SpaceName) -> Transaction {
        let mut transaction = self.begin();
        transaction.home = Some(home.clone());
        transaction
    }

    /// Puts a document in as it was stored, without a commit.
    pub fn load(&mut self, space: &SpaceName, id: EntityId, value: Json) {
        self.now.put(space, id, Some(value));
    }

    /// Puts a document in as it is stored elsewhere by now; says what that changed.
    pub fn replace(
        &mut self,
        space: &SpaceName,
        id: &EntityId,
        value: Option<Json>,
    ) -> Option<DocumentChange> {
        let before = self.now.document(space, id).cloned();
        let change = changed(space, before, value, &[(id, &CellPath::root())])?;
        self.now.put(space, id.clone(), change.after.clone());
        Some(change)
    }

    /// What a transaction read; taken out of it if nothing has changed since it began, so that
    /// there is nothing to check.
    pub fn take_reads(&self, transaction: &mut Transaction) -> ReadLog {
        if self.now.is_same(&transaction.begun) {
            return std::mem::take(&mut transaction.reads);
        }
        transaction.reads.clone()
    }

    /// Applies a transaction, or leaves everything as it was.
    pub fn commit(&mut self, mut transaction: Transaction) -> Result<Committed, CommitError> {
        self.validate_preconditions(&transaction)?;
        self.validate_reads(&transaction)?;
        let effects = std::mem::take(&mut transaction.effects);
        let posts = std::mem::take(&mut transaction.posts);
        let Some(space) = transaction.space.clone() else {
            return Ok(Committed {
                space: None,
                changes: Vec::new(),
                effects,
                posts,
            });
        };
        let changes = self.changes(&space, &transaction)?;
        drop(transaction);
        let after = changes.iter();
        let after = after.map(|change| (change.id.clone(), change.after.clone()));
        let revision = self.now.commit(&space, after);
        Ok(Committed {
            space: Some((space, revision)),
            changes,
            effects,
            posts,
        })
    }

    fn validate_preconditions(&self, transaction: &Transaction) -> Result<(), CommitRefusal> {
        for (at, expected) in &transaction.preconditions {
            let found = resolve::read(&mut Unrecorded(&self.now), at);
            if found != *expected {
                return Err(CommitRefusal::Precondition {
                    at: at.clone(),
                    expected: expected.clone(),
                    found,
                });
            }
        }
        Ok(())
    }

    fn validate_reads(&self, transaction: &Transaction) -> Result<(), CommitError> {
        if self.now.is_same(&transaction.begun) {
            return Ok(());
        }
        for (at, extent) in &transaction.reads {
            let before = transaction.begun.at(at);
            if !extent.is_same(before, self.now.at(at)) {
                return Err(CommitError::Conflict { at: at.clone() });
            }
        }
        Ok(())
    }

    fn changes(
        &self,
        space: &SpaceName,
        transaction: &Transaction,
    ) -> Result<Vec<DocumentChange>, CommitRefusal> {
        let places = transaction.operations.iter().map(|operation| &operation.at);
        let mut places: Vec<(&EntityId, &CellPath)> = places.map(|at| (&at.id, &at.path)).collect();
        places.sort_unstable();
        places.dedup();
        let mut changes = Vec::new();
        for places in places.chunk_by(|(one, _), (other, _)| one == other) {
            let id = places[0].0;
            let before = self.now.document(space, id);
            let is_untouched = self.now.is_same(&transaction.begun)
                || is_identical(before, transaction.begun.document(space, id));
            let after = match transaction.documents.get(id) {
                Some(own) if is_untouched => own.clone(),
                _ => replay(before.cloned(), id, &transaction.operations)?,
            };
            changes.extend(changed(space, before.cloned(), after, places));
        }
        Ok(changes)
    }
}

/// Whether both are the same piece of memory or equal scalars.
fn is_identical(one: Option<&Json>, other: Option<&Json>) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(Json::Object(one)), Some(Json::Object(other))) => one.is_same(other),
        (Some(Json::Array(one)), Some(Json::Array(other))) => one.is_same(other),
        (Some(Json::Object(_) | Json::Array(_)), _) => false,
        (one, other) => one == other,
    }
}

/// The document with this transaction's operations applied to what others made of it.
fn replay(
    mut document: Option<Json>,
    id: &EntityId,
    operations: &[Operation],
) -> Result<Option<Json>, CommitRefusal> {
    for operation in operations.iter().filter(|operation| operation.at.id == *id) {
        operation.apply(&mut document)?;
    }
    Ok(document)
}

fn changed(
    space: &SpaceName,
    before: Option<Json>,
    after: Option<Json>,
    places: &[(&EntityId, &CellPath)],
) -> Option<DocumentChange> {
    let mut change = DocumentChange {
        space: space.clone(),
        id: places.first()?.0.clone(),
        before,
        after,
        paths: Vec::new(),
    };
    let changed = places.iter().filter_map(|(_, path)| {
        let [before, after] = change.at(path.keys());
        (before != after).then(|| PathChange {
            path: (*path).clone(),
            before: before.cloned(),
            after: after.cloned(),
        })
    });
    change.paths = changed.collect();
    (!change.paths.is_empty()).then_some(change)
}

/// Reads without a record, for looking at a state from outside a transaction.
#[derive(Debug)]
pub struct Unrecorded<'a>(pub &'a SpaceSnapshot);

impl Reads for Unrecorded<'_> {
    fn document(&self, space: &SpaceName, id: &EntityId) -> Option<Json> {
        self.0.document(space, id).cloned()
    }

    fn record(&mut self, _: &CellAddress, _: Extent) {}

    fn cut_short(&mut self, _: BeyondBound) {}
}
