//! Blocks: maps of steps. They are read one by one off a list, so that nesting costs no stack.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use lope_expr::TextLocation;

use super::fields::{Unread, WorkflowReader};
use super::tree::{NodeId, Shape, YamlEntry};
use crate::definition::{Block, BlockId, NESTING_MAX, STEPS_MAX, Step};

/// The steps that a step names, and where.
#[derive(Debug, Default)]
pub(super) struct NamedNeeds {
    pub(super) needs: Vec<(Arc<str>, TextLocation)>,
    pub(super) follows: Vec<(Arc<str>, TextLocation)>,
}

impl WorkflowReader<'_> {
    /// Reads the body of the workflow and every block below it.
    pub(super) fn body(&mut self, steps: NodeId) {
        self.unread.push(Unread {
            block: BlockId::ROOT,
            steps,
            prefix: "".into(),
            depth: 0,
        });
        let mut count = 0;
        while let Some(unread) = self.unread.pop() {
            count += self.block(&unread);
            if count > STEPS_MAX || unread.depth > NESTING_MAX {
                let at = self.tree.at(unread.steps);
                let message = format!(
                    "at most {STEPS_MAX} steps in blocks nested at most {NESTING_MAX} deep"
                );
                self.path.clear();
                return self.refuse(at, message);
            }
        }
        self.path.clear();
    }

    /// A block of a step: a map of steps, or `{steps, collect}`.
    pub(super) fn child(&mut self, id: NodeId, what: &str) -> BlockId {
        let Shape::Map(entries) = self.tree.shape(id) else {
            return self.child_of(Some(id), None, what);
        };
        if !entries.iter().any(|entry| &*entry.key == "steps") {
            return self.child_of(Some(id), None, what);
        }
        let fields = self.fields(id, what, &["steps", "collect"]);
        let (steps, collect) = fields.map_or((None, None), |fields| {
            (fields.get("steps"), fields.get("collect"))
        });
        self.child_of(steps, collect, what)
    }

    /// A block whose steps and output stand under keys of their own.
    pub(super) fn child_of(
        &mut self,
        steps: Option<NodeId>,
        collect: Option<NodeId>,
        what: &str,
    ) -> BlockId {
        let collect = collect.map(|id| self.template(id));
        let block = self.definition.add_block(Block {
            collect,
            ..Block::default()
        });
        if let Some(steps) = steps
            && self.is_block(steps, what)
        {
            let depth = self.path.matches('/').count() + 1;
            self.unread.push(Unread {
                block,
                steps,
                prefix: format!("{}/", self.path).into(),
                depth,
            });
        }
        block
    }

    /// Is it a map of steps? A list would promise an order that blocks do not have.
    pub(super) fn is_block(&mut self, id: NodeId, what: &str) -> bool {
        match self.tree.shape(id) {
            Shape::Map(_) => return true,
            Shape::List(_) => {
                let problem = self.mismatched(id, what, "a map of steps by name");
                self.problems.push(
                    problem.hint("write 'NAME: {…}' instead of '- …'; 'needs' gives the order"),
                );
            }
            Shape::Plain(_) | Shape::Text(_) => self.mismatch(id, what, "a map of steps by name"),
        }
        false
    }

    /// Reads the steps of one block; answers how many there are.
    fn block(&mut self, unread: &Unread) -> usize {
        let Shape::Map(entries) = self.tree.shape(unread.steps) else {
            return 0;
        };
        let known: HashSet<&str> = entries.iter().map(|entry| &*entry.key).collect();
        let mut steps: Vec<Step> = Vec::with_capacity(entries.len());
        for entry in entries {
            self.path = format!("{}{}", unread.prefix, entry.key);
            self.reserved(entry);
            let (mut step, order) = self.step(entry);
            self.known(order.needs, &known, entry)
                .into_iter()
                .for_each(|name| step.add_need(name));
            self.known(order.follows, &known, entry)
                .into_iter()
                .for_each(|name| step.add_follow(name));
            steps.push(step);
        }
        self.definition.block_mut(unread.block).steps = steps;
        entries.len()
    }

    /// `steps` and `collect` tell the long form of a block from a map of steps.
    fn reserved(&mut self, entry: &YamlEntry) {
        if matches!(&*entry.key, "steps" | "collect") {
            self.refuse(entry.at, format!("a step cannot be called '{}'", entry.key));
        }
    }

    /// The steps of the block among those that a step names; others are noted where they stand.
    fn known(
        &mut self,
        named: Vec<(Arc<str>, TextLocation)>,
        known: &HashSet<&str>,
        entry: &YamlEntry,
    ) -> Vec<Arc<str>> {
        let mut found = Vec::new();
        for (name, at) in named {
            if name == entry.key {
                self.refuse(at, "a step cannot need itself");
            } else if known.contains(&*name) {
                found.push(name);
            } else {
                // In the order of the alphabet, so that of two equally close names always the same
                // is offered.
                let names: BTreeSet<&str> = known.iter().copied().collect();
                let problem = self
                    .problem(at, format!("needs unknown step '{name}'"))
                    .did_you_mean(&name, names);
                let problem = if problem.hint.is_none() {
                    problem.hint("needs name steps of the same block")
                } else {
                    problem
                };
                self.problems.push(problem);
            }
        }
        found
    }
}
