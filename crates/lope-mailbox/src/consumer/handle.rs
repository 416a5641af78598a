//! Handling a claimed batch: one message after the other, each to its step, its retry or its end.

use std::sync::Arc;
use std::time::Instant;

use lope_model::Timestamp;
use lope_store::tables::{Batch, Guard, Write};
use lope_store::{StoreError, StoreResult};

use super::Consumer;
use super::call::CallOutcome;
use super::claimed_batch::{BatchInProgress, ClaimedBatch, CommitKind, Disposition, Tally, Ticket};
use super::step::{self, DeadLetterNumber, HandledMessage, Remembering, StepBatch};
use crate::context::{About, Context, Effects};
use crate::counters::Count;
use crate::error::{ConsumerError, HandlerError};
use crate::frame::Message;
use crate::group::StagedStep;
use crate::key;
use crate::law::dedupe::{self, DedupeCheck};
use crate::law::lease;
use crate::law::retry::RetryDecision;
use crate::limit;
use crate::record::{DeadLetter, Dedupe, LeaseState};
use crate::trace::{AttemptResult, AttemptTrace};

/// What is to be done with a message.
pub(super) enum HandlerOutcome {
    /// Commit this.
    Effects(HandlerEffects),
    /// It was handled before.
    Duplicate(HandledBefore),
    /// The handler said no.
    Refused(HandlerError),
    /// It cannot be handled at all.
    Hopeless(String),
    /// It is somebody else's now.
    Lost,
}

/// What a handler did, and the dedupe row that its message had.
pub(super) struct HandlerEffects {
    pub(super) effects: Effects,
    pub(super) over: Option<Vec<u8>>,
}

/// The dedupe row of a message that was handled, and the reply to it.
pub(super) struct HandledBefore {
    pub(super) row: Vec<u8>,
    pub(super) reply: Option<Vec<u8>>,
}

impl Consumer {
    pub(super) async fn handle_batch(
        &mut self,
        claimed: ClaimedBatch,
        ahead: bool,
    ) -> Result<Tally, ConsumerError> {
        let mut progress =
            BatchInProgress::new(claimed, self.new_group().ok_or(ConsumerError::Busy)?);
        progress.tally.busy = self.busy;
        self.look_up_dedupe(&mut progress).await?;
        let mut unfit = None;
        for item in progress.claimed.order() {
            if self.stop.is_requested() || unfit.is_some() {
                break;
            }
            self.commit_and_renew(&mut progress).await?;
            unfit = self.handle(&mut progress, item).await?;
        }
        self.finish(&mut progress, ahead && unfit.is_none()).await?;
        match unfit {
            None => Ok(progress.tally),
            Some(error) => {
                self.close().await?;
                Err(ConsumerError::Handler(error))
            }
        }
    }

    async fn look_up_dedupe(&self, progress: &mut BatchInProgress) -> StoreResult<()> {
        let keys = progress.dedupe_keys();
        if !keys.is_empty() {
            let rows = self.tables.get(&keys).await?;
            progress
                .seen
                .extend(keys.into_iter().map(|at| at.key).zip(rows));
        }
        Ok(())
    }

    /// Handle one message and stage what comes of it. Answers with an error if the handler can
    /// handle nothing at all.
    pub(super) async fn handle(
        &mut self,
        progress: &mut BatchInProgress,
        item: usize,
    ) -> Result<Option<HandlerError>, ConsumerError> {
        let suspect = lease::is_suspect(progress.claimed.lease(item));
        if suspect && progress.claimed.lease(item).state != LeaseState::Begun {
            self.begin_suspect(progress, item).await?;
        }
        if progress.claimed.is_lost(item) {
            return Ok(None);
        }
        let began = Instant::now();
        let frame = std::mem::take(&mut progress.claimed.items[item].frame);
        let answer = self.answer(progress, item, &frame).await;
        progress.claimed.items[item].frame = frame;
        match answer? {
            HandlerOutcome::Effects(made) => self.stage_handled(progress, item, made, began),
            HandlerOutcome::Duplicate(before) => {
                self.stage_duplicate(progress, item, before, began);
            }
            HandlerOutcome::Refused(HandlerError::Unfit(why)) => {
                return Ok(Some(HandlerError::Unfit(why)));
            }
            HandlerOutcome::Refused(error) => self.refused(progress, item, &error)?,
            HandlerOutcome::Hopeless(reason) => {
                self.counters.add(Count::Failure);
                self.give_up(progress, item, reason, DeadLetterNumber::Own);
            }
            HandlerOutcome::Lost => {}
        }
        if suspect {
            // It is done with: what comes after it must not be held against it.
            progress.group.commit(Vec::new()).await?;
        }
        Ok(None)
    }

