//! Working off a hand: one message after the other, each to its step, its retry or its end.

use std::sync::Arc;
use std::time::Instant;

use lope_model::Timestamp;
use lope_store::tables::{Batch, Guard, Write};
use lope_store::{StoreError, StoreResult};

use super::Runner;
use super::attend::Attended;
use super::hand::{Fate, Hand, Kind, Round, Tally, Ticket};
use super::step::{self, Known, Made, Number, Remembering};
use crate::context::{About, Context, Effects};
use crate::counters::Count;
use crate::error::{HandlerError, RunnerError};
use crate::frame::Message;
use crate::group::Step;
use crate::key;
use crate::law::dedupe::{self, Seen};
use crate::law::lease;
use crate::law::retry::Verdict;
use crate::limit;
use crate::record::{DeadLetter, Dedupe, LeaseState};
use crate::trace::{Attempt, AttemptResult};

/// What is to be done with a message.
pub(super) enum Answer {
    /// Commit this.
    Effects { effects: Effects, over: Option<Vec<u8>> },
    /// It was handled before; its dedupe row and the reply.
    Duplicate { row: Vec<u8>, reply: Option<Vec<u8>> },
    /// The handler said no.
    Refused(HandlerError),
    /// It cannot be handled at all.
    Hopeless(String),
    /// It is somebody else's now.
    Lost,
}

impl Runner {
    pub(super) async fn work(&mut self, hand: Hand, ahead: bool) -> Result<Tally, RunnerError> {
        let mut round = Round::new(hand, self.new_group().ok_or(RunnerError::Busy)?);
        round.tally.busy = self.busy;
        self.look_up_dedupe(&mut round).await?;
        let mut unfit = None;
        for item in round.hand.order() {
            if self.stop.is_requested() || unfit.is_some() {
                break;
            }
            self.tend(&mut round).await?;
            unfit = self.handle(&mut round, item).await?;
        }
        self.finish(&mut round, ahead && unfit.is_none()).await?;
        match unfit {
            None => Ok(round.tally),
            Some(error) => {
                self.close().await?;
                Err(RunnerError::Handler(error))
            }
        }
    }

    async fn look_up_dedupe(&self, round: &mut Round) -> StoreResult<()> {
        let keys = round.dedupe_keys();
        if !keys.is_empty() {
            let rows = self.tables.get(&keys).await?;
            round.seen.extend(keys.into_iter().map(|at| at.key).zip(rows));
        }
        Ok(())
    }

    /// Handle one message and stage what comes of it. Answers with an error if the handler can handle nothing at all.
    pub(super) async fn handle(&mut self, round: &mut Round, item: usize) -> Result<Option<HandlerError>, RunnerError> {
        let suspect = lease::is_suspect(round.hand.lease(item));
        if suspect && round.hand.lease(item).state != LeaseState::Begun {
            self.begin_suspect(round, item).await?;
        }
        if round.hand.is_lost(item) {
            return Ok(None);
        }
        let began = Instant::now();
        let frame = std::mem::take(&mut round.hand.items[item].frame);
        let answer = self.answer(round, item, &frame).await;
        round.hand.items[item].frame = frame;
        match answer? {
            Answer::Effects { effects, over } => self.stage_handled(round, item, (effects, over), began),
            Answer::Duplicate { row, reply } => self.stage_duplicate(round, item, (row, reply), began),
            Answer::Refused(HandlerError::Unfit(why)) => return Ok(Some(HandlerError::Unfit(why))),
            Answer::Refused(error) => self.refused(round, item, &error)?,
            Answer::Hopeless(reason) => {
                self.counters.add(Count::Failure);
                self.give_up(round, item, reason, Number::Own);
            }
            Answer::Lost => {}
        }
        if suspect {
            // It is done with: what comes after it must not be held against it.
            round.group.commit(Vec::new()).await?;
        }
        Ok(None)
    }

