//! The machine of one process: session, claims, credits, takeover, reconcile. Pure: time and
//! answers in, commands out.
//!
//! It decides when to beat, when to claim and how much, when to look for dead sessions, when to
//! compare what the store says it owns with what it holds, and when to stop because its session may
//! have ended. It knows nothing of what runs do.

mod claim_lanes;
mod claim_size;
mod request_timer;

use std::collections::BTreeSet;

use lope_model::{Moment, Realm, RunId, RunnerId, Span, Timestamp, limit};
use lope_store::runs::{Beat, Claim, Claimed, ClaimedRun, Serves, SessionResult, TakenOver};

use self::claim_lanes::ClaimLanes;
use self::claim_size::ClaimSize;
use self::request_timer::RequestTimer;
use crate::settings::Settings;

/// A share of the lease that is left when a runner that cannot renew stops by itself: a fifth.
const MARGIN: u64 = 5;
/// How often what the store says is owned is compared with what is held.
const RECONCILE: Span = Span::from_secs(5);

/// How often old runs are looked for, and the pause between two batches of them.
const PRUNE_EVERY: Span = Span::from_secs(60);
const PRUNE_PAUSE: Span = Span::from_millis(250);

/// After a claim that found nothing, a notification is answered no sooner than this: notifications
/// come for work that others take, too.
const QUIET: Span = Span::from_millis(5);

/// Clocks that differ by less than this, and by less than the store's answer took, are left alone.
const CLOCK_TOLERANCE: i64 = 20;

/// The two clocks of a turn. The wall clock is the store's as far as it is known: due times are
/// told and judged by it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Now {
    pub wall: Timestamp,
    pub moment: Moment,
}

/// What came in.
#[derive(Debug)]
pub enum SessionEvent {
    Registered(Beat),
    Beaten(SessionResult<Beat>),
    Claimed(SessionResult<Claimed>),
    TookOver(TakenOver),
    Owned(Vec<ClaimedRun>),
    /// Mail was asked for and has gone to the shards.
    Mailed,
    /// The answer to an ask did not come; the store is out of reach.
    Failed(SessionRequest),
    /// Somebody may have made work.
    Notified,
    /// Runs came besides those claimed: born claimed in this session.
    Took {
        owner: RunnerId,
        runs: usize,
    },
    /// Runs of this session left the shards: finished, released or lost.
    Left {
        owner: RunnerId,
        runs: usize,
    },
    /// Runs of this realm can be served from now on, or no more.
    Serve(Realm),
    Unserve(Realm),
    /// Which ones, for limits of queues.
    Gone(Vec<RunId>),
    /// These runs are ours to work on, also if nothing else is claimed.
    Own(Vec<RunId>),
    /// This one has ended.
    Disown(RunId),
    /// The registry says what this runner serves, if its session is held.
    Announced(SessionResult<()>),
    /// Old runs were deleted; are there more?
    Pruned {
        more: bool,
    },
    /// Take no more runs.
    Drain,
}

/// Which ask an answer belongs to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum SessionRequest {
    Register,
    Heartbeat,
    Claim,
    Takeover,
    Reconcile,
    Mail,
    Prune,
    Announce,
}

/// What is asked when its time has come; mail is asked for when a notification comes.
const CLOCKED: [SessionRequest; 7] = [
    SessionRequest::Register,
    SessionRequest::Heartbeat,
    SessionRequest::Claim,
    SessionRequest::Takeover,
    SessionRequest::Reconcile,
    SessionRequest::Prune,
    SessionRequest::Announce,
];

