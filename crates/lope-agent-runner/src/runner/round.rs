//! A round: the run of a task that is ours. It is begun, taken up or tried again, worked on here by an
//! engine of its own while the lock is kept, and its end is written on the board.

use std::convert::Infallible;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lope_agents::board::{BoardError, HeldTask, NotBegun, TaskDetail};
use lope_agents::law::settle::{AttemptEnd, run_at_work};
use lope_agents::records::{AttemptRole, StopReason, TaskEventKind};
use lope_engine::client::{self, InputError};
use lope_engine::{Engine, News};
use lope_flow::law::{EventKind, Plan};
use lope_model::{Epoch, QueueName, RunId, Span};
use lope_store::StoreError;
use lope_store::runs::{Admitted, FinalStatus, LiveStatus, RunRecord, RunStatus};
use tokio::sync::{broadcast, watch};

use super::round_engine::RoundEngine;
use super::round_state::{Round, RoundStanding};
use super::steps::RoundAgents;
use super::{RunnerStop, StopWishes, TaskRunner};
use crate::task_workflow::{self, end_of, ended};

/// The queue of the runs of tasks. Nobody claims from it: whoever holds a task works on its run.
pub const TASK_QUEUE: &str = "lope.tasks";
/// How often a round whose runner is asked to end looks whether it only waits.
const DRAIN_LOOK: Duration = Duration::from_millis(250);
/// How often the run is looked at when nothing is heard of it.
const POLL: Duration = Duration::from_secs(2);
/// How much longer than its agents a round that must end may take to leave its run.
const STOP_MARGIN: Duration = Duration::from_secs(5);
/// How much longer than twice their grace agents that were told to end are waited for.
const AGENTS_MARGIN: Duration = Duration::from_secs(2);
/// How long a run may take to hear of the end of its agents before it is left.
const OUTCOME_MARGIN: Duration = Duration::from_secs(1);

/// The longest that a round takes to end when it must, while the store answers: its agents are told and
/// then killed, its run hears of that and is left.
pub fn longest_stop(stop_grace: Span) -> Span {
    Span::from(agents_patience(stop_grace) + STOP_MARGIN)
}

/// How long agents that were told to end may take.
fn agents_patience(stop_grace: Span) -> Duration {
    stop_grace.to_duration() * 2 + AGENTS_MARGIN
}

/// Which run a round is.
enum RoundRun {
    /// A new one, in the place of another that has not ended.
    Fresh {
        plan: Arc<Plan>,
        instead_of: Option<RunId>,
    },
    /// One that was left.
    Left(RunId),
    /// One that failed, where it failed.
    Again(RunId),
    /// It has ended, and nobody has written what that means.
    Ended(Box<AttemptEnd>),
}

impl TaskRunner {
    /// Work on the run of a task that is ours, and write what came of it.
    pub(super) async fn round(
        self: &Arc<Self>,
        mut held: HeldTask,
        wishes: &mut StopWishes,
    ) -> Result<RoundWritten, RunnerStop> {
        let ours_until = Instant::now() + self.bearable();
        let which = self.which_run(&held).await;
        let run = match self.bear(which).await? {
            None => {
                self.board.give_back(&held).await?;
                return Ok(RoundWritten::Unwritten);
            }
            Some(Ok(RoundRun::Ended(end))) => return self.write_end(&held, &end).await,
            Some(Err(message)) => {
                let end = ended(held.role, StopReason::Startup, Some(message));
                return self.write_end(&held, &end).await;
            }
            Some(Ok(run)) => run,
        };
        let (stop, asked) = watch::channel(None);
        let round = Arc::new(Round {
            held: held.clone(),
            instead_of: match &run {
                RoundRun::Fresh { instead_of, .. } => *instead_of,
                RoundRun::Left(_) | RoundRun::Again(_) | RoundRun::Ended(_) => None,
            },
            stop: asked,
            standing: Mutex::new(RoundStanding {
                role: held.role,
                ours_until,
                is_draining: false,
            }),
            limits: Mutex::default(),
        });
        let kept = self.keep(&mut held, &round, &stop, wishes);
        let end = self.worked(&run, &round, kept).await;
        self.write_end(&held, &end).await
    }

