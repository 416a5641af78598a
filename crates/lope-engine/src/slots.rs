//! The machine of slots: which task starts next, and which has run out of time. Pure: tasks and
//! time in, starts and stops out.
//!
//! A task waits here until a slot is free, highest priority first, then in order of arrival. One
//! whose start depends on limits that all runners share asks for them with the slot in hand; if
//! others hold them it gives the slot back and waits aside, and others pass (`granting`). Time limits
//! count from the start, on a clock that only runs forward. Waiting costs no thread.
//!
//! A slot and what it was granted belong to an attempt until its executor has confirmed its end: one
//! that was told to stop keeps them until then (one whose secrets are still looked up has none yet, and
//! gives them back at once). Its owner, too, goes on only then: that an attempt
//! ran out of time is told when it has ended, and while one that is no longer wanted ends, nothing
//! else of its run begins. Both as long as the end is not overdue.

mod granting;
mod returning;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use foldhash::{HashMap, HashSet};
use lope_limits::{LimitEnd, LimitKey, LimitRequest};
use lope_model::{Failure, Moment, Priority, RunId, RunnerId, Span, Timestamp, Value};

use crate::executor::{Task, Token};

/// What to do.
#[derive(Debug)]
pub enum SlotCommand {
    Start(Box<Task>),
    /// Its owner shall write down that it begins; it does when `announced` says so.
    Announce(Token),
    /// It has not begun and will not here.
    Return(Token),
    /// It was told to stop long ago and has not ended.
    Overdue {
        executor: Arc<str>,
        token: Token,
    },
    /// Tell the executor to stop; its answer no longer counts.
    Stop {
        executor: Arc<str>,
        token: Token,
    },
    /// The attempt ran longer than its timeout, or was silent for longer than its heartbeat allows;
    /// it has ended, or its end is overdue.
    TimedOut {
        token: Token,
        silent: bool,
        /// How long it was at work.
        ran: Span,
    },
    /// Ask the limits that all runners share; `answered` tells what they say.
    Ask(Box<LimitRequest>),
    /// What was asked for is free again.
    Release {
        end: Box<LimitEnd>,
        /// Its outcome waits until the limits know of it.
        settles: bool,
    },
    /// A limit that all runners share does not let it start before this time.
    Refuse {
        token: Token,
        until: Timestamp,
        reason: Arc<str>,
    },
    /// Another task with its idempotency key has done the work.
    Answer {
        token: Token,
        result: Result<Value, Box<Failure>>,
    },
}

/// How an attempt that was answered had run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AttemptSettlement {
    pub ran: Span,
    /// The limits are to know of it before its owner does.
    pub waits: bool,
}

#[derive(Debug)]
struct RunningTask {
    executor: Arc<str>,
    /// What it asked for, or holds.
    shared: Option<Box<LimitRequest>>,
    timeout_at: Option<Moment>,
    silence: Option<(Span, Moment)>,
    since: Moment,
    /// The session in which its run is owned.
    session: Option<RunnerId>,
    stage: SlotStage,
}

/// How far an attempt with a slot is.
#[derive(Debug)]
enum SlotStage {
    /// It waits for what the limits say.
    Asking(Rank, Box<Task>),
    /// Its owner writes down that it begins.
    Announced(Box<Task>),
    /// Its secrets are looked up. Its time passes, but no executor has it.
    Revealing,
    Working,
    /// It was told to stop, and its end is not confirmed.
    Ending(Ending),
}

/// What its owner waits for when an attempt was told to stop.
#[derive(Clone, Copy, Debug)]
enum Ending {
    /// It is not wanted any more: what else its run wants to begin waits for its end.
    Unwanted { overdue: Moment },
    /// It ran out of time, which is told when it has ended.
    TimedOut { silent: bool, overdue: Moment },
    /// Nothing: the end did not come in time.
    Overdue,
}

/// How long an attempt that was told to stop is waited for. Executors need no more than a few
/// seconds, and a cancelled run's grace passes meanwhile.
const OVERDUE: Span = Span::from_secs(10);

