//! One run in memory: its folded state, what is not durable yet, what is in flight.

use std::sync::Arc;

use foldhash::HashMap;
use lope_flow::definition::{Checkpoint, Recipient};
use lope_flow::law::{
    self, Dispatch, Effect, Event, EventKind, Outcome, Plan, Progress, Send, Settled, StartChild, State, Status,
};
use lope_model::{Epoch, Failure, RunId, Span, Timestamp, Value, failure, limit};
use lope_store::runs::{Admit, Blob, Deliver, FinalStatus, JournalRow, Mail, Parent};
use lope_store::tables::Append;

use super::flight::{Flight, SEND};
use super::{Adoption, Home};
use crate::client::STOPPED;
use crate::codec;
use crate::executor::{self, Limits, Task, Token};
use crate::post::{Encode, Letter};

/// Most rows that a relaxed checkpoint strategy may leave unwritten.
const UNWRITTEN_MAX: usize = 10_000;

/// What is folded but not on its way to the store yet, and what waits for it.
#[derive(Debug, Default)]
pub(super) struct Open {
    pub(super) rows: Vec<JournalRow>,
    pub(super) blobs: Vec<Blob>,
    pub(super) taken: Vec<u64>,
    /// Children to be started, of which nothing is known yet.
    pub(super) wanted: Vec<StartChild>,
    /// Children that can be admitted, and the steps of those that nobody will wait for.
    pub(super) children: Vec<Admit>,
    pub(super) begun: Vec<(Arc<str>, RunId)>,
    pub(super) deliveries: Vec<Deliver>,
    pub(super) posts: Vec<Append>,
    /// Why it cannot be written at all.
    pub(super) spoilt: Option<String>,
    pub(super) end: Option<(FinalStatus, Settled)>,
    /// To be done when all of this is durable.
    pub(super) effects: Vec<Effect>,
    /// Something in it may not wait for the checkpoint strategy.
    pub(super) pressing: bool,
    /// The store does not know yet how the run is.
    pub(super) untold: bool,
}

impl Open {
    /// Is there nothing to write?
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
            && self.taken.is_empty()
            && self.wanted.is_empty()
            && self.children.is_empty()
            && self.deliveries.is_empty()
            && self.posts.is_empty()
            && self.spoilt.is_none()
            && self.end.is_none()
            && !self.untold
    }
}

impl Open {
    /// An attempt that waits to be started is no longer wanted: then neither is its cancellation. False: it does not wait here.
    fn unschedule(&mut self, cancel: &Effect) -> bool {
        let Effect::CancelAttempt { execution, attempt, epoch } = cancel else { return false };
        let before = self.effects.len();
        self.effects.retain(|effect| match effect {
            Effect::Dispatch(it) => (&it.execution, it.attempt, it.epoch) != (execution, *attempt, *epoch),
            _ => true,
        });
        self.effects.len() < before
    }

    /// A child that is not there yet need not be told that it shall end. False: it is there, or on its way.
    fn unwant(&mut self, child: RunId) -> bool {
        let before = self.wanted.len();
        self.wanted.retain(|wanted| wanted.child != child);
        self.wanted.len() < before
    }

    /// Attempts that could not be started yet wait again, before what came after them.
    pub(super) fn wait_again(&mut self, starts: Vec<Effect>) {
        let later = std::mem::replace(&mut self.effects, starts);
        for effect in later {
            if !self.unschedule(&effect) {
                self.effects.push(effect);
            }
        }
    }
}

/// One run in memory.
#[derive(Debug)]
pub(super) struct Resident {
    pub(super) run: RunId,
    pub(super) epoch: Epoch,
    pub(super) weight: u32,
    pub(super) plan: Arc<Plan>,
    pub(super) home: Home,
    pub(super) parent: Option<Parent>,
    pub(super) state: State,
    /// The last journal row made.
    pub(super) head: u64,
    /// How much mail was taken in.
    pub(super) seen: u64,
    pub(super) open: Open,
    pub(super) flight: Option<Box<Flight>>,
    /// Attempts at work, each with the epoch that the law opened it under. Their tokens are of this claim: what an earlier owner did
    /// not write down may have had the same attempts, and an answer to those is none to these.
    pub(super) in_flight: HashMap<Token, Epoch>,
    /// When the wheel looks at it.
    pub(super) look_at: Timestamp,
    /// The time of the last event, for letting go of what rests.
    pub(super) last_event: Timestamp,
    /// Bytes of journal behind the last snapshot, and of that snapshot.
    pub(super) tail: usize,
    pub(super) snapshot_size: usize,
    /// Somebody waits for everything to be durable.
    pub(super) asked: bool,
    pub(super) payload_max: usize,
    pub(super) encode: Option<Encode>,
    /// Steps settled since it came into memory, and how many were when it was last written.
    pub(super) settled: u64,
    pub(super) written: u64,
    /// An input was at work since it last rested.
    pub(super) worked: bool,
    /// It is let go and kept out of claims until somebody asks for it.
    pub(super) stopped: bool,
    /// Does anybody want to hear notices?
    pub(super) heard: bool,
}

