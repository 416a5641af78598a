//! What batches do, decided here: guards against what the server has locked for us, batch after
//! batch, each on what the ones before it leave. In: what is stored and the batches; out: an answer
//! to each and the writes that remain. Pure.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::convert::Infallible;

use crate::tables::{Applied, At, Batch, BatchReply, Manifest, TableId, Write};
use crate::verdict::{self, RowFacts, TableFacts};
use lope_model::Digest;

/// What is known of a key.
#[derive(Clone, Debug)]
enum RowState<'a> {
    Absent,
    /// Stored, with its digest if a guard asked for it.
    Stored(Option<Digest>),
    Written(&'a [u8]),
}

/// What is stored, as far as the batches touch it, and what they have changed so far.
#[derive(Debug)]
pub struct BatchFold<'a> {
    manifest: &'a Manifest,
    /// Keys that are there and locked.
    stored: HashSet<At>,
    cells: HashMap<At, RowState<'a>>,
    /// Keys that appends must pass over.
    occupied: HashSet<At>,
    scopes: HashMap<At, u64>,
    sequences: HashMap<&'a [u8], u64>,
    /// Keys whose absence some batch relies on.
    relied_on: HashSet<At>,
    net: BTreeMap<At, Option<&'a [u8]>>,
    touched: BTreeMap<At, u64>,
    numbered: BTreeMap<&'a [u8], u64>,
}

/// What remains to be written.
#[derive(Debug, Default)]
pub struct BatchChanges<'a> {
    /// Keys that must not be there yet.
    pub created: Vec<(At, &'a [u8])>,
    pub put: Vec<(At, &'a [u8])>,
    pub deleted: Vec<At>,
    /// How many writes each scope got.
    pub touched: BTreeMap<At, u64>,
    /// The last number that each sequence gave.
    pub numbered: BTreeMap<&'a [u8], u64>,
}

/// A batch's own changes, until it is known that all of it holds.
#[derive(Default)]
struct Draft<'a> {
    cells: HashMap<At, RowState<'a>>,
    sequences: HashMap<&'a [u8], u64>,
    touched: Vec<At>,
    /// Keys that were found absent and must have been so.
    relied_on: Vec<At>,
    appended: Vec<u64>,
}

impl<'a> BatchFold<'a> {
    pub fn new(manifest: &'a Manifest) -> Self {
        Self {
            manifest,
            stored: HashSet::new(),
            cells: HashMap::new(),
            occupied: HashSet::new(),
            scopes: HashMap::new(),
            sequences: HashMap::new(),
            relied_on: HashSet::new(),
            net: BTreeMap::new(),
            touched: BTreeMap::new(),
            numbered: BTreeMap::new(),
        }
    }

    /// The key is there, locked, and has this digest (if one was asked for).
    pub fn stored(&mut self, at: At, digest: Option<Digest>) {
        self.stored.insert(at.clone());
        self.cells.insert(at, RowState::Stored(digest));
    }

    pub fn scope(&mut self, scope: At, version: u64) {
        self.scopes.insert(scope, version);
    }

    pub fn sequence(&mut self, name: &'a [u8], last: u64) {
        self.sequences.insert(name, last);
    }

    /// The last number of a sequence.
    pub fn last(&self, name: &[u8]) -> u64 {
        self.sequences.get(name).copied().unwrap_or(0)
    }

    pub fn occupied(&mut self, at: At) {
        self.occupied.insert(at);
    }

    pub fn changes(self) -> BatchChanges<'a> {
        let mut changes = BatchChanges {
            touched: self.touched,
            numbered: self.numbered,
            ..BatchChanges::default()
        };
        for (at, value) in self.net {
            let was_there = self.stored.contains(&at);
            match value {
                Some(value) if !was_there && self.relied_on.contains(&at) => {
                    changes.created.push((at, value));
                }
                Some(value) => changes.put.push((at, value)),
                None if was_there => changes.deleted.push(at),
                // It was not there when we looked: whoever has made it since came after us.
                None => {}
            }
        }
        changes
    }

    pub fn apply(&mut self, batch: &'a Batch) -> BatchReply {
        let mut draft = Draft::default();
        let mut facts = LockedRows {
            fold: self,
            draft: &mut draft,
        };
        let Ok(held) = verdict::guards(batch, self.manifest, &mut facts);
        held?;
        for (index, write) in batch.writes.iter().enumerate() {
            if let Write::Create(at, _) = write {
                verdict::create(batch, index, at, self.cell(at, &draft).is_there())?;
            }
            self.write(write, &mut draft);
        }
        Ok(self.keep(draft))
    }

    fn cell(&self, at: &At, draft: &Draft<'a>) -> RowState<'a> {
        draft
            .cells
            .get(at)
            .or_else(|| self.cells.get(at))
            .cloned()
            .unwrap_or(RowState::Absent)
    }

    fn write(&self, write: &'a Write, draft: &mut Draft<'a>) {
        match write {
            Write::Put(at, value) => draft.put(at.clone(), RowState::Written(value)),
            Write::Delete(at) => draft.put(at.clone(), RowState::Absent),
            Write::Create(at, value) => {
                draft.relied_on.push(at.clone());
                draft.put(at.clone(), RowState::Written(value));
            }
            Write::Append {
                table,
                prefix,
                sequence,
                value,
            } => {
                let at = self.next_free(*table, prefix, sequence, draft);
                draft.relied_on.push(at.clone());
                draft.put(at, RowState::Written(value));
            }
        }
    }

    fn next_free(
        &self,
        table: TableId,
        prefix: &[u8],
        sequence: &'a [u8],
        draft: &mut Draft<'a>,
    ) -> At {
        let stored = self.sequences.get(sequence).copied().unwrap_or(0);
        let mut number = draft.sequences.get(sequence).copied().unwrap_or(stored);
        loop {
            number += 1;
            let at = At::new(table, [prefix, &number.to_be_bytes()].concat());
            if !self.cell(&at, draft).is_there() && !self.occupied.contains(&at) {
                draft.sequences.insert(sequence, number);
                draft.appended.push(number);
                return at;
            }
        }
    }

    /// The batch holds: its changes become the group's.
    fn keep(&mut self, draft: Draft<'a>) -> Applied {
        self.relied_on.extend(draft.relied_on);
        for (at, cell) in draft.cells {
            let value = match cell {
                RowState::Written(value) => Some(value),
                RowState::Absent | RowState::Stored(_) => None,
            };
            self.net.insert(at.clone(), value);
            self.cells.insert(at, cell);
        }
        for scope in draft
            .touched
            .iter()
            .filter_map(|at| self.manifest.scope_of(at))
        {
            *self.scopes.entry(scope.clone()).or_default() += 1;
            *self.touched.entry(scope).or_default() += 1;
        }
        for (name, last) in draft.sequences {
            self.sequences.insert(name, last);
            self.numbered.insert(name, last);
        }
        Applied {
            appended: draft.appended,
        }
    }
}

