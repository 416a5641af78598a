//! The machine of slots: which task starts next, and which has run out of time. Pure: tasks and time in, starts and stops out.
//!
//! A task waits here until a slot is free, highest priority first, then in order of arrival; one whose key is at its limit
//! lets others pass. One that a circuit or a rate does not let through is refused with a time (`gates`); one whose idempotency key
//! is at work, or done, gets that answer (`once`). Time limits count from the start, on a clock that only runs forward. Waiting
//! costs no thread.

mod gates;
mod once;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use foldhash::HashMap;
use lope_model::policy::CircuitBreaker;
use lope_model::{Moment, Priority, RunId, Span, Value};

use self::gates::{Gates, Refusal};
use self::once::{Entry, Once};
use crate::executor::{Task, Token};

/// What to do.
#[derive(Debug)]
pub enum Act {
    Start(Box<Task>),
    /// Tell the executor to stop; its answer no longer counts.
    Stop {
        executor: Arc<str>,
        token: Token,
    },
    /// The attempt ran longer than its timeout, or was silent for longer than its heartbeat allows.
    TimedOut {
        token: Token,
        silent: bool,
        /// How long it was at work.
        ran: Span,
    },
    /// A limit that many runs share does not let it start before this long.
    Refuse {
        token: Token,
        wait: Span,
        reason: Arc<str>,
    },
    /// Another task with its idempotency key has done the work.
    Answer {
        token: Token,
        value: Value,
    },
}

#[derive(Debug)]
struct Running {
    executor: Arc<str>,
    key: Option<Arc<str>>,
    once: Option<Arc<str>>,
    circuit: Option<Arc<CircuitBreaker>>,
    timeout_at: Option<Moment>,
    silence: Option<(Span, Moment)>,
    since: Moment,
}

/// Order among those that wait: priority, then arrival.
type Rank = (std::cmp::Reverse<Priority>, u64);

/// The slots of one process.
#[derive(Debug)]
pub struct Dispatch {
    free: usize,
    arrivals: u64,
    waiting: BTreeMap<Rank, Box<Task>>,
    ranks: HashMap<Token, Rank>,
    /// Those that wait for a key to become free; they are in none of the above.
    held: HashMap<Arc<str>, BTreeMap<Rank, Box<Task>>>,
    running: HashMap<Token, Running>,
    deadlines: BTreeSet<(Moment, Token)>,
    keys: HashMap<Arc<str>, u32>,
    gates: Gates,
    once: Once,
}

impl Dispatch {
    pub fn new(slots: usize) -> Self {
        Self {
            free: slots,
            arrivals: 0,
            waiting: BTreeMap::new(),
            ranks: HashMap::default(),
            held: HashMap::default(),
            running: HashMap::default(),
            deadlines: BTreeSet::new(),
            keys: HashMap::default(),
            gates: Gates::default(),
            once: Once::default(),
        }
    }

    pub fn in_flight(&self) -> usize {
        self.running.len()
    }

    /// A task wants to start.
    pub fn submit(&mut self, now: Moment, task: Box<Task>, acts: &mut Vec<Act>) {
        let rank = (std::cmp::Reverse(task.limits.priority), self.arrivals);
        self.arrivals += 1;
        // Nobody is before it, and there is room: most are here.
        if self.free > 0 && self.waiting.is_empty() && task.limits.is_plain() {
            return self.begin(now, task, acts);
        }
        self.ranks.insert(task.token.clone(), rank);
        self.waiting.insert(rank, task);
        self.fill(now, acts);
    }

    /// A task was answered, with this value unless it failed: how long it was at work. `None`: it is not running (any more), its
    /// answer does not count.
    pub fn settled(&mut self, now: Moment, token: &Token, answer: Option<&Value>, acts: &mut Vec<Act>) -> Option<Span> {
        let ended = self.end(token, answer);
        if let Some(Running { circuit: Some(circuit), .. }) = &ended {
            self.gates.record(now, circuit, answer.is_some());
        }
        self.fill(now, acts);
        ended.map(|running| now.since(running.since))
    }

    /// A task showed life.
    pub fn alive(&mut self, now: Moment, token: &Token) {
        let Some(running) = self.running.get_mut(token) else { return };
        if let Some((span, until)) = &mut running.silence {
            if running.timeout_at != Some(*until) {
                self.deadlines.remove(&(*until, token.clone()));
            }
            *until = now.plus(*span);
            self.deadlines.insert((*until, token.clone()));
        }
    }

    /// A task is no longer wanted, whether it waits or runs.
    pub fn cancel(&mut self, now: Moment, token: &Token, acts: &mut Vec<Act>) {
        if let Some(rank) = self.ranks.remove(token) {
            self.waiting.remove(&rank);
            self.held.values_mut().for_each(|held| drop(held.remove(&rank)));
            self.once.forget(&rank);
        }
        self.gates.forget(token);
        if let Some(running) = self.end(token, None) {
            acts.push(Act::Stop { executor: running.executor, token: token.clone() });
        }
        self.fill(now, acts);
    }

