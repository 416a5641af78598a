//! How definitions are stored and compared: MessagePack (named) and JSON, and a canonical form
//! whose digest is the version.
//!
//! The canonical form has its blocks in the order in which they are met from the root, needs
//! sorted, and no positions and no file.

use std::sync::Arc;

use lope_expr::TextLocation;
use lope_model::{Digest, VersionId};
use thiserror::Error;

use super::walk::each_expr_mut;
use super::{Block, BlockId, Definition, WRITTEN_FOR};

/// Bytes or text that hold no definition.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("not a definition: {0}")]
pub struct BadDefinition(String);

impl Definition {
    /// MessagePack with field names.
    pub fn encode(&self) -> Vec<u8> {
        rmp_serde::to_vec_named(self).expect("every definition has a MessagePack form")
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, BadDefinition> {
        let definition: Self =
            rmp_serde::from_slice(bytes).map_err(|error| BadDefinition(error.to_string()))?;
        definition.validated()
    }

    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("every definition has a JSON form")
    }

    pub fn from_json(text: &str) -> Result<Self, BadDefinition> {
        let definition: Self =
            serde_json::from_str(text).map_err(|error| BadDefinition(error.to_string()))?;
        definition.validated()
    }

    /// Which version of the workflow this is.
    pub fn version(&self) -> VersionId {
        VersionId(Digest::of(&self.canonical().encode()))
    }

    /// The same workflow in the one form that all equal ones share, needs inferred.
    #[must_use]
    pub fn canonical(&self) -> Self {
        let mut inferred = self.clone();
        inferred.infer_needs();
        let mut canonical = inferred.ordered();
        canonical
            .blocks
            .iter_mut()
            .flat_map(|block| &mut block.steps)
            .for_each(|step| step.at = TextLocation::NOWHERE);
        canonical.file = None;
        canonical
            .policies
            .iter_mut()
            .for_each(|rule| rule.at = TextLocation::NOWHERE);
        each_expr_mut(&mut canonical, &mut |expr| {
            expr.relocate(&|_| TextLocation::NOWHERE);
        });
        canonical
    }

    /// The canonical form, with positions. Blocks that nothing refers to are left out.
    pub fn ordered(&self) -> Self {
        let order = self.preorder();
        let mut renumbered = vec![BlockId::ROOT; self.blocks.len()];
        for (new, old) in order.iter().enumerate() {
            renumbered[old.index()] = BlockId(new as u32);
        }
        let blocks = order
            .iter()
            .map(|id| canonical_block(self.block(*id), &renumbered))
            .collect();
        Self {
            blocks,
            ..self.clone()
        }
    }

    /// The blocks that the root refers to, directly or not, each before those it refers to.
    pub(super) fn preorder(&self) -> Vec<BlockId> {
        let mut seen = vec![false; self.blocks.len()];
        let mut order = Vec::new();
        let mut open = vec![BlockId::ROOT];
        while let Some(id) = open.pop() {
            if std::mem::replace(&mut seen[id.index()], true) {
                continue;
            }
            order.push(id);
            let children = self
                .block(id)
                .steps
                .iter()
                .flat_map(|step| step.kind.blocks());
            let mut children: Vec<BlockId> = children.map(|(_, child)| child).collect();
            children.reverse();
            open.extend(children);
        }
        order
    }

    /// Refuses what no walk may meet: a block that is not there, and laws this program does not
    /// know.
    fn validated(self) -> Result<Self, BadDefinition> {
        if self.law > WRITTEN_FOR {
            return Err(BadDefinition(format!(
                "written for law {}, this program knows {WRITTEN_FOR}",
                self.law
            )));
        }
        if self.blocks.is_empty() {
            return Err(BadDefinition("it has no blocks".into()));
        }
        let len = self.blocks.len();
        let steps = self.blocks.iter().flat_map(|block| &block.steps);
        match steps
            .flat_map(|step| step.kind.blocks())
            .find(|(_, id)| id.index() >= len)
        {
            Some((_, id)) => Err(BadDefinition(format!(
                "block {} of {len} is referred to",
                id.0
            ))),
            None => Ok(self),
        }
    }
}

fn canonical_block(block: &Block, renumbered: &[BlockId]) -> Block {
    let mut block = block.clone();
    for step in &mut block.steps {
        step.needs.sort();
        step.needs.dedup();
        step.follows.sort();
        step.follows.dedup();
        step.kind
            .each_block_mut(&mut |id| *id = renumbered[id.index()]);
    }
    block
}

impl Definition {
    /// The path of every block's steps without the step's own name: `mail/` for the body of `mail`.
    pub fn prefixes(&self) -> Vec<Arc<str>> {
        let mut prefixes: Vec<Arc<str>> = vec!["".into(); self.blocks.len()];
        for id in self.preorder() {
            let prefix = Arc::clone(&prefixes[id.index()]);
            for step in &self.block(id).steps {
                for (_, child) in step.kind.blocks() {
                    prefixes[child.index()] = format!("{prefix}{}/", step.name).into();
                }
            }
        }
        prefixes
    }
}