/// Order among those that wait: priority, then arrival.
type Rank = (std::cmp::Reverse<Priority>, u64);

/// The slots of one process.
#[derive(Debug)]
pub struct SlotScheduler {
    free: usize,
    /// Nothing starts from here on: whoever owns the runs may be another by then.
    lease_until: Moment,
    /// The session whose lease that is.
    session: Option<RunnerId>,
    arrivals: u64,
    waiting: BTreeMap<Rank, Box<Task>>,
    ranks: HashMap<Token, Rank>,
    /// Those that wait for a limit that others hold; of the above they are in `ranks` alone.
    held: BTreeMap<LimitKey, BTreeMap<Rank, Box<Task>>>,
    running: HashMap<Token, RunningTask>,
    /// How many attempts of a run nobody wants any more and end.
    unwanted: HashMap<RunId, usize>,
    /// Those that wait for these ends, by run; of the above they are in `ranks` alone.
    behind: HashMap<RunId, BTreeMap<Rank, Box<Task>>>,
    deadlines: BTreeSet<(Moment, Token)>,
    /// Announced durably, but the lease was over by then.
    held_back: BTreeSet<Token>,
    /// Nothing of these runs begins: they are paused.
    paused: HashSet<RunId>,
    /// Nothing begins any more.
    draining: bool,
}

impl SlotScheduler {
    pub fn new(slots: usize) -> Self {
        Self {
            free: slots,
            lease_until: Moment(i64::MAX),
            session: None,
            arrivals: 0,
            waiting: BTreeMap::new(),
            ranks: HashMap::default(),
            held: BTreeMap::new(),
            running: HashMap::default(),
            unwanted: HashMap::default(),
            behind: HashMap::default(),
            deadlines: BTreeSet::new(),
            held_back: BTreeSet::new(),
            paused: HashSet::default(),
            draining: false,
        }
    }

    pub fn in_flight(&self) -> usize {
        self.running.len()
    }

    /// The session is known to be held until then; what waits may start if that is later than
    /// now.
    pub fn renew_lease(&mut self, now: Moment, until: Moment, commands: &mut Vec<SlotCommand>) {
        self.lease_until = until;
        self.start_held_back(now, commands);
    }

    /// From now on the process works in this session. What waits was another's: its owner is gone,
    /// and whoever submitted it will not wait for it.
    pub fn begin_session(
        &mut self,
        now: Moment,
        session: RunnerId,
        commands: &mut Vec<SlotCommand>,
    ) {
        if self.session.replace(session) != Some(session) {
            self.lease_until = Moment(i64::MIN);
            self.paused.clear();
            self.unbegun()
                .iter()
                .for_each(|token| self.cancel(now, token, commands));
        }
    }

    fn start_held_back(&mut self, now: Moment, commands: &mut Vec<SlotCommand>) {
        for token in std::mem::take(&mut self.held_back) {
            self.announced(now, &token, commands);
        }
        self.fill(now, commands);
    }

    /// It is durable that a task begins.
    pub fn announced(&mut self, now: Moment, token: &Token, commands: &mut Vec<SlotCommand>) {
        let running = self.running.get_mut(token);
        let Some(running) = running.filter(|it| matches!(it.stage, SlotStage::Announced(_))) else {
            return;
        };
        if now >= self.lease_until {
            self.held_back.insert(token.clone());
            return;
        }
        let stage = std::mem::replace(&mut running.stage, SlotStage::Working);
        if let SlotStage::Announced(task) = stage {
            self.work(now, task, commands);
        }
    }

    /// Is a slot free, and the session held?
    fn may_begin(&self, now: Moment) -> bool {
        self.free > 0 && now < self.lease_until && !self.draining
    }