    /// Which run a task that is ours goes on with; in words, why there is none.
    async fn which_run(&self, held: &HeldTask) -> Result<Result<RoundRun, String>, BoardError> {
        let store = &self.equipment.engine.store;
        let detail = self.board.task_detail(&held.task.id.to_string()).await?;
        let named = run_at_work(&held.task);
        let last = detail.attempts.last().and_then(|attempt| attempt.run_id);
        let record = match named.or(last) {
            Some(run) => store.runs.run(run).await?,
            None => None,
        };
        let Some(record) = record else {
            return Ok(fresh(held, None));
        };
        let is_unwritten = named.is_some();
        // A run that ended because its lock was lost goes on under the new one.
        let end = end_of(&record, held.role).filter(|end| end.reason != StopReason::LostLock);
        if let (true, Some(end)) = (is_unwritten, end) {
            return Ok(Ok(RoundRun::Ended(Box::new(end))));
        }
        let goes_on = is_unwritten || is_same_round(&detail, held.role);
        Ok(match record.status {
            RunStatus::Live(_) if goes_on => Ok(RoundRun::Left(record.run)),
            RunStatus::Final(FinalStatus::Failed) if goes_on => Ok(RoundRun::Again(record.run)),
            RunStatus::Live(_) => fresh(held, Some(record.run)),
            RunStatus::Final(_) => fresh(held, None),
        })
    }

    /// Work on a run until it ends or must be left; meanwhile its task is kept.
    async fn worked(
        self: &Arc<Self>,
        run: &RoundRun,
        round: &Arc<Round>,
        kept: impl Future<Output = Infallible>,
    ) -> AttemptEnd {
        let role = round.held.role;
        let agents = RoundAgents::new(Arc::clone(self), Arc::clone(round));
        let engine = match self.equipment.engine.begin(Arc::new(agents.clone())) {
            Ok(engine) => engine,
            Err(error) => return ended(role, StopReason::Startup, Some(error.to_string())),
        };
        let news = engine.subscribe();
        let ended_as = tokio::select! {
            ended_as = self.see_through(&engine, run, round, news) => ended_as,
            never = kept => match never {},
            reason = self.given_up(round, &agents) => Ok(ended(role, reason, None)),
            () = self.drained(&engine, round) => Ok(ended(role, StopReason::Drain, None)),
            why = engine.broken() => Ok(ended(role, StopReason::Drain, Some(why.to_string()))),
        };
        let left = tokio::time::timeout(STOP_MARGIN, engine.shutdown(Duration::ZERO)).await;
        if let Ok(Err(error)) = left {
            self.log.line(&format!("the run cannot be left: {error}"));
        }
        agents.ended().await;
        ended_as.unwrap_or_else(|error| {
            let message = format!("the store: {error}");
            ended(role, StopReason::Startup, Some(message))
        })
    }

    async fn see_through(
        &self,
        engine: &Engine,
        run: &RoundRun,
        round: &Round,
        mut news: broadcast::Receiver<News>,
    ) -> Result<AttemptEnd, StoreError> {
        let store = &self.equipment.engine.store;
        let role = round.held.role;
        let run = match run {
            RoundRun::Ended(end) => return Ok((**end).clone()),
            RoundRun::Fresh { plan, instead_of } => {
                if let Some(old) = instead_of {
                    let kind = EventKind::Cancel { force: true };
                    client::tell(store, *old, &kind, None).await?;
                    engine.own(*old);
                }
                match self.begin(engine, plan, &round.held).await? {
                    Ok(run) => run,
                    Err(end) => return Ok(end),
                }
            }
            RoundRun::Left(run) => {
                if let Err(end) = self.note(*run, &round.held).await? {
                    return Ok(end);
                }
                engine.own(*run);
                *run
            }
            RoundRun::Again(run) => {
                let kind = EventKind::Retry {
                    epoch: Epoch::default(),
                };
                client::tell(store, *run, &kind, None).await?;
                // Not before: its old end would be taken for that of this round.
                if let Err(end) = self.note(*run, &round.held).await? {
                    return Ok(end);
                }
                engine.own(*run);
                *run
            }
        };
        loop {
            match store.runs.run(run).await {
                // As long as the lock is kept, a store that is out of reach is borne.
                Err(error) => self.log.line(&format!("the store: {error}")),
                Ok(Some(record)) => {
                    let end = end_of(&record, role).or_else(|| set_aside(&record, role));
                    if let Some(end) = end {
                        return Ok(end);
                    }
                }
                Ok(None) => {
                    let message = format!("run {run} is gone");
                    return Ok(ended(role, StopReason::Startup, Some(message)));
                }
            }
            run_changed(&mut news, run).await;
        }
    }

