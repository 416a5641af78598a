//! Which names a block binds, and where a name used in a block lives.
//!
//! A name is looked for in its block, then in the blocks around it. Every step binds its name
//! (unless it sets a variable instead), a block may bind locals (a loop variable, a caught failure,
//! parameters), and a block that owns a frame also holds the variables set in it and in the blocks
//! that share its frame.

use std::collections::HashMap;
use std::sync::Arc;

use super::walk::Site;
use super::{BlockId, Definition};

/// Names that every expression may use.
pub const BUILT_IN: [&str; 3] = ["input", "run", "env"];
/// Names that no step or variable may have.
pub const RESERVED: [&str; 4] = ["input", "run", "env", "secrets"];

/// The names of all blocks of a definition.
#[derive(Debug)]
pub struct Scopes {
    blocks: Vec<BlockScope>,
    pub sites: Vec<Option<Site>>,
}

/// The slots of one block: its steps in order, then its locals, then its variables.
#[derive(Debug, Default)]
pub struct BlockScope {
    names: HashMap<Arc<str>, u32>,
    pub slots: u32,
    /// First slot of the locals, in the order of `Definition::locals`.
    pub locals: u32,
    first_variable: u32,
    pub owns_frame: bool,
    /// Variables that start with the value that the name has around the block.
    pub inherits: Vec<(u32, SlotAddress)>,
}

/// Where a name lives: so many blocks out, in this slot.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SlotAddress {
    pub hops: u32,
    pub slot: u32,
}

impl Scopes {
    pub fn new(definition: &Definition) -> Self {
        let sites = definition.sites();
        let blocks = (0..definition.blocks.len())
            .map(|index| own_names(definition, BlockId(index as u32), &sites));
        let mut scopes = Self {
            blocks: blocks.collect(),
            sites,
        };
        for id in definition.preorder() {
            for step in &definition.block(id).steps {
                step.set
                    .iter()
                    .chain(step.kind.back())
                    .for_each(|variable| scopes.declare(id, variable));
            }
        }
        for id in definition.preorder() {
            scopes.inherit(id);
        }
        scopes
    }

    pub fn block(&self, id: BlockId) -> &BlockScope {
        &self.blocks[id.index()]
    }

    /// Where `name`, used in block `from`, lives.
    pub fn resolve(&self, from: BlockId, name: &str) -> Option<SlotAddress> {
        let mut id = from;
        for hops in 0.. {
            if let Some(slot) = self.block(id).names.get(name) {
                return Some(SlotAddress { hops, slot: *slot });
            }
            id = self.sites[id.index()]?.block;
        }
        None
    }

    /// Every name that can be used in a block, built-in ones included.
    pub fn visible(&self, from: BlockId) -> Vec<&str> {
        let mut found: Vec<&str> = BUILT_IN.to_vec();
        let mut next = Some(from);
        while let Some(id) = next {
            found.extend(self.block(id).names.keys().map(|name| &**name));
            next = self.sites[id.index()].map(|site| site.block);
        }
        found
    }

    /// A variable lives where its frame already binds the name, else with the owner of the frame.
    fn declare(&mut self, from: BlockId, variable: &Arc<str>) {
        let mut id = from;
        loop {
            let scope = &mut self.blocks[id.index()];
            if scope.names.contains_key(variable) {
                return;
            }
            match (scope.owns_frame, self.sites[id.index()]) {
                (false, Some(site)) => id = site.block,
                _ => {
                    scope.names.insert(Arc::clone(variable), scope.slots);
                    scope.slots += 1;
                    return;
                }
            }
        }
    }

    fn inherit(&mut self, id: BlockId) {
        let Some(site) = self.sites[id.index()].filter(|_| self.block(id).owns_frame) else {
            return;
        };
        let variables = self.variables(id);
        let found = variables.iter().filter_map(|(name, slot)| {
            let outer = self.resolve(site.block, name)?;
            Some((
                *slot,
                SlotAddress {
                    hops: outer.hops + 1,
                    slot: outer.slot,
                },
            ))
        });
        let found = found.collect();
        self.blocks[id.index()].inherits = found;
    }

    /// The variables of a block that owns a frame, by slot.
    fn variables(&self, id: BlockId) -> Vec<(Arc<str>, u32)> {
        let scope = self.block(id);
        let first = scope.first_variable;
        let variables = scope.names.iter().filter(|(_, slot)| **slot >= first);
        let mut variables: Vec<_> = variables
            .map(|(name, slot)| (Arc::clone(name), *slot))
            .collect();
        variables.sort_by_key(|(_, slot)| *slot);
        variables
    }
}

fn own_names(definition: &Definition, id: BlockId, sites: &[Option<Site>]) -> BlockScope {
    let block = definition.block(id);
    let site = sites[id.index()];
    let locals = definition.locals(id, site);
    let mut names = HashMap::with_capacity(block.steps.len() + locals.len());
    for (slot, step) in block
        .steps
        .iter()
        .enumerate()
        .filter(|(_, step)| step.set.is_none())
    {
        names.insert(Arc::clone(&step.name), slot as u32);
    }
    let first_local = block.steps.len() as u32;
    for (slot, name) in locals.iter().enumerate() {
        names.insert(Arc::clone(name), first_local + slot as u32);
    }
    let slots = first_local + locals.len() as u32;
    let owns_frame = site.is_none_or(|site| site.role.owns_frame());
    BlockScope {
        names,
        slots,
        locals: first_local,
        first_variable: slots,
        owns_frame,
        inherits: Vec::new(),
    }
}
