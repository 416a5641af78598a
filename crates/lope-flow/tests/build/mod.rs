//! Short words to write workflows with in tests, and a script to lead runs through events.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "every test file uses some of them"
)]

pub mod script;

use lope_definition::{
    Block, BlockId, Branch, Case, Definition, DispatchSpec, FailureHandler, Matcher, OnError,
    Parallel, Recipient, Rule, Step, StepKind, StepPolicy, executor,
};
use lope_expr::{Expr, Template, parse};
use lope_flow::law::{Plan, Settled};
use lope_model::{Failure, Policy, Span, Value};

pub fn e(text: &str) -> Expr {
    parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

pub fn t(text: &str) -> Template {
    Template::new(e(text))
}

pub fn json(text: &str) -> Value {
    lope_model::value::from_json(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// An action of its own name, with these arguments.
pub fn act(name: &str, with: &str) -> Step {
    Step::action(name, name, t(with))
}

pub fn action(name: &str, action: &str, with: &str) -> Step {
    Step::action(name, action, t(with))
}

pub fn assign(name: &str, value: &str) -> Step {
    Step::new(name, StepKind::Let { value: t(value) })
}

pub fn give(name: &str, value: &str) -> Step {
    Step::new(name, StepKind::Return { value: t(value) })
}

pub fn raise(name: &str, error: &str) -> Step {
    Step::new(name, StepKind::Raise { error: t(error) })
}

pub fn sleep(name: &str, span: &str) -> Step {
    Step::new(name, StepKind::Sleep { span: t(span) })
}

pub fn wait(name: &str, signal: &str, timeout: Option<&str>, default: Option<&str>) -> Step {
    let signal = Template::literal(signal);
    Step::new(
        name,
        StepKind::Wait {
            signal,
            timeout: timeout.map(t),
            default: default.map(t),
        },
    )
}

pub fn child(name: &str, workflow: &str, with: &str) -> Step {
    Step::new(
        name,
        StepKind::Workflow {
            workflow: Template::literal(workflow),
            with: t(with),
            detach: false,
        },
    )
}

pub fn send(name: &str, target: &str, body: &str) -> Step {
    Step::new(
        name,
        StepKind::Send {
            to: Recipient::Mailbox,
            target: Template::literal(target),
            body: t(body),
        },
    )
}

pub fn state(name: &str, init: &str, next: &str) -> Step {
    Step::new(
        name,
        StepKind::State {
            init: t(init),
            next: t(next),
            value: None,
            action: None,
        },
    )
}

pub fn if_(name: &str, when: &str, then: BlockId, otherwise: Option<BlockId>) -> Step {
    Step::new(
        name,
        StepKind::If {
            when: e(when),
            then,
            otherwise,
        },
    )
}

pub fn switch(name: &str, cases: &[(&str, BlockId)], otherwise: Option<BlockId>) -> Step {
    let cases = cases
        .iter()
        .map(|(when, block)| Case {
            when: e(when),
            block: *block,
        })
        .collect();
    Step::new(name, StepKind::Switch { cases, otherwise })
}

pub fn each(name: &str, over: &str, item: &str, parallel: Parallel, block: BlockId) -> Step {
    let index = Some("i".into());
    Step::new(
        name,
        StepKind::Each {
            over: t(over),
            item: item.into(),
            index,
            parallel,
            block,
            on_error: OnError::Fail,
            open: false,
        },
    )
}

/// The same loop, collecting failures.
pub fn collecting(mut step: Step) -> Step {
    match &mut step.kind {
        StepKind::Each { on_error, .. } | StepKind::All { on_error, .. } => {
            *on_error = OnError::Collect;
        }
        other => panic!("{other:?} collects nothing"),
    }
    step
}

pub fn while_(name: &str, when: &str, block: BlockId, max: Option<u64>) -> Step {
    Step::new(
        name,
        StepKind::While {
            when: e(when),
            block,
            max,
        },
    )
}

pub fn try_(
    name: &str,
    block: BlockId,
    handlers: Vec<FailureHandler>,
    finally: Option<BlockId>,
) -> Step {
    Step::new(
        name,
        StepKind::Try {
            block,
            handlers,
            finally,
        },
    )
}

pub fn on(kinds: &[&str], name: Option<&str>, block: BlockId) -> FailureHandler {
    FailureHandler {
        matches: kinds.iter().map(|kind| (*kind).into()).collect(),
        name: name.map(Into::into),
        block,
    }
}

fn branches(branches: &[(&str, BlockId)]) -> Vec<Branch> {
    branches
        .iter()
        .map(|(name, block)| Branch {
            name: (*name).into(),
            block: *block,
        })
        .collect()
}

pub fn race(name: &str, of: &[(&str, BlockId)]) -> Step {
    Step::new(
        name,
        StepKind::Race {
            branches: branches(of),
        },
    )
}

pub fn all(name: &str, of: &[(&str, BlockId)]) -> Step {
    Step::new(
        name,
        StepKind::All {
            branches: branches(of),
            on_error: OnError::Fail,
        },
    )
}

pub fn call(name: &str, function: BlockId, with: &[(&str, &str)]) -> Step {
    let with = with
        .iter()
        .map(|(name, value)| ((*name).into(), t(value)))
        .collect();
    Step::new(
        name,
        StepKind::Call {
            function,
            with,
            back: Vec::new(),
        },
    )
}

pub fn done(value: impl Into<Value>) -> Settled {
    Settled::Done(value.into())
}

pub fn failed(kind: &str) -> Settled {
    Settled::failed(Failure::new(kind, "no"))
}

pub fn retries(count: u32) -> StepPolicy {
    Policy {
        retries: Some(count),
        ..Policy::default()
    }
}

pub fn millis(millis: u64) -> Span {
    Span::from_millis(millis)
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

    pub fn function(
        &mut self,
        parameters: &[&str],
        steps: impl IntoIterator<Item = Step>,
    ) -> BlockId {
        let parameters = Some(parameters.iter().map(|name| (*name).into()).collect());
        self.0.add_block(Block {
            parameters,
            ..Block::of(steps.into_iter().collect())
        })
    }

    pub fn rule(&mut self, step: &str, policy: StepPolicy) {
        self.0
            .policies
            .push(Rule::new(Matcher::named(step), policy));
    }

    pub fn concurrency(&mut self, bound: u32) {
        self.0.concurrency = Some(bound);
    }

    pub fn define(mut self, steps: impl IntoIterator<Item = Step>) -> Definition {
        self.0.root_mut().steps = steps.into_iter().collect();
        self.0
    }

    pub fn root(self, steps: impl IntoIterator<Item = Step>) -> Plan {
        plan(&self.define(steps))
    }
}

pub fn flow(steps: impl IntoIterator<Item = Step>) -> Plan {
    Draft::new().root(steps)
}

pub fn plan(definition: &Definition) -> Plan {
    Plan::new(definition).unwrap_or_else(|problems| panic!("{problems:#?}"))
}

pub fn dispatch(executor: &str, action: &str, with: &str) -> StepKind {
    StepKind::Dispatch(DispatchSpec {
        executor: executor.into(),
        action: action.into(),
        with: t(with),
        heap: false,
    })
}

pub const ACTION: &str = executor::ACTION;
