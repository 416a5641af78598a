//! The engine in production: starts the parts, joins them, and ends them in order.
//!
//! Shards are threads; the session task, the committer, the timekeeper and the scheduler are tasks.
//! Everything they decide is decided by the machines (`shard`, `session`, `slots`).

mod router;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lope_flow::law::{Notice, Plan, Settled};
use lope_limits::LimitsStore;
use lope_model::{QueueName, Realm, RunId, RunnerId, VersionId};
use lope_store::runs::{Admitted, FinalStatus, RunCommit};
use lope_store::{Store, StoreError, StoreResult};
use tokio::sync::{broadcast, mpsc};
use tokio::task::AbortHandle;
use uuid::Uuid;

use crate::breakdown::Breakdown;
use crate::client::PendingRun;
use crate::drive::adopter::{Adopter, Expected};
use crate::drive::clock::ProcessClock;
use crate::drive::committer::Committer;
use crate::drive::descendants;
use crate::drive::dispatcher::{Dispatcher, Executors, Timekeeper};
use crate::drive::limit_input::LimitInput;
use crate::drive::limits_task::LimitsTask;
use crate::drive::schedule_task::ScheduleTask;
use crate::drive::session_task::SessionTask;
use crate::drive::shards::{self, Shards};
use crate::drive::supervisor::{Supervisor, supervise};
use crate::session::{SessionEvent, SessionMachine};
use crate::settings::{QueueLimit, Settings};
use crate::shard::{ShardInput, ShardSettings};
use router::Router;

/// News kept for a subscriber that is slow; older ones are dropped, and it is told how many.
const NEWS_MAX: usize = 4_096;

/// What happens in an engine, for whoever listens.
#[derive(Clone, Debug)]
pub enum News {
    Ended {
        run: RunId,
        status: FinalStatus,
        result: Settled,
    },
    InputSettled {
        run: RunId,
        input: Arc<str>,
        result: Settled,
    },
    Notice {
        run: RunId,
        workflow: Arc<str>,
        notice: Notice,
    },
    Checkpointed(RunId),
    /// An open run has nothing more to do, durably.
    Rested(RunId),
    /// The run left memory without having ended.
    Left(RunId),
}

/// Hears all news, on the thread that makes them: it must be quick and must not block.
pub type NewsListener = Arc<dyn Fn(&News) + Send + Sync>;

/// A running engine. Dropped, it stops at once; `shutdown` ends it in order.
#[derive(Debug)]
pub struct Engine {
    store: Store,
    adopter: Arc<Adopter>,
    pub(crate) dispatcher: Arc<Dispatcher>,
    supervisor: Arc<Supervisor>,
    news: broadcast::Sender<News>,
    session_tx: mpsc::UnboundedSender<SessionEvent>,
    /// Fires schedules; an engine that claims nothing has none.
    scheduler: Option<AbortHandle>,
    tasks: Vec<AbortHandle>,
    claims: bool,
    /// Was a run ever asked to be worked on here, whatever is claimed besides?
    owns: Arc<AtomicBool>,
    /// Queues with limits.
    limited: BTreeSet<QueueName>,
}

impl Engine {
    /// Start all parts on the current runtime.
    pub fn begin(store: Store, executors: Executors, settings: Settings) -> std::io::Result<Self> {
        Self::begin_with_listener(store, executors, settings, None)
    }

    /// As `begin`, with a listener that misses nothing. (A subscription that is slow does.)
    pub fn begin_with_listener(
        store: Store,
        executors: Executors,
        settings: Settings,
        listener: Option<NewsListener>,
    ) -> std::io::Result<Self> {
        let assembly = EngineAssembly::new(store, executors, settings);
        assembly.begin_shards(listener)?;
        Ok(assembly.begin_tasks())
    }

    pub fn runner(&self) -> RunnerId {
        self.adopter.runner()
    }

    /// Waits until the engine can do no more work and has stopped. Its runs go to other runners; this process should end.
    pub fn broken(&self) -> impl Future<Output = Breakdown> + Send + use<> {
        self.supervisor.broken()
    }

    /// Why the engine can do no more work, if that is so.
    pub fn why_broken(&self) -> Option<Breakdown> {
        self.supervisor.why_broken()
    }

    pub fn subscribe(&self) -> broadcast::Receiver<News> {
        self.news.subscribe()
    }

    /// The plan of a version, from here or from the store.
    pub async fn plan(&self, version: VersionId) -> StoreResult<Arc<Plan>> {
        self.adopter.plans.get(&self.store, version).await
    }

    /// Keep a plan at hand, so that its first run need not ask the store for it.
    pub fn know(&self, plan: Arc<Plan>) {
        self.adopter.plans.keep(plan);
    }

    /// Work on this run, and on its children, whatever is claimed besides.
    pub fn own(&self, run: RunId) {
        self.owns.store(true, Ordering::Release);
        // The session task is gone only when the engine is.
        let _ = self.session_tx.send(SessionEvent::Own(vec![run]));
        tokio::spawn(descendants::own_descendants(
            self.store.clone(),
            run,
            self.session_tx.clone(),
        ));
    }

