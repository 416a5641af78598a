//! Blocks: maps of steps. They are read one by one off a list, so that nesting costs no stack.

use std::sync::Arc;

use super::fields::{Reader, Unread};
use super::tree::{Entry, NodeId, Shape};
use crate::definition::{Block, BlockId, NESTING_MAX, STEPS_MAX, Step};
use crate::expr::At;

/// A step and the places of what it says it needs.
struct Needing {
    step: Step,
    needs: Vec<(Arc<str>, At)>,
}

impl Reader<'_> {
    /// Reads the body of the workflow and every block below it.
    pub(super) fn body(&mut self, steps: NodeId) {
        self.unread.push(Unread { block: BlockId::ROOT, steps, prefix: "".into(), depth: 0 });
        let mut count = 0;
        while let Some(unread) = self.unread.pop() {
            count += self.block(&unread);
            if count > STEPS_MAX || unread.depth > NESTING_MAX {
                let at = self.tree.at(unread.steps);
                let message = format!("at most {STEPS_MAX} steps in blocks nested at most {NESTING_MAX} deep");
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
        let (steps, collect) = fields.map_or((None, None), |fields| (fields.get("steps"), fields.get("collect")));
        self.child_of(steps, collect, what)
    }

    /// A block whose steps and output stand under keys of their own.
    pub(super) fn child_of(&mut self, steps: Option<NodeId>, collect: Option<NodeId>, what: &str) -> BlockId {
        let collect = collect.map(|id| self.template(id));
        let block = self.definition.add_block(Block { collect, ..Block::default() });
        if let Some(steps) = steps
            && self.is_block(steps, what)
        {
            let depth = self.path.matches('/').count() + 1;
            self.unread.push(Unread { block, steps, prefix: format!("{}/", self.path).into(), depth });
        }
        block
    }

    /// Is it a map of steps? A list would promise an order that blocks do not have.
    pub(super) fn is_block(&mut self, id: NodeId, what: &str) -> bool {
        match self.tree.shape(id) {
            Shape::Map(_) => return true,
            Shape::List(_) => {
                let problem = self.mismatched(id, what, "a map of steps by name");
                self.problems.push(problem.hint("write 'NAME: {…}' instead of '- …'; 'needs' gives the order"));
            }
            Shape::Plain(_) | Shape::Text(_) => self.mismatch(id, what, "a map of steps by name"),
        }
        false
    }

    /// Reads the steps of one block; answers how many there are.
    fn block(&mut self, unread: &Unread) -> usize {
        let Shape::Map(entries) = self.tree.shape(unread.steps) else { return 0 };
        let mut read: Vec<Needing> = Vec::with_capacity(entries.len());
        for entry in entries {
            self.path = format!("{}{}", unread.prefix, entry.key);
            self.reserved(entry);
            let (step, needs) = self.step(entry);
            read.push(Needing { step, needs });
        }
        for index in 0..read.len() {
            self.path = format!("{}{}", unread.prefix, read[index].step.name);
            let known = self.known_needs(&read, index);
            for need in known {
                read[index].step.add_need(need);
            }
        }
        self.definition.block_mut(unread.block).steps = read.into_iter().map(|needing| needing.step).collect();
        entries.len()
    }

    /// `steps` and `collect` tell the long form of a block from a map of steps.
    fn reserved(&mut self, entry: &Entry) {
        if matches!(&*entry.key, "steps" | "collect") {
            self.refuse(entry.at, format!("a step cannot be called '{}'", entry.key));
        }
    }

    /// The needs of a step that are steps of its block; others are noted where they stand.
    fn known_needs(&mut self, read: &[Needing], index: usize) -> Vec<Arc<str>> {
        let mut known = Vec::new();
        for (need, at) in &read[index].needs {
            if **need == *read[index].step.name {
                self.refuse(*at, "a step cannot need itself");
            } else if read.iter().any(|other| *other.step.name == **need) {
                known.push(Arc::clone(need));
            } else {
                let names = read.iter().map(|other| &*other.step.name);
                let problem = self.problem(*at, format!("needs unknown step '{need}'")).did_you_mean(need, names);
                let problem =
                    if problem.hint.is_none() { problem.hint("needs name steps of the same block") } else { problem };
                self.problems.push(problem);
            }
        }
        known
    }
}