    /// Before a message goes to its handler with which workers keep dying: write down that it is
    /// its turn, and with that commit what was handled before it.
    async fn begin_suspect(&self, progress: &mut BatchInProgress, item: usize) -> StoreResult<()> {
        let tracked = &progress.claimed.leases[progress.claimed.items[item].lease_index];
        let at = tracked.held.key.at(self.config.worker);
        let lease = lease::begun(&tracked.held.lease);
        let guards = vec![Guard::Equals(at.clone(), tracked.held.bytes.clone())];
        let batch = Batch {
            guards,
            writes: vec![Write::Put(at, lease.encode())],
        };
        let replies = progress.group.commit(vec![batch]).await?;
        super::call::note_leases(
            progress,
            [(progress.claimed.items[item].lease_index, lease)].into_iter(),
            replies,
        );
        Ok(())
    }

    async fn answer(
        &mut self,
        progress: &mut BatchInProgress,
        item: usize,
        frame: &[u8],
    ) -> Result<HandlerOutcome, ConsumerError> {
        let attempt = progress.claimed.lease(item).attempts;
        let lost = progress.claimed.lease(item).lost;
        if self.config.retry.is_lost(lost) {
            return Ok(HandlerOutcome::Hopeless(format!(
                "lost: its worker died {lost} times while it was in hand"
            )));
        }
        let message = match Message::decode(frame) {
            Ok(message) => message,
            Err(error) => return Ok(HandlerOutcome::Hopeless(format!("undecodable: {error}"))),
        };
        if message.to_worker != self.config.worker.number() {
            return Ok(HandlerOutcome::Hopeless(format!(
                "not found: the frame is for worker {}",
                message.to_worker
            )));
        }
        let about = About {
            worker: self.config.worker,
            now: self.time.clock.now(),
            attempt,
            position: Some(progress.claimed.items[item].position),
            message_id: message.id.to_vec(),
        };
        self.dedupe_and_call(progress, Some(item), about, &message)
            .await
    }

    /// Look whether the message was handled before; if not, call the handler.
    pub(super) async fn dedupe_and_call(
        &mut self,
        progress: &mut BatchInProgress,
        item: Option<usize>,
        about: About,
        message: &Message<'_>,
    ) -> Result<HandlerOutcome, ConsumerError> {
        let mut over = None;
        if dedupe::is_asked(message) {
            if message.id.len() > limit::ID_MAX {
                return Ok(HandlerOutcome::Hopeless(format!(
                    "an id of {} bytes cannot be remembered",
                    message.id.len()
                )));
            }
            over = self.dedupe_row(progress, message.id).await?;
            let row = over
                .as_deref()
                .map(Dedupe::decode)
                .transpose()
                .map_err(StoreError::corrupt)?;
            if let (DedupeCheck::Before { reply }, Some(row)) =
                (dedupe::seen(row, about.now), over.clone())
            {
                return Ok(HandlerOutcome::Duplicate(HandledBefore { row, reply }));
            }
        }
        self.counters.add(Count::Attempt);
        let mut context = Context::new(Arc::clone(&progress.group), about);
        match self
            .call_handler(progress, item, &mut context, message)
            .await?
        {
            CallOutcome::Answered(Ok(())) => Ok(HandlerOutcome::Effects(HandlerEffects {
                effects: context.finish(),
                over,
            })),
            CallOutcome::Answered(Err(error)) => Ok(HandlerOutcome::Refused(error)),
            CallOutcome::Lost => Ok(HandlerOutcome::Lost),
        }
    }

    async fn dedupe_row(
        &self,
        progress: &mut BatchInProgress,
        id: &[u8],
    ) -> StoreResult<Option<Vec<u8>>> {
        if let Some(row) = progress.seen.get(id) {
            return Ok(row.clone());
        }
        Ok(self.tables.get(&[key::dedupe(id)]).await?.pop().flatten())
    }

