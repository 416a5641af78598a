//! Which steps a step needs because of what it reads and sets.
//!
//! A step that reads the output of another step of its block needs it, wherever the two are
//! written. Variables keep the order of writing: a reader follows the setters written before it, a
//! setter the readers written before it, unless the author ordered them the other way. What a
//! step's blocks read and set counts as the step's own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lope_expr::{Expr, Node};

use super::walk::{Field, Role, Site};
use super::{Block, BlockId, Definition, Step, StepKind};

/// The names that a step (with its blocks) reads and sets outside itself.
#[derive(Clone, Default, Debug)]
pub struct Touch {
    pub reads: BTreeSet<Arc<str>>,
    pub writes: BTreeSet<Arc<str>>,
}

/// What the steps of one block need and follow, as numbers.
#[derive(Debug)]
pub(super) struct StepOrder {
    pub(super) needs: Vec<Vec<usize>>,
    pub(super) follows: Vec<Vec<usize>>,
}

impl Definition {
    /// Adds to every step the needs that follow from what it reads and sets. Doing it again changes
    /// nothing.
    pub fn infer_needs(&mut self) {
        self.blocks.iter_mut().for_each(give_states_values);
        let touches = self.touches();
        for (block, touches) in self.blocks.iter_mut().zip(touches) {
            let mut order = StepOrder::of(block);
            for (step, need) in needs_by_name(block, &touches) {
                order.need(step, need);
            }
            if !order.is_total() {
                order_variables(&touches, &mut order);
            }
            order.write_to(block);
        }
    }

    /// What every step of every block touches.
    pub fn touches(&self) -> Vec<Vec<Touch>> {
        let sites = self.sites();
        let mut free = vec![Touch::default(); self.blocks.len()];
        let mut all = vec![Vec::new(); self.blocks.len()];
        for id in self.preorder().into_iter().rev() {
            let steps: Vec<Touch> = self
                .block(id)
                .steps
                .iter()
                .map(|step| touch(step, &free))
                .collect();
            free[id.index()] = outside(self, id, sites[id.index()], &steps);
            all[id.index()] = steps;
        }
        all
    }
}

/// A `state` that does not say what its value is takes the outputs of the steps that it was written
/// to need, or the input.
fn give_states_values(block: &mut Block) {
    let named = |block: &Block, need: &Arc<str>| {
        let variable = block
            .step(need)
            .and_then(|step| step.set.as_ref())
            .unwrap_or(need);
        (Expr::literal(&**need), Expr::name(variable))
    };
    for index in 0..block.steps.len() {
        if !matches!(block.steps[index].kind, StepKind::State { value: None, .. }) {
            continue;
        }
        let mut outputs: Vec<(Expr, Expr)> = block.steps[index]
            .needs
            .iter()
            .map(|need| named(block, need))
            .collect();
        let expr = match outputs.len() {
            0 => Expr::name("input"),
            1 => outputs.remove(0).1,
            _ => Expr::new(Node::Map(outputs)),
        };
        if let StepKind::State { value, .. } = &mut block.steps[index].kind {
            *value = Some(expr.into());
        }
    }
}

fn touch(step: &Step, free: &[Touch]) -> Touch {
    let mut touch = Touch::default();
    step.each_expr(&mut |field, expr| {
        expr.each_free_name(&mut |name, _| {
            if !field.binds(name) {
                touch.reads.insert(name.into());
            }
        });
    });
    touch
        .writes
        .extend(step.set.iter().chain(step.kind.back()).map(Arc::clone));
    for (role, child) in step
        .kind
        .blocks()
        .into_iter()
        .filter(|(role, _)| *role != Role::Function)
    {
        touch
            .reads
            .extend(free[child.index()].reads.iter().map(Arc::clone));
        if !role.owns_frame() {
            touch
                .writes
                .extend(free[child.index()].writes.iter().map(Arc::clone));
        }
    }
    touch
}

