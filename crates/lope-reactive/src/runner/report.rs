//! What runs in a space, told to people: processes, their nodes, why each ran or does not, and what
//! fails in everything that a process started.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lope_cells::address::CellAddress;
use lope_cells::id::EntityId;
use lope_cells::json::{Json, Object};
use lope_cells::labels::CellLabels;
use lope_cells::link::Link;
use lope_cells::overlaps::CellOverlaps;
use lope_cells::read::Extent;
use lope_cells::space::{Spaces, Unrecorded};
use serde::Serialize;

use super::RecipeRunner;
use super::active_process::ActiveProcess;
use super::labels::{add_children, labels_of};
use super::node::described;
use super::setup::nested_recipe;
use crate::binding::{bind, targets};
use crate::limit;
use crate::machine::{Nodes, UnsettledNote};
use crate::process::{ProcessOwner, child_result, entries};
use crate::recipe::RecipeNode;
use crate::scheduler::{NodeKey, NodeRole};

/// A process that runs.
#[derive(Clone, Debug, Serialize)]
pub struct ProcessReport {
    /// The cell with its result, by name if it has one; of a child, by the way that leads to it.
    pub result: String,
    /// The same cell, by the id of its document.
    pub id: String,
    /// The document that holds its state.
    pub process: String,
    pub recipe: String,
    /// What the recipe calls itself.
    pub name: Option<String>,
    /// The process that started it, if one did.
    pub parent: Option<String>,
    pub warnings: Json,
    pub nodes: Vec<NodeLine>,
    /// How many nodes do not work, those of everything that it started included.
    pub failing: usize,
    /// The first of them.
    pub failures: Vec<FailingNode>,
}

/// A node that does not work.
#[derive(Clone, Debug, Serialize)]
pub struct FailingNode {
    /// The nodes that lead to it, from the process that is told about: `1/0` is node 0 of what node 1
    /// started. `result` stands for whoever keeps the result up to date.
    pub path: String,
    /// The cell that its process runs into.
    pub cell: String,
    /// The same cell, by the id of its document.
    pub id: String,
    /// The error, or why it is left out.
    pub why: Json,
}

/// Failing nodes that are told one by one.
const FAILURES_MAX: usize = 100;

/// Cells that the report of a node lists: more would say nothing.
const LISTED_MAX: usize = 100;

/// A node of a process.
#[derive(Clone, Debug, Default, Serialize)]
pub struct NodeLine {
    pub node: usize,
    /// The type of its module.
    pub module: String,
    /// `computation`, `effect`, `handler`, `recipe` or `left out`.
    pub role: &'static str,
    /// Whether somebody wants what it writes.
    pub live: bool,
    /// Why it has to run, if it has to.
    pub pending: Option<String>,
    pub runs: u64,
    /// Why it ran last.
    pub reason: Option<String>,
    pub unsettled: Option<UnsettledNote>,
    /// Why it failed the last time it ran.
    pub error: Option<Json>,
    /// What it reads, as far as a list of that is short.
    pub reads: Vec<String>,
    /// Where it writes; for a handler, where it wrote when it last wrote.
    pub writes: Vec<String>,
    /// The nodes of the same process whose writes it reads, or whose events it handles.
    pub after: Vec<usize>,
    /// The stream whose events a handler takes.
    pub stream: Option<String>,
    /// The last event of a handler.
    pub event: Option<String>,
    /// The event that a handler failed with last, and why.
    pub last_failure: Option<Json>,
    /// What became of what it asked other spaces for: what was `handled` last, what `failed`.
    pub sent: Option<Json>,
    /// The cell that a recipe among the nodes runs into, and the same by the id of its document.
    pub into: Option<String>,
    pub into_id: Option<String>,
    /// Cells that it reads or writes and that are not listed.
    pub left_out: usize,
}

/// What stays the same while everything that runs is told.
struct Telling<'a> {
    spaces: &'a Spaces,
    nodes: &'a Nodes,
    labels: CellLabels,
}

impl RecipeRunner {
    /// Everything that runs.
    pub fn report(&self, spaces: &Spaces, nodes: &Nodes) -> Vec<ProcessReport> {
        let cells = spaces.snapshot();
        let running = entries(cells.at(&self.running_set));
        let mut labels = labels_of(&self.space, &Unrecorded(cells));
        add_children(&mut labels, &self.space, &running, cells);
        let telling = Telling {
            spaces,
            nodes,
            labels,
        };
        let mut told: BTreeMap<EntityId, ProcessReport> = BTreeMap::new();
        for (process, owner) in &running {
            if let Some(mut report) = self.process_report(process, &telling) {
                let parent = owner.as_ref();
                report.parent = parent.map(|owner| telling.labels.document(&owner.process));
                told.insert(process.clone(), report);
            }
        }
        hand_up(&running, &mut told);
        told.into_values().collect()
    }

