//! The task that keeps the session: it feeds the machine with time, notifications and answers, and
//! does what it asks for.

use std::sync::Arc;

use lope_limits::LimitsStore;
use lope_model::{Moment, RunnerId, limit};
use lope_store::runs::{ClaimedRun, Register, Takeover};
use lope_store::{Store, StoreError, StoreResult, Watch};
use tokio::sync::mpsc;
use uuid::Uuid;

use super::adopter::Adopter;
use super::clock::ProcessClock;
use super::dispatcher::Dispatcher;
use super::supervisor::{SupervisedTask, Supervisor, caught};
use super::{prune, rated_claim, seam};
use crate::breakdown::Breakdown;
use crate::session::{SessionCall, SessionCommand, SessionEvent, SessionMachine, SessionRequest};
use crate::settings::Settings;
use crate::shard::ShardInput;

/// Most runs put back by one takeover, most mail fetched at once.
const SWEEP_MAX: usize = 1_000;

/// Most events taken in before the session task's commands are performed.
const EVENTS_MAX: usize = 256;

/// An answer, and the session it belongs to: those of a session that has ended are dropped.
pub(crate) type SessionReply = (RunnerId, SessionEvent);

pub(crate) struct SessionTask {
    pub(crate) store: Store,
    pub(crate) session: SessionMachine,
    pub(crate) settings: Settings,
    pub(crate) clock: ProcessClock,
    pub(crate) adopter: Arc<Adopter>,
    pub(crate) supervisor: Arc<Supervisor>,
    pub(crate) dispatcher: Arc<Dispatcher>,
    /// Where the rates of queues are.
    pub(crate) limits: Arc<LimitsStore>,
    /// What the dispatcher was told last.
    pub(crate) lease: Option<(RunnerId, Moment)>,
    pub(crate) session_tx: mpsc::UnboundedSender<SessionEvent>,
    pub(crate) session_rx: mpsc::UnboundedReceiver<SessionEvent>,
}

impl SupervisedTask for SessionTask {
    const NAME: &'static str = "session";

    async fn work(&mut self) {
        let (answers, mut answered) = mpsc::unbounded_channel::<SessionReply>();
        let mut watch = self.watch();
        let mut events = Vec::new();
        loop {
            seam::pass(&self.settings.name, Self::NAME);
            self.handle_events(&mut events, &answers);
            let deadline = self
                .session
                .next_deadline()
                .map(|due| tokio::time::Instant::from_std(self.clock.instant(due)));
            let sleep = async {
                match deadline {
                    Some(until) => tokio::time::sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                count = self.session_rx.recv_many(&mut events, EVENTS_MAX) => if count == 0 {
                    return;
                },
                Some((runner, event)) = answered.recv() => if runner == self.session.runner() {
                    events.push(event);
                },
                () = watch.changed() => events.push(SessionEvent::Notified),
                () = sleep => {}
            }
        }
    }

    /// Nobody knows what was half done: everything begins again as another runner, and what the
    /// fallen one owned is given back.
    fn pick_up(&mut self) {
        let store = self.store.clone();
        let fallen = self.session.runner();
        self.fence("its session task panicked");
        tokio::spawn(async move {
            // If that fails, its lease ends by itself.
            if let Err(error) = store.runs.release(fallen).await {
                tracing::warn!(%error, runner = %fallen, "what it owned could not be given back");
            }
        });
    }
}

impl SessionTask {
    /// What leads to a claim. A run that ended leaves nothing to be claimed, unless it made room in
    /// a queue with a bound.
    fn watch(&self) -> Watch {
        let watch = self.store.runs.watch();
        if self.settings.bounds_queues() {
            watch
        } else {
            watch.only_work()
        }
    }

    /// Let the machine take in what came, or look at the clock if nothing did. What it asks for
    /// is done event by event: after a fence the next event is that of another runner.
    fn handle_events(
        &mut self,
        events: &mut Vec<SessionEvent>,
        answers: &mpsc::UnboundedSender<SessionReply>,
    ) {
        let mut commands = Vec::new();
        self.session
            .weighs(self.clock.now().moment, self.adopter.bytes());
        if events.is_empty() {
            self.session.tick(self.clock.now(), &mut commands);
            commands
                .drain(..)
                .for_each(|command| self.perform(command, answers));
        }
        for event in events.drain(..) {
            self.session.handle(self.clock.now(), event, &mut commands);
            commands
                .drain(..)
                .for_each(|command| self.perform(command, answers));
        }
        self.renew_lease();
        self.adopter.set_registered(self.session.is_registered());
    }

    /// Nothing starts that may be another runner's by then.
    fn renew_lease(&mut self) {
        let lease = (self.session.runner(), self.session.lease_until());
        if Some(lease) != self.lease {
            self.lease = Some(lease);
            self.dispatcher.renew_lease(lease.0, lease.1);
        }
    }

    fn perform(&mut self, command: SessionCommand, answers: &mpsc::UnboundedSender<SessionReply>) {
        match command {
            SessionCommand::Fence(why) => self.fence(why),
            SessionCommand::SetClock(ahead) => {
                tracing::debug!(ahead, "the store's clock differs from this machine's");
                self.clock.set_ahead(ahead);
            }
            SessionCommand::Adopt(runs) => self.adopt(runs),
            SessionCommand::Compare(owned) => {
                let forgotten = self.adopter.forgotten(owned);
                self.session.found(&forgotten);
                self.adopt(forgotten);
            }
            SessionCommand::Call(call) => self.call(call, answers.clone()),
        }
    }

