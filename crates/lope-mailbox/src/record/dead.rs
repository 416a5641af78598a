//! A dead letter: the frame that could not be handled, why, after how many attempts, and when.

use lope_model::Timestamp;

use super::{BadRecord, RecordReader, begin};

const MAGIC: [u8; 4] = *b"LDED";
/// Longest reason that is kept, in bytes; a longer one is cut.
const REASON_MAX: usize = 4_096;

/// A message that was given up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeadLetter {
    pub reason: String,
    pub attempts: u32,
    pub failed_at: Timestamp,
    /// The frame as it was, also when it is not one.
    pub frame: Vec<u8>,
}

impl DeadLetter {
    pub fn encode(&self) -> Vec<u8> {
        let reason = &self.reason[..self.reason.floor_char_boundary(REASON_MAX)];
        let mut bytes = begin(MAGIC, 24 + reason.len() + self.frame.len());
        bytes.extend_from_slice(&(reason.len() as u16).to_le_bytes());
        bytes.extend_from_slice(&self.attempts.to_le_bytes());
        bytes.extend_from_slice(&self.failed_at.millis().to_le_bytes());
        bytes.extend_from_slice(reason.as_bytes());
        bytes.extend_from_slice(&self.frame);
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, BadRecord> {
        let mut reader = RecordReader::open(bytes, MAGIC, "dead letter")?;
        let reason_len = usize::from(reader.u16()?);
        let attempts = reader.u32()?;
        let failed_at = Timestamp::from_millis(reader.i64()?);
        let reason = reader.text(reason_len)?.to_owned();
        Ok(Self {
            reason,
            attempts,
            failed_at,
            frame: reader.rest.to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_letter_comes_back_and_a_long_reason_is_cut_between_letters() {
        let mut letter = DeadLetter {
            reason: "busy: no room".into(),
            attempts: 4,
            failed_at: Timestamp::from_millis(9),
            frame: vec![1, 2, 3],
        };
        assert_eq!(DeadLetter::decode(&letter.encode()), Ok(letter.clone()));
        letter.reason = "é".repeat(REASON_MAX);
        let cut = DeadLetter::decode(&letter.encode()).unwrap();
        assert_eq!((cut.reason.len(), cut.frame), (REASON_MAX, vec![1, 2, 3]));
        assert!(DeadLetter::decode(b"LDED").is_err());
    }
}
