//! The runner of recipes: what `run` and `stop` write, and the nodes that follow from it.
//!
//! `run` and `stop` change documents in a transaction and nothing else. What runs is what the
//! documents say: after every commit the runner compares, takes nodes out and puts nodes in. So a
//! transaction that is not committed has started nothing, and a runner that takes a space over
//! starts the same nodes from the same documents.

mod active_process;
mod command;
mod decided_role;
mod discovery;
mod effect_node;
mod labels;
mod node;
mod offspring;
mod report;
mod roles;
mod setup;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lope_model::Failure;
use thiserror::Error;

use crate::limit;
use crate::machine::{NOT_DEPLOYED, Nodes, PostAnswer, Program, SpaceCommand, StreamEvent};
use crate::module::Modules;
use crate::process::{mark_stopped, process_of, running_set};
use crate::recipe::{BadRecipe, Recipe};
use crate::scheduler::{NodeKey, NodeMap};
use active_process::ActiveProcess;
pub use command::{NOTHING_RUNS, name_of, names_of};
pub(crate) use labels::add_names;
use labels::worded;
use lope_cells::address::CellAddress;
use lope_cells::error::WriteError;
use lope_cells::id::{EntityId, SpaceName};
use lope_cells::javascript::ScriptHost;
use lope_cells::json::Json;
use lope_cells::read::Reads;
use lope_cells::space::{Committed, DocumentChange, Spaces, Unrecorded};
use lope_cells::transaction::{EffectRequest, Transaction};
use node::BoundNode;
pub use node::run_request;
use offspring::Offspring;
pub use report::{FailingNode, NodeLine, ProcessReport};
use roles::RoleIndex;

/// Why a recipe was not run.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum RecipeError {
    #[error(transparent)]
    Bad(#[from] BadRecipe),
    #[error("node {node} of the recipe names '{name}', which is no module")]
    MissingModule { node: usize, name: Arc<str> },
    #[error("the recipe '{0}' that the process cell records is not stored")]
    MissingRecipe(Arc<str>),
    #[error("recipes start each other more than {max} deep", max = crate::limit::PROCESS_DEPTH_MAX)]
    TooDeep,
    #[error("more than {max} processes would run in the space")]
    TooManyProcesses { max: usize },
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// How a recipe is run.
#[derive(Clone, Debug, Default)]
pub struct RecipeOptions {
    /// A module that is missing fails the run, instead of leaving its node out with a warning.
    pub strict: bool,
}

/// What is to run into a result cell.
#[derive(Clone, Debug)]
pub struct RecipeRun<'a> {
    result: &'a CellAddress,
    recipe: Option<&'a Recipe>,
    argument: Option<&'a Json>,
    options: RecipeOptions,
}

impl<'a> RecipeRun<'a> {
    /// What the process cell of `result` records, with its argument as it is.
    pub fn at(result: &'a CellAddress) -> Self {
        Self {
            result,
            recipe: None,
            argument: None,
            options: RecipeOptions::default(),
        }
    }

    /// This recipe.
    pub fn recipe(self, recipe: &'a Recipe) -> Self {
        Self {
            recipe: Some(recipe),
            ..self
        }
    }

    /// With this argument.
    pub fn argument(self, argument: &'a Json) -> Self {
        Self {
            argument: Some(argument),
            ..self
        }
    }

    pub fn options(self, options: RecipeOptions) -> Self {
        Self { options, ..self }
    }
}

/// The recipes of one space.
#[derive(Debug)]
pub struct RecipeRunner {
    space: SpaceName,
    /// Where it stands which processes run.
    running_set: CellAddress,
    modules: Modules,
    scripts: Box<dyn ScriptHost>,
    /// What runs, by process cell.
    active: BTreeMap<EntityId, ActiveProcess>,
    nodes: NodeMap<Arc<BoundNode>>,
    roles: RoleIndex,
    /// Recipes that were read, by id.
    recipes: BTreeMap<Arc<str>, Arc<Recipe>>,
    /// Recipes that were met as values, by id.
    discovered: BTreeMap<Arc<str>, Arc<Recipe>>,
    /// Effects that were asked for since this runner has the space, and are not done.
    requested: BTreeSet<Arc<str>>,
    offspring: Offspring,
    /// How many processes nodes may start, all together.
    processes_max: usize,
}