    /// Admit a run and take it on here, without a second trip to the store; one that begins later, or
    /// whose queue has limits, waits its turn.
    pub async fn admit(&self, new_run: PendingRun, plan: &Arc<Plan>) -> StoreResult<Admitted> {
        let PendingRun { mut admit, start } = new_run;
        let run = admit.run;
        let waits = admit.due > ProcessClock::new().wall()
            || (self.claims && self.limited.contains(&admit.queue));
        let begins = || self.adopter.expect(&admit, start, plan);
        let expected = if waits { None } else { begins() };
        admit.claimed_by = expected.as_ref().map(Expected::owner);
        let answers = self.store.runs.admit(vec![admit]).await?;
        let answer = answers.into_iter().next().ok_or(StoreError::Closed)?;
        if let (Admitted::Created { owned: true, .. }, Some(expected)) = (&answer, expected) {
            let owner = expected.owner();
            if expected.give() {
                // The session task is gone only when the engine is.
                let _ = self.session_tx.send(SessionEvent::Took { owner, runs: 1 });
            }
        }
        if !self.claims {
            match &answer {
                Admitted::Created { .. } => {
                    drop(self.session_tx.send(SessionEvent::Own(vec![run])));
                }
                Admitted::Exists { run, .. } => self.own(*run),
                Admitted::UnknownVersion => {}
            }
        }
        Ok(answer)
    }

    /// Write down what a run has not committed yet; `News::Checkpointed` tells when it is durable.
    pub fn checkpoint(&self, run: RunId) {
        self.adopter.shards.send(run, ShardInput::Checkpoint(run));
    }

    /// Let a run go without writing what was not committed yet; it stays out of claims until it is
    /// resumed.
    pub fn discard(&self, run: RunId) {
        self.adopter.shards.send(run, ShardInput::Discard(run));
    }

    /// Claim runs of this realm too, from now on.
    pub fn serve(&self, realm: Realm) {
        // The session task is gone only when the engine is.
        let _ = self.session_tx.send(SessionEvent::Serve(realm));
    }

    /// Claim no more runs of this realm. Those that are here stay.
    pub fn unserve(&self, realm: Realm) {
        // As above.
        let _ = self.session_tx.send(SessionEvent::Unserve(realm));
    }

    /// Is the run in memory here, or on its way?
    pub fn holds(&self, run: RunId) -> bool {
        self.adopter.has(run)
    }

    /// How many runs are in memory or on their way there.
    pub fn residents(&self) -> usize {
        self.adopter.holds()
    }

    pub fn in_flight(&self) -> usize {
        self.dispatcher.in_flight()
    }

    /// Take no more runs, let what has begun finish for at most `grace`, give every run back, end.
    pub async fn shutdown(self, grace: Duration) -> StoreResult<u64> {
        self.shutdown_after(tokio::time::sleep(grace)).await
    }

    /// The same; what has begun may finish until `grace` is over.
    pub async fn shutdown_after(mut self, grace: impl Future<Output = ()>) -> StoreResult<u64> {
        let _ = self.session_tx.send(SessionEvent::Drain);
        // A run that is started now would only be somebody else's.
        self.scheduler.take().iter().for_each(AbortHandle::abort);
        let mut news = self.subscribe();
        self.adopter.shards.tell(|| ShardInput::Drain);
        // After the shards: what comes back to them is theirs to let go.
        self.dispatcher.drain();
        let drained = async {
            while self.adopter.holds() > 0 {
                // A lagging receiver has missed news, not the end.
                let _ = tokio::time::timeout(Duration::from_millis(50), news.recv()).await;
            }
        };
        tokio::select! {
            () = drained => {}
            () = grace => {}
        }
        // The session task goes first: it would take its ended session for a lost one and begin
        // another.
        let runner = self.runner();
        self.stop();
        self.store.runs.release(runner).await
    }

    fn stop(&mut self) {
        self.adopter.shards.tell(|| ShardInput::Abandon);
        self.scheduler
            .take()
            .into_iter()
            .chain(self.tasks.drain(..))
            .for_each(|task| task.abort());
        self.adopter.shards.close();
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.stop();
    }
}

/// What the parts of an engine have in common, before they begin.
struct EngineAssembly {
    store: Store,
    settings: Settings,
    clock: ProcessClock,
    shards: Arc<Shards>,
    adopter: Arc<Adopter>,
    dispatcher: Arc<Dispatcher>,
    supervisor: Arc<Supervisor>,
    news: broadcast::Sender<News>,
    owns: Arc<AtomicBool>,
    session_tx: mpsc::UnboundedSender<SessionEvent>,
    session_rx: mpsc::UnboundedReceiver<SessionEvent>,
    limits_rx: mpsc::UnboundedReceiver<LimitInput>,
    commits_tx: mpsc::UnboundedSender<Vec<RunCommit>>,
    commits_rx: mpsc::UnboundedReceiver<Vec<RunCommit>>,
}