    fn adopt(&self, runs: Vec<ClaimedRun>) {
        if runs.is_empty() {
            return;
        }
        let adopter = Arc::clone(&self.adopter);
        let session_tx = self.session_tx.clone();
        let owner = self.session.runner();
        tokio::spawn(async move {
            let dropped = match caught(adopter.adopt(owner, &runs)).await {
                Ok(dropped) => dropped,
                Err(why) => {
                    tracing::error!(
                        why,
                        "claimed runs were not taken up; comparing finds them again"
                    );
                    runs.iter()
                        .filter(|run| adopter.left(run.run, run.epoch))
                        .count()
                }
            };
            if dropped > 0 {
                let left = runs.iter().map(|run| run.run);
                let gone = left.filter(|run| !adopter.has(*run)).collect();
                let runs = dropped;
                // The engine may be gone; then nobody needs to know.
                let _ = session_tx.send(SessionEvent::Left { owner, runs });
                // What was not taken up has no place in a queue with a bound.
                let _ = session_tx.send(SessionEvent::Gone(gone));
            }
        });
    }

    /// Ask the store, and hear its answer.
    fn call(&self, call: SessionCall, answers: mpsc::UnboundedSender<SessionReply>) {
        let store = self.store.clone();
        let runner = self.session.runner();
        let adopter = Arc::clone(&self.adopter);
        let register = self.register(runner);
        let settings = self.settings.clone();
        let now = self.clock.wall();
        let asked = call.request();
        let (supervisor, limits) = (Arc::clone(&self.supervisor), Arc::clone(&self.limits));
        let answer = async move {
            match call {
                SessionCall::Register => {
                    let registered = store.runs.register(register).await;
                    end_if_gone(&supervisor, &registered);
                    event_of(
                        registered,
                        SessionRequest::Register,
                        SessionEvent::Registered,
                    )
                }
                SessionCall::Heartbeat => {
                    let beaten = store.runs.heartbeat(runner).await;
                    end_if_gone(&supervisor, &beaten);
                    event_of(beaten, SessionRequest::Heartbeat, SessionEvent::Beaten)
                }
                SessionCall::Claim(claim) => event_of(
                    rated_claim::claim(&store, &limits, &settings, claim, now).await,
                    SessionRequest::Claim,
                    SessionEvent::Claimed,
                ),
                SessionCall::Takeover => {
                    let taken = store.runs.takeover(Takeover { limit: SWEEP_MAX }).await;
                    event_of(taken, SessionRequest::Takeover, SessionEvent::TookOver)
                }
                SessionCall::Reconcile => event_of(
                    owned(&store, runner).await,
                    SessionRequest::Reconcile,
                    SessionEvent::Owned,
                ),
                SessionCall::Announce(serves) => event_of(
                    store.runs.announce(runner, serves).await,
                    SessionRequest::Announce,
                    SessionEvent::Announced,
                ),
                SessionCall::Mail => {
                    let mail = store.runs.waiting(runner, SWEEP_MAX).await;
                    event_of(
                        mail.map(|mail| adopter.hand_over(mail)),
                        SessionRequest::Mail,
                        |()| SessionEvent::Mailed,
                    )
                }
                SessionCall::Prune => {
                    let pruned = prune::once(&store, &settings, now).await;
                    event_of(pruned, SessionRequest::Prune, |pruned| {
                        SessionEvent::Pruned { more: pruned.more }
                    })
                }
            }
        };
        tokio::spawn(async move {
            let event = caught(answer).await.unwrap_or_else(|why| {
                tracing::error!(why, ?asked, "the store panicked");
                SessionEvent::Failed(asked)
            });
            let _ = answers.send((runner, event));
        });
    }

    fn register(&self, runner: RunnerId) -> Register {
        Register {
            runner,
            name: self.settings.name.clone(),
            host: self.settings.host.clone(),
            pid: std::process::id(),
            process: self.settings.process.clone(),
            program: concat!("lope ", env!("CARGO_PKG_VERSION")).to_owned(),
            serves: self.session.serves(),
            lease: self.settings.lease,
        }
    }

    /// Drop everything, write nothing, and begin again as another runner.
    fn fence(&mut self, why: &'static str) {
        let runner = RunnerId::from_uuid(Uuid::now_v7());
        let stopped = self.session.runner();
        tracing::error!(runner = %stopped, "this runner stops its work: {why}; it begins again as {runner}");
        self.adopter.shards.tell(|| ShardInput::Abandon);
        self.adopter.shards.tell(|| ShardInput::Owner(runner));
        self.adopter.begin_as(runner);
        self.session.reborn(runner);
        let _ = self.session_tx.send(SessionEvent::Notified);
    }
}

/// Everything that the store says this runner owns.
async fn owned(store: &Store, runner: RunnerId) -> StoreResult<Vec<ClaimedRun>> {
    let mut all: Vec<ClaimedRun> = Vec::new();
    loop {
        let page = store
            .runs
            .owned(runner, all.last().map(|run| run.run), limit::PAGE_MAX)
            .await?;
        let last = page.len() < limit::PAGE_MAX;
        all.extend(page);
        if last {
            return Ok(all);
        }
    }
}

/// A store that was there and is gone does not come back with what it held.
fn end_if_gone<T>(supervisor: &Supervisor, answer: &StoreResult<T>) {
    if let Err(error @ StoreError::Missing { .. }) = answer {
        supervisor.break_down(Breakdown::StoreGone(error.clone()));
    }
}

fn event_of<T>(
    answer: StoreResult<T>,
    asked: SessionRequest,
    make: impl FnOnce(T) -> SessionEvent,
) -> SessionEvent {
    answer.map_or_else(
        |error| {
            tracing::warn!(%error, ?asked, "the store did not answer");
            SessionEvent::Failed(asked)
        },
        make,
    )
}
