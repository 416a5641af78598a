//! What the mailbox keeps beside frames: leases, dedupe rows and dead letters, as bytes.
//!
//! Each record begins with a magic and a version, like a frame; integers are little-endian. A
//! record that does not decode was written by somebody else: the caller says so and leaves it
//! alone.

mod dead;
mod dedupe;
mod lease;

use thiserror::Error;

pub use dead::DeadLetter;
pub use dedupe::Dedupe;
pub use lease::{BadOwner, Lease, LeaseHead, LeaseState, OWNER_MAX, Owner};

/// A row that is not the record its table holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the row is not a {0} record of version 0")]
pub struct BadRecord(pub &'static str);

/// Takes fixed pieces off the front of a record; any piece that is not there makes the whole record
/// bad.
struct RecordReader<'a> {
    rest: &'a [u8],
    kind: &'static str,
}

impl<'a> RecordReader<'a> {
    fn open(bytes: &'a [u8], magic: [u8; 4], kind: &'static str) -> Result<Self, BadRecord> {
        let mut reader = Self { rest: bytes, kind };
        let head = (reader.array::<4>()?, reader.u16()?);
        if head == (magic, 0) {
            Ok(reader)
        } else {
            Err(reader.bad())
        }
    }

    fn bad(&self) -> BadRecord {
        BadRecord(self.kind)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], BadRecord> {
        let (piece, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or(BadRecord(self.kind))?;
        self.rest = rest;
        Ok(piece)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], BadRecord> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(N)?);
        Ok(bytes)
    }

    fn u16(&mut self) -> Result<u16, BadRecord> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, BadRecord> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, BadRecord> {
        self.array().map(u64::from_le_bytes)
    }

    fn i64(&mut self) -> Result<i64, BadRecord> {
        self.array().map(i64::from_le_bytes)
    }

    fn text(&mut self, length: usize) -> Result<&'a str, BadRecord> {
        std::str::from_utf8(self.take(length)?).map_err(|_| BadRecord(self.kind))
    }

    fn end(self) -> Result<(), BadRecord> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(self.bad())
        }
    }
}

/// Magic and version 0, the beginning of every record.
fn begin(magic: [u8; 4], capacity: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(capacity);
    bytes.extend_from_slice(&magic);
    bytes.extend_from_slice(&[0; 2]);
    bytes
}
