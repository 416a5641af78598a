//! One run in memory: its folded state, what is not durable yet, what is in flight.
#![deny(clippy::wildcard_enum_match_arm)]

use std::sync::Arc;

use foldhash::HashMap;
use lope_definition::{Checkpoint, Recipient};
use lope_flow::law::{
    self, Dispatch, Effect, Event, EventKind, Outcome, Plan, Progress, Send, Settled, StartChild,
    State,
};
use lope_model::{Epoch, Failure, RunId, RunnerId, Timestamp, Value, failure, limit};
use lope_store::runs::{Admit, Blob, Deliver, FinalStatus, JournalRow, Parent};
use lope_store::tables::Append;

use super::after_commit::{AfterCommit, AttemptId};
use super::pending_commit::PendingCommit;
use super::unread_mail::UnreadMail;
use super::{Adoption, Home};
use crate::client::STOPPED;
use crate::codec;
use crate::executor::{self, Limits, Task, Token};
use crate::mailbox_send::{EncodeMessage, OutgoingMessage};

/// Most rows that a relaxed checkpoint strategy may leave unwritten.
const UNWRITTEN_MAX: usize = 10_000;

/// What is folded but not on its way to the store yet, and what waits for it.
#[derive(Debug, Default)]
pub(super) struct Uncommitted {
    pub(super) rows: Vec<JournalRow>,
    pub(super) blobs: Vec<Blob>,
    pub(super) taken: Vec<u64>,
    /// Children to be started, of which nothing is known yet.
    pub(super) wanted: Vec<StartChild>,
    /// Does it hold what a row led to that is written already, so that the row alone does not tell
    /// whether that was done?
    pub(super) repeats: bool,
    /// Children that can be admitted, and the steps of those that nobody will wait for.
    pub(super) children: Vec<Admit>,
    pub(super) begun: Vec<(Arc<str>, RunId)>,
    pub(super) deliveries: Vec<Deliver>,
    pub(super) mailbox_sends: Vec<Append>,
    /// Why it cannot be written at all.
    pub(super) spoilt: Option<String>,
    pub(super) end: Option<(FinalStatus, Settled)>,
    /// To be done when all of this is durable.
    pub(super) effects: Vec<AfterCommit>,
    /// Something in it may not wait for the checkpoint strategy.
    pub(super) pressing: bool,
    /// The store does not know yet how the run is.
    pub(super) untold: bool,
}

impl Uncommitted {
    /// Is there nothing to write?
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
            && self.taken.is_empty()
            && self.wanted.is_empty()
            && self.children.is_empty()
            && self.deliveries.is_empty()
            && self.mailbox_sends.is_empty()
            && self.spoilt.is_none()
            && self.end.is_none()
            && !self.untold
    }

    /// An attempt that waits to be started is no longer wanted: then neither is its cancellation.
    /// False: it does not wait here.
    fn unschedule(&mut self, cancelled: &AttemptId) -> bool {
        let before = self.effects.len();
        self.effects.retain(|effect| !effect.starts(cancelled));
        self.effects.len() < before
    }

    /// A child that is not there yet need not be told that it shall end. False: it is there, or on
    /// its way, or an earlier owner may have started it.
    fn unwant(&mut self, child: RunId) -> bool {
        let before = self.wanted.len();
        self.wanted.retain(|wanted| wanted.child != child);
        self.wanted.len() < before && !self.repeats
    }

    /// Does it do, without a row of its own, what must not be done twice?
    pub(super) fn repeats_sends(&self) -> bool {
        let sends = !self.deliveries.is_empty() || !self.mailbox_sends.is_empty();
        self.repeats && self.rows.is_empty() && sends
    }

    /// Attempts that could not be started yet wait again, before what came after them.
    pub(super) fn wait_again(&mut self, starts: Vec<AfterCommit>) {
        let later = std::mem::replace(&mut self.effects, starts);
        for effect in later {
            let is_over = matches!(&effect, AfterCommit::Cancel(it) if self.unschedule(it));
            if !is_over {
                self.effects.push(effect);
            }
        }
    }
}

