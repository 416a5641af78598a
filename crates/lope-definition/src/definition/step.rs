//! Steps and their kinds.
//!
//! Every kind that users write is here once; those that dispatch work (`action`, `run`, `js`,
//! `http`, `agent`) are one kind with an executor, an action name and arguments.

use std::sync::Arc;

use lope_expr::{Expr, Template, TextLocation};
use lope_model::Policy;
use serde::{Deserialize, Serialize};

use super::BlockId;

/// The executors that Lope brings; others may be named by `executor` in a policy.
pub mod executor {
    pub const ACTION: &str = "action";
    pub const RUN: &str = "run";
    pub const JS: &str = "js";
    pub const HTTP: &str = "http";
    pub const AGENT: &str = "agent";
    pub const ALL: [&str; 5] = [ACTION, RUN, JS, HTTP, AGENT];
}

/// A node of a block.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Step {
    pub name: Arc<str>,
    /// Steps of the same block that must be settled before, those written and those inferred. If
    /// one of them is skipped, so is this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<Arc<str>>,
    /// Steps of the same block that must be settled before, whatever became of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub follows: Vec<Arc<str>>,
    /// Runs only if this holds; otherwise it is skipped with what needs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<Expr>,
    /// The variable that gets the output, instead of the step's own name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set: Option<Arc<str>>,
    /// What the step itself says about how it is tried; rules and defaults lie below.
    #[serde(default, skip_serializing_if = "says_nothing")]
    pub policy: Policy<Template>,
    pub kind: StepKind,
    /// Where it was written; two steps that differ only here are equal and have the same version.
    #[serde(default, with = "location", skip_serializing_if = "is_nowhere")]
    pub at: TextLocation,
}

/// What a step does.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// Work for a worker.
    Dispatch(DispatchSpec),
    /// A value computed in place.
    Let {
        value: Template,
    },
    If {
        when: Expr,
        then: BlockId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        otherwise: Option<BlockId>,
    },
    /// The first case that holds.
    Switch {
        cases: Vec<Case>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        otherwise: Option<BlockId>,
    },
    /// The block once per element.
    Each {
        over: Template,
        /// The name of the element (`as`).
        item: Arc<str>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        index: Option<Arc<str>>,
        #[serde(default, skip_serializing_if = "super::is_default")]
        parallel: Parallel,
        block: BlockId,
        #[serde(default, skip_serializing_if = "super::is_default")]
        on_error: OnError,
        /// May regions add elements while it runs? Then it ends only when its block is left.
        #[serde(default, skip_serializing_if = "super::is_default")]
        open: bool,
    },
    While {
        when: Expr,
        block: BlockId,
        /// More rounds than this fail as `Limit`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max: Option<u64>,
    },
    Try {
        block: BlockId,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        handlers: Vec<FailureHandler>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        finally: Option<BlockId>,
    },
    /// A span (`5m`), or a number of seconds.
    Sleep {
        span: Template,
    },
    /// A time in RFC 3339, or milliseconds since 1970.
    Until {
        time: Template,
    },
    /// For a signal; after `timeout` it fails as `Timeout`, or has the value of `default`.
    Wait {
        signal: Template,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timeout: Option<Template>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        default: Option<Template>,
    },
    /// A child run; its result, or its id when detached.
    Workflow {
        workflow: Template,
        with: Template,
        #[serde(default, skip_serializing_if = "super::is_default")]
        detach: bool,
    },
    /// A message to a mailbox or a signal to a run; `body` is what the recipient's kind asks for.
    Send {
        to: Recipient,
        target: Template,
        body: Template,
    },
    /// An accumulator of the run: `next` sees `previous` and `value` (the outputs of what it needs,
    /// unless given). If an action makes the next state, `next` is its arguments.
    State {
        init: Template,
        next: Template,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        value: Option<Template>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        action: Option<Arc<str>>,
    },
    /// The first branch that settles; the others are cancelled.
    Race {
        branches: Vec<Branch>,
    },
    /// All branches at once.
    All {
        branches: Vec<Branch>,
        #[serde(default, skip_serializing_if = "super::is_default")]
        on_error: OnError,
    },
    /// Ends the input (or the function) with a value.
    Return {
        value: Template,
    },
    /// A map with `type` and `message` (as a handler's `as` sees it), or a text.
    Raise {
        error: Template,
    },
    Break,
    Continue,
    /// A block with parameters, run in a frame of its own; `return` ends it.
    Call {
        function: BlockId,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        with: Vec<(Arc<str>, Template)>,
        /// Variables of the function's that the caller's frame gets under the same names when the
        /// function ends, however it ends: what a method does to its object stays done if it fails.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        back: Vec<Arc<str>>,
    },
}

/// Work for a worker: which kind of worker, which action of its, with which arguments.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DispatchSpec {
    pub executor: Arc<str>,
    pub action: Arc<str>,
    pub with: Template,
    /// Does the action work on the run's heap? It gets it as the entry `heap` of its arguments, has
    /// it alone, and what it answers under `heap` is what it changed.
    #[serde(default, skip_serializing_if = "super::is_default")]
    pub heap: bool,
}

