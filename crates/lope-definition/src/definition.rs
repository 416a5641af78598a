//! Definitions: a workflow as data. Front ends (YAML, the Rust builder, Python) produce them, the
//! law runs them.
//!
//! A definition is a flat list of blocks; steps that hold blocks refer to them by number, so that
//! nesting of any depth is stored, dropped and walked without recursion. Nothing here knows how a
//! run proceeds.

mod canonical;
mod merge;
mod needs;
mod problem;
mod redact;
mod rule;
pub mod scope;
mod step;
mod validate;
mod walk;

use std::collections::HashMap;
use std::sync::Arc;

use lope_model::{Realm, Span, Value};
use serde::{Deserialize, Serialize};

pub use canonical::BadDefinition;
pub use needs::Touch;
pub use problem::{Problem, nearest};
pub use redact::{RedactedOf, RedactedPath};
pub use rule::{Glob, Matcher, Rule, StepFacts, StepPolicy};
pub use step::{
    Branch, Case, DispatchSpec, FailureHandler, OnError, Parallel, Recipient, Step, StepKind,
    executor,
};
pub use validate::structure;
pub use walk::{Field, Role, Site};

use lope_expr::Template;

/// The newest law whose words a definition may use; it is part of the version, so it rises only
/// when definitions learn to say more.
pub const WRITTEN_FOR: u32 = 1;
/// Most steps of one definition.
pub const STEPS_MAX: usize = 100_000;
/// Deepest nesting of blocks in one definition.
pub const NESTING_MAX: usize = 2_000;
/// Longest name of a step, variable, branch or signal, in bytes.
pub const NAME_MAX: usize = lope_model::limit::NAME_MAX;

/// A workflow. Its version is the digest of its canonical form.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Definition {
    /// The law it was written for.
    pub law: u32,
    pub name: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// JSON Schema of an input; null: anything.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub input: Value,
    #[serde(default, skip_serializing_if = "is_default")]
    pub checkpoint: Checkpoint,
    /// Most attempts of one run in flight at once; absent: what the law allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// How long finished runs are kept; absent: what the engine is set to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention: Option<Span>,
    /// What a runner must serve to take its runs (`python:app`: that module's actions); absent:
    /// nothing beyond the usual.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub realm: Option<Arc<str>>,
    /// The file that the places of its steps are in; no part of its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<Arc<str>>,
    /// How long `finally` may take after a cancel before it is forced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace: Option<Span>,
    /// Paths of values that must not be shown: `input.card`, `result.token`, `pay.receipt`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub redact: Vec<Arc<str>>,
    /// Ordered: the first that matches a step is laid over the defaults.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<Rule>,
    /// Every block; the first is the body of the workflow.
    pub blocks: Vec<Block>,
}

/// The place of a block in its definition.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct BlockId(pub u32);

/// Steps that run as their needs allow.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Block {
    pub steps: Vec<Step>,
    /// The block's output, instead of that of its leaves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collect: Option<Template>,
    /// Parameters, if the block is a function that `call` steps run in a frame of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Vec<Arc<str>>>,
}

/// When progress is committed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Checkpoint {
    #[default]
    EveryStep,
    EveryN(u32),
    OnComplete,
    Manual,
}

impl BlockId {
    pub const ROOT: Self = Self(0);

    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl Definition {
    /// A definition with an empty body.
    pub fn new(name: &str) -> Self {
        Self {
            law: WRITTEN_FOR,
            name: name.into(),
            description: None,
            input: Value::Null,
            checkpoint: Checkpoint::default(),
            concurrency: None,
            retention: None,
            realm: None,
            file: None,
            grace: None,
            redact: Vec::new(),
            policies: Vec::new(),
            blocks: vec![Block::default()],
        }
    }

    /// What a runner must serve to take its runs. A name that is none is taken for the usual.
    pub fn realm(&self) -> Realm {
        self.realm
            .as_deref()
            .and_then(|name| Realm::parse(name).ok())
            .unwrap_or_default()
    }

    /// Where every step was written that has a place, as `app.py:12`, by its path.
    pub fn sources(&self) -> HashMap<String, String> {
        let Some(file) = &self.file else {
            return HashMap::new();
        };
        let prefixes = self.prefixes();
        let steps = self
            .blocks
            .iter()
            .zip(&prefixes)
            .flat_map(|(block, prefix)| {
                let placed = block.steps.iter().filter(|step| step.at.line > 0);
                placed.map(move |step| {
                    (
                        format!("{prefix}{}", step.name),
                        format!("{file}:{}", step.at.line),
                    )
                })
            });
        steps.collect()
    }

    pub fn root(&self) -> &Block {
        &self.blocks[0]
    }

    pub fn root_mut(&mut self) -> &mut Block {
        &mut self.blocks[0]
    }

    /// The block with this number. A number that the definition does not have is a bug of whoever
    /// made it.
    pub fn block(&self, id: BlockId) -> &Block {
        &self.blocks[id.index()]
    }

    pub fn block_mut(&mut self, id: BlockId) -> &mut Block {
        &mut self.blocks[id.index()]
    }

    /// Adds a block for a step to refer to.
    pub fn add_block(&mut self, block: Block) -> BlockId {
        let id = BlockId(u32::try_from(self.blocks.len()).expect("fewer blocks than 2^32"));
        self.blocks.push(block);
        id
    }
}

impl Block {
    pub fn of(steps: Vec<Step>) -> Self {
        Self {
            steps,
            collect: None,
            parameters: None,
        }
    }

    /// Makes each step follow the one before it: a block that reads like a program.
    #[must_use]
    pub fn in_order(mut self) -> Self {
        for index in 1..self.steps.len() {
            let before = Arc::clone(&self.steps[index - 1].name);
            self.steps[index].add_follow(before);
        }
        self
    }

    pub fn step(&self, name: &str) -> Option<&Step> {
        self.steps.iter().find(|step| &*step.name == name)
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
