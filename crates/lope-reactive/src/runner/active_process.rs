//! What runs, compared with what the documents say: nodes are put in for processes that appeared
//! and taken out for those that went away.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::RecipeRunner;
use super::decided_role::DecidedRole;
use super::node::{BoundNode, NamedPart, NodeWork};
use super::roles::decide_role;
use crate::binding::{bind, links_in};
use crate::machine::Nodes;
use crate::process::{entries, entry, recorded_type, start_of};
use crate::recipe::{NodeModule, Recipe, RecipeNode};
use crate::scheduler::{NodeKey, NodePlace, NodeRole, NodeSpec};
use lope_cells::address::CellAddress;
use lope_cells::id::EntityId;
use lope_cells::json::Json;
use lope_cells::link::Link;
use lope_cells::nodes::HandlerSpec;
use lope_cells::path::CellPath;
use lope_cells::project::ArgumentPart;
use lope_cells::read::has_links;
use lope_cells::space::{DocumentChange, Spaces};
use lope_cells::transaction::ReadLog;
use lope_model::Digest;

/// A process whose nodes are in place.
#[derive(Debug)]
pub(super) struct ActiveProcess {
    recipe: Arc<str>,
    /// Whether somebody started it in its own right, so that its result is wanted.
    is_elevated: bool,
    /// Where its nodes stand among others.
    place: NodePlace,
    /// Its nodes, with their place in the recipe.
    pub(super) nodes: Vec<(usize, NodeKey)>,
    observer: Option<NodeKey>,
}

impl ActiveProcess {
    /// Whether it runs what a process cell records.
    pub(super) fn is_of(&self, process: Option<&Json>) -> bool {
        let recorded = process.and_then(|process| process.child("TYPE"));
        recorded.and_then(Json::as_str) == Some(&*self.recipe)
    }
}

/// Where the nodes of a process stand.
fn place_of(set: Option<&Json>, process: &EntityId) -> NodePlace {
    let start = start_of(set, process);
    let branch = Digest::of(process.as_str().as_bytes()).short();
    NodePlace {
        generation: start.depth as u32,
        started: start.number,
        branch: if start.depth == 0 { 0 } else { branch },
        index: 0,
    }
}

impl RecipeRunner {
    /// The processes that run and should not, should and do not, or run something else.
    pub(super) fn differing(&self, spaces: &Spaces) -> BTreeSet<EntityId> {
        let wanted = entries(spaces.snapshot().at(&self.running_set));
        let mut known: BTreeSet<EntityId> = self.active.keys().cloned().collect();
        known.extend(wanted.into_iter().map(|(process, _)| process));
        known.retain(|process| self.differs(process, spaces));
        known
    }

    /// Whether a process runs and should not, should and does not, or runs something else.
    pub(super) fn differs(&self, process: &EntityId, spaces: &Spaces) -> bool {
        let active = self.active.get(process);
        let set = spaces.snapshot().at(&self.running_set);
        match (active, entry(set, process)) {
            (None, None) => false,
            (Some(active), Some(owner)) => {
                let stored = spaces.snapshot().document(&self.space, process);
                !active.is_of(stored)
                    || active.is_elevated != owner.is_none()
                    || active.place != place_of(set, process)
            }
            _ => true,
        }
    }