    /// What a node is called in other spaces.
    pub(super) fn node_title(&self, name: &str, spaces: &Spaces) -> Arc<str> {
        let name = labels_of(&self.space, &Unrecorded(spaces.snapshot())).text(name);
        format!("{}/{name}", self.space).into()
    }

    fn process_report(&self, process: &EntityId, telling: &Telling<'_>) -> Option<ProcessReport> {
        let active = self.active.get(process)?;
        let at = CellAddress::document(self.space.clone(), process.clone());
        let stored = telling.spaces.snapshot().at(&at)?;
        let result = Link::from_json(stored.child("resultRef")?)?.target(&at);
        let recipe = self.recipes.get(stored.child("TYPE")?.as_str()?)?;
        let field = |key: &str| stored.child(key).cloned().unwrap_or_default();
        let (errors, warnings) = (field("errors"), field("warnings"));
        let receipts = field("receipts");
        let name = recipe.document.child("name").and_then(Json::as_str);
        let places: BTreeMap<NodeKey, usize> = active
            .nodes
            .iter()
            .map(|(index, key)| (*key, *index))
            .collect();
        let keys: BTreeMap<usize, NodeKey> = active.nodes.iter().copied().collect();
        let handlers = self.handlers_of(active, telling.nodes);
        let lines = recipe.nodes.iter().enumerate().map(|(index, part)| {
            let key = keys.get(&index);
            let known = key.and_then(|key| line(*key, telling, &places));
            let bound = key.and_then(|key| self.nodes.get(key));
            let asked = bound.and_then(|bound| bound.why_pending(&mut telling.spaces.begin()));
            let mut line = known.unwrap_or_else(|| self.silent_line(index, part, &at, telling));
            let stream = bound.and_then(|bound| bound.role.stream.as_ref());
            if let Some(key) = key {
                let before = handlers.before(*key, stream.map(|(_, at)| at), telling.nodes);
                line.after
                    .extend(before.into_iter().filter(|before| *before != index));
                line.after.sort_unstable();
                line.after.dedup();
            }
            let error = errors.child(&index.to_string()).cloned();
            let sent = receipts.child(&index.to_string()).cloned();
            NodeLine {
                node: index,
                module: part.module.kind().to_owned(),
                error,
                sent,
                stream: stream.map(|(_, at)| telling.labels.cell(at)),
                pending: asked.or(line.pending),
                ..line
            }
        });
        let undone = refused(&receipts);
        let notes = [&errors, &warnings, &undone];
        Some(ProcessReport {
            failures: own_failures(&result, &telling.labels, notes),
            result: telling.labels.cell(&result),
            id: result.to_string(),
            process: process.to_string(),
            recipe: recipe.id.to_string(),
            name: name.map(str::to_owned),
            parent: None,
            nodes: lines.collect(),
            failing: 0,
            warnings,
        })
    }

    /// The handlers among the nodes of a process, by what they write.
    fn handlers_of(&self, active: &ActiveProcess, nodes: &Nodes) -> WritingHandlers {
        let mut handlers = WritingHandlers::default();
        for (index, key) in &active.nodes {
            let bound = self.nodes.get(key);
            let Some(bound) = bound.filter(|bound| bound.role.stream.is_some()) else {
                continue;
            };
            let written = nodes.handled(*key).into_iter();
            let written = written.flat_map(|note| &note.writes);
            for at in bound.role.writes.iter().chain(written) {
                handlers.0.insert(at.clone(), *index);
            }
        }
        handlers
    }

    /// A node that the scheduler does not have: a recipe with a process of its own, or one that is
    /// left out.
    fn silent_line(
        &self,
        node: usize,
        part: &RecipeNode,
        process: &CellAddress,
        telling: &Telling<'_>,
    ) -> NodeLine {
        if nested_recipe(part, &self.modules).is_none() {
            return NodeLine {
                role: "left out",
                ..NodeLine::default()
            };
        }
        let owner = ProcessOwner {
            process: process.id.clone(),
            node,
        };
        let into = child_result(&owner, &self.space, &Json::Null);
        let writes = targets(&bind(&part.outputs, process), process);
        NodeLine {
            role: "recipe",
            live: true,
            into: Some(telling.labels.cell(&into)),
            into_id: Some(into.to_string()),
            writes: writes.iter().map(|at| telling.labels.cell(at)).collect(),
            ..NodeLine::default()
        }
    }
}

/// The handlers of a process, by the cells that they write and the streams that they send to.
#[derive(Debug, Default)]
struct WritingHandlers(CellOverlaps<usize>);

impl WritingHandlers {
    /// Those whose writes a node reads, or whose events it handles.
    fn before(
        &self,
        node: NodeKey,
        stream: Option<&CellAddress>,
        nodes: &Nodes,
    ) -> BTreeSet<usize> {
        let reads = nodes.scheduler.reads(node).into_iter().flatten();
        let reads = reads.flat_map(|(at, extent)| match extent {
            Extent::Link | Extent::Shape => self.0.above(at),
            Extent::Keys | Extent::Links | Extent::Whole => self.0.around(at),
        });
        let stream = stream.into_iter().flat_map(|at| self.0.above(at));
        reads.chain(stream).collect()
    }
}

