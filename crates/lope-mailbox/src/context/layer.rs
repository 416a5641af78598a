//! What a handler wants to become true, in layers: an inner scope is a layer of its own until it
//! commits into the outer one.

use std::collections::BTreeMap;

use lope_model::Timestamp;
use lope_store::tables::At;

use crate::frame::Message;
use crate::key::TimerKey;

/// Something staged, in the order of staging.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Staged {
    Emit(Vec<u8>),
    Arm(Timestamp, Vec<u8>),
    /// Takes back the last timer that was staged before with this due time and id.
    Disarm(Timestamp, Vec<u8>),
}

/// What remains of all that was staged.
#[derive(Debug, Default)]
pub(crate) struct Intents {
    pub(crate) emitted: Vec<Vec<u8>>,
    pub(crate) armed: Vec<(Timestamp, Vec<u8>)>,
}

#[derive(Debug, Default)]
pub(crate) struct Layer {
    pub(crate) writes: BTreeMap<At, Option<Vec<u8>>>,
    pub(crate) staged: Vec<Staged>,
    /// Timers in the store that are cancelled, with what they held.
    pub(crate) cancelled: BTreeMap<TimerKey, Vec<u8>>,
    pub(crate) reply: Option<Vec<u8>>,
}

impl Layer {
    /// Take over what an inner layer wants.
    pub(crate) fn absorb(&mut self, inner: Self) {
        self.writes.extend(inner.writes);
        self.staged.extend(inner.staged);
        self.cancelled.extend(inner.cancelled);
        self.reply = inner.reply.or(self.reply.take());
    }

    /// What is emitted, and what is armed in the end.
    pub(crate) fn intents(staged: Vec<Staged>) -> Intents {
        let Intents {
            mut emitted,
            mut armed,
        } = Intents::default();
        for item in staged {
            match item {
                Staged::Emit(frame) => emitted.push(frame),
                Staged::Arm(due, frame) => armed.push((due, frame)),
                Staged::Disarm(due, id) => {
                    if let Some(at) = armed
                        .iter()
                        .rposition(|(at, frame)| *at == due && has_id(frame, &id))
                    {
                        armed.remove(at);
                    }
                }
            }
        }
        Intents { emitted, armed }
    }
}

pub(crate) fn has_id(frame: &[u8], id: &[u8]) -> bool {
    Message::decode(frame).is_ok_and(|message| message.id == id)
}
