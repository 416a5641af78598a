//! The machine of a pool: who gets which task, when a worker is started, replaced, drained, killed.
//! Pure: events and time in, acts out; it never touches a socket or a process.
//!
//! A task waits here until a worker that serves its action has a credit; the least busy one gets
//! it. Processes of the pool's own are kept at their number: one that dies is replaced after a
//! pause that grows, one that is worn is replaced before it is drained. A task that was there at
//! two crashes runs alone from then on, so that what kills its process cannot take others with it
//! again and again.

mod member;
mod patience;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use lope_model::{Failure, Moment, Span, failure};

use self::member::{Member, Stage};
use super::settings::PoolSettings;

/// Executions whose losses are remembered; beyond that the oldest knowledge goes, and with it some
/// protection.
const LOSSES_MAX: usize = 10_000;
/// From so many crashes on a task runs alone.
const ALONE_FROM: u8 = 2;
/// Names of actions that a message lists.
const NAMED_MAX: usize = 20;

/// A task in the pool.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TaskId(pub u64);

/// A worker of the pool, in order of their coming.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PoolWorkerId(pub u64);

/// Names of actions.
pub type ActionNames = Arc<BTreeSet<Arc<str>>>;

/// What came in.
#[derive(Clone, Debug)]
pub enum RosterEvent {
    /// A task; `execution` is the same for all attempts of one.
    Submit {
        task: TaskId,
        action: Arc<str>,
        execution: u64,
        /// Who has what it works on.
        prefers: Option<PoolWorkerId>,
    },
    /// A task is no longer wanted.
    Cancel(TaskId),
    /// What waits and nobody has begun is to go back.
    Withdraw,
    /// A worker is there and serves these.
    Hello {
        worker: PoolWorkerId,
        actions: ActionNames,
        credits: usize,
        remote: bool,
    },
    /// A worker answered a task, in whatever way.
    Answered {
        worker: PoolWorkerId,
        task: TaskId,
    },
    /// A worker showed life; its loop has been blocked for so long.
    Beat {
        worker: PoolWorkerId,
        blocked: Span,
    },
    /// A worker wants to end; it gets no more tasks.
    Leaving(PoolWorkerId),
    /// A process could not become a worker: its modules do not load, it speaks another version.
    Broken {
        worker: PoolWorkerId,
        why: Failure,
    },
    /// A worker is gone, with what is known about how.
    Gone {
        worker: PoolWorkerId,
        how: Arc<str>,
    },
    /// Start nothing more and let all workers finish.
    Close,
    Tick,
}

/// What to do.
#[derive(Clone, PartialEq, Debug)]
pub enum RosterAction {
    Spawn(PoolWorkerId),
    Give {
        worker: PoolWorkerId,
        task: TaskId,
    },
    Cancel {
        worker: PoolWorkerId,
        task: TaskId,
    },
    /// Let it finish what it has, then end.
    Drain(PoolWorkerId),
    /// End the process, or cut the connection.
    Kill {
        worker: PoolWorkerId,
        why: &'static str,
    },
    /// Nobody has begun the task.
    Return(TaskId),
    /// The attempt is over without an answer.
    Fail {
        task: TaskId,
        why: Failure,
    },
}

/// A task that waits.
#[derive(Clone, Debug)]
struct WaitingTask {
    action: Arc<str>,
    execution: u64,
    since: Moment,
    alone: bool,
    prefers: Option<PoolWorkerId>,
}

/// The workers of one pool and the tasks that wait for them.
#[derive(Debug)]
pub struct Roster {
    settings: PoolSettings,
    members: BTreeMap<PoolWorkerId, Member>,
    born: u64,
    waiting: BTreeMap<TaskId, WaitingTask>,
    /// Those that wait, by action, in order of arrival.
    queues: BTreeMap<Arc<str>, VecDeque<TaskId>>,
    /// Those that wait for a worker of their own.
    alone: VecDeque<TaskId>,
    flying: HashMap<TaskId, (PoolWorkerId, u64)>,
    losses: HashMap<u64, u8>,
    /// What processes of our own serve, as the last one said.
    own: Option<ActionNames>,
    /// Why the last process of our own could not begin.
    broken: Option<Failure>,
    failures: u32,
    next_spawn: Moment,
    closing: bool,
}