    pub(super) fn remembering<'a>(
        &self,
        message: &Message<'_>,
        over: Option<&'a [u8]>,
    ) -> Remembering<'a> {
        if dedupe::is_asked(message) {
            Remembering::For {
                window: self.config.dedupe_window,
                over,
            }
        } else {
            Remembering::Not
        }
    }

    fn stage_handled(
        &mut self,
        progress: &mut BatchInProgress,
        item: usize,
        HandlerEffects { effects, over }: HandlerEffects,
        began: Instant,
    ) {
        let worker = self.config.worker;
        let guards = progress.claim_guards(item, worker);
        let writes = progress.removal(item, worker);
        let made = {
            let Ok(message) = Message::decode(&progress.claimed.items[item].frame) else {
                return;
            };
            let remembering = self.remembering(&message, over.as_deref());
            let known = HandledMessage {
                message: &message,
                now: self.time.clock.now(),
            };
            let (made, remembered) = known.handled(guards, writes, effects, remembering);
            if remembered.is_some() {
                progress.seen.insert(message.id.to_vec(), remembered);
            }
            made
        };
        if let Err(error) = self.validate(&made.batch) {
            self.counters.add(Count::Failure);
            self.give_up(
                progress,
                item,
                HandlerError::from(error).to_string(),
                DeadLetterNumber::Own,
            );
            return;
        }
        stage(progress, item, CommitKind::Handled, made, began);
    }

    fn stage_duplicate(
        &mut self,
        progress: &mut BatchInProgress,
        item: usize,
        before: HandledBefore,
        began: Instant,
    ) {
        let worker = self.config.worker;
        let guards = progress.claim_guards(item, worker);
        let writes = progress.removal(item, worker);
        let Ok(message) = Message::decode(&progress.claimed.items[item].frame) else {
            return;
        };
        let known = HandledMessage {
            message: &message,
            now: self.time.clock.now(),
        };
        let made = known.duplicate(guards, writes, before.row, before.reply);
        stage(progress, item, CommitKind::Duplicate, made, began);
    }

    /// Would every store take this batch?
    fn validate(&self, batch: &Batch) -> StoreResult<()> {
        self.manifest()
            .map_or(Ok(()), |manifest| batch.validate(&manifest))
    }

    pub(super) fn refused(
        &mut self,
        progress: &mut BatchInProgress,
        item: usize,
        error: &HandlerError,
    ) -> Result<(), ConsumerError> {
        match error {
            HandlerError::Busy(_) => self.counters.add(Count::Busy),
            HandlerError::Conflict(_) => self.counters.add(Count::Conflict),
            HandlerError::Failed(_) | HandlerError::Unfit(_) => {
                self.counters.add(Count::Failure);
                self.give_up(progress, item, error.to_string(), DeadLetterNumber::Own);
                return Ok(());
            }
            HandlerError::Store(error) => return Err(ConsumerError::Store(error.clone())),
        }
        let attempts = progress.claimed.lease(item).attempts;
        let lost = progress.claimed.lease(item).lost;
        let position = progress.claimed.items[item].position;
        match self.config.retry.after_failure(attempts, lost, position) {
            RetryDecision::GiveUp => {
                self.give_up(progress, item, error.to_string(), DeadLetterNumber::Own);
            }
            RetryDecision::Again { delay } => {
                self.counters.add(Count::Requeue);
                progress.tally.requeued += 1;
                progress.claimed.items[item].disposition = Disposition::Again(delay);
                let reason = error.to_string();
                self.show_item(progress, item, AttemptResult::Requeued { reason: &reason });
            }
        }
        Ok(())
    }

    /// Stage the end of a message that will not be handled.
    pub(super) fn give_up(
        &mut self,
        progress: &mut BatchInProgress,
        item: usize,
        reason: String,
        number: DeadLetterNumber,
    ) {
        let worker = self.config.worker;
        let claim = Batch {
            guards: progress.claim_guards(item, worker),
            writes: progress.removal(item, worker),
        };
        let letter = DeadLetter {
            reason,
            attempts: progress.claimed.lease(item).attempts,
            failed_at: self.time.clock.now(),
            frame: progress.claimed.items[item].frame.clone(),
        };
        let made = step::dead(
            claim,
            worker,
            progress.claimed.items[item].position,
            &letter,
            number,
        );
        stage(
            progress,
            item,
            CommitKind::Dead {
                reason: letter.reason,
            },
            made,
            Instant::now(),
        );
    }

    pub(super) fn show_item(
        &self,
        progress: &BatchInProgress,
        item: usize,
        result: AttemptResult<'_>,
    ) {
        if self.observer.is_some() {
            let shown = &progress.claimed.items[item];
            self.show(
                Some(shown.position),
                progress.claimed.lease(item).attempts,
                &shown.frame,
                result,
            );
        }
    }

    pub(super) fn show(
        &self,
        position: Option<key::MessagePosition>,
        attempt: u32,
        frame: &[u8],
        result: AttemptResult<'_>,
    ) {
        if let Some(observer) = &self.observer {
            let at: Timestamp = self.time.clock.now();
            let worker = self.config.worker;
            observer.attempted(&AttemptTrace {
                at,
                worker,
                position,
                attempt,
                frame,
                result,
            });
        }
    }
}

fn stage(
    progress: &mut BatchInProgress,
    item: usize,
    kind: CommitKind,
    made: StepBatch,
    began: Instant,
) {
    let StepBatch {
        batch,
        emitted,
        state,
    } = made;
    let ticket = progress.tickets.len();
    progress.tickets.push(Ticket {
        item,
        kind,
        began,
        emitted,
    });
    progress.claimed.items[item].disposition = Disposition::Staged;
    progress.group.add(StagedStep {
        ticket,
        batch,
        state,
    });
}