    async fn begin(
        &self,
        engine: &Engine,
        plan: &Arc<Plan>,
        held: &HeldTask,
    ) -> Result<Result<RunId, AttemptEnd>, StoreError> {
        let RoundEngine {
            store,
            settings,
            env,
            ..
        } = &self.equipment.engine;
        client::deploy(store, plan).await?;
        let options = client::RunStartOptions {
            input: Some(task_workflow::input(&held.task, held.role)),
            queue: QueueName::parse(TASK_QUEUE).expect("it is a name"),
            tags: [
                ("task".to_owned(), held.task.id.to_string()),
                ("project".to_owned(), held.task.project_path.clone()),
            ]
            .into(),
            env: env.clone(),
            ..client::RunStartOptions::default()
        };
        let now = lope_workers::clock::wall();
        let new_run = match client::fresh_run(plan, options, &settings.queue_limits, now) {
            Ok(new_run) => new_run,
            Err(InputError::Store(error)) => return Err(error),
            Err(unfit) => {
                let message = Some(unfit.to_string());
                return Ok(Err(ended(held.role, StopReason::Startup, message)));
            }
        };
        let run = new_run.admit.run;
        if let Err(end) = self.note(run, held).await? {
            return Ok(Err(end));
        }
        match engine.admit(new_run, plan).await? {
            Admitted::Created { .. } | Admitted::Exists { .. } => Ok(Ok(run)),
            Admitted::UnknownVersion => Err(StoreError::unavailable("the workflow was not kept")),
        }
    }

    /// Write down which run the round is, before anything happens in it: whoever takes the task up after us
    /// finds the run's end, or goes on in it.
    async fn note(
        &self,
        run: RunId,
        held: &HeldTask,
    ) -> Result<Result<(), AttemptEnd>, StoreError> {
        let not_begun = |reason| Ok(Err(ended(held.role, reason, None)));
        match self.board.begin_round(held, run).await {
            Ok(Ok(())) => Ok(Ok(())),
            Ok(Err(NotBegun::LockLost)) => not_begun(StopReason::LostLock),
            Ok(Err(NotBegun::Decided)) => not_begun(StopReason::Cancel),
            Err(BoardError::Store(error)) => Err(error),
            Err(error) => Err(StoreError::unavailable(error.to_string())),
        }
    }

    /// Until the round must end: agents are told at once and waited for, and their run may hear of it. What
    /// else it does, or waits for, goes on when the run is taken up again.
    async fn given_up(&self, round: &Round, agents: &RoundAgents) -> StopReason {
        let mut stop = round.stop.clone();
        let reason = match stop.wait_for(Option::is_some).await {
            Ok(reason) => (*reason).unwrap_or(StopReason::Cancel),
            Err(_) => std::future::pending().await,
        };
        if reason != StopReason::LostLock && agents.are_at_work() {
            let patience = agents_patience(self.equipment.settings.stop_grace);
            let heard = async {
                agents.ended().await;
                tokio::time::sleep(OUTCOME_MARGIN).await;
            };
            // Whoever is still at work then ends with this process.
            let _ = tokio::time::timeout(patience, heard).await;
        }
        reason
    }

    /// Until its runner is asked to end and the run does nothing but wait, for a time or a signal: it goes on
    /// waiting with the next runner.
    async fn drained(&self, engine: &Engine, round: &Round) {
        loop {
            tokio::time::sleep(DRAIN_LOOK).await;
            if round.is_draining()
                && engine.in_flight() == 0
                && let Ok(true) = self.only_waits(&round.held).await
            {
                return;
            }
        }
    }

