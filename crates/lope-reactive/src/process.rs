//! Process cells and the set of processes that run.
//!
//! A process cell is one document: `TYPE` (the recipe's id), `spell` (a link to the recipe's
//! document), `argument`, `internal`, `resultRef`, and `errors`, `receipts`, `effects` and `warnings` by node
//! when there are any. The result cell's source leads to it. Which processes run is a document too, so that
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

/// Where the running set counts what is started in its own right.
const STARTS: &str = "starts";

/// What brought a process about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartOfProcess {
    /// How many processes lead from it up to one that was started in its own right.
    pub depth: usize,
    /// When that one was started, as a number that grows with every such start in its space; 0 for one that
    /// was started before starts were counted.
    pub number: u64,
}

/// What brought a process about, as a running set says.
pub fn start_of(set: Option<&Json>, process: &EntityId) -> StartOfProcess {
    let entry = |id: &EntityId| set.and_then(|set| set.child(id.as_str()));
    let owner = |id: &EntityId| entry(id).and_then(owner_of).map(|owner| owner.process);
    let mut depth = 0;
    let mut root = process.clone();
    while let Some(parent) = owner(&root).filter(|_| depth <= lope_cells::limit::DEPTH_MAX) {
        depth += 1;
        root = parent;
    }
    let number = entry(&root).and_then(|entry| entry.child("started")?.as_int());
    StartOfProcess {
        depth,
        number: number.map_or(0, i64::cast_unsigned),
    }
}

/// How a process is started.
#[derive(Clone, Copy, Debug)]
pub struct ProcessStart<'a> {
    pub owner: Option<&'a ProcessOwner>,
    /// What its owner asked for, as a digest.
    pub asked: Option<&'a str>,
    /// Whether it runs the recipe that it ran before.
    pub is_same: bool,
}

/// Whether a process runs because its owner asked for the same before.
pub fn is_asked(set: Option<&Json>, process: &EntityId, asked: &str) -> bool {
    let entry = set.and_then(|set| set.child(process.as_str()));
    let known = entry.and_then(|entry| entry.child("asked")?.as_str());
    known == Some(asked)
}

/// Notes that a process runs. One that was started in its own right is nobody's child any more; if it begins
/// with another recipe, it is started anew.
pub fn mark_running(
    transaction: &mut Transaction,
    process: &CellAddress,
    start: ProcessStart<'_>,
) -> Result<(), WriteError> {
    let at = running_set(&process.space);
    let set = transaction.document(&at.space, &at.id);
    let known = set
        .as_ref()
        .and_then(|set| set.child(process.id.as_str()).cloned());
    let is_elevated = known
        .as_ref()
        .is_some_and(|entry| owner_of(entry).is_none());
    let of_known = |key: &str| known.as_ref().and_then(|entry| entry.child(key)).cloned();
    let asked = start.asked.map(Json::from).or_else(|| of_known("asked"));
    let asked = asked.map(|asked| ("asked", asked));
    let entry = match start.owner.filter(|_| !is_elevated) {
        Some(owner) => {
            let owner = [
                ("parent", Json::from(owner.process.as_str())),
                ("node", Json::from(owner.node as i64)),
            ];
            Json::object(owner.into_iter().chain(asked))
        }
        None => {
            let is_new = start.owner.is_none() && !start.is_same;
            let started = match of_known("started").filter(|_| !is_new) {
                Some(started) => started,
                None => count_start(transaction, &at, set.as_ref())?,
            };
            Json::object([("started", started)].into_iter().chain(asked))
        }
    };
    replace(transaction, &at.key(process.id.as_str()), &entry)
}

/// Counts a start.
fn count_start(
    transaction: &mut Transaction,
    at: &CellAddress,
    set: Option<&Json>,
) -> Result<Json, WriteError> {
    let before = set.and_then(|set| set.child(STARTS)?.as_int());
    let started = Json::from(before.unwrap_or(0) + 1);
    replace(transaction, &at.key(STARTS), &started)?;
    Ok(started)
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
    set.map_or(0, |set| set.len() - usize::from(set.contains_key(STARTS)))
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
    start_of(set.as_ref(), process).depth
}

/// The recipe id that a process cell records.
pub fn recorded_type(process: Option<&Json>) -> Option<Arc<str>> {
    process?.child("TYPE")?.as_str().map(Arc::from)
}
