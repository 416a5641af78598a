//! Names: well-formed, unique, not taken by the law, and known where they are used. Secrets only go
//! to workers.

use std::collections::BTreeSet;
use std::sync::Arc;

use lope_expr::{Expr, TextLocation};
use lope_values::unicode;

use super::DefinitionValidator;
use crate::definition::scope::{BUILT_IN, RESERVED};
use crate::definition::{BlockId, Field, NAME_MAX, Problem, Step, StepKind};

/// What an expression belongs to.
#[derive(Clone, Copy)]
struct ExprSite<'a> {
    at: TextLocation,
    path: &'a str,
}

impl DefinitionValidator<'_> {
    pub(super) fn naming(&mut self) {
        for index in 0..self.definition.blocks.len() {
            let id = BlockId(index as u32);
            self.block_names(id);
            if let Some(collect) = &self.definition.block(id).collect {
                let path = self.prefixes[index].trim_end_matches('/').to_owned();
                self.expression(
                    id,
                    ExprSite {
                        at: TextLocation::NOWHERE,
                        path: &path,
                    },
                    Field::Value,
                    collect.expr(),
                );
            }
        }
        for (block, index, step) in self.steps() {
            let path = self.path(block, step);
            let merged = &self.merged.block(block).steps[index];
            merged.each_expr(&mut |field, expr| {
                self.expression(
                    block,
                    ExprSite {
                        at: step.at,
                        path: &path,
                    },
                    field,
                    expr,
                );
            });
            self.nothing_to_set(block, step);
        }
        self.rules_name_steps();
    }

    fn block_names(&mut self, id: BlockId) {
        let mut seen = BTreeSet::new();
        let locals = self.definition.locals(id, self.scopes.sites[id.index()]);
        for step in &self.definition.block(id).steps {
            let path = self.path(id, step);
            let set = step
                .set
                .iter()
                .chain(step.kind.back())
                .map(|name| ("variable", name));
            let branches = branch_names(&step.kind)
                .into_iter()
                .map(|name| ("branch", name));
            for (what, name) in [("step", &step.name)]
                .into_iter()
                .chain(set)
                .chain(branches)
            {
                self.problems.extend(
                    badly_named(what, name).map(|message| Problem::of(step, &path, message)),
                );
            }
            if !seen.insert(&step.name) {
                self.report(
                    id,
                    step,
                    format!("two steps of this block are called '{}'", step.name),
                );
            }
            if step.set.is_none() && locals.contains(&step.name) {
                self.report(
                    id,
                    step,
                    format!(
                        "'{}' is also the name of a variable of this block",
                        step.name
                    ),
                );
            }
        }
        self.variable_names(id, &locals);
    }

    fn variable_names(&mut self, id: BlockId, locals: &[Arc<str>]) {
        let path = self.prefixes[id.index()].trim_end_matches('/').to_owned();
        let at = self.scopes.sites[id.index()].map_or(TextLocation::NOWHERE, |site| {
            self.definition.block(site.block).steps[site.step].at
        });
        for (index, name) in locals.iter().enumerate() {
            let bad = badly_named("variable", name);
            let twice = locals[..index]
                .contains(name)
                .then(|| format!("two variables are called '{name}'"));
            self.problems.extend(
                bad.or(twice)
                    .map(|message| Problem::new(at, &path, message)),
            );
        }
    }

    fn expression(
        &mut self,
        block: BlockId,
        ExprSite { at, path }: ExprSite<'_>,
        field: Field,
        expr: &Expr,
    ) {
        expr.each_free_name(&mut |name, location| {
            if field.binds(name)
                || BUILT_IN.contains(&name)
                || self.scopes.resolve(block, name).is_some()
            {
                return;
            }
            let at = if location.is_known() { location } else { at };
            let problem = Problem::new(at, path, format!("unknown name '{name}'"));
            let problem = match self.setter_called(block, name) {
                Some(variable) => problem.hint(format!(
                    "step '{name}' sets the variable '{variable}': use that"
                )),
                None => problem.did_you_mean(name, self.scopes.visible(block)),
            };
            self.problems.push(problem);
        });
        if !matches!(field, Field::Arguments | Field::FallbackArguments)
            && let Some(secret) = expr.secrets().first()
        {
            let message =
                format!("the secret '{secret}' may only be used in arguments that go to a worker");
            self.problems.push(Problem::new(
                if expr.at.is_known() { expr.at } else { at },
                path,
                message,
            ));
        }
    }

    fn setter_called(&self, block: BlockId, name: &str) -> Option<Arc<str>> {
        let step = self.definition.block(block).step(name)?;
        step.set.as_ref().map(Arc::clone)
    }

    fn nothing_to_set(&mut self, block: BlockId, step: &Step) {
        if step.kind.leaves() && step.set.is_some() {
            self.report(
                block,
                step,
                format!(
                    "'{}' leaves the block and has no output to set",
                    step.kind.word()
                ),
            );
        }
    }

    /// A rule for a step by its exact name is a mistake if there is no such step.
    fn rules_name_steps(&mut self) {
        let names: BTreeSet<&str> = self.steps().map(|(_, _, step)| &*step.name).collect();
        for rule in &self.definition.policies {
            let Some(glob) = rule
                .matcher
                .step
                .as_ref()
                .filter(|glob| glob.is_exact() && !glob.0.contains('/'))
            else {
                continue;
            };
            if !names.contains(&*glob.0) {
                let problem = Problem::new(
                    rule.at,
                    "",
                    format!("a policy names step '{glob}', which does not exist"),
                );
                self.problems
                    .push(problem.did_you_mean(&glob.0, names.iter().copied()));
            }
        }
    }
}

fn branch_names(kind: &StepKind) -> Vec<&Arc<str>> {
    match kind {
        StepKind::Race { branches } | StepKind::All { branches, .. } => {
            branches.iter().map(|branch| &branch.name).collect()
        }
        _ => Vec::new(),
    }
}

fn badly_named(what: &str, name: &str) -> Option<String> {
    if RESERVED.contains(&name) {
        return Some(format!(
            "'{name}' is taken by the workflow language: choose another name for the {what}"
        ));
    }
    let starts = name.starts_with(|c: char| unicode::is_alphabetic(c) || c == '_');
    let fits = name.len() <= NAME_MAX
        && name
            .chars()
            .all(|c| unicode::is_alphanumeric(c) || matches!(c, '_' | '-' | '.'));
    (!starts || !fits).then(|| {
        format!("'{name}' is not a name for a {what}: a letter, then letters, digits, '_', '-' or '.', at most {NAME_MAX} bytes")
    })
}