/// What a block touches that it does not bind itself.
fn outside(definition: &Definition, id: BlockId, site: Option<Site>, steps: &[Touch]) -> Touch {
    let block = definition.block(id);
    let mut touch = Touch::default();
    for step in steps {
        touch.reads.extend(step.reads.iter().map(Arc::clone));
        touch.writes.extend(step.writes.iter().map(Arc::clone));
    }
    touch.reads.extend(
        block
            .collect
            .iter()
            .flat_map(|collect| collect.expr().names()),
    );
    let outputs = block
        .steps
        .iter()
        .filter(|step| step.set.is_none())
        .map(|step| Arc::clone(&step.name));
    for name in definition.locals(id, site).into_iter().chain(outputs) {
        touch.reads.remove(&name);
        touch.writes.remove(&name);
    }
    touch
}

fn needs_by_name(block: &Block, touches: &[Touch]) -> Vec<(usize, usize)> {
    let outputs = block
        .steps
        .iter()
        .enumerate()
        .filter(|(_, step)| step.set.is_none());
    let by_name: BTreeMap<&str, usize> =
        outputs.map(|(index, step)| (&*step.name, index)).collect();
    let reads = |touch: &Touch| {
        touch
            .reads
            .iter()
            .filter_map(|name| by_name.get(&**name).copied())
            .collect::<Vec<_>>()
    };
    touches
        .iter()
        .enumerate()
        .flat_map(|(step, touch)| reads(touch).into_iter().map(move |need| (step, need)))
        .collect()
}

fn order_variables(touches: &[Touch], order: &mut StepOrder) {
    let variables: BTreeSet<&Arc<str>> = touches.iter().flat_map(|touch| &touch.writes).collect();
    for variable in variables {
        for (later, touch) in touches.iter().enumerate() {
            let (reads, writes) = (
                touch.reads.contains(variable),
                touch.writes.contains(variable),
            );
            for (earlier, before) in touches[..later].iter().enumerate() {
                let follows = (reads && before.writes.contains(variable))
                    || (writes && before.reads.contains(variable));
                if follows && !order.reaches(later, earlier) && !order.reaches(earlier, later) {
                    order.follows[later].push(earlier);
                }
            }
        }
    }
}

impl Field {
    /// Does the law itself bind this name in such an expression?
    pub fn binds(self, name: &str) -> bool {
        match self {
            Self::Next => matches!(name, "previous" | "value"),
            Self::Fallback | Self::FallbackArguments => name == "error",
            Self::Condition | Self::Value | Self::Arguments | Self::Key => false,
        }
    }
}

impl StepOrder {
    pub(super) fn of(block: &Block) -> Self {
        let by_name: BTreeMap<&str, usize> = block
            .steps
            .iter()
            .enumerate()
            .map(|(index, step)| (&*step.name, index))
            .collect();
        let known = |names: &[Arc<str>]| {
            names
                .iter()
                .filter_map(|name| by_name.get(&**name).copied())
                .collect()
        };
        Self {
            needs: block.steps.iter().map(|step| known(&step.needs)).collect(),
            follows: block
                .steps
                .iter()
                .map(|step| known(&step.follows))
                .collect(),
        }
    }

    /// Is every step behind the one written before it?
    pub(super) fn is_total(&self) -> bool {
        (1..self.needs.len()).all(|step| self.before(step).any(|other| other == step - 1))
    }

    /// The steps that must be settled right before `step`.
    pub(super) fn before(&self, step: usize) -> impl Iterator<Item = usize> + '_ {
        self.needs[step].iter().chain(&self.follows[step]).copied()
    }

    /// Must `other` be settled before `step`?
    pub(super) fn reaches(&self, step: usize, other: usize) -> bool {
        let mut seen = vec![false; self.needs.len()];
        let mut open = vec![step];
        while let Some(next) = open.pop() {
            for before in self.before(next) {
                if before == other {
                    return true;
                }
                if !std::mem::replace(&mut seen[before], true) {
                    open.push(before);
                }
            }
        }
        false
    }

    fn need(&mut self, step: usize, need: usize) {
        if step != need && !self.needs[step].contains(&need) {
            self.needs[step].push(need);
        }
    }

    fn write_to(&self, block: &mut Block) {
        let names: Vec<Arc<str>> = block
            .steps
            .iter()
            .map(|step| Arc::clone(&step.name))
            .collect();
        for (index, step) in block.steps.iter_mut().enumerate() {
            self.needs[index]
                .iter()
                .for_each(|need| step.add_need(Arc::clone(&names[*need])));
            self.follows[index]
                .iter()
                .for_each(|before| step.add_follow(Arc::clone(&names[*before])));
        }
    }
}