/// What to do.
#[derive(Clone, PartialEq, Debug)]
pub enum SessionCommand {
    /// Ask the store, and tell the answer.
    Call(SessionCall),
    /// Load these runs and give them to their shards.
    Adopt(Vec<ClaimedRun>),
    /// Of these, adopt the ones no shard holds.
    Compare(Vec<ClaimedRun>),
    /// The store's clock is ahead of the wall clock by so many milliseconds: go by the store's.
    SetClock(i64),
    /// The session has ended or may have: drop every run, cancel every attempt, write nothing, then
    /// register anew.
    Fence(&'static str),
}

/// What the store is asked.
#[derive(Clone, PartialEq, Debug)]
pub enum SessionCall {
    Register,
    Heartbeat,
    Claim(Claim),
    Takeover,
    /// What does this runner own?
    Reconcile,
    /// Which mail waits for the runs this runner owns?
    Mail,
    /// Delete some of what is older than the retention says.
    Prune,
    /// Say in the registry what this runner serves.
    Announce(Serves),
}

impl SessionCall {
    /// Which answer it waits for.
    pub const fn request(&self) -> SessionRequest {
        match self {
            Self::Register => SessionRequest::Register,
            Self::Heartbeat => SessionRequest::Heartbeat,
            Self::Claim(_) => SessionRequest::Claim,
            Self::Takeover => SessionRequest::Takeover,
            Self::Reconcile => SessionRequest::Reconcile,
            Self::Mail => SessionRequest::Mail,
            Self::Prune => SessionRequest::Prune,
            Self::Announce(_) => SessionRequest::Announce,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Registration {
    /// Not registered, or registering.
    Out,
    /// Held; the heartbeat that proves it was sent at `sent`.
    In { sent: Moment },
}

/// The session of one process.
#[derive(Debug)]
pub struct SessionMachine {
    runner: RunnerId,
    settings: Settings,
    law: u32,
    registration: Registration,
    timers: [RequestTimer; 8],
    resident: usize,
    /// How many bytes of memory they take.
    bytes: u64,
    notified: bool,
    quiet_until: Moment,
    draining: bool,
    lanes: ClaimLanes,
    claim_size: ClaimSize,
    own: BTreeSet<RunId>,
    /// What it serves has changed since the registry was told.
    unannounced: bool,
}

impl SessionMachine {
    pub fn new(runner: RunnerId, settings: Settings, law: u32) -> Self {
        let lanes = ClaimLanes::new(&settings);
        let claim_size = ClaimSize::new(settings.claim_batch, settings.max_runs);
        Self {
            runner,
            settings,
            law,
            registration: Registration::Out,
            timers: [RequestTimer::START; 8],
            resident: 0,
            bytes: 0,
            notified: false,
            quiet_until: Moment(0),
            draining: false,
            lanes,
            claim_size,
            own: BTreeSet::new(),
            unannounced: false,
        }
    }

    pub fn runner(&self) -> RunnerId {
        self.runner
    }

    /// Is the session known to be held?
    pub fn is_registered(&self) -> bool {
        matches!(self.registration, Registration::In { .. })
    }

    /// Until when the session is known to be held, by the clock that only runs forward.
    pub fn lease_until(&self) -> Moment {
        match self.registration {
            Registration::Out => Moment(i64::MIN),
            Registration::In { sent } => self.fence_at(sent),
        }
    }

    /// What it claims.
    pub fn serves(&self) -> Serves {
        if !self.settings.claims {
            return Serves::default();
        }
        let most = |queue| {
            self.settings
                .queue_limits
                .get(queue)
                .and_then(|limit| limit.concurrency)
        };
        let queues = self
            .settings
            .queues
            .iter()
            .map(|queue| (queue.clone(), most(queue)))
            .collect();
        Serves {
            queues,
            realms: self.settings.realms.iter().cloned().collect(),
        }
    }

    /// How many runs are in memory, or on their way.
    pub fn resident(&self) -> usize {
        self.resident
    }

    /// What is in memory or on its way takes so many bytes now.
    pub fn weighs(&mut self, now: Moment, bytes: u64) {
        let was_full = self.bytes >= self.settings.resident_bytes;
        self.bytes = bytes;
        if was_full && bytes < self.settings.resident_bytes {
            self.timer(SessionRequest::Claim).next = now;
        }
    }

    /// Begin again as another runner, after a fence.
    pub fn reborn(&mut self, runner: RunnerId) {
        self.runner = runner;
        self.registration = Registration::Out;
        self.timers = [RequestTimer::START; 8];
        self.unannounced = false;
        (self.resident, self.bytes) = (0, 0);
        self.lanes.clear();
    }

    /// Take one input in and say what to do.
    pub fn handle(&mut self, now: Now, event: SessionEvent, commands: &mut Vec<SessionCommand>) {
        match event {
            SessionEvent::Registered(beat) => self.registered(now, &beat, commands),
            SessionEvent::Beaten(held) => self.beaten(now, held, commands),
            SessionEvent::Claimed(held) => self.claimed(now, held, commands),
            SessionEvent::TookOver(taken) => self.took_over(now.moment, &taken),
            SessionEvent::Owned(owned) => {
                self.timer(SessionRequest::Reconcile)
                    .answered(now.moment.plus(RECONCILE));
                // A notification may not have been heard; mail to runs in memory is found by no
                // claim.
                self.notified |= self.resident > 0;
                commands.push(SessionCommand::Compare(owned));
            }
            SessionEvent::Mailed => {
                self.timer(SessionRequest::Mail).answered(now.moment);
            }
            SessionEvent::Failed(asked) => {
                self.timer(asked).failed(now.moment);
                if asked == SessionRequest::Claim {
                    self.lanes.failed();
                }
                self.notified |= asked == SessionRequest::Mail;
                self.unannounced |= asked == SessionRequest::Announce;
            }
            SessionEvent::Notified => self.notified = true,
            SessionEvent::Took { owner, runs } if owner == self.runner => self.took(runs),
            SessionEvent::Left { owner, runs } if owner == self.runner => {
                self.left(now.moment, runs);
            }
            // Runs of a session that has ended are counted no more.
            SessionEvent::Took { .. } | SessionEvent::Left { .. } => {}
            SessionEvent::Serve(realm) => self.serve(now.moment, realm),
            SessionEvent::Unserve(realm) => self.unannounced |= self.settings.unserve(&realm),
            SessionEvent::Gone(runs) => {
                if self.lanes.left(&runs) {
                    self.timer(SessionRequest::Claim).next = now.moment;
                }
            }
            SessionEvent::Own(runs) => {
                self.own.extend(runs);
                self.timer(SessionRequest::Claim).next = now.moment;
            }
            SessionEvent::Disown(run) => {
                self.own.remove(&run);
            }
            SessionEvent::Pruned { more } => {
                let pause = if more { PRUNE_PAUSE } else { PRUNE_EVERY };
                self.timer(SessionRequest::Prune)
                    .answered(now.moment.plus(pause));
            }
            SessionEvent::Announced(held) => {
                self.timer(SessionRequest::Announce).answered(now.moment);
                if held.is_err() {
                    self.fence("its session was ended by another runner", commands);
                }
            }
            SessionEvent::Drain => self.draining = true,
        }
        self.request_due(now.moment, commands);
    }

    /// Runs that this process adopted besides its claims.
    pub fn took(&mut self, runs: usize) {
        self.resident += runs;
    }

    /// What was left in the queue for want of this realm may be claimed at once.
    fn serve(&mut self, now: Moment, realm: Realm) {
        if !self.settings.realms.contains(&realm) {
            self.settings.realms.push(realm);
            self.unannounced = true;
            self.timer(SessionRequest::Claim).next = now;
        }
    }

    /// Runs that the store says are ours and that nobody held.
    pub fn found(&mut self, runs: &[ClaimedRun]) {
        self.took(runs.len());
        self.lanes.found(runs);
    }

    /// Look at the clock alone.
    pub fn tick(&mut self, now: Now, commands: &mut Vec<SessionCommand>) {
        self.request_due(now.moment, commands);
    }

    /// When `tick` must be called at the latest.
    pub fn next_deadline(&self) -> Option<Moment> {
        let due = CLOCKED
            .into_iter()
            .filter(|asked| self.wants(*asked))
            .map(|asked| self.timers[asked as usize]);
        let fence = match self.registration {
            Registration::Out => None,
            Registration::In { sent } => Some(self.fence_at(sent)),
        };
        let fence = fence.into_iter().chain(self.notified_at());
        due.filter(|timer| timer.sent_at.is_none())
            .map(|timer| timer.next)
            .chain(fence)
            .min()
    }

    fn timer(&mut self, asked: SessionRequest) -> &mut RequestTimer {
        &mut self.timers[asked as usize]
    }

    fn wants(&self, asked: SessionRequest) -> bool {
        let held = matches!(self.registration, Registration::In { .. });
        match asked {
            SessionRequest::Register => !held,
            SessionRequest::Heartbeat | SessionRequest::Takeover | SessionRequest::Reconcile => {
                held
            }
            SessionRequest::Claim => {
                let serves = !self.settings.realms.is_empty() && !self.settings.queues.is_empty();
                let wanted = (self.settings.claims && serves) || !self.own.is_empty();
                let room = self.resident < self.claim_size.room
                    && self.bytes < self.settings.resident_bytes;
                held && wanted && !self.draining && room
            }
            SessionRequest::Prune => {
                held && self.settings.claims && !self.draining && self.settings.prunes()
            }
            SessionRequest::Mail => held && self.notified && self.resident > 0,
            SessionRequest::Announce => held && self.unannounced,
        }
    }

    fn fence_at(&self, sent: Moment) -> Moment {
        sent.plus(self.settings.lease - Span::from_millis(self.settings.lease.millis() / MARGIN))
    }

    fn registered(&mut self, now: Now, beat: &Beat, commands: &mut Vec<SessionCommand>) {
        let sent = self.timer(SessionRequest::Register).answered(now.moment);
        let sent = sent.unwrap_or(now.moment);
        compare_clocks(now, sent, beat.now, commands);
        let now = now.moment;
        self.registration = Registration::In { sent };
        let (heartbeat, sweep) = (self.settings.heartbeat, self.settings.sweep);
        self.timer(SessionRequest::Heartbeat).next = sent.plus(heartbeat);
        self.timer(SessionRequest::Claim).next = now;
        self.timer(SessionRequest::Takeover).next = now;
        self.timer(SessionRequest::Reconcile).next = now.plus(sweep);
        self.timer(SessionRequest::Prune).next = now;
    }

    fn beaten(&mut self, now: Now, held: SessionResult<Beat>, commands: &mut Vec<SessionCommand>) {
        let next = now.moment.plus(self.settings.heartbeat);
        let sent = self.timer(SessionRequest::Heartbeat).answered(next);
        match (held, sent) {
            (Ok(beat), Some(sent)) => {
                compare_clocks(now, sent, beat.now, commands);
                self.registration = Registration::In { sent };
                self.claim_size.grow();
            }
            (Ok(_), None) => {}
            (Err(_), _) => self.fence("its session was ended by another runner", commands),
        }
    }

    fn claimed(
        &mut self,
        now: Now,
        held: SessionResult<Claimed>,
        commands: &mut Vec<SessionCommand>,
    ) {
        let Ok(claimed) = held else {
            self.timer(SessionRequest::Claim).answered(now.moment);
            return self.fence("its session was ended by another runner", commands);
        };
        let due = claimed.next_due.map(|due| due.since(claimed.now));
        let pause = due.map_or(self.settings.sweep, |due| due.min(self.settings.sweep));
        let pause = self.lanes.answered(&claimed.runs, pause);
        self.claim_size.answered(claimed.runs.len());
        self.timer(SessionRequest::Claim)
            .answered(now.moment.plus(pause));
        self.resident += claimed.runs.len();
        if claimed.runs.is_empty() {
            self.quiet_until = now.moment.plus(QUIET);
        } else {
            commands.push(SessionCommand::Adopt(claimed.runs));
        }
    }

    fn took_over(&mut self, now: Moment, taken: &TakenOver) {
        let pause = if taken.more {
            Span::ZERO
        } else {
            self.settings.sweep
        };
        self.timer(SessionRequest::Takeover)
            .answered(now.plus(pause));
        if taken.runs > 0 {
            self.notified = true;
        }
    }

    fn left(&mut self, now: Moment, runs: usize) {
        let was_full = self.resident >= self.claim_size.room;
        self.resident = self.resident.saturating_sub(runs);
        self.claim_size.left(runs);
        if was_full {
            self.timer(SessionRequest::Claim).next = now;
        }
    }

    fn fence(&mut self, why: &'static str, commands: &mut Vec<SessionCommand>) {
        if matches!(self.registration, Registration::In { .. }) {
            self.registration = Registration::Out;
            commands.push(SessionCommand::Fence(why));
        }
    }

    fn request_due(&mut self, now: Moment, commands: &mut Vec<SessionCommand>) {
        if let Registration::In { sent } = self.registration
            && now >= self.fence_at(sent)
        {
            self.claim_size.shrink(self.resident);
            return self.fence("it could not renew its session in time", commands);
        }
        if commands
            .iter()
            .any(|command| matches!(command, SessionCommand::Fence(_)))
        {
            return;
        }
        self.answer_notification(now, commands);
        for asked in CLOCKED {
            if self.wants(asked) && self.timer(asked).is_due(now) {
                match self.call(asked) {
                    Some(call) => {
                        self.timer(asked).begin(now);
                        commands.push(SessionCommand::Call(call));
                    }
                    None => self.timer(asked).next = now.plus(self.settings.sweep),
                }
            }
        }
    }

    /// When a notification can be answered; nothing while its answer would have to wait for
    /// another one.
    fn notified_at(&self) -> Option<Moment> {
        let [claim, mail] =
            [SessionRequest::Claim, SessionRequest::Mail].map(|asked| self.timers[asked as usize]);
        let busy = claim.sent_at.is_some()
            || mail.sent_at.is_some()
            || self.registration == Registration::Out;
        (self.notified && !busy).then_some(self.quiet_until.max(mail.next))
    }

    /// A notification means a claim and a look for mail, each as soon as the one under way is
    /// answered.
    fn answer_notification(&mut self, now: Moment, commands: &mut Vec<SessionCommand>) {
        if self.notified_at().is_none_or(|at| now < at) {
            return;
        }
        if self.wants(SessionRequest::Mail) {
            self.timer(SessionRequest::Mail).begin(now);
            commands.push(SessionCommand::Call(SessionCall::Mail));
        }
        self.notified = false;
        if self.timer(SessionRequest::Claim).failures == 0 {
            self.timer(SessionRequest::Claim).next = now;
        }
    }

    /// The command, if there is room for what it would bring.
    fn call(&mut self, asked: SessionRequest) -> Option<SessionCall> {
        Some(match asked {
            SessionRequest::Register => SessionCall::Register,
            SessionRequest::Heartbeat => SessionCall::Heartbeat,
            SessionRequest::Takeover => SessionCall::Takeover,
            SessionRequest::Reconcile => SessionCall::Reconcile,
            SessionRequest::Mail => SessionCall::Mail,
            SessionRequest::Prune => SessionCall::Prune,
            SessionRequest::Announce => {
                self.unannounced = false;
                SessionCall::Announce(self.serves())
            }
            SessionRequest::Claim => SessionCall::Claim(self.claim()?),
        })
    }

    fn claim(&mut self) -> Option<Claim> {
        let free = self.claim_size.room.saturating_sub(self.resident);
        let (queues, room, most, only) = if self.settings.claims {
            let (lane, room) = self.lanes.next()?;
            (lane.queues.clone(), room, lane.most(), Vec::new())
        } else {
            (
                Vec::new(),
                usize::MAX,
                None,
                self.own.iter().copied().take(limit::CLAIM_MAX).collect(),
            )
        };
        Some(Claim {
            runner: self.runner,
            queues,
            realms: self.settings.realms.clone(),
            law: self.law,
            limit: self.claim_size.ask(free.min(room)),
            weight: self.settings.resident_bytes.saturating_sub(self.bytes),
            most,
            only,
        })
    }
}

/// The store read its clock at some time between the sending of a request and the hearing of its
/// answer.
fn compare_clocks(now: Now, sent: Moment, told: Timestamp, commands: &mut Vec<SessionCommand>) {
    let way = i64::try_from(now.moment.since(sent).millis()).unwrap_or(i64::MAX) / 2;
    let ahead = told.millis() - (now.wall.millis() - way);
    if ahead.abs() > way.saturating_add(CLOCK_TOLERANCE) {
        commands.push(SessionCommand::SetClock(ahead));
    }
}

#[cfg(test)]
mod tests;