/// One run in memory.
#[derive(Debug)]
pub(super) struct Resident {
    pub(super) run: RunId,
    pub(super) owner: RunnerId,
    pub(super) epoch: Epoch,
    pub(super) plan: Arc<Plan>,
    pub(super) home: Home,
    pub(super) parent: Option<Parent>,
    pub(super) state: State,
    /// The last journal row made.
    pub(super) head: u64,
    /// How much mail is known, taken in or not.
    pub(super) seen: u64,
    pub(super) unread: UnreadMail,
    pub(super) uncommitted: Uncommitted,
    pub(super) pending_commit: Option<Box<PendingCommit>>,
    /// Attempts at work, each with the epoch that the law opened it under. Their tokens are of this
    /// claim: what an earlier owner did not write down may have had the same attempts, and an
    /// answer to those is none to these.
    pub(super) attempts: HashMap<Token, Epoch>,
    /// When the wheel looks at it.
    pub(super) check_at: Timestamp,
    /// The time of the last event, for letting go of what rests.
    pub(super) last_event: Timestamp,
    /// Bytes of journal behind the last snapshot, and of that snapshot.
    pub(super) tail: usize,
    pub(super) snapshot_size: usize,
    /// About how many bytes its values took when they were last weighed, and what was folded since.
    pub(super) weighed: usize,
    pub(super) grown: usize,
    /// Somebody waits for everything to be durable.
    pub(super) asked: bool,
    pub(super) payload_max: usize,
    pub(super) encode: Option<EncodeMessage>,
    /// Steps settled since it came into memory, and how many were when it was last written.
    pub(super) settled: u64,
    pub(super) written: u64,
    /// An input was at work since it last rested.
    pub(super) worked: bool,
    /// It is let go and kept out of claims until somebody asks for it.
    pub(super) stopped: bool,
    /// What was not committed was thrown away: the state is ahead of what will ever be written.
    pub(super) discarded: bool,
    /// Attempts that were given back and have not begun: whoever takes the run up next begins them, or
    /// we do when it goes on.
    pub(super) given_back: Vec<(Arc<str>, u32)>,
    /// Was it paused when it was last looked at?
    pub(super) was_paused: bool,
    /// What was last said of it: is it paused?
    pub(super) pause_told: bool,
    /// Is every attempt announced before it begins?
    pub(super) announces: bool,
    /// Does anybody want to hear notices?
    pub(super) listened: bool,
}

impl Resident {
    pub(super) fn new(adoption: Adoption, state: State, head: u64) -> Self {
        Self {
            run: adoption.run,
            owner: adoption.owner,
            epoch: adoption.epoch,
            plan: adoption.plan,
            home: adoption.home,
            parent: adoption.parent,
            last_event: state.at(),
            state,
            head,
            seen: 0,
            unread: UnreadMail::default(),
            uncommitted: Uncommitted::default(),
            pending_commit: None,
            attempts: HashMap::default(),
            check_at: Timestamp::NEVER,
            tail: 0,
            snapshot_size: 0,
            weighed: 0,
            grown: 0,
            asked: false,
            payload_max: limit::PAYLOAD_MAX,
            encode: None,
            settled: 0,
            written: 0,
            worked: false,
            stopped: false,
            discarded: false,
            given_back: Vec::new(),
            was_paused: false,
            pause_told: false,
            announces: false,
            listened: true,
        }
    }

    /// An event happened: its row is made, the law advances the state, what follows waits with the
    /// row. An event that does not concern the run (any more) leaves no row.
    pub(super) fn fold(&mut self, now: Timestamp, kind: EventKind) {
        // Nothing follows what was thrown away.
        if self.discarded {
            return;
        }
        let mut event = Event::new(now.max(self.state.at()), kind);
        event.met = Some(self.state.short_digest());
        let mut blobs = Vec::new();
        let at = event.at;
        let row = codec::row(self.head + 1, &mut event, &mut blobs);
        let pressing = is_pressing(&event.kind);
        let is_step = matches!(event.kind, EventKind::Outcome(_));
        let stops = stops(&event.kind);
        let mut effects = Vec::new();
        if law::fold(&self.plan, &mut self.state, event, &mut effects) == Progress::Ignored {
            return;
        }
        self.last_event = at;
        self.head += 1;
        self.tail += row.body.len();
        self.grows(&row, &blobs);
        self.uncommitted.rows.push(row);
        self.uncommitted.blobs.extend(blobs);
        self.uncommitted.pressing |= pressing;
        self.settled += u64::from(is_step);
        self.worked |= effects
            .iter()
            .any(|effect| matches!(effect, Effect::InputSettled { .. }));
        self.follow(effects);
        self.stopped = stops.unwrap_or(self.stopped);
    }

    /// What an event led to.
    pub(super) fn follow(&mut self, effects: Vec<Effect>) {
        effects.into_iter().for_each(|effect| self.sort(effect));
    }

