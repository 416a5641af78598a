//! A step without an inbox: one frame that is handed in is decoded, handled and committed.

use std::time::Instant;

use super::Runner;
use super::hand::{Hand, Kind, Round};
use super::step::Known;
use super::work::Answer;
use crate::context::About;
use crate::counters::Count;
use crate::error::{HandlerError, RunnerError};
use crate::frame::Message;
use crate::key;
use crate::law::retry::Retry;
use crate::trace::AttemptResult;

impl Runner {
    /// Handle one frame that is handed in, without an inbox row: decode, call the handler, commit what it wants.
    pub async fn run_step(&mut self, frame: &[u8]) -> Result<(), RunnerError> {
        let group = self.new_group().ok_or(RunnerError::Busy)?;
        let message = Message::decode(frame)?;
        let worker = self.config.worker.number();
        if message.to_worker != worker {
            return Err(RunnerError::NotFound { to: message.to_worker, worker });
        }
        let mut round = Round::new(Hand::default(), group);
        let mut conflicts = 0;
        while !self.try_step(&mut round, &message, frame).await? {
            conflicts += 1;
            self.counters.add(Count::Conflict);
            self.show(None, 1, frame, AttemptResult::Conflict);
            if conflicts > self.config.retry.conflicts {
                return Err(RunnerError::Conflict(conflicts));
            }
            let place = key::Place::Inbox(self.counters.read().attempts);
            self.time.sleep.sleep(Retry::after_conflict(conflicts, place)).await;
            round.seen.clear();
        }
        let emitted = std::mem::take(&mut round.emitted);
        self.forward(emitted).await
    }

    /// One try at a frame that was handed in. Answers whether it was committed.
    async fn try_step(&mut self, round: &mut Round, message: &Message<'_>, frame: &[u8]) -> Result<bool, RunnerError> {
        let (began, now) = (Instant::now(), self.time.clock.now());
        let about = About { worker: self.config.worker, now, attempt: 1, place: None, message_id: message.id.to_vec() };
        let known = Known { message, now };
        let (made, kind) = match self.consider(round, None, about, message).await? {
            Answer::Effects { effects, over } => {
                let remembering = self.remembering(message, over.as_deref());
                (known.handled(Vec::new(), Vec::new(), effects, remembering).0, Kind::Handled)
            }
            Answer::Duplicate { row, reply } => (known.duplicate(Vec::new(), Vec::new(), row, reply), Kind::Duplicate),
            Answer::Refused(error) => return Err(RunnerError::Handler(error)),
            Answer::Hopeless(reason) => return Err(RunnerError::Handler(HandlerError::Failed(reason))),
            Answer::Lost => return Ok(false),
        };
        let replies = self.tables.commit(vec![made.batch]).await?;
        let Some(Ok(applied)) = replies.into_iter().next() else { return Ok(false) };
        round.emitted.extend(applied.appended.into_iter().zip(made.emitted));
        match kind {
            Kind::Duplicate => self.counters.add(Count::Duplicate),
            Kind::Handled | Kind::Dead { .. } => self.counters.succeeded(began.elapsed()),
        }
        self.show(None, 1, frame, AttemptResult::Success);
        Ok(true)
    }
}
