//! The frame `LMSG`: a message with its addressee, route, sender, ids and payload. Header of 60
//! bytes, then the body.

use std::ops::BitOr;

use super::bytes::{FrameHeader, i64_at, u32_at};
use super::{EncodeError, FrameError};

/// Bytes before the body.
pub const MESSAGE_HEADER: usize = 60;
const HEAD: FrameHeader = FrameHeader {
    magic: b"LMSG",
    header: MESSAGE_HEADER,
};
/// The trace length of a message without a trace id.
const NO_TRACE: u32 = u32::MAX;

/// What a message is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum MessageKind {
    Command,
    Event,
    Timer,
}

/// What a sender asks for. Whether a sender and a trace id are there is told by the fields of the
/// message, not here.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Flags(u8);

/// Which worker a message was routed through, and when.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Route {
    pub worker: i64,
    pub timestamp: i64,
}

/// A message, borrowed from its frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message<'a> {
    pub kind: MessageKind,
    pub flags: Flags,
    pub to_worker: i64,
    pub route: Route,
    pub from_worker: Option<i64>,
    pub id: &'a [u8],
    pub trace: Option<&'a [u8]>,
    pub payload: &'a [u8],
}

impl MessageKind {
    fn from_byte(byte: u8) -> Option<Self> {
        [Self::Command, Self::Event, Self::Timer]
            .into_iter()
            .find(|kind| *kind as u8 == byte)
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Event => "event",
            Self::Timer => "timer",
        }
    }
}

impl Flags {
    pub const NONE: Self = Self(0);
    pub const DURABLE: Self = Self(0x01);
    pub const HIGH_PRIORITY: Self = Self(0x02);
    pub const DEDUPE: Self = Self(0x04);
    pub const REQUIRES_ACK: Self = Self(0x08);
    const FROM_WORKER: u8 = 0x10;
    const TRACE: u8 = 0x20;
    const ASKED: u8 = 0x0f;
    const KNOWN: u8 = 0x3f;

    pub const fn has(self, flag: Self) -> bool {
        self.0 & flag.0 == flag.0
    }

    /// These flags, with `flag` if `wanted`.
    pub const fn with(self, flag: Self, wanted: bool) -> Self {
        if wanted { Self(self.0 | flag.0) } else { self }
    }

    /// The bits, as on the wire but without the two that tell which fields are there.
    pub const fn bits(self) -> u8 {
        self.0
    }
}

impl BitOr for Flags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl<'a> Message<'a> {
    /// A durable message without sender, trace or wishes.
    pub const fn new(kind: MessageKind, to_worker: i64, id: &'a [u8], payload: &'a [u8]) -> Self {
        let route = Route {
            worker: to_worker,
            timestamp: 0,
        };
        Self {
            kind,
            flags: Flags::DURABLE,
            to_worker,
            route,
            from_worker: None,
            id,
            trace: None,
            payload,
        }
    }

    pub fn decode(frame: &'a [u8]) -> Result<Self, FrameError> {
        HEAD.validate(frame)?;
        if frame[14..16] != [0; 2] {
            return Err(FrameError::Format("reserved bytes"));
        }
        let kind = MessageKind::from_byte(frame[12]).ok_or(FrameError::Format("kind"))?;
        let bits = frame[13];
        if bits & !Flags::KNOWN != 0 {
            return Err(FrameError::Format("unknown flags"));
        }
        let (id, trace, payload) = body(frame, bits & Flags::TRACE != 0)?;
        Ok(Self {
            kind,
            flags: Flags(bits & Flags::ASKED),
            to_worker: i64_at(frame, 16),
            route: Route {
                worker: i64_at(frame, 24),
                timestamp: i64_at(frame, 32),
            },
            from_worker: (bits & Flags::FROM_WORKER != 0).then(|| i64_at(frame, 40)),
            id,
            trace,
            payload,
        })
    }

    pub fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        if self.id.is_empty() {
            return Err(EncodeError::NoId);
        }
        let trace = self.trace.unwrap_or_default();
        let length = MESSAGE_HEADER + self.id.len() + trace.len() + self.payload.len();
        // Every part is shorter than the whole, so no part's length can be taken for an absent
        // trace.
        let announced = u32::try_from(length).map_err(|_| EncodeError::TooLong)?;
        let trace_len = self.trace.map_or(NO_TRACE, |trace| trace.len() as u32);
        let mut frame = Vec::with_capacity(length);
        HEAD.write(&mut frame, announced);
        frame.extend_from_slice(&[self.kind as u8, self.wire_bits(), 0, 0]);
        for number in [
            self.to_worker,
            self.route.worker,
            self.route.timestamp,
            self.from_worker.unwrap_or(0),
        ] {
            frame.extend_from_slice(&number.to_le_bytes());
        }
        for length in [self.id.len() as u32, trace_len, self.payload.len() as u32] {
            frame.extend_from_slice(&length.to_le_bytes());
        }
        for part in [self.id, trace, self.payload] {
            frame.extend_from_slice(part);
        }
        Ok(frame)
    }

    fn wire_bits(&self) -> u8 {
        let from = if self.from_worker.is_some() {
            Flags::FROM_WORKER
        } else {
            0
        };
        let trace = if self.trace.is_some() {
            Flags::TRACE
        } else {
            0
        };
        self.flags.0 | from | trace
    }
}

type Body<'a> = (&'a [u8], Option<&'a [u8]>, &'a [u8]);

fn body(frame: &[u8], has_trace: bool) -> Result<Body<'_>, FrameError> {
    let (id_len, trace_len, payload_len) =
        (u32_at(frame, 48), u32_at(frame, 52), u32_at(frame, 56));
    if id_len == 0 {
        return Err(FrameError::Format("no message id"));
    }
    if has_trace == (trace_len == NO_TRACE) {
        return Err(FrameError::Format("trace flag and trace length disagree"));
    }
    let trace_len = if has_trace { trace_len } else { 0 };
    let sum =
        MESSAGE_HEADER as u64 + u64::from(id_len) + u64::from(trace_len) + u64::from(payload_len);
    if sum != frame.len() as u64 {
        return Err(FrameError::Format("the parts do not add up to the frame"));
    }
    let (id, rest) = frame[MESSAGE_HEADER..].split_at(id_len as usize);
    let (trace, payload) = rest.split_at(trace_len as usize);
    Ok((id, has_trace.then_some(trace), payload))
}

/// Whom a frame is addressed to, as far as its first bytes tell; nobody, when they are not those of
/// a message.
pub fn addressee(frame: &[u8]) -> Option<i64> {
    (frame.len() >= MESSAGE_HEADER && frame[..4] == *HEAD.magic).then(|| i64_at(frame, 16))
}
