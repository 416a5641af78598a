//! A message that waits for a space.

use crate::machine::Arrival;

/// A message in the inbox.
#[derive(Clone, Debug)]
pub(super) struct FoundMessage {
    pub(super) seq: u64,
    /// None for a message that means nothing to this space.
    pub(super) arrival: Option<Arrival>,
    pub(super) frame: Vec<u8>,
}
