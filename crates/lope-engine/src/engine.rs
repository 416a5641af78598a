//! The engine in production: starts the parts, joins them, and ends them in order.
//!
//! Shards are threads; the keeper, the committer, the timekeeper and the scheduler are tasks. Everything they decide is decided by the
//! machines (`shard`, `keeper`, `dispatch`).

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lope_flow::law::{Notice, Plan, Settled};
use lope_model::{Epoch, QueueName, Realm, RunId, RunnerId};
use lope_store::runs::{Admitted, FinalStatus, RunCommit};
use lope_store::{Store, StoreError, StoreResult};
use tokio::sync::{broadcast, mpsc};
use tokio::task::AbortHandle;
use uuid::Uuid;

use crate::adopter::{Adopter, Expected};
use crate::client::Birth;
use crate::drive::clock::ProcessClock;
use crate::drive::committer::Committer;
use crate::drive::desk::{Desk, Executors, Timekeeper};
use crate::drive::family;
use crate::drive::keeping::Keeping;
use crate::drive::scheduler::Scheduler;
use crate::drive::seam;
use crate::drive::shards::{self, Hands, Shards};
use crate::drive::supervisor::{Ward, caught, tend};
use crate::keeper::{Heard, Keeper};
use crate::settings::{QueueLimit, Settings};
use crate::shard::{Input, Latest, Left, Output, ShardSettings};

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
pub type Ear = Arc<dyn Fn(&News) + Send + Sync>;

