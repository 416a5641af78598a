//! One node at work: inputs read, function called, children started, outputs written.

use std::collections::BTreeSet;
use std::sync::Arc;

use lope_model::{Failure, failure};

use super::decided_role::DecidedRole;
use super::setup::{Launch, set_up};
use super::{RecipeError, RecipeOptions, RecipeRunner};
use crate::binding::{links_in, place_of, send};
use crate::limit;
use crate::machine::{NodeName, PostAnswer, StreamEvent};
use crate::module::{ChildRequest, RawCall};
use crate::process::{ProcessOwner, child_result, mark_stopped, process_of};
use crate::recipe::{FunctionCode, FunctionModule, Recipe, is_recipe};
use crate::scheduler::NodePlace;
use lope_cells::address::CellAddress;
use lope_cells::error::WriteError;
use lope_cells::id::EntityId;
use lope_cells::json::{Json, put};
use lope_cells::link::{Link, cycle_in, rewrite, sigil};
use lope_cells::path::CellPath;
use lope_cells::project::{ArgumentPart, Projected, observe, project_parts, project_value};
use lope_cells::read::{Reads, has_links};
use lope_cells::schema::Schema;
use lope_cells::transaction::Transaction;
use lope_cells::write::replace;

/// A node of a recipe, tied to the cells of one process.
#[derive(Clone, Debug)]
pub(super) struct BoundNode {
    pub(super) process: CellAddress,
    pub(super) index: usize,
    pub(super) work: NodeWork,
    pub(super) inputs: Json,
    pub(super) outputs: Json,
    /// Where the inputs stand: an inline document that holds them.
    pub(super) base: CellAddress,
    /// What the cells say it is.
    pub(super) role: DecidedRole,
    pub(super) place: NodePlace,
    /// The recipe that it is of; none for whoever looks at a result.
    pub(super) recipe: Option<Arc<str>>,
    /// The inputs entry by entry, if they are so simple, and the one cell that the outputs are, if
    /// they are: found out once instead of with every run.
    pub(super) parts: Option<Arc<[NamedPart]>>,
    pub(super) output: Option<CellAddress>,
}

/// An input and its key.
pub(super) type NamedPart = (Arc<str>, ArgumentPart);

#[derive(Clone, Debug)]
pub(super) enum NodeWork {
    Function(FunctionModule),
    Raw(Arc<str>),
    /// A raw module that runs though nobody looks at what it writes.
    Effect(Arc<str>),
    Passthrough,
    /// Looks at a result, so that it is kept up to date.
    Observer,
}

/// The outcome of a message that its space did what it asked for.
const HANDLED: &str = "handled";

/// What a run request is called in a value.
const RUN: &str = "run@1";

impl BoundNode {
    /// Something that wants the result of a process.
    pub(super) fn observer(process: CellAddress, result: CellAddress) -> Self {
        let nowhere = CellAddress::document(process.space.clone(), EntityId::named(""));
        let inputs = Link::to(&result, &nowhere).absolute(&nowhere).to_json();
        Self {
            base: CellAddress::document(process.space.clone(), EntityId::inline(&inputs)),
            process,
            index: usize::MAX,
            work: NodeWork::Observer,
            inputs,
            outputs: Json::Null,
            role: DecidedRole::default(),
            place: NodePlace::default(),
            recipe: None,
            parts: None,
            output: None,
        }
    }

    /// All of the inputs, with the event in place of the stream; none if that is not so simple.
    fn simple_argument(
        &self,
        event: Option<&StreamEvent>,
        transaction: &mut Transaction,
    ) -> Option<Projected> {
        let parts = self.parts.as_ref()?;
        let Some(event) = event else {
            return Some(project_parts(transaction, parts));
        };
        let stream = self.stream().filter(|stream| stream.len() == 1)?;
        if has_links(&event.payload) {
            return None;
        }
        let mut parts = parts.to_vec();
        let (_, part) = parts.iter_mut().find(|(key, _)| *key == stream.keys()[0])?;
        *part = ArgumentPart::Plain(event.payload.clone());
        Some(project_parts(transaction, &parts))
    }