impl RecipeRunner {
    /// A runner that knows `modules` and the built-in ones.
    pub fn new(space: SpaceName, modules: Modules, scripts: Box<dyn ScriptHost>) -> Self {
        let mut known = Modules::default();
        crate::builtin::install(&mut known);
        known.extend(modules);
        Self {
            running_set: running_set(&space),
            space,
            modules: known,
            scripts,
            active: BTreeMap::new(),
            nodes: NodeMap::default(),
            roles: RoleIndex::default(),
            recipes: BTreeMap::new(),
            discovered: BTreeMap::new(),
            requested: BTreeSet::new(),
            offspring: Offspring::default(),
            processes_max: limit::PROCESSES_MAX,
        }
    }

    /// Lets nodes start so many processes, all together, and no more.
    pub fn allow_processes(self, processes_max: usize) -> Self {
        Self {
            processes_max: processes_max.min(limit::PROCESSES_MAX),
            ..self
        }
    }

    /// Runs a recipe into a result cell. Without a recipe the recorded one is resumed, or nothing
    /// happens. The same recipe and argument change nothing; another argument is put in place;
    /// another recipe takes over once it is set up.
    pub fn run(
        &self,
        transaction: &mut Transaction,
        asked: RecipeRun<'_>,
    ) -> Result<CellAddress, RecipeError> {
        let RecipeRun {
            result,
            recipe,
            argument,
            options,
        } = asked;
        let launch = setup::Launch {
            argument: argument.cloned(),
            result: result.clone(),
            owner: None,
        };
        let recorded = match recipe {
            Some(recipe) => Some(Arc::new(recipe.clone())),
            None => setup::recorded(transaction, result)?,
        };
        if let Some(recipe) = recorded {
            setup::set_up(transaction, &self.modules, &recipe, launch, &options)?;
        }
        Ok(result.clone())
    }

    /// Stops what runs into a result cell, and what it started.
    pub fn stop(
        &self,
        transaction: &mut Transaction,
        result: &CellAddress,
    ) -> Result<(), RecipeError> {
        let process = process_of(transaction, result);
        let stopped = std::iter::once(&process.id);
        Ok(mark_stopped(transaction, &process.space, stopped)?)
    }

    /// Records what came of an effect, by the key it was asked for under. An outcome that nobody
    /// waits for any more is dropped.
    pub fn record_effect(
        &mut self,
        key: &str,
        outcome: &Result<Json, Failure>,
        transaction: &mut Transaction,
    ) -> Result<(), RecipeError> {
        let is_early = matches!(outcome, Err(why) if &*why.kind == NOT_DEPLOYED);
        let (node, hash) = key.rsplit_once('/').unwrap_or_default();
        let node = self.named(node);
        let node = node.filter(|bound| bound.awaits(hash, transaction));
        if !is_early || node.is_none() {
            self.requested.remove(key);
        }
        match node {
            Some(bound) => Ok(bound.record_effect(hash, outcome, is_early, transaction)?),
            None => Ok(()),
        }
    }

    /// Asks for an effect again that could not be begun, if it is still wanted.
    fn repeat_effect(
        &mut self,
        key: &Arc<str>,
        request: &Json,
        transaction: &mut Transaction,
    ) -> Result<(), RecipeError> {
        self.requested.remove(key);
        let (node, hash) = key.rsplit_once('/').unwrap_or_default();
        if let Some(bound) = self.named(node)
            && bound.awaits(hash, transaction)
        {
            bound.forget_early(transaction)?;
            transaction.after_commit(EffectRequest::new(Arc::clone(key), request.clone()));
        }
        Ok(())
    }

    /// Records what became of a message that a node sent; nothing of one that is gone.
    fn record_answer(
        &self,
        answer: &PostAnswer,
        transaction: &mut Transaction,
    ) -> Result<(), RecipeError> {
        match self.named(&answer.from.node) {
            Some(bound) => Ok(bound.record_answer(answer, transaction)?),
            None => Ok(()),
        }
    }

    /// Puts another module under a name; what uses it is computed anew.
    pub fn change_modules(
        &mut self,
        spaces: &Spaces,
        nodes: &mut Nodes,
        change: impl FnOnce(&mut Modules),
    ) {
        change(&mut self.modules);
        let running: Vec<EntityId> = self.active.keys().cloned().collect();
        for process in running {
            self.deactivate(&process, nodes);
        }
        self.resumed(spaces, nodes);
    }