/// A running engine. Dropped, it stops at once; `shutdown` ends it in order.
#[derive(Debug)]
pub struct Engine {
    store: Store,
    adopter: Arc<Adopter>,
    pub(crate) desk: Arc<Desk>,
    ward: Arc<Ward>,
    news: broadcast::Sender<News>,
    mouth: mpsc::UnboundedSender<Heard>,
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
        Self::begin_heard(store, executors, settings, None)
    }

    /// As `begin`, with an ear that misses nothing. (A subscription that is slow does.)
    pub fn begin_heard(
        store: Store,
        executors: Executors,
        settings: Settings,
        ear: Option<Ear>,
    ) -> std::io::Result<Self> {
        let (clock, runner) = (ProcessClock::new(), RunnerId::from_uuid(Uuid::now_v7()));
        let senders = Arc::new(Shards::new(settings.shards));
        let adopter = Arc::new(Adopter::new(store.clone(), Arc::clone(&senders), runner, settings.max_runs));
        let desk = Desk::new(clock.clone(), &settings, executors, Arc::clone(&senders));
        let (mouth, ears_of_keeper) = mpsc::unbounded_channel();
        let (commits, wishes) = mpsc::unbounded_channel();
        let (news, owns) = (broadcast::Sender::new(NEWS_MAX), Arc::new(AtomicBool::new(!settings.claims)));
        let ward = Arc::new(Ward::new(clock.clone()));
        let hands = Router {
            name: settings.name.clone(),
            clock: clock.clone(),
            ward: Arc::clone(&ward),
            adopter: Arc::clone(&adopter),
            desk: Arc::clone(&desk),
            commits,
            mouth: mouth.clone(),
            news: news.clone(),
            ear,
            runtime: tokio::runtime::Handle::current(),
            claims: settings.claims,
            owns: Arc::clone(&owns),
            counts: settings.queue_limits.values().any(QueueLimit::holds_back),
        };
        shards::begin(&senders, &clock, ShardSettings::of(&settings), runner, Arc::new(hands))?;
        let claims = settings.claims;
        let committer =
            Committer::new(&settings.name, store.clone(), Arc::clone(&senders), wishes, settings.group_commit_max);
        let limits = settings.queue_limits.iter().filter(|(_, limit)| limit.holds_back());
        let limited = limits.map(|(queue, _)| queue.clone()).collect();
        let keeper = Keeper::new(runner, settings.clone(), lope_flow::LAW);
        let scheduler = Scheduler { store: store.clone(), settings: settings.clone(), adopter: Arc::clone(&adopter) };
        let keeping = Keeping {
            store: store.clone(),
            keeper,
            settings,
            clock,
            adopter: Arc::clone(&adopter),
            mouth: mouth.clone(),
            ears: ears_of_keeper,
        };
        let scheduler = claims.then(|| tokio::spawn(tend(scheduler, Arc::clone(&ward))).abort_handle());
        let parts = vec![
            tokio::spawn(tend(committer, Arc::clone(&ward))).abort_handle(),
            tokio::spawn(tend(Timekeeper(Arc::clone(&desk)), Arc::clone(&ward))).abort_handle(),
            tokio::spawn(tend(keeping, Arc::clone(&ward))).abort_handle(),
        ];
        let all = parts.iter().chain(&scheduler).cloned().collect();
        let end = tokio::spawn(end_when_broken(ward.broken(), senders, all)).abort_handle();
        let tasks = parts.into_iter().chain([end]).collect();
        Ok(Self { store, adopter, desk, ward, news, mouth, scheduler, tasks, claims, owns, limited })
    }

    pub fn runner(&self) -> RunnerId {
        self.adopter.runner()
    }

    /// Waits until the engine can do no more work and has stopped: its parts kept panicking. Why, in words. Its runs go to other
    /// runners; this process should end.
    pub fn broken(&self) -> impl Future<Output = Arc<str>> + Send + use<> {
        self.ward.broken()
    }

    /// Why the engine can do no more work, if that is so.
    pub fn why_broken(&self) -> Option<Arc<str>> {
        self.ward.why_broken()
    }

    pub fn subscribe(&self) -> broadcast::Receiver<News> {
        self.news.subscribe()
    }

    /// Keep a plan at hand, so that its first run need not ask the store for it.
    pub fn know(&self, plan: Arc<Plan>) {
        self.adopter.plans.keep(plan);
    }

    /// Work on this run, and on its children, whatever is claimed besides.
    pub fn own(&self, run: RunId) {
        self.owns.store(true, Ordering::Release);
        // The keeper is gone only when the engine is.
        let _ = self.mouth.send(Heard::Own(vec![run]));
        tokio::spawn(family::own_descendants(self.store.clone(), run, self.mouth.clone()));
    }

    /// Admit a run and take it on here, without a second trip to the store; one whose queue has limits waits its turn.
    pub async fn admit(&self, birth: Birth, plan: &Arc<Plan>) -> StoreResult<Admitted> {
        let Birth { mut admit, start } = birth;
        let run = admit.run;
        let waits = self.claims && self.limited.contains(&admit.queue);
        let expected = if waits { None } else { self.adopter.expect(&admit, start, plan) };
        admit.claimed_by = expected.as_ref().map(Expected::owner);
        let answers = self.store.runs.admit(vec![admit]).await?;
        let answer = answers.into_iter().next().ok_or(StoreError::Closed)?;
        if let (Admitted::Created { owned: true, .. }, Some(expected)) = (&answer, expected) {
            let owner = expected.owner();
            if expected.give() {
                // The keeper is gone only when the engine is.
                let _ = self.mouth.send(Heard::Took { owner, runs: 1 });
            }
        }
        if !self.claims {
            match &answer {
                Admitted::Created { .. } => drop(self.mouth.send(Heard::Own(vec![run]))),
                Admitted::Exists { run } => self.own(*run),
                Admitted::UnknownVersion => {}
            }
        }
        Ok(answer)
    }

    /// Write down what a run has not committed yet; `News::Checkpointed` tells when it is durable.
    pub fn checkpoint(&self, run: RunId) {
        self.adopter.shards.send(run, Input::Checkpoint(run));
    }

    /// Let a run go without writing what was not committed yet; it stays out of claims until it is resumed.
    pub fn discard(&self, run: RunId) {
        self.adopter.shards.send(run, Input::Discard(run));
    }

    /// Claim runs of this realm too, from now on.
    pub fn serve(&self, realm: Realm) {
        // The keeper is gone only when the engine is.
        let _ = self.mouth.send(Heard::Serve(realm));
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
        self.desk.in_flight()
    }

    /// Take no more runs, let what is in flight finish for at most `grace`, give every run back, end.
    pub async fn shutdown(mut self, grace: Duration) -> StoreResult<u64> {
        let _ = self.mouth.send(Heard::Drain);
        // A run that is started now would only be somebody else's.
        self.scheduler.take().iter().for_each(AbortHandle::abort);
        let mut news = self.subscribe();
        self.adopter.shards.tell(|| Input::Drain);
        let drained = async {
            while self.adopter.holds() > 0 {
                // A lagging receiver has missed news, not the end.
                let _ = tokio::time::timeout(Duration::from_millis(50), news.recv()).await;
            }
        };
        let _ = tokio::time::timeout(grace, drained).await;
        // The keeper goes first: it would take its ended session for a lost one and begin another.
        let runner = self.runner();
        self.stop();
        self.store.runs.release(runner).await
    }

    fn stop(&mut self) {
        self.adopter.shards.tell(|| Input::Fence);
        self.scheduler.take().into_iter().chain(self.tasks.drain(..)).for_each(|task| task.abort());
        self.adopter.shards.close();
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A broken engine writes nothing more and stops beating, so that others take its runs over.
async fn end_when_broken(broken: impl Future<Output = Arc<str>>, shards: Arc<Shards>, parts: Vec<AbortHandle>) {
    broken.await;
    shards.tell(|| Input::Fence);
    parts.iter().for_each(AbortHandle::abort);
}

/// Carries a shard's outputs to where they belong.
struct Router {
    name: String,
    clock: ProcessClock,
    ward: Arc<Ward>,
    adopter: Arc<Adopter>,
    desk: Arc<Desk>,
    commits: mpsc::UnboundedSender<Vec<RunCommit>>,
    mouth: mpsc::UnboundedSender<Heard>,
    news: broadcast::Sender<News>,
    ear: Option<Ear>,
    runtime: tokio::runtime::Handle,
    claims: bool,
    owns: Arc<AtomicBool>,
    /// Do queues have limits?
    counts: bool,
}

impl Hands for Router {
    fn listens(&self) -> bool {
        self.ear.is_some() || self.news.receiver_count() > 0
    }

    fn take(&self, outputs: &mut Vec<Output>) {
        seam::pass(&self.name, "shard");
        let (mut commits, mut starts, mut gone, mut left) = (Vec::new(), Vec::new(), Vec::new(), 0);
        for output in outputs.drain(..) {
            match output {
                Output::Commit(commit) => commits.push(*commit),
                Output::Start(task) => starts.push(task),
                Output::Cancel(token) => {
                    // In order: it may be about one of these.
                    self.desk.submit(starts.drain(..));
                    self.desk.cancel(&token);
                }
                Output::Left { run, epoch, why: Left::Fell(why), .. } => self.fell(run, epoch, why),
                Output::Left { run, epoch, why, .. } => {
                    gone.push(run);
                    left += usize::from(self.adopter.left(run, epoch));
                    self.left(run, epoch, why);
                }
                other => self.carry(other),
            }
        }
        if !starts.is_empty() {
            self.desk.submit(starts);
        }
        // Receivers are gone only when the engine is.
        if !commits.is_empty() {
            let _ = self.commits.send(commits);
        }
        if left > 0 {
            let _ = self.mouth.send(Heard::Left { owner: self.adopter.runner(), runs: left, weight: 0 });
        }
        if self.counts && !gone.is_empty() {
            let _ = self.mouth.send(Heard::Gone(gone));
        }
    }

    fn lost(&self, shard: usize, why: &str) -> (Vec<(RunId, Epoch)>, Duration) {
        self.desk.cancel_runs(|run| self.adopter.shards.shard_of(run) == shard);
        let (adopter, now) = (Arc::clone(&self.adopter), self.clock.wall());
        let lost = adopter.held_by(shard);
        let given_up = lost.clone();
        self.give_up(async move { adopter.give_up_shard(lost, now).await });
        (given_up, self.ward.fell("shard", why).unwrap_or_default())
    }
}

impl Router {
    fn carry(&self, output: Output) {
        match output {
            Output::MoreMail => drop(self.mouth.send(Heard::Rang)),
            Output::FindLatest(workflow) => self.find_latest(workflow),
            Output::InputSettled { run, input, result } => self.tell(News::InputSettled { run, input, result }),
            Output::Notice { run, plan, notice } => {
                self.tell(News::Notice { run, workflow: Arc::clone(plan.name()), notice });
            }
            Output::Checkpointed(run) => self.tell(News::Checkpointed(run)),
            Output::Rested(run) => self.tell(News::Rested(run)),
            Output::Born(children) => {
                if !self.claims {
                    let _ = self.mouth.send(Heard::Own(children));
                }
            }
            Output::Commit(_) | Output::Start(_) | Output::Cancel(_) | Output::Left { .. } => {}
        }
    }

    fn tell(&self, news: News) {
        if let Some(ear) = &self.ear
            && catch_unwind(AssertUnwindSafe(|| ear(&news))).is_err()
        {
            tracing::error!("whoever hears the engine's news panicked");
        }
        // Nobody may be listening.
        let _ = self.news.send(news);
    }

    fn left(&self, run: RunId, epoch: Epoch, why: Left) {
        match why {
            Left::Ended { status, result } => {
                if self.owns.load(Ordering::Acquire) {
                    let _ = self.mouth.send(Heard::Disown(run));
                }
                self.tell(News::Ended { run, status, result });
            }
            Left::Released | Left::Fell(_) => self.tell(News::Left(run)),
            Left::Lost => {
                tracing::warn!(%run, "a run belongs to another runner now; nothing more is written for it");
                self.tell(News::Left(run));
            }
            Left::Broken(reason) => {
                let adopter = Arc::clone(&self.adopter);
                self.runtime.spawn(async move {
                    if let Err(error) = adopter.park(run, epoch, reason).await {
                        tracing::error!(%run, %error, "a run could not be set aside");
                    }
                });
            }
        }
    }

    /// The machine panicked at a run: it goes back to the store. It stays held until the store knows.
    fn fell(&self, run: RunId, epoch: Epoch, why: String) {
        let (adopter, now) = (Arc::clone(&self.adopter), self.clock.wall());
        // The machine may have forgotten some of it on the way down.
        self.desk.cancel_runs(|it| it == run);
        self.tell(News::Left(run));
        self.give_up(async move { adopter.give_up(run, epoch, &why, now).await });
    }

    fn give_up(&self, given_back: impl Future<Output = Vec<RunId>> + Send + 'static) {
        let (owner, mouth) = (self.adopter.runner(), self.mouth.clone());
        self.runtime.spawn(async move {
            let runs = given_back.await;
            // The keeper is gone only when the engine is.
            let _ = mouth.send(Heard::Left { owner, runs: runs.len(), weight: 0 });
            let _ = mouth.send(Heard::Gone(runs));
        });
    }

    fn find_latest(&self, workflow: Arc<str>) {
        let adopter = Arc::clone(&self.adopter);
        self.runtime.spawn(async move {
            let latest = loop {
                let found = caught(adopter.store.runs.latest(&workflow)).await;
                match found.unwrap_or_else(|panic| Err(StoreError::unknown(panic))) {
                    Ok(found) => break found.as_ref().map(Latest::of),
                    Err(error) => {
                        tracing::warn!(%error, %workflow, "the latest version could not be asked for");
                        tokio::time::sleep(Duration::from_millis(500)).await;
                    }
                }
            };
            adopter.shards.tell(|| Input::Latest(Arc::clone(&workflow), latest.clone()));
        });
    }
}
