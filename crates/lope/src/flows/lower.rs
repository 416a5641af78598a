//! From drafts to a definition. Closures that look at values become actions of their own, so that
//! what they said is journalled.

use std::collections::BTreeMap;

use lope_definition::{Block, Definition, OnError, Parallel, Problem, Step, StepKind};
use lope_expr::{Expr, Node, Template, TextLocation};
use lope_model::Value;
use lope_workers::Functions;
use lope_workers::function::BoxedFunction;

use super::Flow;
use super::builder::{Draft, DraftKind, FlowBuilder};
use super::policy::span;
use crate::error::{Error, Result};

/// What a rule's own step is called after its name: the step that asks its predicate.
const ASKS: &str = ".holds";
/// What stands before the element in a `map`.
const ITEM: &str = "item";

struct Lowering {
    flow: String,
    version: String,
    definition: Definition,
    functions: BTreeMap<String, BoxedFunction>,
    children: Vec<Flow>,
}

/// A step's name, and the steps that it follows.
#[derive(Clone, Copy)]
struct StepHead<'a> {
    name: &'a str,
    after: &'a [String],
}

impl FlowBuilder {
    /// The flow, or what is wrong with it.
    pub fn build(self) -> Result<Flow> {
        lower(self)
    }
}

fn lower(builder: FlowBuilder) -> Result<Flow> {
    let FlowBuilder {
        name,
        version,
        drafts,
        policies,
        checkpoint,
        concurrency,
        problems,
    } = builder;
    if !problems.is_empty() {
        let problems = problems
            .into_iter()
            .map(|message| Problem::new(TextLocation::NOWHERE, "", message))
            .collect();
        return Err(Error::BadFlow {
            flow: name,
            problems,
        });
    }
    let mut definition = Definition::new(&name);
    (definition.checkpoint, definition.concurrency) = (checkpoint, concurrency);
    let functions = BTreeMap::new();
    let children = Vec::new();
    let mut lowering = Lowering {
        flow: name,
        version,
        definition,
        functions,
        children,
    };
    for draft in drafts {
        lowering.draft(draft);
    }
    for (index, rule) in policies.into_iter().enumerate() {
        let action = rule
            .fallback
            .clone()
            .map(|function| lowering.function(&format!("fallback.{index}"), function));
        let rule = rule.resolve(&lowering.definition, action.as_deref())?;
        lowering.definition.policies.push(rule);
    }
    let Lowering {
        definition,
        functions,
        children,
        version,
        ..
    } = lowering;
    Flow::make(&definition, functions, children, &version)
}

impl Lowering {
    fn draft(&mut self, draft: Draft) {
        let Draft { name, after, kind } = draft;
        let with = argument(&after);
        let head = StepHead {
            name: &name,
            after: &after,
        };
        match kind {
            DraftKind::Step(function) => self.action(&name, &after, with, function),
            DraftKind::Rule { holds, then } => self.rule(head, with, holds, then),
            DraftKind::Map { each, parallel } => self.map(head, with, each, parallel),
            DraftKind::Accumulate { init, next } => self.accumulate(head, with, init, next),
            DraftKind::Repeat { first, round } => self.repeat(head, with, first, round),
            DraftKind::Child { flow, detached } => {
                let workflow = Template::literal(flow.name());
                self.push(
                    &name,
                    &after,
                    StepKind::Workflow {
                        workflow,
                        with,
                        detach: detached,
                    },
                );
                self.children.push(flow);
            }
            DraftKind::Sleep(length) => {
                let pause = format!("{name}.pause");
                self.push(
                    &pause,
                    &after,
                    StepKind::Sleep {
                        span: Template::literal(span(length).to_string()),
                    },
                );
                self.push(&name, &[pause], StepKind::Let { value: with });
            }
            DraftKind::Wait { signal, timeout } => {
                let timeout = timeout.map(|timeout| Template::literal(span(timeout).to_string()));
                self.push(
                    &name,
                    &after,
                    StepKind::Wait {
                        signal: Template::literal(signal),
                        timeout,
                        default: None,
                    },
                );
            }
        }
    }

