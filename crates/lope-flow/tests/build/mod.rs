//! Short words to write workflows with in tests.

#![allow(dead_code, unreachable_pub, reason = "every test file uses some of them")]

use lope_flow::definition::{Block, BlockId, Definition, Dispatch, Kind, Step, executor};
use lope_flow::expr::{Expr, Template, parse};
use lope_flow::law::{Plan, Settled};
use lope_model::{Failure, Value};

pub fn e(text: &str) -> Expr {
    parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

pub fn t(text: &str) -> Template {
    Template::new(e(text))
}

pub fn action(name: &str, action: &str, with: &str) -> Step {
    Step::action(name, action, t(with))
}

pub fn assign(name: &str, value: &str) -> Step {
    Step::new(name, Kind::Let { value: t(value) })
}

pub fn give(name: &str, value: &str) -> Step {
    Step::new(name, Kind::Return { value: t(value) })
}

pub fn done(value: impl Into<Value>) -> Settled {
    Settled::Done(value.into())
}

pub fn failed(kind: &str) -> Settled {
    Settled::failed(Failure::new(kind, "no"))
}

/// A definition under construction.
#[derive(Debug)]
pub struct Draft(pub Definition);

impl Draft {
    pub fn new() -> Self {
        Self(Definition::new("test"))
    }

    pub fn block(&mut self, steps: impl IntoIterator<Item = Step>) -> BlockId {
        self.0.add_block(Block::of(steps.into_iter().collect()))
    }

    pub fn root(mut self, steps: impl IntoIterator<Item = Step>) -> Definition {
        self.0.root_mut().steps = steps.into_iter().collect();
        self.0
    }
}

pub fn flow(steps: impl IntoIterator<Item = Step>) -> Plan {
    plan(&Draft::new().root(steps))
}

pub fn plan(definition: &Definition) -> Plan {
    Plan::new(definition).unwrap_or_else(|problems| panic!("{problems:#?}"))
}

pub fn dispatch(executor: &str, action: &str, with: &str) -> Kind {
    Kind::Dispatch(Dispatch { executor: executor.into(), action: action.into(), with: t(with) })
}

pub const ACTION: &str = executor::ACTION;