    /// Writes a result where the outputs say; what is undefined is removed.
    pub(super) fn send(
        &self,
        transaction: &mut Transaction,
        value: Option<&Json>,
    ) -> Result<(), WriteError> {
        match (&self.output, value) {
            (Some(output), Some(value)) => transaction.set(output, value),
            (Some(output), None) => transaction.remove(output),
            (None, value) => send(transaction, &self.outputs, &self.base, value),
        }
    }

    /// Wants everything that the inputs stand for.
    pub(super) fn observe(&self, transaction: &mut Transaction) {
        for (_, target) in links_in(&self.inputs, &self.base) {
            observe(transaction, &target);
        }
    }

    /// The outputs become undefined, and the process cell says why.
    pub(super) fn record_failure(&self, failure: &Failure, transaction: &mut Transaction) {
        let error = described(failure);
        // A write that cannot be done leaves the rest: there is nobody else to tell.
        let _cleared = self.send(transaction, None);
        let _noted = replace(transaction, &self.error_cell(), &error);
    }

    /// Where it stands why the node failed; for whoever looks at the result, under `result`.
    fn error_cell(&self) -> CellAddress {
        let errors = self.process.key("errors");
        match self.work {
            NodeWork::Observer => errors.key("result"),
            NodeWork::Function(_)
            | NodeWork::Raw(_)
            | NodeWork::Effect(_)
            | NodeWork::Passthrough => errors.key(self.index.to_string()),
        }
    }

    /// What names the node among all nodes of the space.
    pub(super) fn name(&self) -> String {
        format!("{}/{}", self.process.id, self.index)
    }

    pub(super) fn named(&self) -> Option<NodeName> {
        Some(NodeName {
            name: self.name().into(),
            recipe: self.recipe.clone()?,
        })
    }

    /// Which input is the stream, if one is.
    fn stream(&self) -> Option<&CellPath> {
        self.role.stream.as_ref().map(|(at, _)| at)
    }

    /// Notes what became of a message to another space: the last one that was handled, and the last one
    /// that was not, until one to the same place is.
    pub(super) fn record_answer(
        &self,
        answer: &PostAnswer,
        transaction: &mut Transaction,
    ) -> Result<(), WriteError> {
        let to = Json::from(answer.from.at.to_string());
        let error = answer.failure.as_ref().map(|why| ("error", described(why)));
        let fields = [
            ("to", to.clone()),
            ("event", Json::from(Arc::clone(&answer.event))),
            ("outcome", Json::from(answer.outcome.as_str())),
        ];
        let note = Json::object(fields.into_iter().chain(error));
        let receipts = self.process.key("receipts").key(self.index.to_string());
        let failed = receipts.key("failed");
        if answer.outcome != HANDLED {
            return replace(transaction, &failed, &note);
        }
        replace(transaction, &receipts.key(HANDLED), &note)?;
        let before = transaction.get(&failed.key("to"));
        if before == Some(to) {
            transaction.remove(&failed)?;
        }
        Ok(())
    }

    /// What the function is called with, read through its schema.
    fn arguments(
        &self,
        function: &FunctionModule,
        event: Option<&StreamEvent>,
        transaction: &mut Transaction,
    ) -> Vec<Projected> {
        let inputs = &self.inputs_with(event);
        let any = Schema::any();
        let schema = function.argument_schema.as_ref().unwrap_or(&any);
        let mut read = |value: &Json, schema: &Schema| {
            let found = project_value(transaction, &self.base, value, schema);
            found.unwrap_or(Projected::Plain(Json::Null))
        };
        match event.filter(|_| function.is_handler) {
            Some(event) => {
                let context = context_of(inputs, self.stream());
                vec![read(&event.payload, &any), read(&context, schema)]
            }
            None => vec![read(inputs, schema)],
        }
    }