impl Roster {
    pub fn new(settings: PoolSettings) -> Self {
        Self {
            settings,
            members: BTreeMap::new(),
            born: 0,
            waiting: BTreeMap::new(),
            queues: BTreeMap::new(),
            alone: VecDeque::new(),
            flying: HashMap::new(),
            losses: HashMap::new(),
            own: None,
            broken: None,
            failures: 0,
            next_spawn: Moment(0),
            closing: false,
        }
    }

    /// A number for a worker that comes from elsewhere.
    pub fn admit(&mut self) -> PoolWorkerId {
        self.born += 1;
        PoolWorkerId(self.born)
    }

    pub fn handle(&mut self, now: Moment, event: RosterEvent, acts: &mut Vec<RosterAction>) {
        match event {
            RosterEvent::Submit {
                task,
                action,
                execution,
                prefers,
            } => {
                let alone = self
                    .losses
                    .get(&execution)
                    .is_some_and(|count| *count >= ALONE_FROM);
                self.submit(
                    now,
                    task,
                    WaitingTask {
                        action,
                        execution,
                        since: now,
                        alone,
                        prefers,
                    },
                    acts,
                );
            }
            RosterEvent::Cancel(task) => self.cancel(now, task, acts),
            RosterEvent::Withdraw => self.withdraw(acts),
            RosterEvent::Hello {
                worker,
                actions,
                credits,
                remote,
            } => {
                self.hello(
                    now,
                    worker,
                    Member::ready(now, actions, credits, remote),
                    acts,
                );
            }
            RosterEvent::Answered { worker, task } => self.answered(now, worker, task, acts),
            RosterEvent::Beat { worker, blocked } => {
                if let Some(member) = self.members.get_mut(&worker) {
                    member.last_heard = now;
                    member.blocked = blocked;
                }
            }
            RosterEvent::Leaving(worker) => self.drain(worker, acts),
            RosterEvent::Broken { worker, why } => self.broke(now, worker, why, acts),
            RosterEvent::Gone { worker, how } => self.gone(now, worker, &how, acts),
            RosterEvent::Close => self.close(acts),
            RosterEvent::Tick => self.tick(now, acts),
        }
        self.refill(now, acts);
    }

    /// Is there a worker that takes tasks? For those who wait for the pool's beginning.
    pub fn ready(&self) -> usize {
        self.members
            .values()
            .filter(|member| member.stage == Stage::Ready)
            .count()
    }

    /// Why no process of our own could begin, if none could.
    pub fn broken(&self) -> Option<&Failure> {
        self.broken.as_ref()
    }

    /// Everything that somebody serves now.
    pub fn actions(&self) -> BTreeSet<Arc<str>> {
        let names = self
            .members
            .values()
            .filter(|member| member.accepts())
            .flat_map(|member| member.actions.iter());
        names.cloned().collect()
    }

    /// Does this worker have this task?
    pub fn holds(&self, worker: PoolWorkerId, task: TaskId) -> bool {
        self.members
            .get(&worker)
            .is_some_and(|member| member.in_flight.contains(&task))
    }

    pub fn members(&self) -> usize {
        self.members.len()
    }

    fn submit(
        &mut self,
        now: Moment,
        task: TaskId,
        waiting: WaitingTask,
        acts: &mut Vec<RosterAction>,
    ) {
        let action = Arc::clone(&waiting.action);
        let (alone, prefers) = (waiting.alone, waiting.prefers);
        self.waiting.insert(task, waiting);
        if alone {
            self.alone.push_back(task);
        } else {
            self.queues
                .entry(Arc::clone(&action))
                .or_default()
                .push_back(task);
        }
        let free = self
            .members
            .iter()
            .filter(|(_, member)| member.is_free() && member.serves(&action));
        let chosen = free
            .min_by_key(|(id, member)| (Some(**id) != prefers, member.in_flight.len(), **id))
            .map(|(id, _)| *id);
        if let Some(worker) = chosen {
            self.feed(now, worker, acts);
        }
        if self.waiting.contains_key(&task) {
            self.give_up_hopeless(now, acts);
        }
    }

