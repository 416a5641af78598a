//! What runs in a space, told to people: processes, their nodes, why each ran or does not.

use lope_cells::address::CellAddress;
use lope_cells::id::EntityId;
use lope_cells::json::{Json, Object};
use lope_cells::link::Link;
use lope_cells::space::Spaces;
use serde::Serialize;

use super::RecipeRunner;
use super::command::names_of;
use crate::machine::{Nodes, UnsettledNote};
use crate::process::entries;
use crate::scheduler::{NodeKey, NodeRole};

/// A process that runs.
#[derive(Clone, Debug, Serialize)]
pub struct ProcessReport {
    /// The cell with its result, by name if it has one.
    pub result: String,
    /// The document that holds its state.
    pub process: String,
    pub recipe: String,
    /// What the recipe calls itself.
    pub name: Option<String>,
    /// The process that started it, if one did.
    pub parent: Option<String>,
    pub warnings: Json,
    pub nodes: Vec<NodeLine>,
}

/// A node of a process.
#[derive(Clone, Debug, Serialize)]
pub struct NodeLine {
    pub node: usize,
    /// The type of its module.
    pub module: String,
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
    pub reads: Vec<String>,
    pub writes: Vec<String>,
    /// The nodes of the same process whose writes it reads.
    pub after: Vec<usize>,
}

impl RecipeRunner {
    /// Everything that runs.
    pub fn report(&self, spaces: &Spaces, nodes: &Nodes) -> Vec<ProcessReport> {
        let labels = Labels::of(self, spaces);
        let running = entries(spaces.snapshot().at(&self.running_set));
        let reports = running.into_iter().filter_map(|(process, owner)| {
            let parent = owner.map(|owner| labels.document(&owner.process));
            let mut report = self.process_report(&process, spaces, nodes, &labels)?;
            report.parent = parent;
            Some(report)
        });
        reports.collect()
    }

    fn process_report(
        &self,
        process: &EntityId,
        spaces: &Spaces,
        nodes: &Nodes,
        labels: &Labels,
    ) -> Option<ProcessReport> {
        let active = self.active.get(process)?;
        let at = CellAddress::document(self.space.clone(), process.clone());
        let stored = spaces.snapshot().at(&at)?;
        let result = Link::from_json(stored.child("resultRef")?)?.target(&at);
        let recipe = self.recipes.get(stored.child("TYPE")?.as_str()?)?;
        let field = |key: &str| stored.child(key).cloned().unwrap_or_default();
        let name = recipe.document.child("name").and_then(Json::as_str);
        let lines = active.nodes.iter().filter_map(|(index, key)| {
            let module = recipe.document.child("nodes")?.child(&index.to_string());
            let kind = module?.child("module")?.child("type")?.as_str()?.to_owned();
            let errors = field("errors");
            let error = errors.child(&index.to_string()).cloned();
            let line = line(*key, nodes, labels)?;
            let after = nodes.why(*key)?.reads_from;
            let siblings = active.nodes.iter();
            let after = siblings.filter(|(_, other)| after.contains(other));
            Some(NodeLine {
                node: *index,
                module: kind,
                error,
                after: after.map(|(index, _)| *index).collect(),
                ..line
            })
        });
        Some(ProcessReport {
            result: labels.cell(&result),
            process: process.to_string(),
            recipe: recipe.id.to_string(),
            name: name.map(str::to_owned),
            parent: None,
            warnings: field("warnings"),
            nodes: lines.collect(),
        })
    }
}

fn line(key: NodeKey, nodes: &Nodes, labels: &Labels) -> Option<NodeLine> {
    let report = nodes.why(key)?;
    let recorded = nodes.recorded(key);
    let (reads, writes) = nodes.wiring(key)?;
    let reason = recorded.and_then(|record| record.reason.clone());
    Some(NodeLine {
        node: 0,
        module: String::new(),
        role: match report.role {
            NodeRole::Computation => "computation",
            NodeRole::Observer => "effect",
            NodeRole::Handler => "handler",
        },
        live: report.live || report.role == NodeRole::Handler,
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
        error: None,
        reads: reads.iter().map(|at| labels.cell(at)).collect(),
        writes: writes.iter().map(|at| labels.cell(at)).collect(),
        after: Vec::new(),
    })
}

/// What people call documents: by the names they gave, and processes by their results.
struct Labels(Vec<(String, String)>);

impl Labels {
    fn of(runner: &RecipeRunner, spaces: &Spaces) -> Self {
        let names = spaces.snapshot().at(&names_of(&runner.space));
        let names = names.and_then(Json::as_object).into_iter();
        let names = names.flat_map(Object::iter);
        let named =
            names.filter_map(|(id, name)| Some((id.to_string(), name.as_str()?.to_owned())));
        let mut labels: Vec<(String, String)> = named.collect();
        for process in runner.active.keys() {
            let at = CellAddress::document(runner.space.clone(), process.clone());
            let result = spaces.snapshot().at(&at.key("resultRef"));
            let result = result
                .and_then(Link::from_json)
                .map(|link| link.target(&at));
            let known = result.and_then(|result| {
                let mut labels = labels.iter();
                let (_, name) = labels.find(|(id, _)| *id == *result.id.as_str())?;
                Some(format!("process-of-{name}"))
            });
            labels.extend(known.map(|label| (process.to_string(), label)));
        }
        Self(labels)
    }

    fn document(&self, id: &EntityId) -> String {
        self.text(id.as_str())
    }

    fn cell(&self, at: &CellAddress) -> String {
        format!("{}/{}{}", at.space, self.document(&at.id), at.path)
    }

    fn text(&self, text: &str) -> String {
        let replaced = |text: String, (id, label): &(String, String)| text.replace(id, label);
        self.0.iter().fold(text.to_owned(), replaced)
    }
}
