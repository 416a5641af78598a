//! Workers in other processes, as the executor of `action` steps: processes of the runner's own
//! (Python by default) and workers that connect from elsewhere, all with the protocol of
//! `docs/worker-protocol.md`.
//!
//! The roster decides; this file and those beside it carry messages, start processes and keep the
//! right to answer. A task whose worker is gone is answered `WorkerLost`.

mod attempts;
mod frame;
mod heaps;
mod link;
mod listen;
mod local;
pub mod message;
pub mod roster;
mod settings;
mod socket_folder;
pub mod tls;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use lope_engine::executor::{Done, Executor, Task, Token};
use lope_engine::secret::Masks;
use lope_model::{Failure, Moment, Realm};
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::AbortHandle;

use self::attempts::{DeferredReply, PoolAttempt};
use self::heaps::RememberedHeaps;
use self::link::WorkerArrival;
pub use self::listen::{Remote, RemoteListener};
use self::message::ToWorker;
use self::roster::{PoolWorkerId, Roster, RosterAction, RosterEvent, TaskId};
pub use self::settings::{PoolSettings, WorkerProgram};
use self::socket_folder::SocketFolder;
use crate::logs::Logs;
use crate::process_tree::ProcessTrees;

/// How long workers may take to end when the pool is closed.
const CLOSE_GRACE: Duration = Duration::from_secs(5);
/// Realms that wait to be asked for; nobody hears of those beyond.
const REALMS_TOLD: usize = 1_024;
/// Forms of secrets that are kept from what workers print outside of tasks; beyond, the latest.
const MASKS_KEPT: usize = 10_000;

/// A pool of workers. Dropped, it ends them at once; `close` lets them finish.
pub struct Pool {
    inner: Arc<PoolInner>,
    tasks: Mutex<Vec<AbortHandle>>,
    realms: Mutex<Option<mpsc::Receiver<RealmChange>>>,
}

struct PoolInner {
    settings: PoolSettings,
    runtime: Handle,
    logs: Logs,
    trees: ProcessTrees,
    socket_folder: SocketFolder,
    origin: Instant,
    state: Mutex<PoolState>,
    /// Secrets that tasks brought; what workers print outside of tasks shows none of them.
    masks: Mutex<Masks>,
    /// Rings when the next deadline may have changed.
    deadline: Notify,
    /// Rings when workers came or went.
    changed: Notify,
    /// What workers make this runner able to serve, as they come and go.
    realms: mpsc::Sender<RealmChange>,
}

struct PoolState {
    roster: Roster,
    born: u64,
    ids: HashMap<Token, TaskId>,
    attempts: HashMap<TaskId, PoolAttempt>,
    links: HashMap<PoolWorkerId, WorkerLink>,
    heaps: RememberedHeaps,
    /// Processes that were started and have not said their first word.
    expected: HashMap<PoolWorkerId, oneshot::Sender<WorkerArrival>>,
    /// What processes of the pool's own brought; they are replaced when they go.
    own_realms: HashSet<Realm>,
}

/// What workers from elsewhere make a runner able to serve.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RealmChange {
    Came(Realm),
    /// The last worker that brought it is gone.
    Gone(Realm),
}

/// The way to one worker.
struct WorkerLink {
    name: Arc<str>,
    outbox: Vec<ToWorker>,
    notification: Arc<Notify>,
    kill: Arc<Notify>,
    realms: Vec<Realm>,
}

impl Pool {
    /// Start the pool's processes on this runtime.
    pub fn begin(settings: PoolSettings, runtime: Handle, logs: Logs) -> io::Result<Self> {
        let socket_folder = SocketFolder::make()?;
        let listener = {
            let _inside = runtime.enter();
            socket_folder.listen()?
        };
        let (realms, told) = mpsc::channel(REALMS_TOLD);
        let state = PoolState {
            roster: Roster::new(settings.clone()),
            born: 0,
            ids: HashMap::new(),
            attempts: HashMap::new(),
            links: HashMap::new(),
            heaps: RememberedHeaps::default(),
            expected: HashMap::new(),
            own_realms: HashSet::new(),
        };
        let inner = Arc::new(PoolInner {
            trees: ProcessTrees::begin(&runtime),
            settings,
            runtime: runtime.clone(),
            logs,
            socket_folder,
            origin: Instant::now(),
            state: Mutex::new(state),
            masks: Mutex::default(),
            deadline: Notify::new(),
            changed: Notify::new(),
            realms,
        });
        let accept = runtime.spawn(listen::accept_own(Arc::clone(&inner), listener));
        let clock = runtime.spawn(Arc::clone(&inner).keep_time());
        inner.change(|_| vec![RosterEvent::Tick]);
        let tasks = Mutex::new(vec![accept.abort_handle(), clock.abort_handle()]);
        Ok(Self {
            inner,
            tasks,
            realms: Mutex::new(Some(told)),
        })
    }

