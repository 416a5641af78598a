//! Where to begin reading a source, so that a claim does not walk again over what was handled
//! before.
//!
//! Rows are numbered when they are committed, but commits may become visible out of order, so a
//! cursor is never kept for good: it is dropped when the source was read to its end, and after some
//! reads in any case.

use crate::key::MessagePosition;

/// Reads from a cursor before the source is read from its beginning again.
const READS: u32 = 32;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReadCursor {
    at: Option<MessagePosition>,
    reads: u32,
}

impl ReadCursor {
    /// The first position to read.
    pub fn from(&self, beginning: MessagePosition) -> MessagePosition {
        self.at.unwrap_or(beginning).max(beginning)
    }

    /// A read went up to `last` and found that there is more behind it.
    pub fn advance(&mut self, last: MessagePosition) {
        self.reads += 1;
        self.at = if self.reads < READS {
            last.next()
        } else {
            None
        };
        if self.at.is_none() {
            self.reads = 0;
        }
    }

    /// The source was read to its end, or something may stand below the cursor.
    pub fn reset(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: MessagePosition = MessagePosition::Inbox(0);

    #[test]
    fn a_cursor_rises_with_reads_and_is_dropped_now_and_then() {
        let mut cursor = ReadCursor::default();
        assert_eq!(cursor.from(START), START);
        cursor.advance(MessagePosition::Inbox(9));
        assert_eq!(cursor.from(START), MessagePosition::Inbox(10));
        cursor.reset();
        assert_eq!(cursor.from(START), START);
        let dropped = (0..64).filter(|read| {
            cursor.advance(MessagePosition::Inbox(100 + read));
            cursor.from(START) == START
        });
        assert_eq!(dropped.count(), 2);
    }
}