    fn owner(&self) -> ProcessOwner {
        ProcessOwner {
            process: self.process.id.clone(),
            node: self.index,
        }
    }

    /// The inputs with the event in place of the stream.
    fn inputs_with(&self, event: Option<&StreamEvent>) -> Json {
        let (Some(at), Some(event)) = (self.stream(), event) else {
            return self.inputs.clone();
        };
        let mut inputs = Some(self.inputs.clone());
        match put(&mut inputs, at.keys(), Some(event.payload.clone())) {
            Ok(()) => inputs.unwrap_or_default(),
            Err(_) => self.inputs.clone(),
        }
    }
}

/// What a raw module gave, and which children it goes on with.
struct CalledRaw {
    value: Option<Json>,
    kept: BTreeSet<EntityId>,
}

impl RecipeRunner {
    pub(super) fn run_node(
        &mut self,
        node: &BoundNode,
        event: Option<&StreamEvent>,
        transaction: &mut Transaction,
    ) -> Result<(), Failure> {
        let mut kept = BTreeSet::new();
        let value = match &node.work {
            NodeWork::Observer => {
                node.observe(transaction);
                return forget_failure(node, transaction).map_err(refused);
            }
            NodeWork::Passthrough => Some(node.inputs_with(event)),
            NodeWork::Function(function) => self.call(node, function, event, transaction)?,
            NodeWork::Raw(name) | NodeWork::Effect(name) => {
                let called = self.call_raw(node, name, &node.inputs_with(event), transaction)?;
                kept = called.kept;
                called.value
            }
        };
        let mut found = FoundInResult {
            event: event.map(|event| Arc::clone(&event.id)),
            ..FoundInResult::default()
        };
        let value = value.map(|value| found.look_through(value, node));
        self.discover(&found.recipes);
        // All at once, before the first is set up: what is refused costs little.
        let count = match event {
            Some(_) => self.children_with(&found.requests, node, transaction),
            None => kept.len() + found.requests.len(),
        };
        self.validate_children(count, node)?;
        for request in found.requests {
            self.start_child(node, request, transaction, &mut kept)?;
        }
        if event.is_none() {
            self.stop_other_children(node, &kept, transaction)
                .map_err(refused)?;
        }
        node.send(transaction, value.as_ref()).map_err(refused)?;
        forget_failure(node, transaction).map_err(refused)
    }

    fn call_raw(
        &self,
        node: &BoundNode,
        name: &Arc<str>,
        inputs: &Json,
        transaction: &mut Transaction,
    ) -> Result<CalledRaw, Failure> {
        let raw = self.modules.find_raw(name);
        let raw = raw.ok_or_else(|| unknown(name))?;
        let mut kept = BTreeSet::new();
        let mut start = |transaction: &mut Transaction, request: ChildRequest| {
            self.start_child(node, request, transaction, &mut kept)
        };
        let value = raw(&mut RawCall {
            inputs,
            base: &node.base,
            transaction,
            outputs: &node.outputs,
            node: &node.name(),
            notes: &node.effect_notes(),
            start: &mut start,
            requested: &self.requested,
        })?;
        Ok(CalledRaw { value, kept })
    }

    fn call(
        &mut self,
        node: &BoundNode,
        function: &FunctionModule,
        event: Option<&StreamEvent>,
        transaction: &mut Transaction,
    ) -> Result<Option<Json>, Failure> {
        let is_plain = function.argument_schema.is_none() && !function.is_handler;
        let simple = is_plain.then(|| node.simple_argument(event, transaction));
        let simple = simple.flatten();
        match &function.code {
            FunctionCode::JavaScript(source) => {
                let arguments = simple.map(|argument| vec![argument]);
                let arguments =
                    arguments.unwrap_or_else(|| node.arguments(function, event, transaction));
                self.scripts.call(source, &arguments, transaction)
            }
            FunctionCode::Native(name) => {
                let argument =
                    simple.unwrap_or_else(|| joined(node.arguments(function, event, transaction)));
                let native = self.modules.find_native(name);
                let native = native.ok_or_else(|| unknown(name))?;
                native(&argument, transaction)
            }
        }
    }