    /// The nodes of a process, in the order of its recipe; those left out are missing.
    pub fn nodes_of(&self, result: &CellAddress, reads: &dyn Reads) -> Vec<(usize, NodeKey)> {
        let process = process_of(reads, result);
        let process_nodes = self.active.get(&process.id);
        process_nodes.map_or_else(Vec::new, |process_nodes| process_nodes.nodes.clone())
    }

    /// The process cells of what runs.
    pub fn running(&self) -> impl Iterator<Item = &EntityId> {
        self.active.keys()
    }
}

impl Program for RecipeRunner {
    fn run(&mut self, node: NodeKey, transaction: &mut Transaction) -> Result<(), Failure> {
        let bound = self.bound(node)?;
        self.run_node(&bound, None, transaction)
    }

    fn handle(
        &mut self,
        node: NodeKey,
        event: &StreamEvent,
        transaction: &mut Transaction,
    ) -> Result<(), Failure> {
        let bound = self.bound(node)?;
        self.run_node(&bound, Some(event), transaction)
    }

    fn command(
        &mut self,
        command: &SpaceCommand,
        transaction: &mut Transaction,
    ) -> Result<(), Failure> {
        let acted = self.act(&command.action, transaction);
        acted.map_err(|failure| worded(failure, &self.space, transaction))
    }

    fn worded(&self, failure: Failure, spaces: &Spaces) -> Failure {
        worded(failure, &self.space, &Unrecorded(spaces.snapshot()))
    }

    fn is_waiting(&self) -> bool {
        !self.requested.is_empty()
    }

    fn failed(&mut self, node: NodeKey, failure: &Failure, transaction: &mut Transaction) {
        if let Ok(bound) = self.bound(node) {
            bound.record_failure(failure, transaction);
        }
    }

    fn title(&self, name: &Arc<str>, spaces: &Spaces) -> Arc<str> {
        self.node_title(name, spaces)
    }

    fn committed(&mut self, committed: &Committed, spaces: &Spaces, nodes: &mut Nodes) {
        let effects = committed.effects.iter().map(|effect| effect.key.clone());
        self.requested.extend(effects);
        let mut changes = committed.changes.iter();
        let set_change = changes.find(|change| change.id == self.running_set.id);
        if let Some(change) = set_change {
            self.take_set_change(change, spaces, nodes);
        }
        for change in &committed.changes {
            let is_active = self.active.get(&change.id);
            if is_active.is_some_and(|active| !active.is_of(change.after.as_ref())) {
                self.reconcile(&change.id, spaces, nodes);
            }
            self.take_role_changes(change, spaces, nodes);
        }
    }

    fn resumed(&mut self, spaces: &Spaces, nodes: &mut Nodes) {
        self.offspring = Offspring::in_set(spaces.snapshot().at(&self.running_set));
        for process in self.differing(spaces) {
            self.reconcile(&process, spaces, nodes);
        }
    }
}

impl RecipeRunner {
    /// Starts and stops what a change of the running set says; looks at nothing else.
    fn take_set_change(&mut self, change: &DocumentChange, spaces: &Spaces, nodes: &mut Nodes) {
        let mut processes = BTreeSet::new();
        for place in &change.paths {
            match place.path.keys().first() {
                Some(process) => processes.extend(process.parse::<EntityId>()),
                None => return self.resumed(spaces, nodes),
            }
        }
        for process in &processes {
            let before = change.before.as_ref();
            self.offspring
                .replace(process, before, change.after.as_ref());
        }
        // Where children stand follows from who started them.
        for process in self.offspring.with_descendants(processes) {
            if self.differs(&process, spaces) {
                self.reconcile(&process, spaces, nodes);
            }
        }
    }

    /// The node of this name, if it is in place.
    fn named(&self, name: &str) -> Option<Arc<BoundNode>> {
        let (process, index) = name.rsplit_once('/')?;
        let process_nodes = self.active.get(&process.parse::<EntityId>().ok()?)?;
        let index: usize = index.parse().ok()?;
        let place = process_nodes
            .nodes
            .binary_search_by_key(&index, |(index, _)| *index);
        self.nodes
            .get(&process_nodes.nodes.get(place.ok()?)?.1)
            .cloned()
    }

    fn bound(&self, node: NodeKey) -> Result<Arc<BoundNode>, Failure> {
        let bound = self.nodes.get(&node).cloned();
        bound.ok_or_else(|| Failure::new("Stopped", "the node was stopped"))
    }
}
