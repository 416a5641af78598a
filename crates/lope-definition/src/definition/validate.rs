//! Is a definition sound? Every problem found, with its place, the steps' path and a hint.
//!
//! What passes here cannot make the law stumble: the plan is made of sound definitions only.
//! Whether actions exist or inputs fit their schema is not known here.

mod naming;
mod ordering;
mod policies;
mod structure;

use std::sync::Arc;

use lope_expr::TextLocation;

use super::scope::Scopes;
use super::{BlockId, Definition, Problem, RedactedPath, Step};

impl Definition {
    /// Everything that keeps this definition from being run; empty if nothing does. Needs should be
    /// inferred before.
    pub fn validate(&self) -> Vec<Problem> {
        let problems = structure::validate(self);
        if !problems.is_empty() {
            return problems;
        }
        let merged = self.merged();
        let scopes = Scopes::new(self);
        let prefixes = self.prefixes();
        let mut validator = DefinitionValidator {
            definition: self,
            merged: &merged,
            scopes,
            prefixes,
            problems,
        };
        validator.naming();
        validator.ordering();
        validator.leaving();
        validator.policies();
        let mut problems = validator.problems;
        let redacted = self.redact.iter().map(|text| RedactedPath::parse(text));
        let unread = redacted.filter_map(Result::err);
        problems.extend(unread.map(|message| Problem::new(TextLocation::NOWHERE, "", message)));
        problems.sort_by_key(|problem| (problem.at.line, problem.at.column));
        problems
    }
}

/// A definition whose structure is sound, under examination.
struct DefinitionValidator<'a> {
    definition: &'a Definition,
    /// With the rules applied.
    merged: &'a Definition,
    scopes: Scopes,
    prefixes: Vec<Arc<str>>,
    problems: Vec<Problem>,
}

/// What keeps a definition from being walked at all.
pub fn structure(definition: &Definition) -> Vec<Problem> {
    structure::validate(definition)
}

impl<'a> DefinitionValidator<'a> {
    fn path(&self, block: BlockId, step: &Step) -> String {
        format!("{}{}", self.prefixes[block.index()], step.name)
    }

    fn report(&mut self, block: BlockId, step: &Step, message: impl Into<String>) {
        let problem = Problem::of(step, &self.path(block, step), message);
        self.problems.push(problem);
    }

    /// Every step with the block that holds it.
    fn steps(&self) -> impl Iterator<Item = (BlockId, usize, &'a Step)> + use<'a> {
        let blocks = self.definition.blocks.iter().enumerate();
        blocks.flat_map(|(id, block)| {
            block
                .steps
                .iter()
                .enumerate()
                .map(move |(index, step)| (BlockId(id as u32), index, step))
        })
    }
}
