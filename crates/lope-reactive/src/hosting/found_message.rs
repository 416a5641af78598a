//! A message that waits for a space.

use crate::machine::{Arrival, PostChain, PostOrigin};

/// A message in the inbox.
#[derive(Clone, Debug)]
pub(super) struct FoundMessage {
    pub(super) seq: u64,
    /// None for a message that means nothing to this space.
    pub(super) arrival: Option<Arrival>,
    /// The node of another space that sent it.
    pub(super) from: Option<PostOrigin>,
    /// What led to it.
    pub(super) chain: PostChain,
    pub(super) frame: Vec<u8>,
}
