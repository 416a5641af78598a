//! Plans: a definition made ready for the law. Names have places, needs are counts with successors,
//! policies are merged, and it is known which outputs anybody will want.
//!
//! A plan is made once per version and shared by its runs. It holds nothing that a definition does
//! not say.

mod make;

use std::sync::Arc;

use lope_definition::scope::{Scopes, SlotAddress};
use lope_definition::{BlockId, Definition, Problem, StepFacts, StepKind, StepPolicy, structure};
use lope_expr::Expr;
use lope_model::policy::OnFailure;
use lope_model::{Span, VersionId};

use super::handling::Handling;
use super::limits::{GRACE, WINDOW_MAX};

/// A definition made ready.
#[derive(Debug)]
pub struct Plan {
    definition: Arc<Definition>,
    version: VersionId,
    pub(crate) blocks: Vec<PlanBlock>,
    /// Where the slots of resolved names are.
    pub(crate) addresses: Vec<SlotAddress>,
    pub(crate) scopes: Scopes,
    /// Most attempts in flight.
    pub(crate) concurrency: u32,
    pub(crate) grace: Span,
}

#[derive(Debug)]
pub(crate) struct PlanBlock {
    pub(crate) steps: Vec<PlanStep>,
    /// Steps that wait for nothing.
    pub(crate) starts: Vec<u32>,
    pub(crate) slots: u32,
    pub(crate) locals: u32,
    pub(crate) inherits: Vec<(u32, SlotAddress)>,
    pub(crate) output: BlockOutput,
    pub(crate) label: Label,
}

/// What a block leaves behind.
#[derive(Debug)]
pub(crate) enum BlockOutput {
    /// Nobody wants it.
    Unwanted,
    Leaf(u32),
    Leaves(Vec<u32>),
    Collect(Box<Expr>),
    Nothing,
}

/// What stands between a step's name and those of its block's steps in the ids of executions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Label {
    Plain,
    /// The number of the element or iteration.
    Number,
    Word(Arc<str>),
}

#[derive(Debug)]
pub(crate) struct PlanStep {
    pub(crate) name: Arc<str>,
    /// Names of the steps around it and its own.
    pub(crate) path: Arc<str>,
    /// How many steps must be settled before.
    pub(crate) waits: u32,
    pub(crate) then: Vec<Dependent>,
    pub(crate) when: Option<Expr>,
    pub(crate) set: Option<SlotAddress>,
    /// How many will want the output; 0: it is not kept.
    pub(crate) uses: u32,
    /// Slots of the block that are wanted once less when the step is settled.
    pub(crate) frees: Vec<u32>,
    pub(crate) kind: StepKind,
    pub(crate) on_failure: OnFailure,
    pub(crate) policy: Arc<StepPolicy>,
    pub(crate) handling: Arc<Handling>,
    /// For a `state`: which accumulator, and the step of the root that holds it.
    pub(crate) state: Option<(u32, u32)>,
    /// Does a step of the root hold a `state`?
    pub(crate) holds_state: bool,
}

/// A step that waits for another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dependent {
    pub(crate) step: u32,
    /// Is it skipped with the other?
    pub(crate) needs: bool,
}

impl Plan {
    /// Makes a definition ready, or says what is wrong with it. Needs are inferred here, so that a
    /// definition may come from anywhere.
    pub fn new(definition: &Definition) -> Result<Self, Vec<Problem>> {
        let problems = structure(definition);
        if !problems.is_empty() {
            return Err(problems);
        }
        let mut definition = definition.ordered();
        definition.infer_needs();
        let problems = definition.validate();
        if problems.is_empty() {
            Ok(Self::of_valid(definition))
        } else {
            Err(problems)
        }
    }

    pub const fn version(&self) -> VersionId {
        self.version
    }

    pub fn name(&self) -> &Arc<str> {
        &self.definition.name
    }

    /// The definition, with its needs inferred and its blocks in canonical order.
    pub fn definition(&self) -> &Arc<Definition> {
        &self.definition
    }

    pub(crate) fn block(&self, id: BlockId) -> &PlanBlock {
        &self.blocks[id.index()]
    }

    pub(crate) fn step(&self, block: BlockId, step: u32) -> &PlanStep {
        &self.blocks[block.index()].steps[step as usize]
    }

    fn of_valid(definition: Definition) -> Self {
        let version = definition.version();
        let merged = definition.merged();
        let scopes = Scopes::new(&merged);
        let (blocks, addresses) = make::blocks(&merged, &scopes);
        let concurrency = definition.concurrency.unwrap_or(WINDOW_MAX).min(WINDOW_MAX);
        let grace = definition.grace.unwrap_or(GRACE);
        Self {
            definition: Arc::new(definition),
            version,
            blocks,
            addresses,
            scopes,
            concurrency,
            grace,
        }
    }
}

impl PlanStep {
    pub(crate) fn facts(&self) -> StepFacts<'_> {
        self.kind.facts(&self.name, &self.path)
    }
}