impl EngineAssembly {
    fn new(store: Store, executors: Executors, settings: Settings) -> Self {
        let clock = ProcessClock::new();
        let runner = RunnerId::from_uuid(Uuid::now_v7());
        let shards = Arc::new(Shards::new(settings.shards));
        let adopter = Adopter::new(store.clone(), Arc::clone(&shards), runner, &settings);
        let (limits_tx, limits_rx) = mpsc::unbounded_channel();
        let dispatcher = Dispatcher::new(
            clock.clone(),
            &settings,
            executors,
            Arc::clone(&shards),
            limits_tx,
        );
        let (session_tx, session_rx) = mpsc::unbounded_channel();
        let (commits_tx, commits_rx) = mpsc::unbounded_channel();
        Self {
            store,
            shards,
            adopter: Arc::new(adopter),
            dispatcher,
            supervisor: Arc::new(Supervisor::new(clock.clone())),
            news: broadcast::Sender::new(NEWS_MAX),
            owns: Arc::new(AtomicBool::new(!settings.claims)),
            session_tx,
            session_rx,
            limits_rx,
            commits_tx,
            commits_rx,
            clock,
            settings,
        }
    }

    fn begin_shards(&self, listener: Option<NewsListener>) -> std::io::Result<()> {
        let router = Router {
            name: self.settings.name.clone(),
            clock: self.clock.clone(),
            supervisor: Arc::clone(&self.supervisor),
            adopter: Arc::clone(&self.adopter),
            dispatcher: Arc::clone(&self.dispatcher),
            commits: self.commits_tx.clone(),
            session_tx: self.session_tx.clone(),
            news: self.news.clone(),
            listener,
            runtime: tokio::runtime::Handle::current(),
            claims: self.settings.claims,
            owns: Arc::clone(&self.owns),
            counts: self
                .settings
                .queue_limits
                .values()
                .any(QueueLimit::holds_back),
        };
        shards::begin(
            &self.shards,
            &self.clock,
            ShardSettings::of(&self.settings),
            self.adopter.runner(),
            Arc::new(router),
        )
    }

    fn begin_tasks(self) -> Engine {
        let limits = self.settings.queue_limits.iter();
        let limited = limits
            .filter(|(_, limit)| limit.holds_back())
            .map(|(queue, _)| queue.clone())
            .collect();
        let claims = self.settings.claims;
        let supervisor = Arc::clone(&self.supervisor);
        let committer = Committer::new(
            &self.settings.name,
            self.store.clone(),
            Arc::clone(&self.shards),
            self.commits_rx,
            self.settings.group_commit_max,
        );
        let scheduler = ScheduleTask {
            store: self.store.clone(),
            settings: self.settings.clone(),
            adopter: Arc::clone(&self.adopter),
        };
        let limits_task = LimitsTask::new(
            &self.settings,
            &self.adopter,
            &self.dispatcher,
            self.clock.clone(),
            self.limits_rx,
        );
        let session_task = SessionTask {
            limits: Arc::new(LimitsStore::new(self.store.clone())),
            store: self.store.clone(),
            session: SessionMachine::new(
                self.adopter.runner(),
                self.settings.clone(),
                lope_flow::LAW,
            ),
            settings: self.settings,
            clock: self.clock,
            adopter: Arc::clone(&self.adopter),
            supervisor: Arc::clone(&supervisor),
            dispatcher: Arc::clone(&self.dispatcher),
            lease: None,
            session_tx: self.session_tx.clone(),
            session_rx: self.session_rx,
        };
        let timekeeper = Timekeeper(Arc::clone(&self.dispatcher));
        let scheduler = claims
            .then(|| tokio::spawn(supervise(scheduler, Arc::clone(&supervisor))).abort_handle());
        let mut tasks = vec![
            tokio::spawn(supervise(committer, Arc::clone(&supervisor))).abort_handle(),
            tokio::spawn(supervise(timekeeper, Arc::clone(&supervisor))).abort_handle(),
            tokio::spawn(supervise(limits_task, Arc::clone(&supervisor))).abort_handle(),
            tokio::spawn(supervise(session_task, Arc::clone(&supervisor))).abort_handle(),
        ];
        let all = tasks.iter().chain(&scheduler).cloned().collect();
        let end = end_when_broken(supervisor.broken(), self.shards, all);
        tasks.push(tokio::spawn(end).abort_handle());
        Engine {
            store: self.store,
            adopter: self.adopter,
            dispatcher: self.dispatcher,
            supervisor,
            news: self.news,
            session_tx: self.session_tx,
            scheduler,
            tasks,
            claims,
            owns: self.owns,
            limited,
        }
    }
}

/// A broken engine writes nothing more and stops beating, so that others take its runs over.
async fn end_when_broken(
    broken: impl Future<Output = Breakdown>,
    shards: Arc<Shards>,
    parts: Vec<AbortHandle>,
) {
    broken.await;
    shards.tell(|| ShardInput::Abandon);
    parts.iter().for_each(AbortHandle::abort);
}
