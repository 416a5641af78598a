//! Whether a message was handled before.

use lope_model::{Span, Timestamp};

use crate::frame::{Flags, Message};
use crate::record::Dedupe;

/// What the dedupe row of a message's id says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DedupeCheck {
    /// Not within the window: handle it.
    Never,
    /// Handled, with this reply: acknowledge it without the handler.
    Before { reply: Option<Vec<u8>> },
}

/// Must the message be looked up, and remembered when it is handled?
pub fn is_asked(message: &Message<'_>) -> bool {
    message.flags.has(Flags::DEDUPE)
}

pub fn seen(row: Option<Dedupe>, now: Timestamp) -> DedupeCheck {
    match row {
        Some(row) if now < row.expires => DedupeCheck::Before { reply: row.reply },
        Some(_) | None => DedupeCheck::Never,
    }
}

/// The row that remembers a message handled now.
pub fn remember(now: Timestamp, window: Span, reply: Option<Vec<u8>>) -> Dedupe {
    Dedupe {
        expires: now.plus(window),
        reply,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// "a second message with the same id within the window is acknowledged without calling the
    /// handler, and gets the stored reply"
    #[test]
    fn a_message_is_seen_until_its_window_ends() {
        let reply = Some(b"done".to_vec());
        let row = remember(
            Timestamp::from_millis(1_000),
            Span::from_secs(1),
            reply.clone(),
        );
        let at = |millis| seen(Some(row.clone()), Timestamp::from_millis(millis));
        assert_eq!(
            at(1_000),
            DedupeCheck::Before {
                reply: reply.clone()
            }
        );
        assert_eq!(at(1_999), DedupeCheck::Before { reply });
        assert_eq!(at(2_000), DedupeCheck::Never);
        assert_eq!(seen(None, Timestamp::EPOCH), DedupeCheck::Never);
    }
}
