//! The frame `LINT`: what a handler wants to happen to a message, put into the outbox or armed as a
//! timer.
//!
//! The codec takes any body; staging an intent refuses one that is not a message.

use super::bytes::{FrameHeader, i64_at, u32_at};
use super::{EncodeError, FrameError};

/// Bytes before the body.
pub const INTENT_HEADER: usize = 28;
const HEAD: FrameHeader = FrameHeader {
    magic: b"LINT",
    header: INTENT_HEADER,
};
const HAS_DUE: u8 = 0x01;

/// What to do with the message in the body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Intent<'a> {
    /// Put it into the outbox.
    Emit { message: &'a [u8] },
    /// Arm a timer that delivers it at `due`, UTC milliseconds.
    Arm { due: i64, message: &'a [u8] },
}

impl<'a> Intent<'a> {
    const EMIT: u8 = 0;
    const ARM: u8 = 1;

    pub const fn message(&self) -> &'a [u8] {
        match self {
            Self::Emit { message } | Self::Arm { message, .. } => message,
        }
    }

    pub fn decode(frame: &'a [u8]) -> Result<Self, FrameError> {
        HEAD.validate(frame)?;
        if frame[14..16] != [0; 2] {
            return Err(FrameError::Format("reserved bytes"));
        }
        let (kind, bits) = (frame[12], frame[13]);
        if kind > Self::ARM {
            return Err(FrameError::Format("kind"));
        }
        if bits & !HAS_DUE != 0 {
            return Err(FrameError::Format("unknown flags"));
        }
        let message = body(frame)?;
        match (kind, bits & HAS_DUE != 0) {
            (Self::EMIT, false) => Ok(Self::Emit { message }),
            (Self::EMIT, true) => Err(FrameError::Format("an emitted message has no due time")),
            (_, true) => Ok(Self::Arm {
                due: i64_at(frame, 16),
                message,
            }),
            (_, false) => Err(FrameError::Format("a timer needs a due time")),
        }
    }

    pub fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        let (kind, bits, due) = match self {
            Self::Emit { .. } => (Self::EMIT, 0, 0),
            Self::Arm { due, .. } => (Self::ARM, HAS_DUE, *due),
        };
        let message = self.message();
        if message.is_empty() {
            return Err(EncodeError::NoBody);
        }
        let length = INTENT_HEADER + message.len();
        let announced = u32::try_from(length).map_err(|_| EncodeError::TooLong)?;
        let mut frame = Vec::with_capacity(length);
        HEAD.write(&mut frame, announced);
        frame.extend_from_slice(&[kind, bits, 0, 0]);
        frame.extend_from_slice(&due.to_le_bytes());
        frame.extend_from_slice(&(message.len() as u32).to_le_bytes());
        frame.extend_from_slice(message);
        Ok(frame)
    }
}

fn body(frame: &[u8]) -> Result<&[u8], FrameError> {
    let length = u32_at(frame, 24);
    if length == 0 {
        return Err(FrameError::Format("no message"));
    }
    if INTENT_HEADER as u64 + u64::from(length) != frame.len() as u64 {
        return Err(FrameError::Format("the message does not fill the frame"));
    }
    Ok(&frame[INTENT_HEADER..])
}
