//! How far something is from whoever began, over messages, effects and spaces that read each other.

use std::sync::Arc;

use lope_model::Span;
use serde::{Deserialize, Serialize};

use crate::limit;

/// Nodes that a chain tells.
pub(crate) const TOLD_MAX: usize = limit::CHAIN_TOLD as usize;

/// What led to a message, or to the changes of a wave.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PostChain {
    /// Messages and effects from the first one to this.
    pub hops: u32,
    /// The nodes that sent the last of them, each once; known of long chains only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub through: Vec<Arc<str>>,
}

impl PostChain {
    /// Whether nothing led to it.
    pub fn is_empty(&self) -> bool {
        self.hops == 0
    }

    /// The chain of a message that `node` sends because of one that has this chain.
    pub fn next(&self, node: impl FnOnce() -> Arc<str>) -> Self {
        let mut next = Self {
            hops: self.hops.saturating_add(1),
            through: self.through.clone(),
        };
        if next.hops > limit::CHAIN_MAX - limit::CHAIN_TOLD && next.through.len() < TOLD_MAX {
            let node = node();
            if !next.through.contains(&node) {
                next.through.push(node);
            }
        }
        next
    }

    /// How long a message has to wait that comes so far; none if it has not.
    pub fn wait(&self) -> Option<Span> {
        let beyond = self.hops.checked_sub(limit::CHAIN_MAX + 1)?;
        let wait = limit::BACKOFF_FIRST.times(1 << beyond.min(8));
        Some(wait.min(limit::BACKOFF_MAX))
    }
}
