//! Messages as they leave a worker: checked, addressed, encoded. And the messages that the mailbox
//! itself sends: replies and acknowledgements.
//!
//! `delivery` is for rooms that commit by themselves: it gives the write that puts a message into
//! an inbox or arms its timer, to be made part of any batch. Nothing here reads or writes a store.

use lope_model::Timestamp;
use lope_store::tables::Write;

use crate::error::BadMessage;
use crate::frame::{Flags, Message, MessageKind, Route};
use crate::key::{self, WorkerId};
use crate::limit;

/// What begins the id of a reply; the id of the message it answers follows.
pub const REPLY_PREFIX: &[u8] = b"re:";
/// What begins the id of an acknowledgement; the id of the acknowledged message follows.
pub const ACK_PREFIX: &[u8] = b"ack:";
const COMMITTED: &[u8] = b"committed";
const DEAD: &[u8] = b"dead: ";

/// What a sender learns of a message that asked for it, as the payload of an event with the id
/// `ack:` + the message's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acknowledgement {
    /// Handled, and committed.
    Committed,
    /// Given up, for this reason.
    Dead { reason: String },
}

impl Acknowledgement {
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Committed => COMMITTED.to_vec(),
            Self::Dead { reason } => [DEAD, reason.as_bytes()].concat(),
        }
    }

    /// Read an acknowledgement, with the id of the message that it is about.
    pub fn of<'a>(message: &Message<'a>) -> Option<(&'a [u8], Self)> {
        let id = message.id.strip_prefix(ACK_PREFIX)?;
        if message.payload == COMMITTED {
            return Some((id, Self::Committed));
        }
        let reason = String::from_utf8_lossy(message.payload.strip_prefix(DEAD)?).into_owned();
        Some((id, Self::Dead { reason }))
    }
}

/// Encode a message that is to be sent, refusing what could not be handled at the other end.
pub fn seal(message: &Message<'_>) -> Result<Vec<u8>, BadMessage> {
    validate(message)?;
    let frame = message.encode()?;
    validate_size(&frame)?;
    Ok(frame)
}

/// Check a frame that is to be sent as it is; answers with the worker it is for.
pub fn validate_sealed(frame: &[u8]) -> Result<WorkerId, BadMessage> {
    validate_size(frame)?;
    validate(&Message::decode(frame)?)
}

/// The write that delivers a message: into its worker's inbox, or, with a due time, as a timer. The
/// number is given by the commit that the write becomes part of; the message is then there exactly
/// if that commit is.
///
/// ```
/// use lope_mailbox::frame::{Flags, Message, MessageKind};
/// use lope_mailbox::message::delivery;
///
/// # fn main() -> Result<(), lope_mailbox::BadMessage> {
/// let message = Message::new(MessageKind::Event, 7, b"order-1/paid", b"{}");
/// let dedupe = Message { flags: message.flags | Flags::DEDUPE, ..message };
/// let write = delivery(&dedupe, None)?; // a row of the inbox of worker 7
/// # let _ = write;
/// # Ok(())
/// # }
/// ```
pub fn delivery(message: &Message<'_>, due: Option<Timestamp>) -> Result<Write, BadMessage> {
    let worker = validate(message)?;
    let frame = message.encode()?;
    validate_size(&frame)?;
    match due {
        None => Ok(key::append_inbox(worker, frame)),
        Some(due) => Ok(key::append_timer(due, frame)?),
    }
}

fn validate(message: &Message<'_>) -> Result<WorkerId, BadMessage> {
    let length = message.id.len();
    if length > limit::ID_MAX {
        return Err(BadMessage::LongId {
            length,
            max: limit::ID_MAX,
        });
    }
    Ok(WorkerId::try_from(message.to_worker)?)
}

fn validate_size(frame: &[u8]) -> Result<(), BadMessage> {
    let length = frame.len();
    if length > limit::FRAME_MAX {
        Err(BadMessage::Large {
            length,
            max: limit::FRAME_MAX,
        })
    } else {
        Ok(())
    }
}

/// The answer to `request` with this payload; none if nobody asked, or nobody can be answered.
pub(crate) fn reply(request: &Message<'_>, payload: &[u8], now: Timestamp) -> Option<Vec<u8>> {
    answer(request, REPLY_PREFIX, payload, now)
}

