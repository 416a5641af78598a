//! What a wave changed, as it is kept: change by change, and of very many changes the documents alone.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::EntityId;
use crate::json::Json;
use crate::limit;
use crate::path::CellPath;
use crate::scheduler::ChangedBy;

/// Where documents changed, and who changed each place last, in the order in which they first did.
#[derive(Debug, Default)]
pub struct ChangedCells {
    cells: Vec<(EntityId, CellPath, ChangedBy)>,
    /// Where each stands in the list.
    places: HashMap<(EntityId, CellPath), usize>,
}

impl ChangedCells {
    pub fn note(&mut self, id: &EntityId, path: &CellPath, by: &ChangedBy) {
        let next = self.cells.len();
        let place = self.places.entry((id.clone(), path.clone()));
        match self.cells.get_mut(*place.or_insert(next)) {
            Some((_, _, last)) => *last = by.clone(),
            None => self.cells.push((id.clone(), path.clone(), by.clone())),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// The next wave gets room for as many: to grow is to hash everything again.
    pub fn take(&mut self) -> Vec<(EntityId, CellPath, ChangedBy)> {
        self.places = HashMap::with_capacity(self.cells.len());
        std::mem::take(&mut self.cells)
    }
}

/// A cell that a wave changed.
#[derive(Clone, Debug, PartialEq)]
pub struct CellChange {
    pub id: EntityId,
    pub path: CellPath,
    pub value: Option<Json>,
    /// Who changed it, in words.
    pub by: Arc<str>,
}

/// A change as the history of a space keeps it.
#[derive(Debug, Serialize, Deserialize)]
pub struct StoredChange {
    pub id: EntityId,
    pub path: CellPath,
    pub value: Option<Json>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub left_out: bool,
    pub by: String,
}

impl StoredChange {
    /// Changes as they are kept: together they take so many bytes at most, however many there are.
    pub fn all(changes: &[CellChange], bytes: usize) -> Vec<Self> {
        let mut left = bytes;
        let each = changes.iter().take(limit::HISTORY_CHANGES_MAX);
        let each = each.take_while(|change| {
            let keys = change.path.keys().iter().map(|key| key.len() + 5);
            let taken = keys.sum::<usize>() + limit::HISTORY_VALUE_MAX + room_of(change);
            left = left.saturating_sub(taken);
            left > 0
        });
        let (each, rest) = changes.split_at(each.count());
        let mut rows: Vec<Self> = each.iter().map(change_row).collect();
        left = bytes / 8 * 7;
        let mut documents: BTreeMap<&EntityId, &Arc<str>> = BTreeMap::new();
        for change in rest {
            let taken = room_of(change);
            if !documents.contains_key(&change.id) && taken < left {
                left -= taken;
                documents.insert(&change.id, &change.by);
            }
        }
        rows.extend(documents.into_iter().map(|(id, by)| Self {
            id: id.clone(),
            path: CellPath::root(),
            value: None,
            left_out: true,
            by: by.to_string(),
        }));
        rows
    }
}

/// What a change takes in the history besides its path and value.
fn room_of(change: &CellChange) -> usize {
    change.id.as_str().len() + change.by.len() + 48
}

fn change_row(change: &CellChange) -> StoredChange {
    let mut left = limit::HISTORY_VALUE_MAX;
    let left_out = change
        .value
        .as_ref()
        .is_some_and(|value| !is_short(value, &mut left));
    StoredChange {
        id: change.id.clone(),
        path: change.path.clone(),
        value: change.value.clone().filter(|_| !left_out),
        left_out,
        by: change.by.to_string(),
    }
}

/// Whether a value is about as long as `left` bytes at most; looks no further than that.
fn is_short(value: &Json, left: &mut usize) -> bool {
    let own = match value {
        Json::Text(text) => text.len() + 2,
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_) => 4,
    };
    let Some(rest) = left.checked_sub(own) else {
        return false;
    };
    *left = rest;
    match value {
        Json::Array(array) => array.iter().all(|element| is_short(element, left)),
        Json::Object(object) => object.iter().all(|(key, entry)| {
            *left = left.saturating_sub(key.len());
            is_short(entry, left)
        }),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Text(_) => true,
    }
}
