//! The machine of one process: session, claims, credits, takeover, reconcile. Pure: time and answers in, asks out.
//!
//! It decides when to beat, when to claim and how much, when to look for dead sessions, when to compare what the store says
//! it owns with what it holds, and when to stop because its session may have ended. It knows nothing of what runs do.

mod lanes;

use std::collections::BTreeSet;

use lope_model::{Moment, Realm, RunId, RunnerId, Span, Timestamp, limit};
use lope_store::runs::{Beat, Claim, Claimed, ClaimedRun, Held, Serves, TakenOver};

use self::lanes::Lanes;
use crate::settings::Settings;

/// A share of the lease that is left when a runner that cannot renew stops by itself: a fifth.
const MARGIN: u64 = 5;
/// Longest pause between attempts to reach a store that does not answer.
const RETRY_MAX: Span = Span::from_secs(5);
/// How often what the store says is owned is compared with what is held.
const RECONCILE: Span = Span::from_secs(5);

/// How often old runs are looked for, and the pause between two batches of them.
const PRUNE_EVERY: Span = Span::from_secs(60);
const PRUNE_PAUSE: Span = Span::from_millis(250);

/// After a claim that found nothing, a bell is answered no sooner than this: bells ring for work that others take, too.
const QUIET: Span = Span::from_millis(5);

/// Clocks that differ by less than this, and by less than the store's answer took, are left alone.
const CLOCK_TOLERANCE: i64 = 20;

/// The two clocks of a turn. The wall clock is the store's as far as it is known: due times are told and judged by it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Now {
    pub wall: Timestamp,
    pub moment: Moment,
}

/// What came in.
#[derive(Debug)]
pub enum Heard {
    Registered(Beat),
    Beaten(Held<Beat>),
    Claimed(Held<Claimed>),
    TookOver(TakenOver),
    Owned(Vec<ClaimedRun>),
    /// Mail was asked for and has gone to the shards.
    Mailed,
    /// The answer to an ask did not come; the store is out of reach.
    Failed(Asked),
    /// Somebody may have made work.
    Rang,
    /// Runs came besides those claimed: born claimed in this session.
    Took {
        owner: RunnerId,
        runs: usize,
    },
    /// Runs of this session left the shards: finished, released or lost.
    Left {
        owner: RunnerId,
        runs: usize,
        weight: u64,
    },
    /// Runs of this realm can be served from now on.
    Serve(Realm),
    /// Which ones, for limits of queues.
    Gone(Vec<RunId>),
    /// These runs are ours to work on, also if nothing else is claimed.
    Own(Vec<RunId>),
    /// This one has ended.
    Disown(RunId),
    /// The registry says what this runner serves, if its session is held.
    Announced(Held<()>),
    /// Old runs were deleted; are there more?
    Pruned {
        more: bool,
    },
    /// Take no more runs.
    Drain,
}

/// Which ask an answer belongs to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Asked {
    Register,
    Heartbeat,
    Claim,
    Takeover,
    Reconcile,
    Mail,
    Prune,
    Announce,
}

/// What is asked when its time has come; mail is asked for when a bell rings.
const CLOCKED: [Asked; 7] =
    [Asked::Register, Asked::Heartbeat, Asked::Claim, Asked::Takeover, Asked::Reconcile, Asked::Prune, Asked::Announce];