    /// Wait until every process of our own works, or tell why one cannot.
    pub async fn ready(&self) -> Result<BTreeSet<Arc<str>>, Failure> {
        loop {
            let changed = self.inner.changed.notified();
            {
                let state = self.inner.lock();
                if let Some(why) = state.roster.broken() {
                    return Err(why.clone());
                }
                if state.roster.ready() >= self.inner.settings.processes {
                    return Ok(state.roster.actions());
                }
            }
            changed.await;
        }
    }

    /// What somebody serves now.
    pub fn actions(&self) -> BTreeSet<Arc<str>> {
        self.inner.lock().roster.actions()
    }

    /// What workers make this runner able to serve, as they come, go and come again. Answered
    /// once.
    pub fn realms(&self) -> Option<mpsc::Receiver<RealmChange>> {
        self.realms
            .lock()
            .expect("no panic while the lock is held")
            .take()
    }

    /// Process ids of the pool's own workers, for those who look after it.
    pub fn workers(&self) -> Vec<Arc<str>> {
        self.inner
            .lock()
            .links
            .values()
            .map(|link| Arc::clone(&link.name))
            .collect()
    }

    /// Let the workers finish what they have, then end them.
    pub async fn close(&self) {
        self.inner.change(|_| vec![RosterEvent::Close]);
        let ended = async {
            loop {
                let changed = self.inner.changed.notified();
                if self.inner.lock().roster.members() == 0 {
                    return;
                }
                changed.await;
            }
        };
        // Those that are not done by then are killed by the drop.
        let _ = tokio::time::timeout(CLOSE_GRACE, ended).await;
    }

    /// Take workers from elsewhere.
    pub async fn listen(&self, remote: Remote) -> io::Result<std::net::SocketAddr> {
        let gate = RemoteListener::open(remote).await?;
        let address = gate.address()?;
        let task = self
            .inner
            .runtime
            .spawn(gate.accept(Arc::clone(&self.inner)));
        self.tasks
            .lock()
            .expect("no panic while the lock is held")
            .push(task.abort_handle());
        Ok(address)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.tasks
            .lock()
            .expect("no panic while the lock is held")
            .drain(..)
            .for_each(|task| task.abort());
        self.inner.change(|_| vec![RosterEvent::Close]);
        self.inner
            .lock()
            .links
            .values()
            .for_each(|link| link.kill.notify_one());
    }
}

impl Executor for Pool {
    fn returns_at_once(&self) -> bool {
        true
    }

    fn start(&self, task: Task, done: Done) {
        self.start_all(vec![(task, done)]);
    }

    fn start_all(&self, tasks: Vec<(Task, Done)>) {
        self.inner
            .remember(tasks.iter().map(|(_, done)| done.masks()));
        self.inner.change(|state| {
            tasks
                .into_iter()
                .map(|(task, done)| state.submit(task, done))
                .collect()
        });
    }

    fn cancel(&self, token: &Token) {
        self.inner.change(|state| {
            state
                .ids
                .get(token)
                .map(|id| RosterEvent::Cancel(*id))
                .into_iter()
                .collect()
        });
    }

    fn withdraw(&self) {
        self.inner.change(|_| vec![RosterEvent::Withdraw]);
    }
}

