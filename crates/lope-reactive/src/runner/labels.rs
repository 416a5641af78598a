//! What people call documents: by the names they gave, processes by their results, and children by the
//! way that leads to them.

use std::collections::BTreeMap;

use lope_cells::address::CellAddress;
use lope_cells::id::{EntityId, SpaceName};
use lope_cells::json::{Json, Object};
use lope_cells::labels::CellLabels;
use lope_cells::link::Link;
use lope_cells::read::Reads;
use lope_cells::snapshot::SpaceSnapshot;
use lope_cells::space::{Spaces, Unrecorded};
use lope_model::Failure;

use super::command::names_of;
use crate::process::{PROCESS_OF, ProcessOwner, process_of};

/// The names that a space has.
pub(super) fn labels_of(space: &SpaceName, reads: &dyn Reads) -> CellLabels {
    let mut labels = CellLabels::default();
    add_names(&mut labels, space, reads);
    labels
}

/// Adds the names that a space has.
pub(crate) fn add_names(labels: &mut CellLabels, space: &SpaceName, reads: &dyn Reads) {
    let names = names_of(space);
    let names = reads.document(&names.space, &names.id);
    let names = names.as_ref().and_then(Json::as_object).into_iter();
    let nothing = Spaces::default();
    let nothing = Unrecorded(nothing.snapshot());
    for (id, name) in names.flat_map(Object::iter) {
        let (Ok(id), Some(name)) = (id.parse::<EntityId>(), name.as_str()) else {
            continue;
        };
        let result = CellAddress::document(space.clone(), id);
        let process = process_of(&nothing, &result);
        labels.insert(&process.id, format!("{PROCESS_OF}{name}"));
        labels.insert(&result.id, name.to_owned());
    }
}

/// Calls the results of children by the way that leads to them from something with a name: the result
/// of whoever started them, or else its process.
pub(super) fn add_children(
    labels: &mut CellLabels,
    space: &SpaceName,
    running: &[(EntityId, Option<ProcessOwner>)],
    cells: &SpaceSnapshot,
) {
    let mut children: BTreeMap<&EntityId, BTreeMap<EntityId, &EntityId>> = BTreeMap::new();
    let mut open = Vec::new();
    for (process, owner) in running {
        let Some(owner) = owner else {
            open.push(process);
            continue;
        };
        if let Some(result) = result_of(space, process, cells) {
            let siblings = children.entry(&owner.process).or_default();
            siblings.insert(result.id, process);
        }
    }
    while let Some(process) = open.pop() {
        let Some(own) = children.remove(process) else {
            continue;
        };
        let state = CellAddress::document(space.clone(), process.clone());
        let result = result_of(space, process, cells);
        for from in result.into_iter().chain([state]) {
            labels.add_seen_from(&from, cells, |id| own.contains_key(id));
        }
        open.extend(own.into_values());
    }
}

/// The cell that a process runs into.
fn result_of(space: &SpaceName, process: &EntityId, cells: &SpaceSnapshot) -> Option<CellAddress> {
    let at = CellAddress::document(space.clone(), process.clone());
    let link = Link::from_json(cells.at(&at)?.child("resultRef")?)?;
    Some(link.target(&at))
}

/// A failure that names documents as people do.
pub(super) fn worded(failure: Failure, space: &SpaceName, reads: &dyn Reads) -> Failure {
    if !failure.message.contains("of:") {
        return failure;
    }
    Failure {
        message: labels_of(space, reads).text(&failure.message),
        ..failure
    }
}
