//! Durable messages, timers and workers on the byte tables of a store.
//!
//! A worker has an inbox; a message in it is claimed, handled and acknowledged, and what the handler wrote, emitted and
//! armed becomes true in the same commit that removes the message. The bytes are those of seed 000.

pub mod frame;
pub mod key;
pub mod law;
pub mod record;
