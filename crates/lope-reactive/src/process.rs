//! Process cells and the set of processes that run.
//!
//! A process cell is one document: `TYPE` (the recipe's id), `spell` (a link to the recipe's
//! document), `argument`, `internal`, `resultRef`, and `errors`, `receipts` and `warnings` by node when there
//! are any. The result cell's source leads to it. Which processes run is a document too, so that
//! whoever takes the space over knows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lope_cells::address::{BadAddress, CellAddress};
use lope_cells::error::WriteError;
use lope_cells::id::{EntityId, SpaceName};
use lope_cells::json::{Json, Object};
use lope_cells::link::Link;
use lope_cells::read::Reads;
use lope_cells::space::{Spaces, Unrecorded};
use lope_cells::transaction::Transaction;
use lope_cells::write::replace;

/// Who started a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessOwner {
    /// The parent's process cell.
    pub process: EntityId,
    /// The node of the parent's recipe.
    pub node: usize,
}

/// The document that says which processes of a space run.
pub fn running_set(space: &SpaceName) -> CellAddress {
    let id = EntityId::of_cause(&Json::object([("running", Json::Bool(true))]));
    CellAddress::document(space.clone(), id)
}

/// The document that leads from a result cell to its process cell.
pub fn source_of(result: &CellAddress) -> CellAddress {
    let id = EntityId::of_cause(&caused("source", result));
    CellAddress::document(result.space.clone(), id)
}

/// The process cell of a result cell: the one its source leads to, or the one it would get.
pub fn process_of(reads: &dyn Reads, result: &CellAddress) -> CellAddress {
    let source = source_of(result);
    let stored = reads.document(&source.space, &source.id);
    match stored.as_ref().and_then(Link::from_json) {
        Some(link) => link.target(&source),
        None => {
            let id = EntityId::of_cause(&caused("process", result));
            CellAddress::document(result.space.clone(), id)
        }
    }
}

/// What stands before the name of a result in the name of its process.
pub const PROCESS_OF: &str = "process-of-";

/// The cell that people write as `SPACE/DOCUMENT/PATH`. The document `process-of-NAME` is the state of
/// what runs into `NAME`.
pub fn parse_cell(text: &str) -> Result<CellAddress, BadAddress> {
    let parsed = CellAddress::parse(text)?;
    let name = CellAddress::name_in(text).and_then(|name| name.strip_prefix(PROCESS_OF));
    let Some(name) = name else { return Ok(parsed) };
    let result = CellAddress::document(parsed.space.clone(), EntityId::named(name));
    let nothing = Spaces::default();
    let process = process_of(&Unrecorded(nothing.snapshot()), &result);
    Ok(process.with_path(parsed.path))
}

/// The name that a text, which was read as a cell, gives to a document of its own.
pub fn given_name(text: &str) -> Option<&str> {
    CellAddress::name_in(text).filter(|name| !name.starts_with(PROCESS_OF))
}

fn caused(what: &str, result: &CellAddress) -> Json {
    Json::object([
        (what, Json::from(result.id.as_str())),
        ("path", result.path.to_json()),
    ])
}

/// The result cell of a child, by who owns it and what the owner calls it.
pub fn child_result(owner: &ProcessOwner, space: &SpaceName, key: &Json) -> CellAddress {
    let id = EntityId::of_cause(&Json::object([
        ("process", Json::from(owner.process.as_str())),
        ("node", Json::from(owner.node as i64)),
        ("key", key.clone()),
    ]));
    CellAddress::document(space.clone(), id)
}

/// The processes in a running set, each with its owner if it has one.
pub fn entries(set: Option<&Json>) -> Vec<(EntityId, Option<ProcessOwner>)> {
    let entries = set.and_then(Json::as_object).into_iter();
    let entries = entries.flat_map(Object::iter);
    entries
        .filter_map(|(id, entry)| Some((id.parse().ok()?, owner_of(entry))))
        .collect()
}

/// Whether a process is in a running set, with its owner if it has one.
#[allow(clippy::option_option, reason = "one that runs may have no owner")]
pub fn entry(set: Option<&Json>, process: &EntityId) -> Option<Option<ProcessOwner>> {
    set?.child(process.as_str()).map(owner_of)
}

