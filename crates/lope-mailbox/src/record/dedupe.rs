//! A dedupe row: this message id was handled, and this was the reply.

use lope_model::Timestamp;

use super::{BadRecord, RecordReader, begin};

const MAGIC: [u8; 4] = *b"LDUP";

/// A message that was handled, under its id.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dedupe {
    /// When the window ends: a message with the same id that comes later is another one.
    pub expires: Timestamp,
    pub reply: Option<Vec<u8>>,
}

impl Dedupe {
    pub fn encode(&self) -> Vec<u8> {
        let reply = self.reply.as_deref().unwrap_or_default();
        let mut bytes = begin(MAGIC, 16 + reply.len());
        bytes.extend_from_slice(&u16::from(self.reply.is_some()).to_le_bytes());
        bytes.extend_from_slice(&self.expires.millis().to_le_bytes());
        bytes.extend_from_slice(reply);
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, BadRecord> {
        let mut reader = RecordReader::open(bytes, MAGIC, "dedupe")?;
        let has_reply = reader.u16()?;
        let expires = Timestamp::from_millis(reader.i64()?);
        match (has_reply, reader.rest) {
            (0, []) => Ok(Self {
                expires,
                reply: None,
            }),
            (1, reply) => Ok(Self {
                expires,
                reply: Some(reply.to_vec()),
            }),
            _ => Err(reader.bad()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_kept_and_none_is_not_an_empty_one() {
        for reply in [None, Some(vec![]), Some(b"42".to_vec())] {
            let row = Dedupe {
                expires: Timestamp::from_millis(5),
                reply,
            };
            assert_eq!(Dedupe::decode(&row.encode()), Ok(row));
        }
        assert!(Dedupe::decode(b"LDUP").is_err() && Dedupe::decode(&[0; 16]).is_err());
    }
}