    /// Nothing of these runs is wanted any more: those that wait first, so that none of them begins in between.
    pub fn cancel_runs(&mut self, now: Moment, is_meant: impl Fn(RunId) -> bool, acts: &mut Vec<Act>) {
        let of = |token: &&Token| is_meant(token.run);
        let mut waiting: Vec<Token> = self.ranks.keys().filter(of).cloned().collect();
        let mut running: Vec<Token> = self.running.keys().filter(of).cloned().collect();
        waiting.sort_unstable();
        running.sort_unstable();
        waiting.iter().chain(&running).for_each(|token| self.cancel(now, token, acts));
    }

    /// Look at the clock.
    pub fn tick(&mut self, now: Moment, acts: &mut Vec<Act>) {
        while let Some((due, token)) = self.deadlines.first().cloned()
            && due <= now
        {
            let running = self.end(&token, None).expect("a deadline belongs to a running task");
            let silent = running.timeout_at.is_none_or(|timeout_at| timeout_at > now);
            if let Some(circuit) = &running.circuit {
                self.gates.record(now, circuit, false);
            }
            acts.push(Act::Stop { executor: running.executor, token: token.clone() });
            acts.push(Act::TimedOut { token, silent, ran: now.since(running.since) });
        }
        self.fill(now, acts);
    }

    /// When `tick` must be called at the latest.
    pub fn next_deadline(&self) -> Option<Moment> {
        self.deadlines.first().map(|(due, _)| *due)
    }

    fn fill(&mut self, now: Moment, acts: &mut Vec<Act>) {
        while self.free > 0
            && let Some((rank, task)) = self.waiting.pop_first()
        {
            match self.full_key(&task) {
                Some(key) => drop(self.held.entry(key).or_default().insert(rank, task)),
                None => self.try_to_begin(now, rank, task, acts),
            }
        }
    }

    /// It has a slot and room under its key; what else may stand in its way is asked last, since a yes counts.
    fn try_to_begin(&mut self, now: Moment, rank: Rank, task: Box<Task>, acts: &mut Vec<Act>) {
        match self.once.enter(rank, task) {
            Entry::Waits => {}
            Entry::Done(token, value) => {
                self.ranks.remove(&token);
                acts.push(Act::Answer { token, value });
            }
            Entry::Begin(task) => match self.gates.admit(now, &task.token, &task.limits) {
                Ok(()) => self.begin(now, task, acts),
                Err(refusal) => self.refuse(task, refusal, acts),
            },
        }
    }

    fn refuse(&mut self, task: Box<Task>, refusal: Refusal, acts: &mut Vec<Act>) {
        self.ranks.remove(&task.token);
        if let Some(key) = &task.limits.once {
            self.waiting.extend(self.once.leave(key, None));
        }
        acts.push(Act::Refuse { token: task.token, wait: refusal.wait, reason: refusal.reason });
    }

    /// The key of a task, if that key has no room.
    fn full_key(&self, task: &Task) -> Option<Arc<str>> {
        let (key, limit) = task.limits.keyed.as_ref()?;
        (self.keys.get(key).copied().unwrap_or(0) >= *limit).then(|| Arc::clone(key))
    }

    fn begin(&mut self, now: Moment, task: Box<Task>, acts: &mut Vec<Act>) {
        self.free -= 1;
        self.ranks.remove(&task.token);
        let key = task.limits.keyed.as_ref().map(|(key, _)| Arc::clone(key));
        if let Some(key) = &key {
            *self.keys.entry(Arc::clone(key)).or_insert(0) += 1;
        }
        let timeout_at = task.limits.timeout.map(|timeout| now.plus(timeout));
        let silence = task.limits.heartbeat.map(|span| (span, now.plus(span)));
        for due in timeout_at.into_iter().chain(silence.map(|(_, until)| until)) {
            self.deadlines.insert((due, task.token.clone()));
        }
        let (once, circuit) = (task.limits.once.clone(), task.limits.circuit_breaker.clone());
        let running =
            Running { executor: Arc::clone(&task.executor), key, once, circuit, timeout_at, silence, since: now };
        self.running.insert(task.token.clone(), running);
        acts.push(Act::Start(task));
    }

    /// It no longer runs; `answer` is what it found out, if it did.
    fn end(&mut self, token: &Token, answer: Option<&Value>) -> Option<Running> {
        let running = self.running.remove(token)?;
        self.free += 1;
        for due in running.timeout_at.into_iter().chain(running.silence.map(|(_, until)| until)) {
            self.deadlines.remove(&(due, token.clone()));
        }
        if let Some(key) = &running.key {
            self.leave(key);
        }
        if let Some(key) = &running.once {
            self.waiting.extend(self.once.leave(key, answer));
        }
        Some(running)
    }

    /// One fewer holds the key; those that waited for it may try again.
    fn leave(&mut self, key: &Arc<str>) {
        if let Some(count) = self.keys.get_mut(key) {
            *count -= 1;
            if *count == 0 {
                self.keys.remove(key);
            }
        }
        let Some(held) = self.held.get_mut(key) else { return };
        if let Some((rank, task)) = held.pop_first() {
            self.waiting.insert(rank, task);
        }
        if held.is_empty() {
            self.held.remove(key);
        }
    }
}

#[cfg(test)]
mod tests;