    /// Makes one process run what the documents say.
    pub(super) fn reconcile(&mut self, process: &EntityId, spaces: &Spaces, nodes: &mut Nodes) {
        self.deactivate(process, nodes);
        let set = spaces.snapshot().at(&self.running_set);
        let Some(owner) = entry(set, process) else {
            return;
        };
        let stored = spaces.snapshot().document(&self.space, process);
        let recipe = recorded_type(stored).and_then(|id| self.recipe(&id, spaces));
        let Some(recipe) = recipe else { return };
        let place = place_of(set, process);
        let kept = spaces.snapshot().kept_id(&self.space, process);
        let at = CellAddress::document(self.space.clone(), kept.unwrap_or(process).clone());
        let mut active = ActiveProcess {
            recipe: recipe.id.clone(),
            is_elevated: owner.is_none(),
            place,
            nodes: Vec::new(),
            observer: None,
        };
        for (index, part) in recipe.nodes.iter().enumerate() {
            let Some(mut bound) = self.bind_node(index, part, &at) else {
                continue;
            };
            self.discover_in(&bound.inputs);
            bound.recipe = Some(Arc::clone(&recipe.id));
            bound.place = NodePlace { index, ..place };
            active
                .nodes
                .push((index, self.put_in(bound, spaces, nodes)));
        }
        let result = stored.and_then(|stored| stored.child("resultRef"));
        let result = result
            .and_then(Link::from_json)
            .map(|link| link.target(&at));
        if let Some(result) = result.filter(|_| active.is_elevated) {
            let mut observer = BoundNode::observer(at, result);
            observer.place = NodePlace {
                index: observer.index,
                ..place
            };
            active.observer = Some(self.put_in(observer, spaces, nodes));
        }
        self.active.insert(process.clone(), active);
    }

    /// Puts a node in as what the cells say it is.
    fn put_in(&mut self, mut bound: BoundNode, spaces: &Spaces, nodes: &mut Nodes) -> NodeKey {
        let mut looking = spaces.begin();
        bound.role = decide_role(&bound, &mut looking);
        let key = register(&bound, spaces, nodes);
        self.roles.insert(key, &looking);
        self.nodes.insert(key, Arc::new(bound));
        key
    }

    /// Puts nodes in anew that are something else after a change.
    pub(super) fn take_role_changes(
        &mut self,
        change: &DocumentChange,
        spaces: &Spaces,
        nodes: &mut Nodes,
    ) {
        for node in self.roles.concerned(change) {
            let Some(bound) = self.nodes.get(&node).cloned() else {
                continue;
            };
            if decide_role(&bound, &mut spaces.begin()) == bound.role {
                continue;
            }
            self.take_out(node, nodes);
            let fresh = self.put_in(BoundNode::clone(&bound), spaces, nodes);
            if let Some(active) = self.active.get_mut(&bound.process.id) {
                let known = active.nodes.iter_mut().map(|(_, known)| known);
                let mut known = known.chain(active.observer.as_mut());
                if let Some(known) = known.find(|known| **known == node) {
                    *known = fresh;
                }
            }
        }
    }

    fn take_out(&mut self, node: NodeKey, nodes: &mut Nodes) {
        nodes.remove(node);
        self.nodes.remove(&node);
        self.roles.remove(node);
    }

    pub(super) fn deactivate(&mut self, process: &EntityId, nodes: &mut Nodes) {
        let Some(active) = self.active.remove(process) else {
            return;
        };
        let own = format!("{process}/");
        self.requested.retain(|key| !key.starts_with(&own));
        let keys = active.nodes.into_iter().map(|(_, key)| key);
        for key in keys.chain(active.observer) {
            self.take_out(key, nodes);
        }
    }

    /// A recipe that is stored in the space, read once.
    fn recipe(&mut self, id: &Arc<str>, spaces: &Spaces) -> Option<Arc<Recipe>> {
        if let Some(known) = self.recipes.get(id) {
            return Some(Arc::clone(known));
        }
        let recipe = match self.discovered.remove(id) {
            Some(recipe) => recipe,
            None => {
                let document = spaces.snapshot();
                let document = document.document(&self.space, &Recipe::stored_as(id))?;
                Arc::new(Recipe::parse(document).ok()?)
            }
        };
        self.recipes.insert(id.clone(), Arc::clone(&recipe));
        Some(recipe)
    }

