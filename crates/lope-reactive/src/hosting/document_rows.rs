//! The rows of documents. A small document is one row, written whole. A large one is a row with all
//! of it and a few smaller ones with what changed since, so that writing a change costs as much as
//! the change and not as much as the document.
//!
//! The rows of changes are levels: the first is written with every wave and holds little; when it
//! is full it goes into the next, which holds sixteen times as much, and so on; when the last is full
//! the document is written whole again. All rows of a document have keys that are known beforehand,
//! so that they are read together, as they stood at one moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lope_cells::id::{EntityId, SpaceName};
use lope_cells::json::{Json, put};
use lope_cells::path::CellPath;
use lope_cells::space::Spaces;
use lope_store::tables::{At, Row, Write};

use super::HostError;
use super::codec::{decode, encode};
use super::keys::{self, SpaceKeys};
use crate::limit::{DOCUMENT_LEVELS, DOCUMENT_WHOLE_MAX};
use crate::machine::Wave;

/// What changed of a document, by path; none for what is gone. No path leads through another, and
/// none leads into a list: a list is written whole.
type PathChanges = BTreeMap<CellPath, Option<Json>>;

/// One row of changes.
#[derive(Clone, Debug, Default)]
struct Level {
    changes: Arc<PathChanges>,
    /// How long the row is; 0 if there is none.
    bytes: usize,
}

/// The rows of a large document.
#[derive(Clone, Debug, Default)]
struct LargeDocument {
    /// How long the row with all of it is; 0 if it is to be written whole the next time.
    whole: usize,
    levels: [Level; DOCUMENT_LEVELS],
}

/// What a host knows of the rows of the large documents of its space.
#[derive(Debug, Default)]
pub(super) struct DocumentRows {
    large: BTreeMap<EntityId, LargeDocument>,
}

/// The writes that save the documents of a wave, and what is known once they are done.
#[derive(Debug, Default)]
pub(super) struct PlannedRows {
    pub(super) writes: Vec<Write>,
    /// None for one that is not large any more.
    known: Vec<(EntityId, Option<LargeDocument>)>,
}

impl DocumentRows {
    /// How the documents of a wave are written.
    pub(super) fn plan(&self, keys: &SpaceKeys, wave: &Wave) -> Result<PlannedRows, HostError> {
        let mut paths: BTreeMap<&EntityId, BTreeSet<&CellPath>> = BTreeMap::new();
        for change in wave.history.iter().filter(|it| self.is_large(&it.id)) {
            paths.entry(&change.id).or_default().insert(&change.path);
        }
        let mut planned = PlannedRows::default();
        for (id, document) in &wave.documents {
            let large = self.large.get(id);
            let large = match (large, document, paths.get(id)) {
                (Some(large), Some(document), Some(paths)) => {
                    planned.changed(&keys.document(id), large, changes_of(document, paths))?
                }
                _ => None,
            };
            match large {
                Some(large) => planned.known.push((id.clone(), Some(large))),
                None => planned.whole(keys, id, document.as_ref(), self.large.get(id))?,
            }
        }
        Ok(planned)
    }

    /// Takes in that what was planned is done.
    pub(super) fn saved(&mut self, planned: PlannedRows) {
        for (id, large) in planned.known {
            match large {
                Some(large) => self.large.insert(id, large),
                None => self.large.remove(&id),
            };
        }
    }

    fn is_large(&self, id: &EntityId) -> bool {
        self.large.contains_key(id)
    }
}

impl PlannedRows {
    /// Writes changes into the first level that has room for them; none if none has.
    fn changed(
        &mut self,
        at: &At,
        large: &LargeDocument,
        changes: PathChanges,
    ) -> Result<Option<LargeDocument>, HostError> {
        let mut changes = Arc::new(changes);
        let mut next = large.clone();
        let mut room = DOCUMENT_WHOLE_MAX;
        for (number, level) in next.levels.iter_mut().enumerate() {
            if !merge(Arc::make_mut(&mut level.changes), &changes) {
                return Ok(None);
            }
            let row = encode_changes(&level.changes)?;
            if row.len() <= room && row.len() < large.whole {
                level.bytes = row.len();
                self.writes
                    .push(Write::Put(keys::document_level(at, number), row));
                self.forget(at, &large.levels[..number]);
                return Ok(Some(next));
            }
            changes = std::mem::take(level).changes;
            room *= 16;
        }
        Ok(None)
    }