/// The acknowledgement of `request`, if it wants one and has a sender.
pub(crate) fn acknowledge(
    request: &Message<'_>,
    what: &Acknowledgement,
    now: Timestamp,
) -> Option<Vec<u8>> {
    let wanted = request.flags.has(Flags::REQUIRES_ACK);
    wanted
        .then(|| answer(request, ACK_PREFIX, &what.encode(), now))
        .flatten()
}

fn answer(request: &Message<'_>, prefix: &[u8], payload: &[u8], now: Timestamp) -> Option<Vec<u8>> {
    let to = request.from_worker.and_then(WorkerId::new)?;
    let id = [prefix, request.id].concat();
    let answer = Message {
        from_worker: Some(request.to_worker),
        route: Route {
            worker: request.to_worker,
            timestamp: now.millis(),
        },
        trace: request.trace,
        ..Message::new(MessageKind::Event, to.number(), &id, payload)
    };
    answer.encode().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_handled_is_not_sent() {
        let plain = Message::new(MessageKind::Command, 7, b"m", b"");
        assert!(seal(&plain).is_ok());
        assert!(matches!(
            seal(&Message {
                to_worker: -1,
                ..plain
            }),
            Err(BadMessage::Key(_))
        ));
        let long = vec![b'x'; limit::ID_MAX + 1];
        assert!(matches!(
            seal(&Message { id: &long, ..plain }),
            Err(BadMessage::LongId { .. })
        ));
        let large = vec![0; limit::FRAME_MAX];
        assert!(matches!(
            seal(&Message {
                payload: &large,
                ..plain
            }),
            Err(BadMessage::Large { .. })
        ));
        assert!(matches!(
            validate_sealed(b"LMSG"),
            Err(BadMessage::Frame(_))
        ));
        assert_eq!(
            validate_sealed(&seal(&plain).unwrap()).map(WorkerId::number),
            Ok(7)
        );
    }

    #[test]
    fn a_delivery_is_a_row_of_the_inbox_or_a_timer_and_carries_the_frame() {
        let message = Message {
            flags: Flags::DEDUPE,
            ..Message::new(MessageKind::Event, 7, b"m", b"pay")
        };
        let frame = message.encode().unwrap();
        let worker = WorkerId::new(7).unwrap();
        assert_eq!(
            delivery(&message, None),
            Ok(key::append_inbox(worker, frame.clone()))
        );
        let due = Timestamp::from_millis(100);
        assert_eq!(
            delivery(&message, Some(due)),
            Ok(key::append_timer(due, frame).unwrap())
        );
    }

    #[test]
    fn a_delivery_of_what_cannot_be_handled_is_refused() {
        let plain = Message::new(MessageKind::Command, 7, b"m", b"");
        let early = delivery(&plain, Some(Timestamp::from_millis(-1)));
        assert_eq!(early, Err(BadMessage::Key(key::BadKey::Due(-1))));
        assert!(matches!(
            delivery(
                &Message {
                    to_worker: -1,
                    ..plain
                },
                None
            ),
            Err(BadMessage::Key(_))
        ));
        assert!(matches!(
            delivery(&Message { id: b"", ..plain }, None),
            Err(BadMessage::Encode(_))
        ));
        let large = vec![0; limit::FRAME_MAX];
        assert!(matches!(
            delivery(
                &Message {
                    payload: &large,
                    ..plain
                },
                None
            ),
            Err(BadMessage::Large { .. })
        ));
    }

    #[test]
    fn acknowledgements_go_to_the_sender_and_read_back() {
        let request = Message {
            flags: Flags::REQUIRES_ACK,
            from_worker: Some(3),
            ..Message::new(MessageKind::Command, 7, b"m", b"")
        };
        for what in [
            Acknowledgement::Committed,
            Acknowledgement::Dead {
                reason: "failed: no".into(),
            },
        ] {
            let frame = acknowledge(&request, &what, Timestamp::EPOCH).unwrap();
            let message = Message::decode(&frame).unwrap();
            assert_eq!((message.to_worker, message.from_worker), (3, Some(7)));
            assert_eq!(Acknowledgement::of(&message), Some((b"m".as_slice(), what)));
        }
        let unasked = Message {
            flags: Flags::NONE,
            ..request
        };
        assert_eq!(
            acknowledge(&unasked, &Acknowledgement::Committed, Timestamp::EPOCH),
            None
        );
        let nobody = Message {
            from_worker: None,
            ..request
        };
        assert_eq!(
            acknowledge(&nobody, &Acknowledgement::Committed, Timestamp::EPOCH),
            None
        );
    }
}
