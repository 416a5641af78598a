//! A space of recipes for tests: modules in Rust, a clock, and waves that are saved at once.

use std::sync::Arc;

use lope_model::{Failure, Timestamp};
use lope_reactive::javascript::{JavaScript, ScriptHost};
use lope_reactive::machine::{
    EventOutcome, SpaceInput, SpaceMachine, SpaceOutput, SpacePost, StreamEvent,
};
use lope_reactive::module::Modules;
use lope_reactive::process::process_of;
use lope_reactive::runner::{RecipeError, RecipeRun};
use lope_reactive::{
    CellAddress, Json, Projected, Recipe, RecipeRunner, Schema, Spaces, Transaction,
};

use crate::fixture::{cell, space};

/// Takes no scripts.
#[derive(Debug)]
struct NoScripts;

impl ScriptHost for NoScripts {
    fn call(
        &mut self,
        _: &Arc<str>,
        _: &[Projected],
        _: &mut Transaction,
    ) -> Result<Option<Json>, Failure> {
        Err(Failure::new("Script", "no scripts here"))
    }
}

/// Functions that the recipes of the tests use.
pub(crate) fn modules() -> Modules {
    let mut modules = Modules::default();
    let int = |value: &Json, key: &str| value.child(key).and_then(Json::as_int).unwrap_or(0);
    modules.function("double", move |value| {
        Ok(Some((int(value, "x") * 2).into()))
    });
    modules.function("add", move |value| {
        Ok(Some((int(value, "x") + int(value, "y")).into()))
    });
    modules.function("isBig", move |value| {
        Ok(Some((int(value, "x") > 10).into()))
    });
    modules.function("nothing", |_| Ok(None));
    modules.function("positive", move |value| match int(value, "x") {
        x if x >= 0 => Ok(Some(x.into())),
        _ => Err(Failure::new("Negative", "below zero")),
    });
    modules
}

#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) machine: SpaceMachine<RecipeRunner>,
    pub(crate) now: Timestamp,
    pub(crate) outputs: Vec<SpaceOutput>,
    events: u64,
}

impl Host {
    pub(crate) fn new() -> Self {
        Self::with(Box::new(NoScripts), Spaces::default())
    }

    /// A host that takes scripts.
    pub(crate) fn scripted() -> Self {
        Self::with(Box::new(JavaScript::default()), Spaces::default())
    }

    pub(crate) fn with(scripts: Box<dyn ScriptHost>, spaces: Spaces) -> Self {
        let runner = RecipeRunner::new(space("home"), modules(), scripts);
        let mut machine = SpaceMachine::new(space("home"), spaces, runner);
        machine.check_twice();
        machine.resume(std::collections::BTreeMap::new());
        Self {
            machine,
            now: Timestamp::from_millis(0),
            outputs: Vec::new(),
            events: 0,
        }
    }

    /// Lets nodes start so many processes at most.
    pub(crate) fn bound_processes(&mut self, max: usize) {
        let scripts = Box::new(JavaScript::default());
        let runner = RecipeRunner::new(space("home"), modules(), scripts);
        *self.machine.program() = runner.allow_processes(max);
    }

    pub(crate) fn turn(&mut self, mut inputs: Vec<SpaceInput>) {
        loop {
            let from = self.outputs.len();
            self.machine
                .handle(self.now, &mut inputs, &mut self.outputs);
            let saved = |output: &SpaceOutput| match output {
                SpaceOutput::Save(wave) => Some(SpaceInput::Saved { wave: wave.number }),
                _ => None,
            };
            inputs = self.outputs[from..].iter().filter_map(saved).collect();
            let due = self.machine.next_deadline(self.now) == Some(self.now);
            if inputs.is_empty() && !due {
                return;
            }
        }
    }

    /// Does `work` in a transaction and commits it.
    pub(crate) fn edit<T>(&mut self, work: impl FnOnce(&RecipeRunner, &mut Transaction) -> T) -> T {
        let mut transaction = self.machine.spaces().begin();
        let done = work(self.machine.program(), &mut transaction);
        self.turn(vec![SpaceInput::Edit {
            ticket: 0,
            transaction,
        }]);
        done
    }

    pub(crate) fn run(
        &mut self,
        recipe: Option<serde_json::Value>,
        argument: Option<serde_json::Value>,
        result: &str,
    ) -> Result<CellAddress, RecipeError> {
        let recipe = recipe.map(|recipe| Recipe::parse(&recipe.into()));
        let recipe = recipe.transpose()?;
        let argument = argument.map(Json::from);
        let result = cell(result);
        self.edit(|runner, transaction| {
            let mut run = RecipeRun::at(&result);
            if let Some(recipe) = &recipe {
                run = run.recipe(recipe);
            }
            if let Some(argument) = &argument {
                run = run.argument(argument);
            }
            runner.run(transaction, run)
        })
    }

    pub(crate) fn stop(&mut self, result: &str) {
        let result = cell(result);
        self.edit(|runner, transaction| runner.stop(transaction, &result).unwrap());
    }

    pub(crate) fn set(&mut self, at: &str, value: impl Into<Json>) {
        let (at, value) = (cell(at), value.into());
        self.edit(|_, transaction| transaction.set(&at, &value).unwrap());
    }

    /// The value of a cell with every link in it followed.
    pub(crate) fn get(&self, at: &str) -> Option<Json> {
        self.get_at(&cell(at))
    }

    pub(crate) fn get_at(&self, at: &CellAddress) -> Option<Json> {
        let mut transaction = self.machine.spaces().begin();
        let value = transaction.project(at, &Schema::any())?;
        Some(value.to_json(at))
    }

    /// The process cell of a result cell.
    pub(crate) fn process(&self, result: &str) -> CellAddress {
        process_of(&self.machine.spaces().begin(), &cell(result))
    }

    /// What is stored in the process cell of a result cell.
    pub(crate) fn stored(&self, result: &str, key: &str) -> Option<Json> {
        let at = self.process(result).key(key);
        self.machine.spaces().snapshot().at(&at).cloned()
    }

    pub(crate) fn send(&mut self, stream: &CellAddress, payload: impl Into<Json>) -> EventOutcome {
        self.events += 1;
        let id = format!("event {}", self.events);
        self.turn(vec![SpaceInput::from(StreamEvent {
            id: id.as_str().into(),
            stream: stream.clone(),
            payload: payload.into(),
        })]);
        let receipt = |output: &SpaceOutput| match output {
            SpaceOutput::Receipt(receipt) if *receipt.event == *id => Some(receipt.outcome.clone()),
            _ => None,
        };
        self.outputs.iter().find_map(receipt).unwrap()
    }

    /// What was asked of other spaces so far.
    pub(crate) fn posts(&self) -> Vec<SpacePost> {
        let posts = self.outputs.iter().filter_map(|output| match output {
            SpaceOutput::Save(wave) => Some(&wave.posts),
            _ => None,
        });
        posts.flatten().cloned().collect()
    }

    /// Runs of the nodes of a process so far.
    pub(crate) fn runs(&mut self, result: &str) -> u64 {
        let result = cell(result);
        self.machine.with_program(|runner, spaces, nodes| {
            let keys = runner.nodes_of(&result, &spaces.begin()).into_iter();
            keys.map(|(_, key)| nodes.why(key).unwrap().runs).sum()
        })
    }

    pub(crate) fn running(&mut self) -> usize {
        self.machine.program().running().count()
    }

    /// A host that takes the space over from its documents.
    pub(crate) fn restarted(&self) -> Self {
        Self::with(Box::new(NoScripts), self.machine.spaces().clone())
    }
}
