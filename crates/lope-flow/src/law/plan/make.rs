//! The making of a plan out of a sound definition with merged policies.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use lope_definition::scope::{Scopes, SlotAddress};
use lope_definition::{Block, BlockId, Definition, Field, Role, StepKind, Touch};
use lope_expr::Expr;

use super::{BlockOutput, Dependent, Label, PlanBlock, PlanStep};
use crate::law::handling::Handling;

/// A use count that is never used up.
const FOR_GOOD: u32 = u32::MAX;

/// The blocks of a plan, and the places that its resolved names refer to.
pub(super) fn blocks(
    definition: &Definition,
    scopes: &Scopes,
) -> (Vec<PlanBlock>, Vec<SlotAddress>) {
    let mut maker = Maker {
        definition,
        scopes,
        addresses: Vec::new(),
        known: HashMap::new(),
    };
    let prefixes = definition.prefixes();
    let mut wanted: Vec<bool> = definition
        .blocks
        .iter()
        .map(|block| block.parameters.is_some())
        .collect();
    wanted[0] = true;
    let mut blocks: Vec<PlanBlock> = Vec::with_capacity(definition.blocks.len());
    for (index, touches) in definition.touches().iter().enumerate() {
        let outline = Outline::new(definition, BlockId(index as u32), touches, &prefixes[index]);
        let block = maker.block(&outline, wanted[index]);
        for step in &block.steps {
            let output_wanted = step.uses > 0 || step.set.is_some();
            for (role, child) in step.kind.blocks() {
                wanted[child.index()] |=
                    output_wanted && !matches!(role, Role::Round | Role::Finally);
            }
        }
        blocks.push(block);
    }
    mark_states(&mut blocks, scopes);
    (blocks, maker.addresses)
}

struct Maker<'a> {
    definition: &'a Definition,
    scopes: &'a Scopes,
    addresses: Vec<SlotAddress>,
    known: HashMap<SlotAddress, u32>,
}

/// One block while its plan is made.
struct Outline<'a> {
    id: BlockId,
    block: &'a Block,
    touches: &'a [Touch],
    prefix: &'a str,
    /// For every step, those that wait for it.
    dependents: Vec<Vec<Dependent>>,
    /// Outputs by name.
    outputs: BTreeMap<&'a str, u32>,
}

impl<'a> Outline<'a> {
    fn new(definition: &'a Definition, id: BlockId, touches: &'a [Touch], prefix: &'a str) -> Self {
        let block = definition.block(id);
        let numbered = block.steps.iter().enumerate();
        let outputs = numbered
            .filter(|(_, step)| step.set.is_none())
            .map(|(index, step)| (&*step.name, index as u32));
        Self {
            id,
            block,
            touches,
            prefix,
            dependents: dependents(block),
            outputs: outputs.collect(),
        }
    }

    fn leaves(&self) -> Vec<u32> {
        let leaf = |index: &usize| {
            self.dependents[*index].is_empty() && !self.block.steps[*index].kind.leaves()
        };
        (0..self.block.steps.len())
            .filter(leaf)
            .map(|index| index as u32)
            .collect()
    }

    /// How often each output will be wanted. One whose name is also set is kept until its block
    /// ends.
    fn uses(&self, kept: &BTreeSet<u32>) -> Vec<u32> {
        let mut uses: Vec<u32> = vec![0; self.block.steps.len()];
        kept.range(..uses.len() as u32)
            .for_each(|slot| uses[*slot as usize] += 1);
        let output = |name: &Arc<str>| self.outputs.get(&**name).copied();
        for index in self
            .touches
            .iter()
            .flat_map(|touch| touch.reads.iter().filter_map(output))
        {
            uses[index as usize] += 1;
        }
        for index in self
            .touches
            .iter()
            .flat_map(|touch| touch.writes.iter().filter_map(output))
        {
            uses[index as usize] = FOR_GOOD;
        }
        uses
    }

    /// The outputs that a step wants no longer when it is settled.
    fn frees(&self, index: usize, uses: &[u32]) -> Vec<u32> {
        let reads = self.touches[index]
            .reads
            .iter()
            .filter_map(|name| self.outputs.get(&**name).copied());
        reads
            .filter(|slot| uses[*slot as usize] != FOR_GOOD)
            .collect()
    }
}

fn dependents(block: &Block) -> Vec<Vec<Dependent>> {
    let index: HashMap<&str, usize> = block
        .steps
        .iter()
        .enumerate()
        .map(|(index, step)| (&*step.name, index))
        .collect();
    let mut dependents = vec![Vec::new(); block.steps.len()];
    for (number, step) in block.steps.iter().enumerate() {
        let mut add = |name: &str, needs| {
            dependents[index[name]].push(Dependent {
                step: number as u32,
                needs,
            });
        };
        step.needs.iter().for_each(|need| add(need, true));
        step.follows.iter().for_each(|before| add(before, false));
    }
    dependents
}