    /// A task wants to start.
    pub fn submit(&mut self, now: Moment, task: Box<Task>, commands: &mut Vec<SlotCommand>) {
        if self.draining || self.paused.contains(&task.token.run) {
            return commands.push(SlotCommand::Return(task.token));
        }
        // Of a session that has ended: its shard does not know yet.
        let sessions = task.limits.session.zip(self.session);
        if sessions.is_some_and(|(its, own)| its != own) {
            return;
        }
        let rank = (std::cmp::Reverse(task.limits.priority), self.arrivals);
        self.arrivals += 1;
        // Nobody is before it, and there is room: most are here.
        if self.may_begin(now)
            && self.waiting.is_empty()
            && task.limits.is_plain()
            && !self.unwanted.contains_key(&task.token.run)
        {
            return self.begin(now, task, commands);
        }
        self.ranks.insert(task.token.clone(), rank);
        self.waiting.insert(rank, task);
        self.fill(now, commands);
    }

    /// A task was answered, with this value unless it failed: how long it was at work. `None`: its
    /// answer does not count, because it was told to stop or never began.
    pub fn settled(
        &mut self,
        now: Moment,
        token: &Token,
        answer: Option<&Value>,
        commands: &mut Vec<SlotCommand>,
    ) -> Option<AttemptSettlement> {
        let is_awaited = |running: &RunningTask| {
            matches!(running.stage, SlotStage::Revealing | SlotStage::Working)
        };
        let counts = self.running.get(token).is_some_and(is_awaited);
        let ended = self.end(token)?;
        let settlement = AttemptSettlement {
            ran: now.since(ended.since),
            waits: ended.tells_its_outcome(),
        };
        let result = answer.cloned().ok_or(());
        // Work that was done is done, whether its owner still wants it or not.
        let result = (counts || result.is_ok()).then_some(result);
        let timed_out = ended.timed_out(token, now);
        self.release(ended, result, counts && settlement.waits, commands);
        commands.extend(timed_out);
        self.fill(now, commands);
        counts.then_some(settlement)
    }

    /// A task showed life.
    pub fn alive(&mut self, now: Moment, token: &Token) {
        let running = self.running.get_mut(token);
        let Some(running) = running.filter(|it| matches!(it.stage, SlotStage::Working)) else {
            return;
        };
        if let Some((span, until)) = &mut running.silence {
            if running.timeout_at != Some(*until) {
                self.deadlines.remove(&(*until, token.clone()));
            }
            *until = now.plus(*span);
            self.deadlines.insert((*until, token.clone()));
        }
    }

    /// A task is no longer wanted, whether it waits or runs.
    pub fn cancel(&mut self, now: Moment, token: &Token, commands: &mut Vec<SlotCommand>) {
        if let Some(rank) = self.ranks.remove(token) {
            if let Some(task) = self.waiting.remove(&rank) {
                self.wake_next(&task);
            }
            self.held.retain(|_, held| {
                held.remove(&rank);
                !held.is_empty()
            });
            if let Some(behind) = self.behind.get_mut(&token.run) {
                behind.remove(&rank);
            }
        }
        match self.running.get(token).map(|running| &running.stage) {
            Some(SlotStage::Announced(_) | SlotStage::Asking(..) | SlotStage::Revealing) => {
                self.give_up(token, commands);
            }
            Some(SlotStage::Working) => {
                let overdue = now.plus(OVERDUE);
                self.stop(token, Ending::Unwanted { overdue }, commands);
            }
            Some(SlotStage::Ending(Ending::TimedOut { overdue, .. })) => {
                let overdue = *overdue;
                self.begin_ending(token, Ending::Unwanted { overdue });
            }
            Some(SlotStage::Ending(Ending::Unwanted { .. } | Ending::Overdue)) => {}
            None => {}
        }
        self.fill(now, commands);
    }

    /// Its executor is told; slot and keys are its own until the end is confirmed.
    fn stop(&mut self, token: &Token, ending: Ending, commands: &mut Vec<SlotCommand>) {
        self.forget_deadlines(token);
        if let Some(executor) = self.begin_ending(token, ending) {
            commands.push(SlotCommand::Stop {
                executor,
                token: token.clone(),
            });
        }
    }