    /// Before a message goes to its handler with which workers keep dying: write down that it is its turn, and with that
    /// commit what was handled before it.
    async fn begin_suspect(&self, round: &mut Round, item: usize) -> StoreResult<()> {
        let held = &round.hand.holdings[round.hand.items[item].holding];
        let (at, lease) = (held.holding.key.at(self.config.worker), lease::begun(&held.holding.lease));
        let guards = vec![Guard::Equals(at.clone(), held.holding.bytes.clone())];
        let batch = Batch { guards, writes: vec![Write::Put(at, lease.encode())] };
        let replies = round.group.commit(vec![batch]).await?;
        super::attend::note_leases(round, [(round.hand.items[item].holding, lease)].into_iter(), replies);
        Ok(())
    }

    async fn answer(&mut self, round: &mut Round, item: usize, frame: &[u8]) -> Result<Answer, RunnerError> {
        let (attempt, lost) = (round.hand.lease(item).attempts, round.hand.lease(item).lost);
        if self.config.retry.is_lost(lost) {
            return Ok(Answer::Hopeless(format!("lost: its worker died {lost} times while it was in hand")));
        }
        let message = match Message::decode(frame) {
            Ok(message) => message,
            Err(error) => return Ok(Answer::Hopeless(format!("undecodable: {error}"))),
        };
        if message.to_worker != self.config.worker.number() {
            return Ok(Answer::Hopeless(format!("not found: the frame is for worker {}", message.to_worker)));
        }
        let about = About {
            worker: self.config.worker,
            now: self.time.clock.now(),
            attempt,
            place: Some(round.hand.items[item].place),
            message_id: message.id.to_vec(),
        };
        self.consider(round, Some(item), about, &message).await
    }

    /// Look whether the message was handled before; if not, call the handler.
    pub(super) async fn consider(
        &mut self,
        round: &mut Round,
        item: Option<usize>,
        about: About,
        message: &Message<'_>,
    ) -> Result<Answer, RunnerError> {
        let mut over = None;
        if dedupe::is_asked(message) {
            if message.id.len() > limit::ID_MAX {
                return Ok(Answer::Hopeless(format!("an id of {} bytes cannot be remembered", message.id.len())));
            }
            over = self.dedupe_row(round, message.id).await?;
            let row = over.as_deref().map(Dedupe::decode).transpose().map_err(StoreError::corrupt)?;
            if let (Seen::Before { reply }, Some(row)) = (dedupe::seen(row, about.now), over.clone()) {
                return Ok(Answer::Duplicate { row, reply });
            }
        }
        self.counters.add(Count::Attempt);
        let mut context = Context::new(Arc::clone(&round.group), about);
        match self.attend(round, item, &mut context, message).await? {
            Attended::Answered(Ok(())) => Ok(Answer::Effects { effects: context.finish(), over }),
            Attended::Answered(Err(error)) => Ok(Answer::Refused(error)),
            Attended::Lost => Ok(Answer::Lost),
        }
    }

    async fn dedupe_row(&self, round: &mut Round, id: &[u8]) -> StoreResult<Option<Vec<u8>>> {
        if let Some(row) = round.seen.get(id) {
            return Ok(row.clone());
        }
        Ok(self.tables.get(&[key::dedupe(id)]).await?.pop().flatten())
    }

    pub(super) fn remembering<'a>(&self, message: &Message<'_>, over: Option<&'a [u8]>) -> Remembering<'a> {
        if dedupe::is_asked(message) {
            Remembering::For { window: self.config.dedupe_window, over }
        } else {
            Remembering::Not
        }
    }

    fn stage_handled(
        &mut self,
        round: &mut Round,
        item: usize,
        (effects, over): (Effects, Option<Vec<u8>>),
        began: Instant,
    ) {
        let worker = self.config.worker;
        let (guards, writes) = (round.claim_guards(item, worker), round.removal(item, worker));
        let made = {
            let Ok(message) = Message::decode(&round.hand.items[item].frame) else { return };
            let remembering = self.remembering(&message, over.as_deref());
            let known = Known { message: &message, now: self.time.clock.now() };
            let (made, remembered) = known.handled(guards, writes, effects, remembering);
            if remembered.is_some() {
                round.seen.insert(message.id.to_vec(), remembered);
            }
            made
        };
        if let Err(error) = self.check(&made.batch) {
            self.counters.add(Count::Failure);
            self.give_up(round, item, HandlerError::from(error).to_string(), Number::Own);
            return;
        }
        stage(round, item, Kind::Handled, made, began);
    }