    /// Writes a document whole, or takes it away.
    fn whole(
        &mut self,
        keys: &SpaceKeys,
        id: &EntityId,
        document: Option<&Json>,
        known: Option<&LargeDocument>,
    ) -> Result<(), HostError> {
        let at = keys.document(id);
        if let Some(known) = known {
            self.forget(&at, &known.levels);
        }
        let Some(document) = document else {
            self.known.push((id.clone(), None));
            self.writes.push(Write::Delete(at));
            return Ok(());
        };
        let row = encode(document)?;
        let large = (row.len() > DOCUMENT_WHOLE_MAX).then(|| LargeDocument {
            whole: row.len(),
            ..LargeDocument::default()
        });
        if known.is_some() || large.is_some() {
            self.known.push((id.clone(), large));
        }
        self.writes.push(Write::Put(at, row));
        Ok(())
    }

    fn forget(&mut self, at: &At, levels: &[Level]) {
        let stored = levels.iter().enumerate().filter(|(_, it)| it.bytes > 0);
        let stored = stored.map(|(number, _)| Write::Delete(keys::document_level(at, number)));
        self.writes.extend(stored);
    }
}

/// Documents read from their rows.
#[derive(Debug, Default)]
pub(super) struct ReadDocuments {
    pub(super) spaces: Spaces,
    pub(super) rows: DocumentRows,
}

impl ReadDocuments {
    /// Takes in a document, with its rows of changes by number. Whoever changes a document that has
    /// some writes it whole first.
    pub(super) fn take(
        &mut self,
        space: &SpaceName,
        id: EntityId,
        stored: &RowsOfDocument,
    ) -> Result<(), HostError> {
        let Some(value) = stored.document()? else {
            return Ok(());
        };
        if stored.is_large() {
            let has_changes = stored.levels.iter().any(Option::is_some);
            let level = |row: &Option<Vec<u8>>| Level {
                changes: Arc::default(),
                bytes: row.as_ref().map_or(0, Vec::len),
            };
            let whole = stored.whole.as_ref().map_or(0, Vec::len);
            let large = LargeDocument {
                whole: if has_changes { 0 } else { whole },
                levels: std::array::from_fn(|number| level(&stored.levels[number])),
            };
            self.rows.large.insert(id.clone(), large);
        }
        self.spaces.load(space, id, value);
        Ok(())
    }
}

/// The rows of one document as they were read.
#[derive(Clone, Debug, Default)]
pub(super) struct RowsOfDocument {
    whole: Option<Vec<u8>>,
    levels: [Option<Vec<u8>>; DOCUMENT_LEVELS],
}

impl RowsOfDocument {
    /// The keys of a document's rows, in the order that `from_answers` takes their values.
    pub(super) fn keys(at: &At) -> impl Iterator<Item = At> {
        let levels = (0..DOCUMENT_LEVELS).map(|number| keys::document_level(at, number));
        std::iter::once(at.clone()).chain(levels)
    }

    /// The rows of documents whose keys were asked for one document after the other.
    pub(super) fn from_answers(answers: Vec<Option<Vec<u8>>>) -> Vec<Self> {
        let mut answers = answers.into_iter();
        let mut documents = Vec::new();
        while let Some(whole) = answers.next() {
            let levels = std::array::from_fn(|_| answers.next().flatten());
            documents.push(Self { whole, levels });
        }
        documents
    }