    /// Whoever waits for its end does so from now on; the executor that has it.
    fn begin_ending(&mut self, token: &Token, ending: Ending) -> Option<Arc<str>> {
        let running = self.running.get_mut(token)?;
        running.stage = SlotStage::Ending(ending);
        for due in running.deadlines() {
            self.deadlines.insert((due, token.clone()));
        }
        if let Ending::Unwanted { .. } = ending {
            *self.unwanted.entry(token.run).or_default() += 1;
        }
        Some(Arc::clone(&running.executor))
    }

    /// Nothing of these runs is wanted any more: those that wait first, so that none of them begins
    /// in between.
    pub fn cancel_runs(
        &mut self,
        now: Moment,
        is_meant: impl Fn(RunId) -> bool,
        commands: &mut Vec<SlotCommand>,
    ) {
        let of = |token: &&Token| is_meant(token.run);
        let mut waiting: Vec<Token> = self.ranks.keys().filter(of).cloned().collect();
        let mut running: Vec<Token> = self.running.keys().filter(of).cloned().collect();
        waiting.sort_unstable();
        running.sort_unstable();
        waiting
            .iter()
            .chain(&running)
            .for_each(|token| self.cancel(now, token, commands));
        self.paused.retain(|run| !is_meant(*run));
    }

    /// Look at the clock.
    pub fn tick(&mut self, now: Moment, commands: &mut Vec<SlotCommand>) {
        while let Some((due, token)) = self.deadlines.first().cloned()
            && due <= now
        {
            let running = self
                .running
                .get_mut(&token)
                .expect("a deadline belongs to a running task");
            if let SlotStage::Ending(ending) = running.stage {
                commands.extend(running.timed_out(&token, now));
                running.stage = SlotStage::Ending(Ending::Overdue);
                let executor = Arc::clone(&running.executor);
                self.deadlines.pop_first();
                self.let_others_go_on(token.run, ending);
                commands.push(SlotCommand::Overdue { executor, token });
                continue;
            }
            let silent = running.timeout_at.is_none_or(|timeout_at| timeout_at > now);
            if let SlotStage::Revealing = running.stage {
                let ran = now.since(running.since);
                self.give_up(&token, commands);
                commands.push(SlotCommand::TimedOut { token, silent, ran });
                continue;
            }
            let overdue = now.plus(OVERDUE);
            running.fail_circuit(commands);
            self.stop(&token, Ending::TimedOut { silent, overdue }, commands);
        }
        self.fill(now, commands);
    }

    /// Is an attempt at work that nobody has told to stop?
    pub fn is_wanted(&self, token: &Token) -> bool {
        self.running
            .get(token)
            .is_some_and(|running| matches!(running.stage, SlotStage::Working))
    }

    /// Until when an attempt that has its slot may begin; `None`: it may not.
    pub fn begins_until(&self, token: &Token) -> Option<Moment> {
        let running = self.running.get(token)?;
        let is_other = running.session.is_some() && running.session != self.session;
        let is_paused = self.paused.contains(&token.run);
        let may = matches!(running.stage, SlotStage::Working) && !is_other && !is_paused;
        may.then_some(self.lease_until)
    }

    /// When `tick` must be called at the latest.
    pub fn next_deadline(&self) -> Option<Moment> {
        self.deadlines.first().map(|(due, _)| *due)
    }

    fn fill(&mut self, now: Moment, commands: &mut Vec<SlotCommand>) {
        while self.may_begin(now)
            && let Some((rank, task)) = self.waiting.pop_first()
        {
            let run = task.token.run;
            if self.unwanted.contains_key(&run) {
                self.wake_next(&task);
                self.behind.entry(run).or_default().insert(rank, task);
            } else if task.limits.is_shared() {
                self.ask(now, rank, task, commands);
            } else {
                self.begin(now, task, commands);
            }
        }
    }

    /// It has a slot, and all else that it needs.
    fn begin(&mut self, now: Moment, task: Box<Task>, commands: &mut Vec<SlotCommand>) {
        self.ranks.remove(&task.token);
        self.occupy(now, &task, None);
        self.start(now, task, commands);
    }