    async fn only_waits(&self, held: &HeldTask) -> Result<bool, BoardError> {
        let task = self.board.task(&held.task.id.to_string()).await?;
        let Some(run) = run_at_work(&task) else {
            return Ok(false);
        };
        let record = self.equipment.engine.store.runs.run(run).await?;
        Ok(record.is_some_and(|record| match record.status {
            RunStatus::Live(
                LiveStatus::Idle | LiveStatus::Sleeping | LiveStatus::Waiting | LiveStatus::Paused,
            ) => true,
            RunStatus::Live(LiveStatus::Queued | LiveStatus::Running) | RunStatus::Final(_) => {
                false
            }
        }))
    }

    /// Did somebody else take the task? A lock that was only taken away leaves its epoch.
    async fn lost(&self, held: &HeldTask) -> Result<RoundWritten, RunnerStop> {
        let found = self.board.task(&held.task.id.to_string()).await;
        Ok(match self.bear(found).await? {
            Some(task) if task.epoch != held.lock.epoch => RoundWritten::Taken,
            Some(_) | None => RoundWritten::Unwritten,
        })
    }

    /// Write what a round came to. As long as the lock is surely ours, a store that is out of reach
    /// is asked again.
    async fn write_end(
        &self,
        held: &HeldTask,
        end: &AttemptEnd,
    ) -> Result<RoundWritten, RunnerStop> {
        let begun = Instant::now();
        let task = held.task.id;
        loop {
            match self.board.end_round(held, end).await {
                Ok(Ok(settled)) => {
                    let why = settled.reason.as_deref().unwrap_or("well");
                    self.log.line(&format!(
                        "task {task}: {} → {} ({why})",
                        end.reason, settled.status
                    ));
                    self.remove_worktrees(&task.to_string()).await;
                    return Ok(RoundWritten::Written);
                }
                Ok(Err(_)) => {
                    self.log
                        .line(&format!("task {task}: lease lost, nothing is written"));
                    return self.lost(held).await;
                }
                Err(error) => {
                    self.log.line(&format!("task {task}: the store: {error}"));
                    if begun.elapsed() >= self.bearable() {
                        return Err(RunnerStop::LeaseLost);
                    }
                    tokio::time::sleep(self.heartbeat() / 4).await;
                }
            }
        }
    }
}

/// What was written of a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RoundWritten {
    Written,
    /// Nothing: somebody else has taken the task.
    Taken,
    /// Nothing, and nobody else has taken it.
    Unwritten,
}

/// A new run, or in words why there can be none.
fn fresh(held: &HeldTask, instead_of: Option<RunId>) -> Result<RoundRun, String> {
    let plan = task_workflow::plan(Path::new(&held.task.project_path), held.role);
    plan.map(|plan| RoundRun::Fresh { plan, instead_of })
}

/// Is what comes next part of the round of the last attempt? Not if it is for another role, or if the
/// task was sent back since.
fn is_same_round(detail: &TaskDetail, role: AttemptRole) -> bool {
    let Some(last) = detail.attempts.last() else {
        return false;
    };
    let mut sent_back = detail.events.iter().filter(|event| {
        matches!(event.kind, TaskEventKind::Reset | TaskEventKind::Rejected)
            && event.at >= last.started_at
    });
    last.role == role && sent_back.next().is_none()
}

/// A run that cannot be worked on never ends by itself.
fn set_aside(record: &RunRecord, role: AttemptRole) -> Option<AttemptEnd> {
    let reason = record
        .parked
        .as_deref()
        .filter(|_| record.owner.is_none())?;
    let message = format!("run {}: {reason}", record.run);
    Some(ended(role, StopReason::Startup, Some(message)))
}

/// Until something is heard of a run, or a while has passed.
async fn run_changed(news: &mut broadcast::Receiver<News>, run: RunId) {
    let told = async {
        loop {
            match news.recv().await {
                Ok(News::Ended { run: about, .. } | News::Left(about)) if about == run => return,
                Ok(_) => {}
                Err(broadcast::error::RecvError::Lagged(_)) => return,
                Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
            }
        }
    };
    let _ = tokio::time::timeout(POLL, told).await;
}
