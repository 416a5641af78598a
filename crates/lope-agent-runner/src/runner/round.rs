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
use lope_model::{Epoch, QueueName, RunId};
use lope_store::StoreError;
use lope_store::runs::{Admitted, FinalStatus, RunRecord, RunStatus};
use tokio::sync::{broadcast, watch};

use super::round_engine::RoundEngine;
use super::round_state::{Round, RoundStanding};
use super::steps::RoundAgents;
use super::{RunnerStop, StopWishes, TaskRunner};
use crate::task_workflow::{self, end_of, ended};

/// The queue of the runs of tasks. Nobody claims from it: whoever holds a task works on its run.
pub const TASK_QUEUE: &str = "lope.tasks";
/// How often the run is looked at when nothing is heard of it.
const POLL: Duration = Duration::from_secs(2);
/// How much longer than its agents a round that must end may take.
const STOP_MARGIN: Duration = Duration::from_secs(5);

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
            }),
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
            reason = self.given_up(round.stop.clone()) => Ok(ended(role, reason, None)),
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
                engine.own(*run);
                *run
            }
            RoundRun::Again(run) => {
                let kind = EventKind::Retry {
                    epoch: Epoch::default(),
                };
                client::tell(store, *run, &kind, None).await?;
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
        let not_begun = |reason, message| ended(held.role, reason, message);
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
            Err(unfit) => return Ok(Err(not_begun(StopReason::Startup, Some(unfit.to_string())))),
        };
        let run = new_run.admit.run;
        match self.board.begin_round(held, run).await {
            Ok(Ok(())) => {}
            Ok(Err(NotBegun::LockLost)) => return Ok(Err(not_begun(StopReason::LostLock, None))),
            Ok(Err(NotBegun::Decided)) => return Ok(Err(not_begun(StopReason::Cancel, None))),
            Err(BoardError::Store(error)) => return Err(error),
            Err(error) => return Err(StoreError::unavailable(error.to_string())),
        }
        match engine.admit(new_run, plan).await? {
            Admitted::Created { .. } | Admitted::Exists { .. } => Ok(Ok(run)),
            Admitted::UnknownVersion => Err(StoreError::unavailable("the workflow was not kept")),
        }
    }

    /// Until the round must end and had time to: agents are told at once, and what else is at work
    /// has a little longer than they have.
    async fn given_up(&self, mut stop: watch::Receiver<Option<StopReason>>) -> StopReason {
        let reason = stop.wait_for(Option::is_some).await;
        let reason = match reason {
            Ok(reason) => (*reason).unwrap_or(StopReason::Cancel),
            Err(_) => std::future::pending().await,
        };
        if reason != StopReason::LostLock {
            let grace = self.equipment.settings.stop_grace.to_duration();
            tokio::time::sleep(grace * 2 + STOP_MARGIN).await;
        }
        reason
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