    fn accumulate(
        &mut self,
        StepHead { name, after }: StepHead<'_>,
        with: Template,
        init: Value,
        next: BoxedFunction,
    ) {
        let action = Some(self.function(name, next).as_str().into());
        let next = Expr::new(Node::List(vec![
            Expr::name("previous"),
            Expr::name("value"),
        ]))
        .into();
        let init = Template::literal(init);
        let value = Some(with);
        self.push(
            name,
            after,
            StepKind::State {
                init,
                next,
                value,
                action,
            },
        );
    }

    fn rule(
        &mut self,
        StepHead { name, after }: StepHead<'_>,
        with: Template,
        holds: BoxedFunction,
        then: BoxedFunction,
    ) {
        let asks = format!("{name}{ASKS}");
        self.action(&asks, after, with.clone(), holds);
        let action = self.function(name, then);
        let mut step = Step::action(name, &action, with).when(Expr::name(&asks));
        after
            .iter()
            .chain([&asks])
            .for_each(|need| step.add_need(need.as_str().into()));
        self.definition.root_mut().steps.push(step);
    }

    fn map(
        &mut self,
        StepHead { name, after }: StepHead<'_>,
        over: Template,
        each: BoxedFunction,
        parallel: Option<u32>,
    ) {
        let action = self.function(name, each);
        let step = Step::action(name, &action, Expr::name(ITEM).into());
        let block = self.definition.add_block(Block::of(vec![step]));
        let parallel = parallel.map_or(Parallel::Max, Parallel::Upto);
        let kind = StepKind::Each {
            over,
            item: ITEM.into(),
            index: None,
            parallel,
            block,
            on_error: OnError::Fail,
            open: false,
        };
        self.push(name, after, kind);
    }

    /// A variable holds the value and whether there is another round; each round is one action that
    /// makes both anew.
    fn repeat(
        &mut self,
        StepHead { name, after }: StepHead<'_>,
        with: Template,
        first: BoxedFunction,
        round: BoxedFunction,
    ) {
        let begin = format!("{name}.first");
        let rounds = format!("{name}.rounds");
        let variable = format!("{name}.state");
        let action = self.function(&begin, first);
        let mut step = Step::action(&begin, &action, with).set(&variable);
        after
            .iter()
            .for_each(|need| step.add_need(need.as_str().into()));
        self.definition.root_mut().steps.push(step);
        let action = self.function(name, round);
        let step = Step::action(
            "round",
            &action,
            Expr::name(&variable).field("value").into(),
        )
        .set(&variable);
        let block = self.definition.add_block(Block::of(vec![step]));
        let when = Expr::name(&variable).field("again");
        self.push(
            &rounds,
            &[begin],
            StepKind::While {
                when,
                block,
                max: None,
            },
        );
        self.push(
            name,
            &[rounds],
            StepKind::Let {
                value: Expr::name(&variable).field("value").into(),
            },
        );
    }

    fn action(&mut self, name: &str, after: &[String], with: Template, function: BoxedFunction) {
        let action = self.function(name, function);
        let mut step = Step::action(name, &action, with);
        after
            .iter()
            .for_each(|need| step.add_need(need.as_str().into()));
        self.definition.root_mut().steps.push(step);
    }

    fn push(&mut self, name: &str, after: &[String], kind: StepKind) {
        let mut step = Step::new(name, kind);
        after
            .iter()
            .for_each(|need| step.add_need(need.as_str().into()));
        self.definition.root_mut().steps.push(step);
    }

    /// Keeps a function under the name that the definition asks for it by.
    fn function(&mut self, step: &str, function: BoxedFunction) -> String {
        let name = Functions::versioned(&format!("{}/{step}", self.flow), &self.version);
        self.functions.insert(name.clone(), function);
        name
    }
}

/// What a step takes: the input, the output of what it comes after, or a list of several.
fn argument(after: &[String]) -> Template {
    match after {
        [] => Expr::name("input").into(),
        [one] => Expr::name(one).into(),
        several => Expr::new(Node::List(
            several.iter().map(|name| Expr::name(name)).collect(),
        ))
        .into(),
    }
}