    fn stage_duplicate(
        &mut self,
        round: &mut Round,
        item: usize,
        (row, reply): (Vec<u8>, Option<Vec<u8>>),
        began: Instant,
    ) {
        let worker = self.config.worker;
        let (guards, writes) = (round.claim_guards(item, worker), round.removal(item, worker));
        let Ok(message) = Message::decode(&round.hand.items[item].frame) else { return };
        let known = Known { message: &message, now: self.time.clock.now() };
        let made = known.duplicate(guards, writes, row, reply);
        stage(round, item, Kind::Duplicate, made, began);
    }

    /// Would every store take this batch?
    fn check(&self, batch: &Batch) -> StoreResult<()> {
        self.manifest().map_or(Ok(()), |manifest| batch.check(&manifest))
    }

    pub(super) fn refused(&mut self, round: &mut Round, item: usize, error: &HandlerError) -> Result<(), RunnerError> {
        match error {
            HandlerError::Busy(_) => self.counters.add(Count::Busy),
            HandlerError::Conflict(_) => self.counters.add(Count::Conflict),
            HandlerError::Failed(_) | HandlerError::Unfit(_) => {
                self.counters.add(Count::Failure);
                self.give_up(round, item, error.to_string(), Number::Own);
                return Ok(());
            }
            HandlerError::Store(error) => return Err(RunnerError::Store(error.clone())),
        }
        let (attempts, lost) = (round.hand.lease(item).attempts, round.hand.lease(item).lost);
        let place = round.hand.items[item].place;
        match self.config.retry.after_failure(attempts, lost, place) {
            Verdict::GiveUp => self.give_up(round, item, error.to_string(), Number::Own),
            Verdict::Again { delay } => {
                self.counters.add(Count::Requeue);
                round.tally.requeued += 1;
                round.hand.items[item].fate = Fate::Again(delay);
                let reason = error.to_string();
                self.show_item(round, item, AttemptResult::Requeued { reason: &reason });
            }
        }
        Ok(())
    }

    /// Stage the end of a message that will not be handled.
    pub(super) fn give_up(&mut self, round: &mut Round, item: usize, reason: String, number: Number) {
        let worker = self.config.worker;
        let claim = (round.claim_guards(item, worker), round.removal(item, worker));
        let letter = DeadLetter {
            reason,
            attempts: round.hand.lease(item).attempts,
            failed_at: self.time.clock.now(),
            frame: round.hand.items[item].frame.clone(),
        };
        let made = step::dead(claim, worker, round.hand.items[item].place, &letter, number);
        stage(round, item, Kind::Dead { reason: letter.reason }, made, Instant::now());
    }

    pub(super) fn show_item(&self, round: &Round, item: usize, result: AttemptResult<'_>) {
        if self.observer.is_some() {
            let shown = &round.hand.items[item];
            self.show(Some(shown.place), round.hand.lease(item).attempts, &shown.frame, result);
        }
    }

    pub(super) fn show(&self, place: Option<key::Place>, attempt: u32, frame: &[u8], result: AttemptResult<'_>) {
        if let Some(observer) = &self.observer {
            let (at, worker): (Timestamp, _) = (self.time.clock.now(), self.config.worker);
            observer.attempted(&Attempt { at, worker, place, attempt, frame, result });
        }
    }
}

fn stage(round: &mut Round, item: usize, kind: Kind, made: Made, began: Instant) {
    let Made { batch, emitted, state } = made;
    let ticket = round.tickets.len();
    round.tickets.push(Ticket { item, kind, began, emitted });
    round.hand.items[item].fate = Fate::Staged;
    round.group.add(Step { ticket, batch, state });
}