    /// Sorts rows, as a range of them gives them, by document. A row that belongs to no document is
    /// damage.
    pub(super) fn of_rows(
        rows: Vec<Row>,
        prefix: &[u8],
    ) -> Result<Vec<(EntityId, Self)>, HostError> {
        let mut documents: Vec<(EntityId, Self)> = Vec::new();
        for row in rows {
            let (id, level) = keys::read_document(&row.key[prefix.len()..])
                .ok_or_else(|| HostError::Damaged("the id of a document".to_owned()))?;
            match (level, documents.last_mut()) {
                (None, _) => {
                    let whole = Some(row.value);
                    let levels = Default::default();
                    documents.push((id, Self { whole, levels }));
                }
                (Some(number), Some((last, stored))) if *last == id => {
                    stored.levels[number] = Some(row.value);
                }
                (Some(_), _) => return Err(no_document(&id)),
            }
        }
        Ok(documents)
    }

    /// The document as it stands; none if there is none.
    pub(super) fn document(&self) -> Result<Option<Json>, HostError> {
        let mut document = self.whole.as_deref().map(decode).transpose()?;
        for row in self.levels.iter().rev().flatten() {
            for (path, value) in decode_changes(row)? {
                let done = put(&mut document, path.keys(), value);
                done.map_err(|error| HostError::Damaged(error.to_string()))?;
            }
        }
        Ok(document)
    }

    fn is_large(&self) -> bool {
        let whole = self.whole.as_ref().map_or(0, Vec::len);
        whole > DOCUMENT_WHOLE_MAX || self.levels.iter().any(Option::is_some)
    }
}

pub(super) fn no_document(id: &EntityId) -> HostError {
    HostError::Damaged(format!("changes of {id}, which is not there"))
}

/// Whether a row of changes can be read.
pub(super) fn is_readable(row: &[u8]) -> bool {
    decode_changes(row).is_ok()
}

fn encode_changes(changes: &PathChanges) -> Result<Vec<u8>, HostError> {
    let changes: Vec<(&CellPath, &Option<Json>)> = changes.iter().collect();
    encode(&changes)
}

fn decode_changes(row: &[u8]) -> Result<Vec<(CellPath, Option<Json>)>, HostError> {
    decode(row)
}

/// What stands at the paths where a document changed. What changed inside of a list is the list.
fn changes_of(document: &Json, paths: &BTreeSet<&CellPath>) -> PathChanges {
    let mut changes = PathChanges::new();
    for path in paths {
        let path = up_to_empty(document, up_to_list(document, path));
        let is_known = (0..=path.len()).any(|length| changes.contains_key(&path.prefix(length)));
        if !is_known {
            let value = document.at(path.keys()).cloned();
            changes.insert(path, value);
        }
    }
    changes
}

/// Where something is gone and an empty object is left, that object: the row before may not have it.
fn up_to_empty(document: &Json, path: CellPath) -> CellPath {
    let found = |length| Some((length, document.at(&path.keys()[..length])?));
    match (0..=path.len()).rev().find_map(found) {
        Some((length, Json::Object(left))) if left.is_empty() => path.prefix(length),
        _ => path,
    }
}

fn up_to_list(document: &Json, path: &CellPath) -> CellPath {
    let mut value = Some(document);
    for (depth, key) in path.keys().iter().enumerate() {
        if matches!(value, Some(Json::Array(_))) {
            return path.prefix(depth);
        }
        value = value.and_then(|value| value.child(key));
    }
    path.clone()
}

/// Puts later changes over earlier ones; says whether they fit.
fn merge(earlier: &mut PathChanges, later: &PathChanges) -> bool {
    for (path, value) in later {
        let below: Vec<CellPath> = earlier
            .range(path.clone()..)
            .map(|(other, _)| other)
            .take_while(|other| other.keys().starts_with(path.keys()))
            .cloned()
            .collect();
        for other in below {
            earlier.remove(&other);
        }
        let above = (0..path.len()).map(|length| path.prefix(length));
        let above = above.rev().find(|above| earlier.contains_key(above));
        match above.and_then(|above| Some((above.len(), earlier.get_mut(&above)?))) {
            Some((length, whole)) => {
                if put(whole, &path.keys()[length..], value.clone()).is_err() {
                    return false;
                }
            }
            None => {
                earlier.insert(path.clone(), value.clone());
            }
        }
    }
    true
}