    /// Each effect to its place: into the commit, or behind it.
    pub(super) fn sort(&mut self, effect: Effect) {
        match effect {
            Effect::StartChild(child) => self.uncommitted.wanted.push(*child),
            Effect::CancelChild { child, .. } if self.uncommitted.unwant(child) => {}
            Effect::CancelChild { execution, child } => {
                let id = format!("cancel/{}/{execution}", self.run);
                self.deliver(codec::mail(child, id, &EventKind::Cancel { force: false }));
            }
            Effect::Send(send) => match send.to {
                Recipient::Run => self.send_signal(*send),
                Recipient::Mailbox => self.send_message(&send),
            },
            Effect::Complete { result } => self.end(FinalStatus::Completed, Settled::Done(result)),
            Effect::Fail { failure } => self.end(FinalStatus::Failed, Settled::failed(failure)),
            Effect::Cancelled => self.end(FinalStatus::Cancelled, Settled::Cancelled),
            Effect::CancelAttempt {
                execution,
                attempt,
                epoch,
            } => self.cancel_attempt(AttemptId {
                execution,
                attempt,
                epoch,
            }),
            Effect::Dispatch(dispatch) => self.after_commit(AfterCommit::Start(dispatch)),
            Effect::InputSettled { input, result } => {
                self.after_commit(AfterCommit::InputSettled { input, result });
            }
            Effect::Telemetry(notice) => {
                if self.listened {
                    self.after_commit(AfterCommit::Notice(notice));
                }
            }
        }
    }

    fn after_commit(&mut self, effect: AfterCommit) {
        self.uncommitted.effects.push(effect);
    }

    fn cancel_attempt(&mut self, attempt: AttemptId) {
        if !self.uncommitted.unschedule(&attempt) {
            self.after_commit(AfterCommit::Cancel(attempt));
        }
    }

    fn end(&mut self, status: FinalStatus, result: Settled) {
        if let Some(parent) = &self.parent {
            let execution = parent.execution.as_str().into();
            let child = self.run;
            let kind = EventKind::Child {
                execution,
                child,
                result: result.clone(),
            };
            let mail = codec::mail(parent.run, format!("child/{}", self.run), &kind);
            self.deliver(mail);
        }
        self.uncommitted.end = Some((status, result));
    }

    /// A message to a mailbox goes with the commit. One that cannot be made is never lost without a
    /// word: the run is set aside.
    fn send_message(&mut self, send: &Send) {
        let message = OutgoingMessage {
            run: self.run,
            send,
            at: self.state.at(),
        };
        let made = match self.encode {
            Some(encode) => encode(message),
            None => Err("this runner has no mailboxes".to_owned()),
        };
        match made.and_then(|send| {
            send.validate()
                .map(|()| send)
                .map_err(|error| error.to_string())
        }) {
            Ok(send) => self.uncommitted.mailbox_sends.push(send),
            Err(why) => {
                let why = format!(
                    "step '{}' cannot send to mailbox '{}': {why}",
                    send.execution, send.target
                );
                self.uncommitted.spoilt.get_or_insert(why);
            }
        }
    }

    /// Mail that opens attempts opens them under its reader's epoch; its sender cannot know it.
    pub(super) fn under_this_epoch(&self, kind: EventKind) -> EventKind {
        if let EventKind::Retry { .. } = kind {
            return EventKind::Retry { epoch: self.epoch };
        }
        kind
    }

    /// An attempt was answered. Answers to attempts that are not in flight change nothing and leave
    /// no row.
    pub(super) fn settle(&mut self, now: Timestamp, outcome: executor::TaskOutcome) {
        let Some(epoch) = self.attempts.remove(&outcome.token) else {
            return;
        };
        let result = match outcome.result {
            Ok(value) => self
                .bounded(value)
                .map_or_else(Settled::failed, Settled::Done),
            Err(failure) => Settled::Failed(failure),
        };
        let outcome = Outcome {
            execution: outcome.token.execution,
            attempt: outcome.token.attempt,
            epoch,
            result,
            started_at: outcome.started_at,
            worker: outcome.worker,
            log: outcome.log,
        };
        self.fold(now, EventKind::Outcome(Box::new(outcome)));
    }

    /// A value that is too large for the store, or for the settings, is a failure of the step.
    fn bounded(&self, value: Value) -> Result<Value, Failure> {
        let most = self.payload_max;
        match value.weight() {
            weight if weight <= most => Ok(value),
            weight => {
                let message =
                    format!("its answer has about {weight} bytes, more than {most} are allowed");
                Err(Failure::new(failure::kind::LIMIT, message))
            }
        }
    }

    /// An attempt did not get to start; the law waits until it may.
    pub(super) fn refuse(
        &mut self,
        now: Timestamp,
        token: &Token,
        until: Timestamp,
        reason: Arc<str>,
    ) {
        if let Some(epoch) = self.attempts.remove(token) {
            let Token {
                execution, attempt, ..
            } = token.clone();
            self.fold(
                now,
                EventKind::Refused {
                    execution,
                    attempt,
                    epoch,
                    until,
                    reason,
                },
            );
        }
    }