fn owner_of(entry: &Json) -> Option<ProcessOwner> {
    Some(ProcessOwner {
        process: entry.child("parent")?.as_str()?.parse().ok()?,
        node: usize::try_from(entry.child("node")?.as_int()?).ok()?,
    })
}

/// Notes that a process runs. One that was started in its own right is nobody's child any more.
pub fn mark_running(
    transaction: &mut Transaction,
    process: &CellAddress,
    owner: Option<&ProcessOwner>,
) -> Result<(), WriteError> {
    let set = running_set(&process.space);
    let known = transaction.document(&set.space, &set.id);
    let known = known
        .as_ref()
        .and_then(|set| set.child(process.id.as_str()));
    let is_elevated = known.is_some_and(|entry| owner_of(entry).is_none());
    if owner.is_some() && is_elevated {
        return Ok(());
    }
    let entry = owner.map_or_else(
        || Json::object::<&str>([]),
        |owner| {
            Json::object([
                ("parent", Json::from(owner.process.as_str())),
                ("node", Json::from(owner.node as i64)),
            ])
        },
    );
    replace(transaction, &set.key(process.id.as_str()), &entry)
}

/// Notes that processes do not run any more, nor what they started, unless that was started in its
/// own right.
pub fn mark_stopped<'a>(
    transaction: &mut Transaction,
    space: &SpaceName,
    processes: impl Iterator<Item = &'a EntityId>,
) -> Result<(), WriteError> {
    let mut processes = processes.cloned().peekable();
    if processes.peek().is_none() {
        return Ok(());
    }
    let set = running_set(space);
    let known = entries(transaction.document(&set.space, &set.id).as_ref());
    for id in family(&known, processes) {
        transaction.remove(&set.key(id.as_str()))?;
    }
    Ok(())
}

/// How many processes of a space run.
pub fn count_running(reads: &dyn Reads, space: &SpaceName) -> usize {
    let set = running_set(space);
    let set = reads.document(&set.space, &set.id);
    let set = set.as_ref().and_then(Json::as_object);
    set.map_or(0, Object::len)
}

/// The children that a node of a process has.
pub fn children(
    reads: &dyn Reads,
    space: &SpaceName,
    process: &EntityId,
    of: impl Fn(usize) -> bool,
) -> BTreeSet<EntityId> {
    let set = running_set(space);
    let known = entries(reads.document(&set.space, &set.id).as_ref()).into_iter();
    let is_child = |owner: ProcessOwner| owner.process == *process && of(owner.node);
    known
        .filter(|(_, owner)| owner.clone().is_some_and(is_child))
        .map(|(id, _)| id)
        .collect()
}

/// These processes and all that they started, however deep.
fn family(
    known: &[(EntityId, Option<ProcessOwner>)],
    processes: impl Iterator<Item = EntityId>,
) -> BTreeSet<EntityId> {
    let mut children: BTreeMap<&EntityId, Vec<&EntityId>> = BTreeMap::new();
    for (id, owner) in known {
        if let Some(owner) = owner {
            children.entry(&owner.process).or_default().push(id);
        }
    }
    let mut found = BTreeSet::new();
    let mut open: Vec<EntityId> = processes.collect();
    while let Some(next) = open.pop() {
        if found.insert(next.clone()) {
            let below = children.get(&next).into_iter().flatten();
            open.extend(below.map(|child| (*child).clone()));
        }
    }
    found
}

/// How many processes lead from `process` up to one that was started in its own right.
pub fn depth(reads: &dyn Reads, space: &SpaceName, process: &EntityId) -> usize {
    let set = running_set(space);
    let set = reads.document(&set.space, &set.id);
    let owner = |id: &EntityId| {
        let entry = set.as_ref().and_then(|set| set.child(id.as_str()));
        entry.and_then(owner_of).map(|owner| owner.process)
    };
    let mut depth = 0;
    let mut at = owner(process);
    while let Some(parent) = at {
        depth += 1;
        at = owner(&parent).filter(|_| depth < lope_cells::limit::DEPTH_MAX);
    }
    depth
}

/// The recipe id that a process cell records.
pub fn recorded_type(process: Option<&Json>) -> Option<Arc<str>> {
    process?.child("TYPE")?.as_str().map(Arc::from)
}
