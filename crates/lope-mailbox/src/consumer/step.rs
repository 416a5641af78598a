//! The batches of a step: a message handled, a duplicate acknowledged, a message given up.

use lope_model::{Span, Timestamp};
use lope_store::tables::{Batch, Guard, Write};

use crate::context::Effects;
use crate::frame::Message;
use crate::group::StateWrites;
use crate::key::{self, MessagePosition, WorkerId};
use crate::law::dedupe;
use crate::message::{Acknowledgement, acknowledge, reply};
use crate::record::DeadLetter;

/// Where the guards that depend on reads begin, behind those on lease and row.
pub(super) const FIRST_READ: usize = 2;

/// A batch, the frames that it puts into the outbox (its first appends), and the state that it
/// leaves.
pub(super) struct StepBatch {
    pub(super) batch: Batch,
    pub(super) emitted: Vec<Vec<u8>>,
    pub(super) state: StateWrites,
}

/// What a message's dedupe row was when it was looked up.
pub(super) enum Remembering<'a> {
    /// The message does not ask for it.
    Not,
    /// Remember it for a while, over the row that is there, if any.
    For {
        window: Span,
        over: Option<&'a [u8]>,
    },
}

/// What is known of a message beside its bytes.
#[derive(Clone, Copy)]
pub(super) struct HandledMessage<'a, 'f> {
    pub(super) message: &'a Message<'f>,
    pub(super) now: Timestamp,
}

impl StepBatch {
    fn new(guards: Vec<Guard>, emitted: Vec<Vec<u8>>, writes: Vec<Write>) -> Self {
        if emitted.is_empty() {
            return Self {
                batch: Batch { guards, writes },
                emitted,
                state: StateWrites::new(),
            };
        }
        let mut all: Vec<Write> = Vec::with_capacity(emitted.len() + writes.len());
        all.extend(emitted.iter().cloned().map(key::append_outbox));
        all.extend(writes);
        Self {
            batch: Batch {
                guards,
                writes: all,
            },
            emitted,
            state: StateWrites::new(),
        }
    }
}

impl HandledMessage<'_, '_> {
    /// Everything the handler wants, the reply, the acknowledgement and the dedupe row, with the
    /// removal of the message. Also answers with the bytes of the dedupe row.
    pub(super) fn handled(
        self,
        mut guards: Vec<Guard>,
        mut writes: Vec<Write>,
        effects: Effects,
        remembering: Remembering<'_>,
    ) -> (StepBatch, Option<Vec<u8>>) {
        let Effects {
            guards: reads,
            writes: wanted,
            state,
            mut emitted,
            reply: answer,
        } = effects;
        emitted.extend(
            answer
                .as_ref()
                .and_then(|payload| reply(self.message, payload, self.now)),
        );
        emitted.extend(acknowledge(
            self.message,
            &Acknowledgement::Committed,
            self.now,
        ));
        guards.extend(reads);
        writes.extend(wanted);
        let mut remembered = None;
        if let Remembering::For { window, over } = remembering {
            let at = key::dedupe(self.message.id);
            guards.push(match over {
                Some(bytes) => Guard::Equals(at.clone(), bytes.to_vec()),
                None => Guard::Absent(at.clone()),
            });
            let bytes = dedupe::remember(self.now, window, answer).encode();
            writes.push(Write::Put(at, bytes.clone()));
            remembered = Some(bytes);
        }
        (
            StepBatch {
                state,
                ..StepBatch::new(guards, emitted, writes)
            },
            remembered,
        )
    }

    /// The stored reply and the acknowledgement again, as long as the dedupe row is what was seen.
    pub(super) fn duplicate(
        self,
        mut guards: Vec<Guard>,
        writes: Vec<Write>,
        row: Vec<u8>,
        answer: Option<Vec<u8>>,
    ) -> StepBatch {
        guards.push(crate::context::value_guard(
            key::dedupe(self.message.id),
            row,
        ));
        let mut emitted = Vec::new();
        emitted.extend(answer.and_then(|payload| reply(self.message, &payload, self.now)));
        emitted.extend(acknowledge(
            self.message,
            &Acknowledgement::Committed,
            self.now,
        ));
        StepBatch::new(guards, emitted, writes)
    }
}

/// Which number a dead letter gets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum DeadLetterNumber {
    /// That of its inbox row, if it has one.
    Own,
    /// One that is free.
    Free,
}

/// The message moves to the dead letters, and its sender learns of it.
pub(super) fn dead(
    claim: Batch,
    worker: WorkerId,
    position: MessagePosition,
    letter: &DeadLetter,
    number: DeadLetterNumber,
) -> StepBatch {
    let Batch { guards, mut writes } = claim;
    let record = letter.encode();
    writes.push(match (position, number) {
        (MessagePosition::Inbox(seq), DeadLetterNumber::Own) => {
            Write::Create(key::dead_letter(worker, seq), record)
        }
        (
            MessagePosition::Inbox(_) | MessagePosition::Timer(_),
            DeadLetterNumber::Own | DeadLetterNumber::Free,
        ) => key::append_dead_letter(worker, record),
    });
    let what = Acknowledgement::Dead {
        reason: letter.reason.clone(),
    };
    let message = Message::decode(&letter.frame).ok();
    let told = message.and_then(|message| acknowledge(&message, &what, letter.failed_at));
    StepBatch::new(guards, told.into_iter().collect(), writes)
}