/// What a process cell says of its own nodes.
fn own_failures(cell: &CellAddress, labels: &CellLabels, notes: [&Json; 3]) -> Vec<FailingNode> {
    let notes = notes.into_iter().filter_map(Json::as_object);
    let failing = notes.flat_map(Object::iter);
    let failing = failing.map(|(node, why)| FailingNode {
        path: node.to_string(),
        cell: labels.cell(cell),
        id: cell.to_string(),
        why: why.clone(),
    });
    failing.collect()
}

/// Why other spaces did not do what nodes asked them for.
fn refused(receipts: &Json) -> Json {
    let receipts = receipts.as_object().into_iter().flat_map(Object::iter);
    let refused = receipts.filter_map(|(node, receipts)| {
        let failed = receipts.child("failed")?;
        let text =
            |note: &Json, key: &str| note.child(key).and_then(Json::as_str).map(str::to_owned);
        let why = failed
            .child("error")
            .and_then(|error| text(error, "message"));
        let why = why.or_else(|| text(failed, "outcome"))?;
        let message = format!("sent to {}: {why}", text(failed, "to")?);
        let fields = [
            ("type", Json::from("Sent")),
            ("message", Json::from(message)),
        ];
        Some((Arc::clone(node), Json::object(fields)))
    });
    Json::object(refused.collect::<Vec<_>>())
}

/// Tells every process what fails in those that it started.
fn hand_up(
    running: &[(EntityId, Option<ProcessOwner>)],
    told: &mut BTreeMap<EntityId, ProcessReport>,
) {
    let owners: BTreeMap<&EntityId, &ProcessOwner> = running
        .iter()
        .filter_map(|(process, owner)| Some((process, owner.as_ref()?)))
        .collect();
    let own = told.iter_mut().map(|(process, report)| {
        let failures = std::mem::take(&mut report.failures);
        (process.clone(), failures)
    });
    let own: Vec<(EntityId, Vec<FailingNode>)> = own.collect();
    for (process, failures) in own {
        for mut failure in failures {
            let mut at = &process;
            for _ in 0..=limit::PROCESS_DEPTH_MAX {
                if let Some(report) = told.get_mut(at) {
                    report.failing += 1;
                    if report.failures.len() < FAILURES_MAX {
                        report.failures.push(failure.clone());
                    }
                }
                let Some(owner) = owners.get(at) else { break };
                failure.path = format!("{}/{}", owner.node, failure.path);
                at = &owner.process;
            }
        }
    }
}

/// The first of some cells.
fn listed(labels: &CellLabels, all: &[CellAddress]) -> Vec<String> {
    let all = all.iter().take(LISTED_MAX);
    all.map(|at| labels.cell(at)).collect()
}

/// How many of so many cells are not listed.
const fn beyond(cells: usize) -> usize {
    cells.saturating_sub(LISTED_MAX)
}

fn line(
    key: NodeKey,
    telling: &Telling<'_>,
    places: &BTreeMap<NodeKey, usize>,
) -> Option<NodeLine> {
    let Telling { nodes, labels, .. } = telling;
    let report = nodes.why(key)?;
    let recorded = nodes.recorded(key);
    let handled = nodes.handled(key);
    let (reads, mut writes) = nodes.wiring(key)?;
    writes.extend(handled.iter().flat_map(|note| note.writes.iter().cloned()));
    let reason = recorded.and_then(|record| record.reason.clone());
    let failed = handled.and_then(|note| note.failed.as_ref());
    let after = report.reads_from.iter();
    Some(NodeLine {
        role: match report.role {
            NodeRole::Computation => "computation",
            NodeRole::Observer => "effect",
            NodeRole::Handler => "handler",
        },
        live: report.live || nodes.has_stream(key),
        pending: report
            .invalid
            .map(|reason| labels.text(&reason.to_string())),
        runs: report.runs,
        reason: reason.map(|reason| labels.text(&reason)),
        unsettled: recorded.and_then(|record| {
            let mut note = record.unsettled.clone()?;
            let cycle = note.cycle.iter().map(|name| labels.text(name).into());
            note.cycle = cycle.collect();
            Some(note)
        }),
        left_out: beyond(reads.len()) + beyond(writes.len()),
        reads: listed(labels, &reads),
        writes: listed(labels, &writes),
        after: after.filter_map(|node| places.get(node).copied()).collect(),
        event: handled.map(|note| note.event.to_string()),
        last_failure: failed.map(|(event, failure)| {
            let event = ("event", Json::from(Arc::clone(event)));
            Json::object([event, ("error", described(failure))])
        }),
        ..NodeLine::default()
    })
}