impl Maker<'_> {
    fn block(&mut self, outline: &Outline<'_>, wanted: bool) -> PlanBlock {
        let output = self.output(outline, wanted);
        let uses = outline.uses(&self.kept(outline.id, &output));
        let steps: Vec<PlanStep> = (0..outline.block.steps.len())
            .map(|index| self.step(outline, index, &uses))
            .collect();
        let starts = steps
            .iter()
            .enumerate()
            .filter(|(_, step)| step.waits == 0)
            .map(|(index, _)| index as u32);
        let scope = self.scopes.block(outline.id);
        PlanBlock {
            starts: starts.collect(),
            steps,
            slots: scope.slots,
            locals: scope.locals,
            inherits: scope.inherits.clone(),
            output,
            label: self.label(outline.id),
        }
    }

    fn output(&mut self, outline: &Outline<'_>, wanted: bool) -> BlockOutput {
        let leaves = outline.leaves();
        match (&outline.block.collect, wanted, leaves.as_slice()) {
            (_, false, _) => BlockOutput::Unwanted,
            (Some(collect), true, _) => BlockOutput::Collect(Box::new(self.resolved(
                outline.id,
                Field::Value,
                collect.expr(),
            ))),
            (None, true, []) => BlockOutput::Nothing,
            (None, true, [leaf]) => BlockOutput::Leaf(*leaf),
            (None, true, _) => BlockOutput::Leaves(leaves),
        }
    }

    /// The slots that the block's own output is made of.
    fn kept(&self, id: BlockId, output: &BlockOutput) -> BTreeSet<u32> {
        match output {
            BlockOutput::Unwanted | BlockOutput::Nothing => BTreeSet::new(),
            BlockOutput::Leaf(leaf) => [*leaf].into(),
            BlockOutput::Leaves(leaves) => leaves.iter().copied().collect(),
            BlockOutput::Collect(expr) => {
                let addresses = expr
                    .names()
                    .into_iter()
                    .filter_map(|name| self.scopes.resolve(id, &name));
                addresses
                    .filter(|address| address.hops == 0)
                    .map(|address| address.slot)
                    .collect()
            }
        }
    }

    fn step(&mut self, outline: &Outline<'_>, index: usize, uses: &[u32]) -> PlanStep {
        let mut step = outline.block.steps[index].clone();
        step.each_expr_mut(&mut |field, expr| *expr = self.resolved(outline.id, field, expr));
        let path: Arc<str> = format!("{}{}", outline.prefix, step.name).into();
        let set = step
            .set
            .as_ref()
            .and_then(|variable| self.scopes.resolve(outline.id, variable));
        PlanStep {
            waits: (step.needs.len() + step.follows.len()) as u32,
            then: outline.dependents[index].clone(),
            set,
            uses: uses[index],
            frees: outline.frees(index, uses),
            on_failure: step.policy.on_failure.unwrap_or_default(),
            handling: Arc::new(Handling::new(&step.kind, &step.policy)),
            policy: Arc::new(step.policy),
            name: step.name,
            path,
            when: step.when,
            kind: step.kind,
            state: None,
            holds_state: false,
        }
    }

    /// The expression with its names resolved to places in the blocks around it.
    fn resolved(&mut self, id: BlockId, field: Field, expr: &Expr) -> Expr {
        let mut expr = expr.clone();
        expr.resolve(&mut |name| {
            let address = self
                .scopes
                .resolve(id, name)
                .filter(|_| !field.binds(name))?;
            let next = self.addresses.len() as u32;
            let slot = *self.known.entry(address).or_insert(next);
            if slot == next {
                self.addresses.push(address);
            }
            Some(slot)
        });
        expr
    }

    fn label(&self, id: BlockId) -> Label {
        let Some(site) = self.scopes.sites[id.index()] else {
            return Label::Plain;
        };
        let kind = &self.definition.block(site.block).steps[site.step].kind;
        match (site.role, kind) {
            (Role::Else, _) => Label::Word(":else".into()),
            (Role::Case(index), _) => Label::Word(index.to_string().into()),
            (Role::Turn | Role::Element | Role::Round, _) => Label::Number,
            (Role::Handler(index), _) => Label::Word(format!(":catch{index}").into()),
            (Role::Finally, _) => Label::Word(":finally".into()),
            (Role::Branch(index), StepKind::Race { branches } | StepKind::All { branches, .. }) => {
                Label::Word(Arc::clone(&branches[index].name))
            }
            (Role::Then | Role::Body | Role::Function | Role::Branch(_), _) => Label::Plain,
        }
    }
}

/// Numbers the accumulators and marks the steps of the root that hold them.
fn mark_states(blocks: &mut [PlanBlock], scopes: &Scopes) {
    let mut number = 0;
    for index in 0..blocks.len() {
        for step in 0..blocks[index].steps.len() {
            if !matches!(blocks[index].steps[step].kind, StepKind::State { .. }) {
                continue;
            }
            let (mut block, mut top) = (index, step);
            while let Some(site) = scopes.sites[block] {
                (block, top) = (site.block.index(), site.step);
            }
            blocks[index].steps[step].state = Some((number, top as u32));
            blocks[0].steps[top].holds_state = true;
            number += 1;
        }
    }
}
