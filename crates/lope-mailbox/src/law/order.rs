//! In which order a polled batch is handled, and how a batch is shared between inbox and timers.

use crate::frame::{Flags, Message};

/// Ticks in a row that may leave due timers no room before some is kept for them.
const PATIENCE: u32 = 8;
/// The part of a batch that is then kept for timers.
const KEPT: usize = 8;

/// Does this frame go before the others of its batch? A frame that does not decode has no priority.
pub fn goes_first(frame: &[u8]) -> bool {
    Message::decode(frame).is_ok_and(|message| message.flags.has(Flags::HIGH_PRIORITY))
}

/// How much of a batch the inbox may take. Timers get what it leaves; when it has left nothing for
/// a while, a full inbox does not keep them waiting for ever.
pub fn inbox_share(batch: usize, starved: u32) -> usize {
    if starved < PATIENCE {
        batch
    } else {
        batch - (batch / KEPT).max(1).min(batch - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::MessageKind;

    #[test]
    fn only_high_priority_goes_first() {
        let plain = Message::new(MessageKind::Command, 1, b"a", b"");
        let high = Message {
            flags: Flags::HIGH_PRIORITY,
            ..plain
        };
        assert!(goes_first(&high.encode().unwrap()));
        assert!(!goes_first(&plain.encode().unwrap()) && !goes_first(b"LMSG"));
    }

    /// "Due timers are dispatched after the inbox with what is left of the batch"
    #[test]
    fn the_inbox_takes_all_until_timers_have_waited_long_enough() {
        assert_eq!(
            [0, 7, 8, 100].map(|starved| inbox_share(64, starved)),
            [64, 64, 56, 56]
        );
        assert_eq!([1, 2, 3].map(|batch| inbox_share(batch, 8)), [1, 1, 2]);
    }
}