    /// The slot is its own from now on.
    fn occupy(&mut self, now: Moment, task: &Task, shared: Option<Box<LimitRequest>>) {
        self.free -= 1;
        let running = RunningTask {
            executor: Arc::clone(&task.executor),
            shared,
            timeout_at: None,
            silence: None,
            since: now,
            session: task.limits.session,
            stage: SlotStage::Working,
        };
        self.running.insert(task.token.clone(), running);
    }

    fn start(&mut self, now: Moment, task: Box<Task>, commands: &mut Vec<SlotCommand>) {
        if task.limits.announced {
            commands.push(SlotCommand::Announce(task.token.clone()));
            let running = self.running.get_mut(&task.token);
            running.expect("it has a slot").stage = SlotStage::Announced(task);
        } else {
            self.work(now, task, commands);
        }
    }

    /// It begins, and its time limits with it.
    fn work(&mut self, now: Moment, task: Box<Task>, commands: &mut Vec<SlotCommand>) {
        let Some(running) = self.running.get_mut(&task.token) else {
            return;
        };
        if task.limits.secrets.is_some() {
            running.stage = SlotStage::Revealing;
        }
        running.since = now;
        running.timeout_at = task.limits.timeout.map(|timeout| now.plus(timeout));
        running.silence = task.limits.heartbeat.map(|span| (span, now.plus(span)));
        for due in running.deadlines() {
            self.deadlines.insert((due, task.token.clone()));
        }
        commands.push(SlotCommand::Start(task));
    }

    fn forget_deadlines(&mut self, token: &Token) {
        let Some(running) = self.running.get(token) else {
            return;
        };
        for due in running.deadlines() {
            self.deadlines.remove(&(due, token.clone()));
        }
    }

    /// It no longer runs.
    fn end(&mut self, token: &Token) -> Option<RunningTask> {
        self.forget_deadlines(token);
        let running = self.running.remove(token)?;
        self.held_back.remove(token);
        self.free += 1;
        if let SlotStage::Ending(ending) = running.stage {
            self.let_others_go_on(token.run, ending);
        }
        Some(running)
    }

    /// An attempt of this run has ended or is overdue: after the last that others wait for they may
    /// begin.
    fn let_others_go_on(&mut self, run: RunId, ending: Ending) {
        let (Ending::Unwanted { .. }, Some(count)) = (ending, self.unwanted.get_mut(&run)) else {
            return;
        };
        *count -= 1;
        if *count == 0 {
            self.unwanted.remove(&run);
            self.waiting
                .extend(self.behind.remove(&run).unwrap_or_default());
        }
    }
}

impl RunningTask {
    /// It ends or is overdue: what its owner hears if it had run out of time, once.
    fn timed_out(&self, token: &Token, now: Moment) -> Option<SlotCommand> {
        let SlotStage::Ending(Ending::TimedOut { silent, .. }) = self.stage else {
            return None;
        };
        Some(SlotCommand::TimedOut {
            token: token.clone(),
            silent,
            ran: now.since(self.since),
        })
    }

    /// When the clock must be looked at for it.
    fn deadlines(&self) -> impl Iterator<Item = Moment> + use<> {
        let (limits, overdue) = match self.stage {
            SlotStage::Announced(_) | SlotStage::Asking(..) => (None, None),
            SlotStage::Revealing | SlotStage::Working => {
                (Some((self.timeout_at, self.silence)), None)
            }
            SlotStage::Ending(Ending::Unwanted { overdue } | Ending::TimedOut { overdue, .. }) => {
                (None, Some(overdue))
            }
            SlotStage::Ending(Ending::Overdue) => (None, None),
        };
        let (timeout, silence) = limits.unwrap_or_default();
        let silence = silence.map(|(_, until)| until);
        timeout.into_iter().chain(silence).chain(overdue)
    }
}

#[cfg(test)]
mod tests;