    /// An attempt has its slot. It begins when that is durable; in a run that is about to leave it
    /// does not.
    pub(super) fn announce(&mut self, now: Timestamp, token: Token, leaves: bool) {
        let Some(epoch) = self.attempts.get(&token).copied().filter(|_| !leaves) else {
            return;
        };
        let execution = Arc::clone(&token.execution);
        let attempt = token.attempt;
        let head = self.head;
        self.fold(
            now,
            EventKind::Dispatched {
                execution,
                attempt,
                epoch,
            },
        );
        if self.head > head {
            self.after_commit(AfterCommit::Begin(token));
        }
    }

    /// The wheel came to it: fire its timers if they are due.
    pub(super) fn woken(&mut self, now: Timestamp) {
        self.check_at = Timestamp::NEVER;
        if self.state.next_wake().is_some_and(|due| due <= now) {
            self.fold(now, EventKind::Timer);
        }
    }

    /// What was not committed is forgotten, as if the process had ended here.
    pub(super) fn discard(&mut self) {
        self.stopped = true;
        self.discarded = true;
        self.uncommitted = Uncommitted::default();
        // Mail that waits is for whoever takes the run up again.
        self.seen = u64::MAX;
    }

    pub(super) fn ask_checkpoint(&mut self) {
        self.asked = true;
        self.uncommitted.pressing = true;
    }

    /// May what is open wait for the checkpoint strategy?
    pub(super) fn may_wait(&self) -> bool {
        let uncommitted = &self.uncommitted;
        let must = uncommitted.pressing
            || uncommitted.untold
            || !uncommitted.taken.is_empty()
            || uncommitted.end.is_some()
            || !uncommitted.wanted.is_empty()
            || !uncommitted.children.is_empty()
            || !uncommitted.deliveries.is_empty()
            || !uncommitted.mailbox_sends.is_empty()
            || uncommitted
                .effects
                .iter()
                .any(|effect| matches!(effect, AfterCommit::InputSettled { .. }));
        if must || uncommitted.rows.len() >= UNWRITTEN_MAX {
            return false;
        }
        match self.plan.definition().checkpoint {
            Checkpoint::EveryStep => false,
            Checkpoint::EveryN(steps) => {
                self.settled / u64::from(steps.max(1)) == self.written / u64::from(steps.max(1))
            }
            Checkpoint::OnComplete | Checkpoint::Manual => true,
        }
    }

    pub(super) fn task(&self, dispatch: Dispatch) -> Task {
        let idempotency_key = dispatch
            .idempotency_key
            .as_ref()
            .map(|key| key.key_text().to_string());
        let mut limits = Limits::of(&dispatch);
        limits.announced |= self.announces;
        limits.session = Some(self.owner);
        Task {
            token: Token {
                run: self.run,
                execution: dispatch.execution,
                attempt: dispatch.attempt,
                epoch: self.epoch,
            },
            workflow: Arc::clone(self.plan.name()),
            step: dispatch.step,
            executor: dispatch.executor,
            action: dispatch.action,
            arguments: dispatch.with,
            limits,
            idempotency_key,
            trace: None,
        }
    }
}

/// May an event not wait for the checkpoint strategy? Strategies relax the outcomes of steps only.
fn is_pressing(kind: &EventKind) -> bool {
    match kind {
        EventKind::Outcome(_) | EventKind::Timer | EventKind::Refused { .. } => false,
        EventKind::Start(_)
        | EventKind::Input(_)
        | EventKind::Signal { .. }
        | EventKind::Child { .. }
        | EventKind::Cancel { .. }
        | EventKind::Pause { .. }
        | EventKind::Resume
        | EventKind::Adopted { .. }
        | EventKind::Dispatched { .. }
        | EventKind::Returned { .. }
        | EventKind::Retry { .. }
        | EventKind::Close
        | EventKind::Forked { .. } => true,
    }
}

/// Does an event put a run aside until somebody asks for it, or take it up again?
fn stops(kind: &EventKind) -> Option<bool> {
    match kind {
        EventKind::Pause { reason } => Some(reason.as_deref() == Some(STOPPED)),
        EventKind::Resume => Some(false),
        EventKind::Start(_)
        | EventKind::Input(_)
        | EventKind::Outcome(_)
        | EventKind::Timer
        | EventKind::Signal { .. }
        | EventKind::Child { .. }
        | EventKind::Cancel { .. }
        | EventKind::Adopted { .. }
        | EventKind::Retry { .. }
        | EventKind::Refused { .. }
        | EventKind::Dispatched { .. }
        | EventKind::Returned { .. }
        | EventKind::Close
        | EventKind::Forked { .. } => None,
    }
}