impl<'a> Draft<'a> {
    fn put(&mut self, at: At, cell: RowState<'a>) {
        self.touched.push(at.clone());
        self.cells.insert(at, cell);
    }
}

impl RowState<'_> {
    fn is_there(&self) -> bool {
        match self {
            Self::Absent => false,
            Self::Stored(_) | Self::Written(_) => true,
        }
    }
}

/// What the server locked and what the batches before have changed, asked for by guards. An absence
/// that a guard asks for must still hold when the batch is written.
struct LockedRows<'f, 'a> {
    fold: &'f BatchFold<'a>,
    draft: &'f mut Draft<'a>,
}

impl TableFacts for LockedRows<'_, '_> {
    type Fault = Infallible;

    fn is_there(&mut self, at: &At) -> Result<bool, Infallible> {
        self.draft.relied_on.push(at.clone());
        Ok(self.fold.cell(at, self.draft).is_there())
    }

    fn row(&mut self, at: &At) -> Result<RowFacts<'_>, Infallible> {
        Ok(match self.fold.cell(at, self.draft) {
            RowState::Absent => RowFacts::Absent,
            RowState::Stored(None) => RowFacts::Unread,
            RowState::Stored(Some(digest)) => RowFacts::Digest(digest),
            RowState::Written(value) => RowFacts::Value(value.into()),
        })
    }

    fn scope_version(&mut self, scope: &At) -> Result<u64, Infallible> {
        Ok(self.fold.scopes.get(scope).copied().unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use crate::tables::Guard;

    use super::*;

    const BOX: TableId = TableId::INBOX;

    fn at(key: &[u8]) -> At {
        At::new(BOX, key)
    }

    fn batch(guards: Vec<Guard>, writes: Vec<Write>) -> Batch {
        Batch { guards, writes }
    }

    #[test]
    fn a_key_made_and_deleted_by_the_group_is_never_written() {
        let manifest = Manifest::standard();
        let batches = [
            batch(vec![], vec![Write::Create(at(b"k"), b"v".to_vec())]),
            batch(
                vec![Guard::Equals(at(b"k"), b"v".to_vec())],
                vec![Write::Delete(at(b"k"))],
            ),
        ];
        let mut fold = BatchFold::new(&manifest);
        assert!(batches.iter().all(|batch| fold.apply(batch).is_ok()));
        let changes = fold.changes();
        assert!(changes.created.is_empty() && changes.put.is_empty() && changes.deleted.is_empty());
    }

    #[test]
    fn absence_that_was_relied_on_is_told_from_absence_that_was_not() {
        let manifest = Manifest::standard();
        let value = b"v".to_vec();
        let batches = [
            batch(
                vec![Guard::Absent(at(b"a"))],
                vec![Write::Put(at(b"a"), value.clone())],
            ),
            batch(vec![], vec![Write::Put(at(b"b"), value.clone())]),
            batch(
                vec![],
                vec![
                    Write::Delete(at(b"there")),
                    Write::Create(at(b"there"), value.clone()),
                ],
            ),
        ];
        let mut fold = BatchFold::new(&manifest);
        fold.stored(at(b"there"), None);
        assert!(batches.iter().all(|batch| fold.apply(batch).is_ok()));
        let changes = fold.changes();
        assert_eq!(
            changes
                .created
                .iter()
                .map(|(at, _)| at.clone())
                .collect::<Vec<_>>(),
            [at(b"a")]
        );
        assert_eq!(
            changes
                .put
                .iter()
                .map(|(at, _)| at.clone())
                .collect::<Vec<_>>(),
            [at(b"b"), at(b"there")]
        );
    }

    #[test]
    fn appends_pass_over_what_is_there_and_a_conflict_takes_no_number() {
        let manifest = Manifest::standard();
        let append = || Write::Append {
            table: BOX,
            prefix: b"p".to_vec(),
            sequence: b"s".to_vec(),
            value: vec![],
        };
        let refused = batch(vec![Guard::Equals(at(b"none"), vec![])], vec![append()]);
        let sound = batch(vec![], vec![append(), append()]);
        let mut fold = BatchFold::new(&manifest);
        fold.sequence(b"s", 6);
        fold.occupied(at(&[b"p".as_slice(), &8_u64.to_be_bytes()].concat()));
        assert!(fold.apply(&refused).is_err());
        assert_eq!(
            fold.apply(&sound),
            Ok(Applied {
                appended: vec![7, 9]
            })
        );
        assert_eq!(fold.changes().numbered.get(b"s".as_slice()), Some(&9));
    }
}