/// A case of a `switch`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Case {
    pub when: Expr,
    pub block: BlockId,
}

/// A handler of a `try`: for failures of these types or with these bases; for all (but a cancel) if
/// it names none.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FailureHandler {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub matches: Vec<Arc<str>>,
    /// The name of the failure in the block (`as`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Arc<str>>,
    pub block: BlockId,
}

/// A branch of `race` or `all`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Branch {
    pub name: Arc<str>,
    pub block: BlockId,
}

/// How many elements of an `each` are open at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Parallel {
    /// One after the other, in the frame around them.
    #[default]
    One,
    /// At most this many, each in a frame of its own.
    Upto(u32),
    /// As many as the law allows, each in a frame of its own.
    Max,
}

/// What an element or branch that failed does to its loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnError {
    /// It fails; what is still running is cancelled.
    #[default]
    Fail,
    /// `{"error": {type, message…}}` stands in its place.
    Collect,
}

/// Where a `send` goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recipient {
    Mailbox,
    Run,
}

impl Step {
    pub fn new(name: &str, kind: StepKind) -> Self {
        Self {
            name: name.into(),
            needs: Vec::new(),
            follows: Vec::new(),
            when: None,
            set: None,
            policy: Policy::default(),
            kind,
            at: TextLocation::NOWHERE,
        }
    }

    /// An action of a registered function.
    pub fn action(name: &str, action: &str, with: Template) -> Self {
        let dispatch = DispatchSpec {
            executor: executor::ACTION.into(),
            action: action.into(),
            with,
            heap: false,
        };
        Self::new(name, StepKind::Dispatch(dispatch))
    }

    #[must_use]
    pub fn needs(mut self, names: &[&str]) -> Self {
        names.iter().for_each(|name| self.add_need((*name).into()));
        self
    }

    #[must_use]
    pub fn follows(mut self, names: &[&str]) -> Self {
        names
            .iter()
            .for_each(|name| self.add_follow((*name).into()));
        self
    }

    #[must_use]
    pub fn when(mut self, when: Expr) -> Self {
        self.when = Some(when);
        self
    }

    #[must_use]
    pub fn set(mut self, variable: &str) -> Self {
        self.set = Some(variable.into());
        self
    }

    #[must_use]
    pub fn policy(mut self, policy: Policy<Template>) -> Self {
        self.policy = policy;
        self
    }

    #[must_use]
    pub const fn at(mut self, at: TextLocation) -> Self {
        self.at = at;
        self
    }

    /// Adds a step to follow, unless it is followed or needed already.
    pub fn add_follow(&mut self, name: Arc<str>) {
        if !self.needs.contains(&name) && !self.follows.contains(&name) {
            self.follows.push(name);
        }
    }

    /// Adds a need that is not there yet.
    pub fn add_need(&mut self, name: Arc<str>) {
        if !self.needs.contains(&name) {
            self.needs.push(name);
        }
    }
}

impl StepKind {
    /// The word for it: the key under which users write it.
    pub fn word(&self) -> &str {
        match self {
            Self::Dispatch(dispatch) => &dispatch.executor,
            Self::Let { .. } => "let",
            Self::If { .. } => "if",
            Self::Switch { .. } => "switch",
            Self::Each { .. } => "each",
            Self::While { .. } => "while",
            Self::Try { .. } => "try",
            Self::Sleep { .. } => "sleep",
            Self::Until { .. } => "until",
            Self::Wait { .. } => "wait",
            Self::Workflow { .. } => "workflow",
            Self::Send { .. } => "send",
            Self::State { .. } => "state",
            Self::Race { .. } => "race",
            Self::All { .. } => "all",
            Self::Return { .. } => "return",
            Self::Raise { .. } => "raise",
            Self::Break => "break",
            Self::Continue => "continue",
            Self::Call { .. } => "call",
        }
    }

    /// Does the step leave its block for good, so that nothing may need it?
    pub const fn leaves(&self) -> bool {
        matches!(
            self,
            Self::Return { .. } | Self::Raise { .. } | Self::Break | Self::Continue
        )
    }
}

impl Parallel {
    /// Elements one after the other share the frame around them; others have one each.
    pub const fn is_sequential(self) -> bool {
        matches!(self, Self::One | Self::Upto(0 | 1))
    }
}

fn says_nothing(policy: &Policy<Template>) -> bool {
    *policy == Policy::default()
}

pub(super) fn is_nowhere(at: &TextLocation) -> bool {
    !at.is_known()
}

/// A place as `[line, column]`.
pub(super) mod location {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use lope_expr::TextLocation;

    pub(in crate::definition) fn serialize<S: Serializer>(
        at: &TextLocation,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        (at.line, at.column).serialize(serializer)
    }

    pub(in crate::definition) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<TextLocation, D::Error> {
        let (line, column) = Deserialize::deserialize(deserializer)?;
        Ok(TextLocation::new(line, column))
    }
}