    /// A node tied to its process; none for a nested recipe, which has a process of its own, and
    /// for a module that nobody knows.
    fn bind_node(
        &self,
        index: usize,
        part: &RecipeNode,
        process: &CellAddress,
    ) -> Option<BoundNode> {
        let module = match &part.module {
            NodeModule::Ref(name) => self.modules.resolve(name)?,
            module => module.clone(),
        };
        let mut inputs = bind(&part.inputs, process);
        let work = match module {
            NodeModule::Recipe(_) | NodeModule::Ref(_) => return None,
            NodeModule::Function(function) => NodeWork::Function(function),
            NodeModule::Raw(name) if self.modules.is_effect(&name) => NodeWork::Effect(name),
            NodeModule::Raw(name) => NodeWork::Raw(name),
            NodeModule::Passthrough => NodeWork::Passthrough,
            NodeModule::Workflow(name) => {
                inputs = workflow_request(&name, inputs);
                NodeWork::Effect("effect".into())
            }
        };
        let outputs = bind(&part.outputs, process);
        let base = CellAddress::document(process.space.clone(), EntityId::inline(&inputs));
        Some(BoundNode {
            process: process.clone(),
            index,
            work,
            parts: parts_of(&inputs, &base),
            output: Link::from_json(&outputs).map(|link| link.target(&base)),
            base,
            inputs,
            outputs,
            role: DecidedRole::default(),
            place: NodePlace::default(),
            recipe: None,
        })
    }
}

/// Inputs entry by entry, if each is a cell or has no links in it.
fn parts_of(inputs: &Json, base: &CellAddress) -> Option<Arc<[NamedPart]>> {
    let entries = inputs.as_object()?.iter();
    let part = |value: &Json| match Link::from_json(value) {
        Some(link) => Some(ArgumentPart::Cell(link.target(base))),
        None => (!has_links(value)).then(|| ArgumentPart::Plain(value.clone())),
    };
    let parts = entries.map(|(key, value)| Some((Arc::clone(key), part(value)?)));
    let is_link = Link::from_json(inputs).is_some();
    parts.collect::<Option<Arc<[_]>>>().filter(|_| !is_link)
}

/// A durable run is an effect: its request is the workflow and its input, and the key it is asked
/// for under is the key of the run.
fn workflow_request(name: &Arc<str>, inputs: Json) -> Json {
    let request = Json::object([("workflow", Json::from(name.clone())), ("input", inputs)]);
    Json::object([("name", Json::from("workflow")), ("request", request)])
}

/// Registers a node as what it was found to be, with what it will probably read and what it writes.
fn register(bound: &BoundNode, spaces: &Spaces, nodes: &mut Nodes) -> NodeKey {
    let stream = bound.role.stream.as_ref();
    let reads = reads_of(bound, stream.map(|(at, _)| at), spaces);
    if let Some((_, stream)) = stream {
        let spec = HandlerSpec {
            stream: stream.clone(),
            reads,
            place: bound.place,
        };
        return match bound.named() {
            Some(name) => nodes.add_named_handler(spec, name),
            None => nodes.add_handler(spec),
        };
    }
    let role = match bound.work {
        NodeWork::Observer | NodeWork::Effect(_) => NodeRole::Observer,
        // Whether somebody wants what is written elsewhere is not known here.
        _ if bound.role.leads_out => NodeRole::Observer,
        NodeWork::Function(_) | NodeWork::Raw(_) | NodeWork::Passthrough => NodeRole::Computation,
    };
    let spec = NodeSpec {
        role,
        place: bound.place,
        parent: None,
        reads,
        writes: bound.role.writes.clone(),
    };
    match bound.named() {
        Some(name) => {
            // What was asked for and is not done is asked for again.
            let may_rest = bound.why_pending(&mut spaces.begin()).is_none();
            nodes.add_named(spec, name, spaces.snapshot(), may_rest)
        }
        None => nodes.add(spec),
    }
}

fn reads_of(bound: &BoundNode, without: Option<&CellPath>, spaces: &Spaces) -> ReadLog {
    let mut looking = spaces.begin();
    if matches!(bound.work, NodeWork::Raw(_)) {
        // It sees cells and reads what it chooses.
        return ReadLog::new();
    }
    if matches!(bound.work, NodeWork::Observer) {
        // It wants all of the result, so that whoever writes a part of it is wanted from the start.
        bound.observe(&mut looking);
        return looking.reads().clone();
    }
    for (at, target) in links_in(&bound.inputs, &bound.base) {
        if Some(&at) != without {
            looking.get(&target);
        }
    }
    looking.reads().clone()
}