impl Resident {
    pub(super) fn new(adoption: Adoption, state: State, head: u64) -> Self {
        Self {
            run: adoption.run,
            epoch: adoption.epoch,
            weight: adoption.weight,
            plan: adoption.plan,
            home: adoption.home,
            parent: adoption.parent,
            last_event: state.at(),
            state,
            head,
            seen: 0,
            open: Open::default(),
            flight: None,
            in_flight: HashMap::default(),
            look_at: Timestamp::NEVER,
            tail: 0,
            snapshot_size: 0,
            asked: false,
            payload_max: limit::PAYLOAD_MAX,
            encode: None,
            settled: 0,
            written: 0,
            worked: false,
            stopped: false,
            heard: true,
        }
    }

    /// An event happened: its row is made, the law advances the state, what follows waits with the row. An event that does not
    /// concern the run (any more) leaves no row.
    pub(super) fn fold(&mut self, now: Timestamp, kind: EventKind) {
        let mut event = Event::new(now.max(self.state.at()), kind);
        event.met = Some(self.state.short_digest());
        let mut blobs = Vec::new();
        let (at, row) = (event.at, codec::row(self.head + 1, &mut event, &mut blobs));
        let pressing = is_pressing(&event.kind);
        let (is_step, stops) = (matches!(event.kind, EventKind::Outcome(_)), stops(&event.kind));
        let mut effects = Vec::new();
        if law::fold(&self.plan, &mut self.state, event, &mut effects) == Progress::Ignored {
            return;
        }
        self.last_event = at;
        self.head += 1;
        self.tail += row.body.len();
        self.open.rows.push(row);
        self.open.blobs.extend(blobs);
        self.open.pressing |= pressing;
        self.settled += u64::from(is_step);
        self.worked |= effects.iter().any(|effect| matches!(effect, Effect::InputSettled { .. }));
        self.follow(now, effects);
        self.stopped = stops.unwrap_or(self.stopped);
    }

    /// What an event led to.
    pub(super) fn follow(&mut self, now: Timestamp, effects: Vec<Effect>) {
        let durable: Vec<EventKind> = effects.iter().filter_map(announced).collect();
        effects.into_iter().for_each(|effect| self.sort(effect));
        durable.into_iter().for_each(|kind| self.fold(now, kind));
    }

    /// Each effect to its place: into the commit, or behind it.
    pub(super) fn sort(&mut self, effect: Effect) {
        match effect {
            Effect::StartChild(child) => self.open.wanted.push(*child),
            Effect::CancelChild { child, .. } if self.open.unwant(child) => {}
            Effect::CancelChild { execution, child } => {
                let id = format!("cancel/{}/{execution}", self.run);
                self.deliver(codec::mail(child, id, &EventKind::Cancel { force: false }));
            }
            Effect::Send(send) => match send.to {
                Recipient::Run => self.send_signal(*send),
                Recipient::Mailbox => self.post(&send),
            },
            Effect::Complete { result } => self.end(FinalStatus::Completed, Settled::Done(result)),
            Effect::Fail { failure } => self.end(FinalStatus::Failed, Settled::failed(failure)),
            Effect::Cancelled => self.end(FinalStatus::Cancelled, Settled::Cancelled),
            Effect::CancelAttempt { .. } if self.open.unschedule(&effect) => {}
            Effect::Telemetry(_) if !self.heard => {}
            Effect::Dispatch(_) | Effect::CancelAttempt { .. } | Effect::InputSettled { .. } | Effect::Telemetry(_) => {
                self.open.effects.push(effect);
            }
        }
    }

