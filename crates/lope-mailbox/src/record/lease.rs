//! A lease: who may handle a message, or a stretch of messages, until when, for how many times by
//! now. And the head: the counter of a worker's claims, which every claim moves on, so that two
//! claims are never made from the same view.

use std::fmt;
use std::sync::Arc;

use lope_model::{Epoch, Moment, Span};
use thiserror::Error;

use super::{BadRecord, RecordReader, begin};
use crate::key::MessagePosition;

/// Longest name of an owner, in bytes.
pub const OWNER_MAX: usize = 200;

const LEASE: [u8; 4] = *b"LLSE";
const HEAD: [u8; 4] = *b"LHED";

/// Who holds a lease. A name must be unique among the workers that live; one that starts again
/// under its old name may claim again what it held.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Owner(Arc<str>);

#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("an owner's name has 1 to {OWNER_MAX} bytes, not {0}")]
pub struct BadOwner(usize);

/// What a lease says of its message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeaseState {
    /// Somebody handles it.
    Held,
    /// It failed and waits for its next attempt; nobody holds it.
    Waiting,
    /// Somebody handles it, and it is with the handler: written down of messages whose holders keep
    /// dying.
    Begun,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lease {
    pub state: LeaseState,
    pub owner: Owner,
    pub epoch: Epoch,
    /// How often the message was claimed.
    pub attempts: u32,
    /// How many of those ended with their worker, without a word.
    pub lost: u32,
    pub until: Moment,
    /// How long the lease was given for; one that seems to hold longer comes from a clock that was
    /// set back or started anew.
    pub term: Span,
    /// The last position of a stretch; none for a single message.
    pub through: Option<MessagePosition>,
}

/// A worker's claims, counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LeaseHead {
    pub epoch: Epoch,
}

impl Owner {
    pub fn new(name: impl Into<Arc<str>>) -> Result<Self, BadOwner> {
        let name = name.into();
        if (1..=OWNER_MAX).contains(&name.len()) {
            Ok(Self(name))
        } else {
            Err(BadOwner(name.len()))
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Lease {
    pub fn encode(&self) -> Vec<u8> {
        let through = self
            .through
            .map(MessagePosition::to_bytes)
            .unwrap_or_default();
        let mut bytes = begin(LEASE, 44 + through.len() + self.owner.0.len());
        bytes.extend_from_slice(&(self.state as u16).to_le_bytes());
        bytes.extend_from_slice(&self.attempts.to_le_bytes());
        bytes.extend_from_slice(&self.lost.to_le_bytes());
        bytes.extend_from_slice(&self.epoch.0.to_le_bytes());
        bytes.extend_from_slice(&self.until.0.to_le_bytes());
        bytes.extend_from_slice(&self.term.millis().to_le_bytes());
        bytes.extend_from_slice(&(through.len() as u16).to_le_bytes());
        bytes.extend_from_slice(&(self.owner.0.len() as u16).to_le_bytes());
        bytes.extend_from_slice(&through);
        bytes.extend_from_slice(self.owner.0.as_bytes());
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, BadRecord> {
        let mut reader = RecordReader::open(bytes, LEASE, "lease")?;
        let state = match reader.u16()? {
            0 => LeaseState::Held,
            1 => LeaseState::Waiting,
            2 => LeaseState::Begun,
            _ => return Err(reader.bad()),
        };
        let (attempts, lost) = (reader.u32()?, reader.u32()?);
        let epoch = Epoch(reader.u64()?);
        let until = Moment(reader.i64()?);
        let term = Span::from_millis(reader.u64()?);
        let (through_len, owner_len) = (usize::from(reader.u16()?), usize::from(reader.u16()?));
        let through = reader.take(through_len)?;
        let through = if through.is_empty() {
            None
        } else {
            Some(MessagePosition::from_bytes(through).ok_or(reader.bad())?)
        };
        let owner = Owner::new(reader.text(owner_len)?).map_err(|_| reader.bad())?;
        reader.end()?;
        Ok(Self {
            state,
            owner,
            epoch,
            attempts,
            lost,
            until,
            term,
            through,
        })
    }
}

impl LeaseHead {
    pub fn encode(self) -> Vec<u8> {
        let mut bytes = begin(HEAD, 16);
        bytes.extend_from_slice(&[0; 2]);
        bytes.extend_from_slice(&self.epoch.0.to_le_bytes());
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, BadRecord> {
        let mut reader = RecordReader::open(bytes, HEAD, "head")?;
        reader.u16()?;
        let epoch = Epoch(reader.u64()?);
        reader.end()?;
        Ok(Self { epoch })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(through: Option<MessagePosition>) -> Lease {
        Lease {
            state: LeaseState::Held,
            owner: Owner::new("desk").unwrap(),
            epoch: Epoch(7),
            attempts: 2,
            lost: 1,
            until: Moment(1_000),
            term: Span::from_secs(15),
            through,
        }
    }

    #[test]
    fn leases_and_heads_come_back_as_they_went() {
        for through in [None, Some(MessagePosition::Inbox(99))] {
            let lease = lease(through);
            assert_eq!(Lease::decode(&lease.encode()), Ok(lease));
        }
        for state in [LeaseState::Waiting, LeaseState::Begun] {
            let lease = Lease {
                state,
                ..lease(None)
            };
            assert_eq!(Lease::decode(&lease.encode()), Ok(lease));
        }
        let head = LeaseHead { epoch: Epoch(12) };
        assert_eq!(LeaseHead::decode(&head.encode()), Ok(head));
    }

    #[test]
    fn other_bytes_are_refused() {
        let bytes = lease(Some(MessagePosition::Inbox(1))).encode();
        for end in 0..bytes.len() {
            assert_eq!(
                Lease::decode(&bytes[..end]),
                Err(BadRecord("lease")),
                "{end}"
            );
        }
        assert!(Lease::decode(&[bytes.as_slice(), &[0]].concat()).is_err());
        assert!(
            LeaseHead::decode(&bytes).is_err()
                && Lease::decode(&LeaseHead::default().encode()).is_err()
        );
    }

    #[test]
    fn an_owner_has_a_name() {
        assert!(Owner::new("").is_err() && Owner::new("x".repeat(OWNER_MAX + 1)).is_err());
        assert!(Owner::new("x".repeat(OWNER_MAX)).is_ok());
    }
}
