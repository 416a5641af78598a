//! The builder of flows: steps, each with what it comes after. `lower` makes a definition of them.

use std::fmt;
use std::time::Duration;

use lope_definition::Checkpoint;
use lope_model::Value;
use lope_workers::function::BoxedFunction;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Flow;
use super::policy::PolicyRule;
use super::work::{self, Work};
use crate::convert::to_value;

/// Builds a [`Flow`]. `after` speaks about the step before it.
pub struct FlowBuilder {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) drafts: Vec<Draft>,
    pub(super) policies: Vec<PolicyRule>,
    pub(super) checkpoint: Checkpoint,
    pub(super) concurrency: Option<u32>,
    pub(super) problems: Vec<String>,
}

/// A step as it was written.
pub(super) struct Draft {
    pub(super) name: String,
    pub(super) after: Vec<String>,
    pub(super) kind: DraftKind,
}

pub(super) enum DraftKind {
    Step(BoxedFunction),
    Rule {
        holds: BoxedFunction,
        then: BoxedFunction,
    },
    Map {
        each: BoxedFunction,
        parallel: Option<u32>,
    },
    Accumulate {
        init: Value,
        next: BoxedFunction,
    },
    Repeat {
        first: BoxedFunction,
        round: BoxedFunction,
    },
    Child {
        flow: Flow,
        detached: bool,
    },
    Sleep(Duration),
    Wait {
        signal: String,
        timeout: Option<Duration>,
    },
}

/// Names of steps: one, or several.
pub trait Names {
    fn names(self) -> Vec<String>;
}

impl Names for &str {
    fn names(self) -> Vec<String> {
        vec![self.to_owned()]
    }
}

impl<const N: usize> Names for [&str; N] {
    fn names(self) -> Vec<String> {
        self.map(str::to_owned).to_vec()
    }
}

impl Names for Vec<String> {
    fn names(self) -> Vec<String> {
        self
    }
}