impl PoolInner {
    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().expect("no panic while the lock is held")
    }

    fn remember<'a>(&self, masks: impl Iterator<Item = &'a Masks>) {
        for more in masks.filter(|masks| !masks.is_empty()) {
            let mut known = self.masks.lock().expect("no panic while the lock is held");
            *known = if known.len() < MASKS_KEPT {
                known.and(more)
            } else {
                more.clone()
            };
        }
    }

    /// A text of a worker, whichever of its tasks it is about.
    fn masked(&self, text: &str) -> String {
        let masks = self
            .masks
            .lock()
            .expect("no panic while the lock is held")
            .clone();
        masks.hide(text)
    }

    fn now(&self) -> Moment {
        Moment(i64::try_from(self.origin.elapsed().as_millis()).unwrap_or(i64::MAX))
    }

    /// Let the roster decide about events and do what it decided. What calls out of the pool is
    /// done when the lock is free.
    fn change(self: &Arc<Self>, events: impl FnOnce(&mut PoolState) -> Vec<RosterEvent>) {
        let now = self.now();
        let mut later = Vec::new();
        {
            let mut state = self.lock();
            let before = state.roster.next_deadline();
            let events = events(&mut state);
            self.decide(&mut state, now, events, &mut later);
            if state.roster.next_deadline() != before {
                self.deadline.notify_one();
            }
        }
        later.into_iter().for_each(DeferredReply::happen);
    }

    fn decide(
        self: &Arc<Self>,
        state: &mut PoolState,
        now: Moment,
        mut events: Vec<RosterEvent>,
        later: &mut Vec<DeferredReply>,
    ) {
        while !events.is_empty() {
            let mut acts = Vec::new();
            for event in events {
                if matches!(
                    event,
                    RosterEvent::Hello { .. }
                        | RosterEvent::Gone { .. }
                        | RosterEvent::Broken { .. }
                ) {
                    self.changed.notify_waiters();
                }
                state.roster.handle(now, event, &mut acts);
            }
            let followed = acts
                .into_iter()
                .filter_map(|act| self.perform(state, act, later));
            events = followed.collect();
        }
    }

    /// What the roster must hear of it, if anything.
    fn perform(
        self: &Arc<Self>,
        state: &mut PoolState,
        act: RosterAction,
        later: &mut Vec<DeferredReply>,
    ) -> Option<RosterEvent> {
        match act {
            RosterAction::Give { worker, task } if state.is_too_late(task) => {
                later.extend(state.take_back(task));
                return Some(RosterEvent::Answered { worker, task });
            }
            RosterAction::Spawn(worker) => {
                let (sender, arrival) = oneshot::channel();
                state.expected.insert(worker, sender);
                let kill = Arc::new(Notify::new());
                state.links.insert(
                    worker,
                    WorkerLink::new("starting".into(), Arc::clone(&kill)),
                );
                self.runtime
                    .spawn(local::attend(Arc::clone(self), worker, arrival, kill));
            }
            RosterAction::Give { worker, task } => later.extend(state.give(worker, task)),
            RosterAction::Cancel { worker, task } => state.say(worker, ToWorker::Cancel(task)),
            RosterAction::Drain(worker) => state.say(worker, ToWorker::Drain),
            RosterAction::Kill { worker, why } => {
                if let Some(link) = state.links.get(&worker) {
                    tracing::warn!(worker = %link.name, why, "a worker is ended");
                    link.kill.notify_one();
                }
            }
            RosterAction::Return(task) => later.extend(state.take_back(task)),
            RosterAction::Fail { task, why } => later.extend(state.answer(task, Err(why), None)),
        }
        None
    }

    /// Tell the roster the time when it wants to know.
    async fn keep_time(self: Arc<Self>) {
        loop {
            let next = self.lock().roster.next_deadline();
            match next {
                None => self.deadline.notified().await,
                Some(due) => {
                    let millis = u64::try_from(due.0).unwrap_or(0);
                    // A millisecond more, so that the deadline has passed when the clock is read
                    // again.
                    let until = self.origin + Duration::from_millis(millis + 1);
                    tokio::select! {
                        () = tokio::time::sleep_until(until.into()) => self.change(|_| vec![RosterEvent::Tick]),
                        () = self.deadline.notified() => {}
                    }
                }
            }
        }
    }
}

impl WorkerLink {
    fn new(name: Arc<str>, kill: Arc<Notify>) -> Self {
        Self {
            name,
            outbox: Vec::new(),
            notification: Arc::new(Notify::new()),
            kill,
            realms: Vec::new(),
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("workers", &self.workers())
            .finish_non_exhaustive()
    }
}