    fn end(&mut self, status: FinalStatus, result: Settled) {
        if let Some(parent) = &self.parent {
            let (execution, child) = (parent.execution.as_str().into(), self.run);
            let kind = EventKind::Child { execution, child, result: result.clone() };
            let mail = codec::mail(parent.run, format!("child/{}", self.run), &kind);
            self.deliver(mail);
        }
        self.open.end = Some((status, result));
    }

    fn deliver(&mut self, mail: Deliver) {
        self.open.deliveries.push(mail);
    }

    /// A signal to another run; a target that is no run's id reaches nobody.
    fn send_signal(&mut self, send: Send) {
        let Ok(target) = send.target.parse() else { return };
        let name = send.body.get("signal").map_or_else(|| "".into(), codec::key_text);
        let value = send.body.get("value").cloned().unwrap_or_default();
        let id = format!("{SEND}{}/{}", self.run, send.execution);
        self.deliver(codec::mail(target, id, &EventKind::Signal { name, value }));
    }

    /// A message to a mailbox goes with the commit. One that cannot be made is never lost without a word: the run is set aside.
    fn post(&mut self, send: &Send) {
        let letter = Letter { run: self.run, send, at: self.state.at() };
        let made = match self.encode {
            Some(encode) => encode(letter),
            None => Err("this runner has no mailboxes".to_owned()),
        };
        match made.and_then(|post| post.check().map(|()| post).map_err(|error| error.to_string())) {
            Ok(post) => self.open.posts.push(post),
            Err(why) => {
                let why = format!("step '{}' cannot send to mailbox '{}': {why}", send.execution, send.target);
                self.open.spoilt.get_or_insert(why);
            }
        }
    }

    pub(super) fn take_mail(&mut self, now: Timestamp, mail: &[Mail]) {
        for item in mail.iter().filter(|item| item.number > self.seen).collect::<Vec<_>>() {
            self.seen = item.number;
            self.open.taken.push(item.number);
            match codec::mail_event(item) {
                Ok(kind) => self.fold(now, self.under_this_epoch(kind)),
                Err(error) => tracing::error!(run = %self.run, %error, "mail was dropped"),
            }
        }
    }

    /// Mail that opens attempts opens them under its reader's epoch; its sender cannot know it.
    fn under_this_epoch(&self, kind: EventKind) -> EventKind {
        match kind {
            EventKind::Retry { .. } => EventKind::Retry { epoch: self.epoch },
            other => other,
        }
    }

    /// An attempt was answered. Answers to attempts that are not in flight change nothing and leave no row.
    pub(super) fn settle(&mut self, now: Timestamp, outcome: executor::Outcome) {
        let executor::Outcome { token, result, worker, log, started_at } = outcome;
        let Some(epoch) = self.in_flight.remove(&token) else { return };
        let result = match result {
            Ok(value) => self.bounded(value).map_or_else(Settled::failed, Settled::Done),
            Err(failure) => Settled::Failed(failure),
        };
        let Token { execution, attempt, .. } = token;
        let outcome = Outcome { execution, attempt, epoch, result, started_at, worker, log };
        self.fold(now, EventKind::Outcome(Box::new(outcome)));
    }

    /// A value that is too large for the store, or for the settings, is a failure of the step.
    fn bounded(&self, value: Value) -> Result<Value, Failure> {
        let most = self.payload_max;
        match codec::weight(&value) {
            weight if weight <= most => Ok(value),
            weight => {
                let message = format!("its answer has about {weight} bytes, more than {most} are allowed");
                Err(Failure::new(failure::kind::LIMIT, message))
            }
        }
    }

    /// An attempt did not get to start; the law waits until it may.
    pub(super) fn refuse(&mut self, now: Timestamp, token: &Token, until: Timestamp, reason: Arc<str>) {
        if let Some(epoch) = self.in_flight.remove(token) {
            let Token { execution, attempt, .. } = token.clone();
            self.fold(now, EventKind::Refused { execution, attempt, epoch, until, reason });
        }
    }

    /// The wheel came to it: fire its timers if they are due.
    pub(super) fn woken(&mut self, now: Timestamp) {
        self.look_at = Timestamp::NEVER;
        if self.state.next_wake().is_some_and(|due| due <= now) {
            self.fold(now, EventKind::Timer);
        }
    }

