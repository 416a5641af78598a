//! A message that waits for a space.

use lope_model::Digest;

use super::HostError;
use super::codec::encode;
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

/// What an event or a command says besides its id, as a number: the same for the same content.
pub(super) fn content_of(arrival: &Arrival) -> Result<u64, HostError> {
    let digest = match arrival {
        Arrival::Event(event) => {
            let stream = event.stream.to_string();
            Digest::of_parts(&[stream.as_bytes(), event.payload.digest().as_bytes()])
        }
        Arrival::Command(command) => Digest::of(&encode(&command.action)?),
    };
    Ok(digest.short())
}
