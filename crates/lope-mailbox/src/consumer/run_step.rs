//! A step without an inbox: one frame that is handed in is decoded, handled and committed.

use std::time::Instant;

use super::Consumer;
use super::claimed_batch::{BatchInProgress, ClaimedBatch, CommitKind};
use super::handle::{HandledBefore, HandlerEffects, HandlerOutcome};
use super::step::HandledMessage;
use crate::context::About;
use crate::counters::Count;
use crate::error::{ConsumerError, HandlerError};
use crate::frame::Message;
use crate::key;
use crate::law::retry::Retry;
use crate::trace::AttemptResult;

impl Consumer {
    /// Handle one frame that is handed in, without an inbox row: decode, call the handler, commit
    /// what it wants.
    pub async fn run_step(&mut self, frame: &[u8]) -> Result<(), ConsumerError> {
        let group = self.new_group().ok_or(ConsumerError::Busy)?;
        let message = Message::decode(frame)?;
        let worker = self.config.worker.number();
        if message.to_worker != worker {
            return Err(ConsumerError::NotFound {
                to: message.to_worker,
                worker,
            });
        }
        let mut progress = BatchInProgress::new(ClaimedBatch::default(), group);
        let mut conflicts = 0;
        while !self.try_step(&mut progress, &message, frame).await? {
            conflicts += 1;
            self.counters.add(Count::Conflict);
            self.show(None, 1, frame, AttemptResult::Conflict);
            if conflicts > self.config.retry.conflicts {
                return Err(ConsumerError::Conflict(conflicts));
            }
            let position = key::MessagePosition::Inbox(self.counters.read().attempts);
            self.time
                .sleep
                .sleep(Retry::after_conflict(conflicts, position))
                .await;
            progress.seen.clear();
        }
        let emitted = std::mem::take(&mut progress.emitted);
        self.forward(emitted).await
    }

    /// One try at a frame that was handed in. Answers whether it was committed.
    async fn try_step(
        &mut self,
        progress: &mut BatchInProgress,
        message: &Message<'_>,
        frame: &[u8],
    ) -> Result<bool, ConsumerError> {
        let began = Instant::now();
        let now = self.time.clock.now();
        let about = About {
            worker: self.config.worker,
            now,
            attempt: 1,
            position: None,
            message_id: message.id.to_vec(),
        };
        let known = HandledMessage { message, now };
        let (made, kind) = match self.dedupe_and_call(progress, None, about, message).await? {
            HandlerOutcome::Effects(HandlerEffects { effects, over }) => {
                let remembering = self.remembering(message, over.as_deref());
                (
                    known
                        .handled(Vec::new(), Vec::new(), effects, remembering)
                        .0,
                    CommitKind::Handled,
                )
            }
            HandlerOutcome::Duplicate(HandledBefore { row, reply }) => (
                known.duplicate(Vec::new(), Vec::new(), row, reply),
                CommitKind::Duplicate,
            ),
            HandlerOutcome::Refused(error) => return Err(ConsumerError::Handler(error)),
            HandlerOutcome::Hopeless(reason) => {
                return Err(ConsumerError::Handler(HandlerError::Failed(reason)));
            }
            HandlerOutcome::Lost => return Ok(false),
        };
        let replies = self.tables.commit(vec![made.batch]).await?;
        let Some(Ok(applied)) = replies.into_iter().next() else {
            return Ok(false);
        };
        progress
            .emitted
            .extend(applied.appended.into_iter().zip(made.emitted));
        match kind {
            CommitKind::Duplicate => self.counters.add(Count::Duplicate),
            CommitKind::Handled | CommitKind::Dead { .. } => {
                self.counters.succeeded(began.elapsed());
            }
        }
        self.show(None, 1, frame, AttemptResult::Success);
        Ok(true)
    }
}
