//! The two frames of the wire: `LMSG`, a message, and `LINT`, an intent to emit or to arm a
//! message.
//!
//! Bytes go in and borrowed views come out; nothing is copied. What a message means, and whether
//! its worker exists, is not known here. All integers are little-endian.

mod bytes;
mod intent;
mod message;

use thiserror::Error;

pub use intent::{INTENT_HEADER, Intent};
pub use message::{Flags, MESSAGE_HEADER, Message, MessageKind, Route, addressee};

/// Why bytes are not a frame. The checks come in a fixed order, so that all readers of a broken
/// frame name the same fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum FrameError {
    /// Fewer bytes than the header, or than the header announces.
    #[error("the frame is truncated")]
    Truncated,
    /// A version that this program does not read.
    #[error("the frame has another version than 0.0")]
    Version,
    /// Not a frame of this kind, or one that contradicts itself.
    #[error("the frame is malformed: {0}")]
    Format(&'static str),
}

/// A message or an intent that no frame can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum EncodeError {
    #[error("a message needs an id of at least one byte")]
    NoId,
    #[error("the body of an intent may not be empty")]
    NoBody,
    #[error("a frame holds at most 4 GiB")]
    TooLong,
}