    /// Give a worker what it may have.
    fn feed(&mut self, now: Moment, worker: PoolWorkerId, acts: &mut Vec<RosterAction>) {
        while let Some(task) = self.next_for(worker) {
            let Some(waiting) = self.forget(task) else {
                continue;
            };
            let Some(member) = self.members.get_mut(&worker) else {
                return;
            };
            member.in_flight.insert(task);
            member.alone_until = waiting.alone.then(|| now.plus(self.settings.alone_for));
            self.flying.insert(task, (worker, waiting.execution));
            acts.push(RosterAction::Give { worker, task });
        }
    }

    /// The next task for a worker: one that must be alone if the worker is empty (and until then
    /// nothing else), otherwise the oldest it serves.
    fn next_for(&self, worker: PoolWorkerId) -> Option<TaskId> {
        let member = self
            .members
            .get(&worker)
            .filter(|member| member.is_free())?;
        let serves = |task: &&TaskId| {
            self.waiting
                .get(task)
                .is_some_and(|waiting| member.serves(&waiting.action))
        };
        if let Some(task) = self.alone.iter().find(serves)
            && self.emptiest(&self.waiting[task].action) == Some(worker)
        {
            return member.in_flight.is_empty().then_some(*task);
        }
        let queued = self
            .queues
            .iter()
            .filter(|(action, _)| member.serves(action));
        queued.filter_map(|(_, queue)| queue.front()).min().copied()
    }

    /// The worker that will be empty soonest, as far as one can tell.
    fn emptiest(&self, action: &str) -> Option<PoolWorkerId> {
        let able = self
            .members
            .iter()
            .filter(|(_, member)| member.accepts() && member.serves(action));
        able.min_by_key(|(id, member)| (member.in_flight.len(), **id))
            .map(|(id, _)| *id)
    }

    pub(super) fn feed_all(&mut self, now: Moment, acts: &mut Vec<RosterAction>) {
        if self.waiting.is_empty() {
            return;
        }
        let workers: Vec<PoolWorkerId> = self.members.keys().copied().collect();
        workers
            .into_iter()
            .for_each(|worker| self.feed(now, worker, acts));
    }

    /// Take a task out of those that wait.
    fn forget(&mut self, task: TaskId) -> Option<WaitingTask> {
        let waiting = self.waiting.remove(&task)?;
        if let Some(queue) = self.queues.get_mut(&waiting.action) {
            if queue.front() == Some(&task) {
                queue.pop_front();
            } else {
                queue.retain(|other| *other != task);
            }
            if queue.is_empty() {
                self.queues.remove(&waiting.action);
            }
        }
        self.alone.retain(|other| *other != task);
        Some(waiting)
    }

    fn cancel(&mut self, now: Moment, task: TaskId, acts: &mut Vec<RosterAction>) {
        if self.forget(task).is_some() {
            let why = Failure::new(
                failure::kind::CANCELLED,
                "it was cancelled while it waited for a worker",
            );
            acts.push(RosterAction::Fail { task, why });
            return;
        }
        let Some((worker, _)) = self.flying.get(&task) else {
            return;
        };
        let worker = *worker;
        if let Some(member) = self.members.get_mut(&worker)
            && member
                .cancelled
                .insert(task, now.plus(self.settings.cancel_grace))
                .is_none()
        {
            acts.push(RosterAction::Cancel { worker, task });
        }
    }

    fn withdraw(&mut self, acts: &mut Vec<RosterAction>) {
        let waiting = std::mem::take(&mut self.waiting);
        self.queues.clear();
        self.alone.clear();
        acts.extend(waiting.into_keys().map(RosterAction::Return));
    }

    fn answered(
        &mut self,
        now: Moment,
        worker: PoolWorkerId,
        task: TaskId,
        acts: &mut Vec<RosterAction>,
    ) {
        let Some(member) = self.members.get_mut(&worker) else {
            return;
        };
        if !member.in_flight.remove(&task) {
            return;
        }
        member.cancelled.remove(&task);
        member.served += 1;
        member.alone_until = member.alone_until.filter(|_| !member.in_flight.is_empty());
        self.failures = 0;
        if let Some((_, execution)) = self.flying.remove(&task) {
            self.losses.remove(&execution);
        }
        let worn = self
            .settings
            .recycle_after
            .is_some_and(|most| member.served >= most);
        if worn && member.stage == Stage::Ready && !member.remote {
            member.stage = Stage::Retiring;
        }
        self.kill_if_only_stuck(worker, acts);
        self.feed(now, worker, acts);
        if !self.alone.is_empty() {
            self.feed_all(now, acts);
        }
    }