/// What to do.
#[derive(Clone, PartialEq, Debug)]
pub enum Ask {
    Register,
    Heartbeat,
    Claim(Claim),
    Takeover,
    /// Ask the store what this runner owns.
    Reconcile,
    /// Ask the store for mail to the runs this runner owns.
    Mail,
    /// Delete some of what is older than the retention says.
    Prune,
    /// Say in the registry what this runner serves.
    Announce(Serves),
    /// Load these runs and give them to their shards.
    Adopt(Vec<ClaimedRun>),
    /// Of these, adopt the ones no shard holds.
    Compare(Vec<ClaimedRun>),
    /// The store's clock is ahead of the wall clock by so many milliseconds: go by the store's.
    SetClock(i64),
    /// The session has ended or may have: drop every run, cancel every attempt, write nothing, then register anew.
    Fence(&'static str),
}

impl Ask {
    /// Which answer it waits for, if the store is asked.
    pub const fn asked(&self) -> Option<Asked> {
        match self {
            Self::Register => Some(Asked::Register),
            Self::Heartbeat => Some(Asked::Heartbeat),
            Self::Claim(_) => Some(Asked::Claim),
            Self::Takeover => Some(Asked::Takeover),
            Self::Reconcile => Some(Asked::Reconcile),
            Self::Mail => Some(Asked::Mail),
            Self::Prune => Some(Asked::Prune),
            Self::Announce(_) => Some(Asked::Announce),
            Self::Adopt(_) | Self::Compare(_) | Self::SetClock(_) | Self::Fence(_) => None,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Session {
    /// Not registered, or registering.
    Out,
    /// Held; the heartbeat that proves it was sent at `sent`.
    In { sent: Moment },
}

/// One ask of a kind at a time, the next not before `next`.
#[derive(Clone, Copy, Debug)]
struct Turn {
    open: Option<Moment>,
    next: Moment,
    failures: u32,
}

impl Turn {
    const START: Self = Self { open: None, next: Moment(0), failures: 0 };

    fn is_due(&self, now: Moment) -> bool {
        self.open.is_none() && now >= self.next
    }

    fn begin(&mut self, now: Moment) {
        self.open = Some(now);
    }

    fn answered(&mut self, next: Moment) -> Option<Moment> {
        self.failures = 0;
        self.next = next;
        self.open.take()
    }

    fn failed(&mut self, now: Moment) {
        self.open = None;
        self.failures = self.failures.saturating_add(1);
        let pause = Span::from_millis(50_u64 << self.failures.min(7)).min(RETRY_MAX);
        self.next = now.plus(pause);
    }
}

/// The keeper of one process.
#[derive(Debug)]
pub struct Keeper {
    runner: RunnerId,
    settings: Settings,
    law: u32,
    session: Session,
    turns: [Turn; 8],
    resident: usize,
    rang: bool,
    quiet_until: Moment,
    draining: bool,
    lanes: Lanes,
    own: BTreeSet<RunId>,
    /// What it serves has changed since the registry was told.
    unannounced: bool,
}

impl Keeper {
    pub fn new(runner: RunnerId, settings: Settings, law: u32) -> Self {
        let lanes = Lanes::new(&settings);
        let (session, turns) = (Session::Out, [Turn::START; 8]);
        Self {
            runner,
            settings,
            law,
            session,
            turns,
            resident: 0,
            rang: false,
            quiet_until: Moment(0),
            draining: false,
            lanes,
            own: BTreeSet::new(),
            unannounced: false,
        }
    }

    pub fn runner(&self) -> RunnerId {
        self.runner
    }

    /// Is the session known to be held?
    pub fn is_registered(&self) -> bool {
        matches!(self.session, Session::In { .. })
    }

    /// What it claims.
    pub fn serves(&self) -> Serves {
        if !self.settings.claims {
            return Serves::default();
        }
        let most = |queue| self.settings.queue_limits.get(queue).and_then(|limit| limit.concurrency);
        let queues = self.settings.queues.iter().map(|queue| (queue.clone(), most(queue))).collect();
        Serves { queues, realms: self.settings.realms.iter().cloned().collect() }
    }

    /// How many runs are in memory, or on their way.
    pub fn resident(&self) -> usize {
        self.resident
    }

    /// Begin again as another runner, after a fence.
    pub fn reborn(&mut self, runner: RunnerId) {
        self.runner = runner;
        self.session = Session::Out;
        self.turns = [Turn::START; 8];
        self.unannounced = false;
        self.resident = 0;
        self.lanes.clear();
    }

    /// Take one input in and say what to do.
    pub fn handle(&mut self, now: Now, heard: Heard, asks: &mut Vec<Ask>) {
        match heard {
            Heard::Registered(beat) => self.registered(now, &beat, asks),
            Heard::Beaten(held) => self.beaten(now, held, asks),
            Heard::Claimed(held) => self.claimed(now, held, asks),
            Heard::TookOver(taken) => self.took_over(now.moment, &taken),
            Heard::Owned(owned) => {
                self.turn(Asked::Reconcile).answered(now.moment.plus(RECONCILE));
                // A bell may not have been heard; mail to runs in memory is found by no claim.
                self.rang |= self.resident > 0;
                asks.push(Ask::Compare(owned));
            }
            Heard::Mailed => {
                self.turn(Asked::Mail).answered(now.moment);
            }
            Heard::Failed(asked) => {
                self.turn(asked).failed(now.moment);
                self.rang |= asked == Asked::Mail;
                self.unannounced |= asked == Asked::Announce;
            }
            Heard::Rang => self.rang = true,
            Heard::Took { owner, runs } if owner == self.runner => self.took(runs),
            Heard::Left { owner, runs, .. } if owner == self.runner => self.left(now.moment, runs),
            // Runs of a session that has ended are counted no more.
            Heard::Took { .. } | Heard::Left { .. } => {}
            Heard::Serve(realm) => self.serve(now.moment, realm),
            Heard::Gone(runs) => {
                if self.lanes.left(&runs) {
                    self.turn(Asked::Claim).next = now.moment;
                }
            }
            Heard::Own(runs) => {
                self.own.extend(runs);
                self.turn(Asked::Claim).next = now.moment;
            }
            Heard::Disown(run) => {
                self.own.remove(&run);
            }
            Heard::Pruned { more } => {
                let pause = if more { PRUNE_PAUSE } else { PRUNE_EVERY };
                self.turn(Asked::Prune).answered(now.moment.plus(pause));
            }
            Heard::Announced(held) => {
                self.turn(Asked::Announce).answered(now.moment);
                if held.is_err() {
                    self.fence("its session was ended by another runner", asks);
                }
            }
            Heard::Drain => self.draining = true,
        }
        self.ask(now.moment, asks);
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
            self.turn(Asked::Claim).next = now;
        }
    }

    /// Runs that the store says are ours and that nobody held.
    pub fn found(&mut self, runs: &[ClaimedRun]) {
        self.took(runs.len());
        self.lanes.found(runs);
    }

    /// Look at the clock alone.
    pub fn tick(&mut self, now: Now, asks: &mut Vec<Ask>) {
        self.ask(now.moment, asks);
    }

    /// When `tick` must be called at the latest.
    pub fn next_deadline(&self) -> Option<Moment> {
        let turns = CLOCKED;
        let due = turns.into_iter().filter(|asked| self.wants(*asked)).map(|asked| self.turns[asked as usize]);
        let fence = match self.session {
            Session::Out => None,
            Session::In { sent } => Some(self.fence_at(sent)),
        };
        let fence = fence.into_iter().chain(self.bell_at());
        due.filter(|turn| turn.open.is_none()).map(|turn| turn.next).chain(fence).min()
    }

    fn turn(&mut self, asked: Asked) -> &mut Turn {
        &mut self.turns[asked as usize]
    }

    fn wants(&self, asked: Asked) -> bool {
        let held = matches!(self.session, Session::In { .. });
        match asked {
            Asked::Register => !held,
            Asked::Heartbeat | Asked::Takeover | Asked::Reconcile => held,
            Asked::Claim => {
                let serves = !self.settings.realms.is_empty() && !self.settings.queues.is_empty();
                let wanted = (self.settings.claims && serves) || !self.own.is_empty();
                held && wanted && !self.draining && self.resident < self.settings.max_runs
            }
            Asked::Prune => held && self.settings.claims && !self.draining && self.settings.prunes(),
            Asked::Mail => held && self.rang && self.resident > 0,
            Asked::Announce => held && self.unannounced,
        }
    }

    fn fence_at(&self, sent: Moment) -> Moment {
        sent.plus(self.settings.lease - Span::from_millis(self.settings.lease.millis() / MARGIN))
    }

    fn registered(&mut self, now: Now, beat: &Beat, asks: &mut Vec<Ask>) {
        let sent = self.turn(Asked::Register).answered(now.moment).unwrap_or(now.moment);
        compare_clocks(now, sent, beat.now, asks);
        let now = now.moment;
        self.session = Session::In { sent };
        let (heartbeat, sweep) = (self.settings.heartbeat, self.settings.sweep);
        self.turn(Asked::Heartbeat).next = sent.plus(heartbeat);
        self.turn(Asked::Claim).next = now;
        self.turn(Asked::Takeover).next = now;
        self.turn(Asked::Reconcile).next = now.plus(sweep);
        self.turn(Asked::Prune).next = now;
    }

    fn beaten(&mut self, now: Now, held: Held<Beat>, asks: &mut Vec<Ask>) {
        let next = now.moment.plus(self.settings.heartbeat);
        let sent = self.turn(Asked::Heartbeat).answered(next);
        match (held, sent) {
            (Ok(beat), Some(sent)) => {
                compare_clocks(now, sent, beat.now, asks);
                self.session = Session::In { sent };
            }
            (Ok(_), None) => {}
            (Err(_), _) => self.fence("its session was ended by another runner", asks),
        }
    }

    fn claimed(&mut self, now: Now, held: Held<Claimed>, asks: &mut Vec<Ask>) {
        let Ok(claimed) = held else {
            self.turn(Asked::Claim).answered(now.moment);
            return self.fence("its session was ended by another runner", asks);
        };
        let due = claimed.next_due.map(|due| due.since(claimed.now));
        let pause = due.map_or(self.settings.sweep, |due| due.min(self.settings.sweep));
        let pause = self.lanes.answered(now.moment, &claimed.runs, pause);
        self.turn(Asked::Claim).answered(now.moment.plus(pause));
        self.resident += claimed.runs.len();
        if claimed.runs.is_empty() {
            self.quiet_until = now.moment.plus(QUIET);
        } else {
            asks.push(Ask::Adopt(claimed.runs));
        }
    }

    fn took_over(&mut self, now: Moment, taken: &TakenOver) {
        let pause = if taken.more { Span::ZERO } else { self.settings.sweep };
        self.turn(Asked::Takeover).answered(now.plus(pause));
        if taken.runs > 0 {
            self.rang = true;
        }
    }

    fn left(&mut self, now: Moment, runs: usize) {
        let was_full = self.resident >= self.settings.max_runs;
        self.resident = self.resident.saturating_sub(runs);
        if was_full {
            self.turn(Asked::Claim).next = now;
        }
    }

    fn fence(&mut self, why: &'static str, asks: &mut Vec<Ask>) {
        if matches!(self.session, Session::In { .. }) {
            self.session = Session::Out;
            asks.push(Ask::Fence(why));
        }
    }

    fn ask(&mut self, now: Moment, asks: &mut Vec<Ask>) {
        if let Session::In { sent } = self.session
            && now >= self.fence_at(sent)
        {
            return self.fence("it could not renew its session in time", asks);
        }
        if asks.iter().any(|ask| matches!(ask, Ask::Fence(_))) {
            return;
        }
        self.answer_the_bell(now, asks);
        let turns = CLOCKED;
        for asked in turns {
            if self.wants(asked) && self.turn(asked).is_due(now) {
                match self.make(now, asked) {
                    Some(ask) => {
                        self.turn(asked).begin(now);
                        asks.push(ask);
                    }
                    None => self.turn(asked).next = now.plus(self.settings.sweep),
                }
            }
        }
    }

    /// When a bell that rang can be answered; nothing while its answer would have to wait for another one.
    fn bell_at(&self) -> Option<Moment> {
        let [claim, mail] = [Asked::Claim, Asked::Mail].map(|asked| self.turns[asked as usize]);
        let busy = claim.open.is_some() || mail.open.is_some() || self.session == Session::Out;
        (self.rang && !busy).then_some(self.quiet_until.max(mail.next))
    }

    /// A bell means a claim and a look for mail, each as soon as the one under way is answered.
    fn answer_the_bell(&mut self, now: Moment, asks: &mut Vec<Ask>) {
        if self.bell_at().is_none_or(|at| now < at) {
            return;
        }
        if self.wants(Asked::Mail) {
            self.turn(Asked::Mail).begin(now);
            asks.push(Ask::Mail);
        }
        self.rang = false;
        if self.turn(Asked::Claim).failures == 0 {
            self.turn(Asked::Claim).next = now;
        }
    }

    /// The ask, if there is room for what it would bring.
    fn make(&mut self, now: Moment, asked: Asked) -> Option<Ask> {
        Some(match asked {
            Asked::Register => Ask::Register,
            Asked::Heartbeat => Ask::Heartbeat,
            Asked::Takeover => Ask::Takeover,
            Asked::Reconcile => Ask::Reconcile,
            Asked::Mail => Ask::Mail,
            Asked::Prune => Ask::Prune,
            Asked::Announce => {
                self.unannounced = false;
                Ask::Announce(self.serves())
            }
            Asked::Claim => Ask::Claim(self.claim(now)?),
        })
    }

    fn claim(&mut self, now: Moment) -> Option<Claim> {
        let limit = self.settings.claim_batch.min(self.settings.max_runs - self.resident);
        let (queues, room, most, only) = if self.settings.claims {
            let (lane, room) = self.lanes.next(now)?;
            (lane.queues.clone(), room, lane.most(), Vec::new())
        } else {
            (Vec::new(), usize::MAX, None, self.own.iter().copied().take(limit::CLAIM_MAX).collect())
        };
        Some(Claim {
            runner: self.runner,
            queues,
            realms: self.settings.realms.clone(),
            law: self.law,
            limit: limit.min(room),
            weight: self.settings.resident_bytes,
            most,
            only,
        })
    }
}

/// The store read its clock at some time between the sending of a request and the hearing of its answer.
fn compare_clocks(now: Now, sent: Moment, told: Timestamp, asks: &mut Vec<Ask>) {
    let way = i64::try_from(now.moment.since(sent).millis()).unwrap_or(i64::MAX) / 2;
    let ahead = told.millis() - (now.wall.millis() - way);
    if ahead.abs() > way.saturating_add(CLOCK_TOLERANCE) {
        asks.push(Ask::SetClock(ahead));
    }
}

#[cfg(test)]
mod tests;