    /// How many children a handler has with those that it asks for: it keeps the ones that it has.
    fn children_with(
        &self,
        requests: &[ChildRequest],
        node: &BoundNode,
        transaction: &Transaction,
    ) -> usize {
        let known = self.offspring.of(&node.process.id, node.index);
        let is_new = |request: &&ChildRequest| {
            let result = child_result(&node.owner(), &node.process.space, &request.key);
            let process = process_of(transaction, &result).id;
            !known.is_some_and(|known| known.contains(&process))
        };
        known.map_or(0, BTreeSet::len) + requests.iter().filter(is_new).count()
    }

    /// Whether a node may have so many children.
    fn validate_children(&self, count: usize, node: &BoundNode) -> Result<(), Failure> {
        if count == 0 {
            return Ok(());
        }
        if count > limit::CHILDREN_MAX {
            let message = format!("more than {} children", limit::CHILDREN_MAX);
            return Err(Failure::new(failure::kind::LIMIT, message));
        }
        let known = self.offspring.of(&node.process.id, node.index);
        let more = count.saturating_sub(known.map_or(0, BTreeSet::len));
        let max = self.processes_max;
        if more > 0 && self.offspring.len() + more > max {
            return Err(RecipeError::TooManyProcesses { max }.into());
        }
        Ok(())
    }

    /// Has a child run, and notes that it is still wanted. Looking at what is there makes the node
    /// no reader of it.
    fn start_child(
        &self,
        node: &BoundNode,
        request: ChildRequest,
        transaction: &mut Transaction,
        kept: &mut BTreeSet<EntityId>,
    ) -> Result<CellAddress, Failure> {
        self.validate_children(kept.len() + 1, node)?;
        let document = recipe_document(&request.recipe, &node.process, transaction);
        let recipe = match self.known_recipe(&document.digest().to_string()) {
            Some(recipe) => recipe,
            None => Arc::new(Recipe::parse(&document).map_err(RecipeError::from)?),
        };
        let owner = node.owner();
        let result = child_result(&owner, &node.process.space, &request.key);
        let launch = Launch {
            argument: Some(request.argument),
            result: result.clone(),
            owner: Some(owner),
        };
        let options = RecipeOptions::default();
        transaction.quietly(|transaction| {
            set_up(transaction, &self.modules, &recipe, launch, &options)?;
            kept.insert(process_of(transaction, &result).id);
            Ok(result)
        })
    }

    /// Stops the children that the node no longer wants. What a handler started stays: the next
    /// event is another one.
    fn stop_other_children(
        &self,
        node: &BoundNode,
        kept: &BTreeSet<EntityId>,
        transaction: &mut Transaction,
    ) -> Result<(), WriteError> {
        let Some(known) = self.offspring.of(&node.process.id, node.index) else {
            return Ok(());
        };
        let space = &node.process.space;
        transaction.quietly(|transaction| mark_stopped(transaction, space, known.difference(kept)))
    }
}

impl From<RecipeError> for Failure {
    fn from(error: RecipeError) -> Self {
        let kind = match error {
            RecipeError::TooDeep | RecipeError::TooManyProcesses { .. } => failure::kind::LIMIT,
            RecipeError::Bad(_)
            | RecipeError::MissingModule { .. }
            | RecipeError::MissingRecipe(_)
            | RecipeError::Write(_) => "Recipe",
        };
        Self::new(kind, error.to_string())
    }
}

/// A recipe by link, by the id it is stored under, or inline.
fn recipe_document(recipe: &Json, base: &CellAddress, transaction: &mut Transaction) -> Json {
    let found = match (Link::from_json(recipe), recipe.as_str()) {
        (Some(link), _) => transaction.get(&link.target(base)),
        (None, Some(id)) => transaction.document(&base.space, &Recipe::stored_as(id)),
        (None, None) => None,
    };
    found.unwrap_or_else(|| recipe.clone())
}

