//! What people call documents: by the names they gave, and processes by their results.

use std::collections::BTreeMap;

use lope_cells::address::CellAddress;
use lope_cells::id::{EntityId, SpaceName};
use lope_cells::json::{Json, Object};
use lope_cells::read::Reads;
use lope_cells::space::{Spaces, Unrecorded};
use lope_model::Failure;

use super::command::names_of;
use crate::process::{PROCESS_OF, process_of};

/// The names of documents, by id.
pub(super) struct Labels(BTreeMap<String, String>);

impl Labels {
    /// The names that a space has.
    pub(super) fn of(space: &SpaceName, reads: &dyn Reads) -> Self {
        let names = names_of(space);
        let names = reads.document(&names.space, &names.id);
        let names = names.as_ref().and_then(Json::as_object).into_iter();
        let nothing = Spaces::default();
        let nothing = Unrecorded(nothing.snapshot());
        let mut labels = BTreeMap::new();
        for (id, name) in names.flat_map(Object::iter) {
            let (Ok(id), Some(name)) = (id.parse::<EntityId>(), name.as_str()) else {
                continue;
            };
            let result = CellAddress::document(space.clone(), id);
            let process = process_of(&nothing, &result);
            labels.insert(process.id.to_string(), format!("{PROCESS_OF}{name}"));
            labels.insert(result.id.to_string(), name.to_owned());
        }
        Self(labels)
    }

    /// A failure that names documents as people do.
    pub(super) fn worded(failure: Failure, space: &SpaceName, reads: &dyn Reads) -> Failure {
        if !failure.message.contains("of:") {
            return failure;
        }
        Failure {
            message: Self::of(space, reads).text(&failure.message),
            ..failure
        }
    }

    pub(super) fn document(&self, id: &EntityId) -> String {
        let label = self.0.get(id.as_str());
        label.map_or_else(|| id.to_string(), Clone::clone)
    }

    pub(super) fn cell(&self, at: &CellAddress) -> String {
        format!("{}/{}{}", at.space, self.document(&at.id), at.path)
    }

    /// A text with labels in place of the ids in it.
    pub(super) fn text(&self, text: &str) -> String {
        let mut told = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find("of:") {
            let (before, from) = rest.split_at(at);
            let hash = from[3..].find(|c: char| !c.is_ascii_alphanumeric());
            let (id, after) = from.split_at(hash.map_or(from.len(), |length| length + 3));
            told.push_str(before);
            told.push_str(self.0.get(id).map_or(id, String::as_str));
            rest = after;
        }
        told + rest
    }
}