    fn hello(
        &mut self,
        now: Moment,
        worker: PoolWorkerId,
        member: Member,
        acts: &mut Vec<RosterAction>,
    ) {
        if !member.remote {
            self.own = Some(Arc::clone(&member.actions));
            self.broken = None;
        }
        let remote = member.remote;
        self.members.insert(worker, member);
        self.feed(now, worker, acts);
        // A fresh process is there: one that waited for its replacement may end now.
        let worn = self
            .members
            .iter()
            .find(|(_, member)| member.stage == Stage::Retiring)
            .map(|(id, _)| *id);
        if let Some(worn) = worn.filter(|_| !remote) {
            self.drain(worn, acts);
        }
        if self.closing {
            self.drain(worker, acts);
        }
    }

    fn drain(&mut self, worker: PoolWorkerId, acts: &mut Vec<RosterAction>) {
        if let Some(member) = self.members.get_mut(&worker) {
            member.stage = Stage::Draining;
            acts.push(RosterAction::Drain(worker));
        }
    }

    fn broke(
        &mut self,
        now: Moment,
        worker: PoolWorkerId,
        why: Failure,
        acts: &mut Vec<RosterAction>,
    ) {
        self.members.remove(&worker);
        self.own = None;
        self.broken = Some(why);
        self.pause(now);
        self.give_up_hopeless(now, acts);
    }

    fn gone(&mut self, now: Moment, worker: PoolWorkerId, how: &str, acts: &mut Vec<RosterAction>) {
        let Some(member) = self.members.remove(&worker) else {
            return;
        };
        for task in &member.in_flight {
            let Some((_, execution)) = self.flying.remove(task) else {
                continue;
            };
            if !member.cancelled.contains_key(task) {
                self.count_loss(execution);
            }
            acts.push(RosterAction::Fail {
                task: *task,
                why: Failure::new(failure::kind::WORKER_LOST, how),
            });
        }
        if member.stage != Stage::Draining && !member.remote {
            self.pause(now);
        }
        self.feed_all(now, acts);
        self.give_up_hopeless(now, acts);
    }

    fn count_loss(&mut self, execution: u64) {
        if self.losses.len() >= LOSSES_MAX {
            self.losses.clear();
        }
        let count = self.losses.entry(execution).or_insert(0);
        *count = count.saturating_add(1);
    }

    /// The next start waits, longer with each failure in a row.
    fn pause(&mut self, now: Moment) {
        let (first, longest) = self.settings.backoff;
        let pause = first.times(1 << self.failures.min(16)).min(longest);
        self.failures = self.failures.saturating_add(1);
        self.next_spawn = now.plus(pause);
    }

    fn close(&mut self, acts: &mut Vec<RosterAction>) {
        self.closing = true;
        let open: Vec<PoolWorkerId> = self
            .members
            .iter()
            .filter(|(_, member)| member.accepts())
            .map(|(id, _)| *id)
            .collect();
        open.into_iter().for_each(|worker| self.drain(worker, acts));
    }

    /// Keep the number of our own processes.
    fn refill(&mut self, now: Moment, acts: &mut Vec<RosterAction>) {
        if self.closing || now < self.next_spawn {
            return;
        }
        let counts = |member: &&Member| {
            !member.remote && matches!(member.stage, Stage::Starting | Stage::Ready)
        };
        let alive = self.members.values().filter(counts).count();
        for _ in alive..self.settings.processes {
            let worker = self.admit();
            self.members.insert(
                worker,
                Member::starting(now.plus(self.settings.start_limit)),
            );
            acts.push(RosterAction::Spawn(worker));
        }
    }
}

/// At most a few names, for a message.
fn listed(names: &BTreeSet<Arc<str>>) -> String {
    let shown: Vec<&str> = names.iter().take(NAMED_MAX).map(|name| &**name).collect();
    let more = names.len().saturating_sub(NAMED_MAX);
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    format!("{}{more}", shown.join(", "))
}