impl FlowBuilder {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            version: "1".to_owned(),
            drafts: Vec::new(),
            policies: Vec::new(),
            checkpoint: Checkpoint::default(),
            concurrency: None,
            problems: Vec::new(),
        }
    }

    /// The version of the functions. Runs that were started with another keep asking for that
    /// one's.
    #[must_use]
    pub fn version(mut self, version: &str) -> Self {
        version.clone_into(&mut self.version);
        self
    }

    /// A step. Its argument is the input, or the output of the step it comes `after` (a tuple, if
    /// there are several).
    #[must_use]
    pub fn step<A>(self, name: &str, work: impl Work<A>) -> Self {
        self.draft(name, DraftKind::Step(work.into_function()))
    }

    /// A step that takes the outputs of several others, as a tuple.
    #[must_use]
    pub fn join<A>(self, name: &str, of: impl Names, work: impl Work<A>) -> Self {
        self.step(name, work).after(of)
    }

    /// A step that happens only if the predicate holds; otherwise it is skipped with what comes
    /// after it.
    #[must_use]
    pub fn rule<A: DeserializeOwned + 'static>(
        self,
        name: &str,
        holds: impl Fn(&A) -> bool + Send + Sync + 'static,
        then: impl Work<A>,
    ) -> Self {
        self.draft(
            name,
            DraftKind::Rule {
                holds: work::asked(holds),
                then: then.into_function(),
            },
        )
    }

    /// The same work for every element of a list; the output is the list of outputs, in order.
    #[must_use]
    pub fn map<A>(self, name: &str, each: impl Work<A>) -> Self {
        self.draft(
            name,
            DraftKind::Map {
                each: each.into_function(),
                parallel: None,
            },
        )
    }

    /// How many elements of the `map` before it are at work at once; as many as the run allows, if
    /// it is not said.
    #[must_use]
    pub fn parallel(mut self, bound: u32) -> Self {
        match self.drafts.last_mut().map(|draft| &mut draft.kind) {
            Some(DraftKind::Map { parallel, .. }) => *parallel = Some(bound),
            Some(_) | None => {
                self.problems
                    .push("'parallel' speaks about a map, and there is none before it".to_owned());
            }
        }
        self
    }

    /// A list folded into one value.
    #[must_use]
    pub fn reduce<S, T>(
        mut self,
        name: &str,
        init: S,
        fold: impl Fn(S, T) -> S + Send + Sync + 'static,
    ) -> Self
    where
        S: Serialize + DeserializeOwned + 'static,
        T: DeserializeOwned + 'static,
    {
        let init = self.value(name, &init);
        self.draft(name, DraftKind::Step(work::folded(init, fold)))
    }

    /// A state of the run, durable, that every input changes in the order in which they were fed.
    /// The output is the new state.
    #[must_use]
    pub fn accumulate<S, T>(
        mut self,
        name: &str,
        init: S,
        next: impl Fn(S, T) -> S + Send + Sync + 'static,
    ) -> Self
    where
        S: Serialize + DeserializeOwned + 'static,
        T: DeserializeOwned + 'static,
    {
        let init = self.value(name, &init);
        self.draft(
            name,
            DraftKind::Accumulate {
                init,
                next: work::accumulated(next),
            },
        )
    }

    /// Work done again and again on its own output, as long as the predicate holds for it; the
    /// output is the last one.
    #[must_use]
    pub fn repeat<A: DeserializeOwned + 'static>(
        self,
        name: &str,
        again: impl Fn(&A) -> bool + Clone + Send + Sync + 'static,
        work: impl Work<A>,
    ) -> Self {
        let first = work::round(None, again.clone());
        let round = work::round(Some(work.into_function()), again);
        self.draft(name, DraftKind::Repeat { first, round })
    }

    /// Another flow as a child run; its output is the child's result.
    #[must_use]
    pub fn workflow(self, name: &str, flow: &Flow) -> Self {
        self.draft(
            name,
            DraftKind::Child {
                flow: flow.clone(),
                detached: false,
            },
        )
    }

    /// Another flow as a child run that nobody waits for; the output is its run id.
    #[must_use]
    pub fn detached(self, name: &str, flow: &Flow) -> Self {
        self.draft(
            name,
            DraftKind::Child {
                flow: flow.clone(),
                detached: true,
            },
        )
    }

    /// A pause that holds nothing, survives everything, and hands its argument on.
    #[must_use]
    pub fn sleep(self, name: &str, span: Duration) -> Self {
        self.draft(name, DraftKind::Sleep(span))
    }

    /// Wait for a signal; the output is its value.
    #[must_use]
    pub fn wait(self, name: &str, signal: &str, timeout: Option<Duration>) -> Self {
        self.draft(
            name,
            DraftKind::Wait {
                signal: signal.to_owned(),
                timeout,
            },
        )
    }

    /// The step before this comes after these, and takes their outputs.
    #[must_use]
    pub fn after(mut self, names: impl Names) -> Self {
        match self.drafts.last_mut() {
            Some(draft) => draft.after.extend(names.names()),
            None => self
                .problems
                .push("'after' speaks about a step, and there is none before it".to_owned()),
        }
        self
    }

    /// A rule for how steps are tried; the first that matches a step is the one it has.
    #[must_use]
    pub fn policy(mut self, rule: PolicyRule) -> Self {
        self.policies.push(rule);
        self
    }

    /// When progress is committed.
    #[must_use]
    pub fn checkpoint(mut self, strategy: Checkpoint) -> Self {
        self.checkpoint = strategy;
        self
    }

    /// Most attempts of one run at once.
    #[must_use]
    pub fn concurrency(mut self, most: u32) -> Self {
        self.concurrency = Some(most);
        self
    }

    fn draft(mut self, name: &str, kind: DraftKind) -> Self {
        self.drafts.push(Draft {
            name: name.to_owned(),
            after: Vec::new(),
            kind,
        });
        self
    }

    fn value<T: Serialize>(&mut self, name: &str, value: &T) -> Value {
        to_value(value).unwrap_or_else(|message| {
            self.problems.push(format!(
                "the initial value of '{name}' has no form as a value: {message}"
            ));
            Value::Null
        })
    }
}

impl fmt::Debug for FlowBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps: Vec<&str> = self
            .drafts
            .iter()
            .map(|draft| draft.name.as_str())
            .collect();
        f.debug_struct("FlowBuilder")
            .field("name", &self.name)
            .field("steps", &steps)
            .finish_non_exhaustive()
    }
}