    /// What was not committed is forgotten, as if the process had ended here.
    pub(super) fn discard(&mut self) {
        self.stopped = true;
        self.open = Open::default();
        // Mail that waits is for whoever takes the run up again.
        self.seen = u64::MAX;
    }

    pub(super) fn ask_checkpoint(&mut self) {
        self.asked = true;
        self.open.pressing = true;
    }

    /// May what is open wait for the checkpoint strategy?
    pub(super) fn may_wait(&self) -> bool {
        let open = &self.open;
        let must = open.pressing
            || open.untold
            || !open.taken.is_empty()
            || open.end.is_some()
            || !open.wanted.is_empty()
            || !open.children.is_empty()
            || !open.deliveries.is_empty()
            || !open.posts.is_empty()
            || open.effects.iter().any(|effect| matches!(effect, Effect::InputSettled { .. }));
        if must || open.rows.len() >= UNWRITTEN_MAX {
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
        let idempotency_key = dispatch.idempotency_key.as_ref().map(|key| codec::key_text(key).to_string());
        let limits = limits(&dispatch, idempotency_key.as_deref());
        Task {
            token: Token { run: self.run, execution: dispatch.execution, attempt: dispatch.attempt, epoch: self.epoch },
            workflow: Arc::clone(self.plan.name()),
            step: dispatch.step,
            executor: dispatch.executor,
            action: dispatch.action,
            arguments: dispatch.with,
            limits,
            idempotency_key,
        }
    }

    /// How long until a run that rests may be let go: `None` while it does not rest.
    pub(super) fn rests_from(&self, now: Timestamp, patience: Span) -> Option<Timestamp> {
        if self.stopped && self.open.end.is_none() {
            return Some(now);
        }
        let busy = !self.in_flight.is_empty()
            || !self.open.begun.is_empty()
            || self.open.effects.iter().any(|e| matches!(e, Effect::Dispatch(_)));
        if busy || self.open.end.is_some() {
            return None;
        }
        let far = self.state.next_wake().is_none_or(|due| due > now.plus(patience));
        match self.state.status() {
            Status::Paused => Some(now),
            Status::Sleeping | Status::Waiting if far => Some(now),
            Status::Idle if far => Some(self.last_event.plus(patience)),
            _ => None,
        }
    }
}

/// What bounds an attempt. Keys count per action.
fn limits(dispatch: &Dispatch, idempotency_key: Option<&str>) -> Limits {
    let (handling, action) = (&dispatch.handling, &dispatch.action);
    let keyed = dispatch.concurrency.as_ref();
    Limits {
        priority: handling.priority,
        timeout: handling.timeout,
        heartbeat: handling.heartbeat,
        keyed: keyed.map(|(limit, key)| (format!("{action}/{}", codec::key_text(key)).into(), *limit)),
        circuit_breaker: handling.circuit_breaker.clone().map(Arc::new),
        rate_limit: handling.rate_limit.clone().map(Arc::new),
        secrets: (!handling.secrets.is_empty()).then(|| Arc::clone(&handling.secrets)),
        once: idempotency_key.map(|key| format!("{}/{action}/{key}", dispatch.executor).into()),
    }
}

/// May an event not wait for the checkpoint strategy? Strategies relax the outcomes of steps only.
fn is_pressing(kind: &EventKind) -> bool {
    match kind {
        EventKind::Outcome(_) | EventKind::Timer | EventKind::Dispatched { .. } | EventKind::Refused { .. } => false,
        EventKind::Start(_)
        | EventKind::Input(_)
        | EventKind::Signal { .. }
        | EventKind::Child { .. }
        | EventKind::Cancel { .. }
        | EventKind::Pause { .. }
        | EventKind::Resume
        | EventKind::Adopted { .. }
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
        _ => None,
    }
}

/// The row that announces a dispatch whose policy is durable.
pub(super) fn announced(effect: &Effect) -> Option<EventKind> {
    match effect {
        Effect::Dispatch(dispatch) if dispatch.handling.durable => Some(EventKind::Dispatched {
            execution: Arc::clone(&dispatch.execution),
            attempt: dispatch.attempt,
            epoch: dispatch.epoch,
        }),
        _ => None,
    }
}