/// What stands in a result besides values.
#[derive(Default)]
struct FoundInResult {
    requests: Vec<ChildRequest>,
    recipes: Vec<Json>,
    /// The event that led to the result.
    event: Option<Arc<str>>,
}

impl FoundInResult {
    /// `value` with a link to the child's result in place of each run request in it, and with links
    /// for what leads back. A recipe stays as it is: what stands in it is its own.
    fn look_through(&mut self, value: Json, node: &BoundNode) -> Json {
        let replaced = self.replaced(&value, &CellPath::root(), node);
        replaced.unwrap_or(value)
    }

    /// What a child is called that has no key: the place where it is asked for, and the event if one led
    /// to it.
    fn key_at(&self, at: &CellPath) -> Json {
        match &self.event {
            Some(event) => Json::object([
                ("at", at.to_json()),
                ("event", Json::from(Arc::clone(event))),
            ]),
            None => at.to_json(),
        }
    }

    fn replaced(&mut self, value: &Json, at: &CellPath, node: &BoundNode) -> Option<Json> {
        if let Some(path) = cycle_in(value) {
            let place = place_of(&node.outputs, &node.base, path.keys());
            let link = place.map(|place| Link::to(&place, &node.base).absolute(&node.base));
            return Some(link.map_or(Json::Null, |link| link.to_json()));
        }
        if is_recipe(value) {
            self.recipes.push(value.clone());
            return None;
        }
        let Some(request) = sigil(value, RUN) else {
            return rewrite(value, &mut |child, key| {
                self.replaced(child, &at.join(key.clone()), node)
            });
        };
        let part = |key: &str| request.child(key).cloned();
        let request = ChildRequest {
            key: part("key").unwrap_or_else(|| self.key_at(at)),
            recipe: part("recipe")?,
            argument: part("argument").unwrap_or_else(|| Json::object::<&str>([])),
        };
        let result = child_result(&node.owner(), &node.process.space, &request.key);
        self.requests.push(request);
        Some(Link::to(&result, &node.base).absolute(&node.base).to_json())
    }
}

/// A request to run a recipe, as a function's result may have it.
pub fn run_request(recipe: Json, argument: Json, key: Option<Json>) -> Json {
    let key = key.map(|key| ("key", key));
    let fields = [("recipe", recipe), ("argument", argument)];
    let request = Json::object(fields.into_iter().chain(key));
    Json::object([("/", Json::object([(RUN, request)]))])
}

/// What a handler's function gets beside the event: `$ctx`, or all inputs but the stream.
fn context_of(inputs: &Json, stream: Option<&CellPath>) -> Json {
    if let Some(context) = inputs.child("$ctx") {
        return context.clone();
    }
    let mut rest = Some(inputs.clone());
    if let Some(stream) = stream {
        // A stream that is the whole of the inputs leaves nothing.
        let _removed = put(&mut rest, stream.keys(), None);
    }
    rest.unwrap_or_default()
}

/// A native function has one argument; a handler's is `[event, context]`.
fn joined(mut arguments: Vec<Projected>) -> Projected {
    if arguments.len() == 1 {
        return arguments.remove(0);
    }
    Projected::list(arguments)
}

fn forget_failure(node: &BoundNode, transaction: &mut Transaction) -> Result<(), WriteError> {
    let process = transaction.document(&node.process.space, &node.process.id);
    if process.is_none_or(|process| process.child("errors").is_none()) {
        return Ok(());
    }
    transaction.quietly(|transaction| transaction.remove(&node.error_cell()))
}

pub(super) fn described(failure: &Failure) -> Json {
    Json::object([
        ("type", Json::from(failure.kind.as_ref())),
        ("message", Json::from(failure.message.as_str())),
    ])
}

fn refused(error: WriteError) -> Failure {
    Failure::new("Write", error.to_string())
}

fn unknown(name: &str) -> Failure {
    Failure::new("UnknownModule", format!("'{name}' is no module"))
}
