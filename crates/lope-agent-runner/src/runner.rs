//! A runner: it enters itself on the board, claims one task after the other, has an agent do each,
//! gives signs of life, and ends when it is asked to or when nothing is left.

mod attempt;
mod checkouts;
mod keep;
mod known_end;
mod left_runs;
mod round;
mod round_engine;
mod round_state;
mod steps;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lope_agents::board::{AgentBoard, BoardError, ClaimOutcome, RunnerEntry, RunnerPlace};
use lope_agents::law::select::{NotEligible, TaskQuery};
use lope_agents::machine::LocalMachine;
use lope_agents::records::{RunnerStatus, StopLevel};
use lope_agents::settings::{AgentsSettings, RunnerSettings};
use lope_model::id::TaskId;
use lope_model::{RunnerId, Span, Timestamp};
use lope_workers::InheritedEnvironment;
use lope_workers::clock::wall;
use lope_workers::process_tree::ProcessTrees;
use tokio::runtime::Handle;
use tokio::sync::watch;

pub(crate) use self::attempt::zone_of;
use self::round::RoundWritten;
pub use self::round::{TASK_QUEUE, longest_stop};
pub use self::round_engine::{ROUND_ENGINE, RoundEngine};
use crate::hooks::{HookReport, HookTeller, TellingEnd};
use crate::runner_log::{RunnerLog, is_log_of};
use crate::task_logs::{TaskLogs, remove_older};
use crate::worktree::Worktrees;

/// Many changes of the board at once are looked at once.
const CHANGES_TOGETHER: Duration = Duration::from_millis(200);

/// How long a runner waits after a round that could not be written, at first and at most.
const UNWRITTEN_PAUSE: Duration = Duration::from_millis(250);
const UNWRITTEN_PAUSE_MAX: Duration = Duration::from_secs(60);

/// Most runners that one runner forgets.
const FORGOTTEN_MAX: usize = 200;

/// What a runner says whose place or task somebody else has.
const LEASE_LOST: &str = "lease lost";

/// How long what is to be told to hooks of another configuration stays at least.
const HOOKS_KEPT_MIN: Span = Span::from_secs(24 * 60 * 60);

/// What a runner is to do.
#[derive(Clone, PartialEq, Debug)]
pub struct RunnerSpec {
    pub id: RunnerId,
    pub project: String,
    pub section: Option<String>,
    /// This task and no other.
    pub task: Option<TaskId>,
    /// End when no task can be started.
    pub until_idle: bool,
    pub lock_expiry: Span,
}

/// What a runner works with.
#[derive(Clone, Debug)]
pub struct RunnerEquipment {
    /// What works on the runs of tasks.
    pub engine: RoundEngine,
    pub settings: RunnerSettings,
    pub agents: AgentsSettings,
    /// What agents inherit.
    pub environment: InheritedEnvironment,
    /// What they get besides: how they reach the board.
    pub variables: Vec<(String, String)>,
    /// Where the logs of attempts go.
    pub task_logs: PathBuf,
    /// Where worktrees of attempts go, if they have any.
    pub worktrees: PathBuf,
    /// Where logs of runners go.
    pub runner_logs: PathBuf,
    /// What it does is also told at the terminal.
    pub is_shown: bool,
}

/// A runner that has its place on the board.
#[derive(Debug)]
pub struct TaskRunner {
    board: AgentBoard,
    spec: RunnerSpec,
    equipment: RunnerEquipment,
    trees: ProcessTrees,
    logs: TaskLogs,
    worktrees: Worktrees,
    log: Arc<RunnerLog>,
    hooks: HookTeller,
    runtime: Handle,
}

/// How a runner ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RunnerEnd {
    /// Nothing was left to do, or it was asked to stop.
    Completed,
    /// The one task that was meant could not be started; why.
    NotStarted(String),
    /// Somebody else has its place or its task.
    LeaseLost,
    Failed(String),
}

/// Why a runner stops working.
#[derive(Debug)]
enum RunnerStop {
    LeaseLost,
    Failed(String),
}

type StopWishes = watch::Receiver<Option<StopLevel>>;

impl From<BoardError> for RunnerStop {
    fn from(error: BoardError) -> Self {
        Self::Failed(error.to_string())
    }
}

/// What becomes of a place.
#[derive(Debug)]
pub enum RunnerAdmission {
    Admitted(Arc<TaskRunner>),
    /// These work on the project, and there is no place for another.
    Full(Vec<RunnerId>),
}

impl TaskRunner {
    /// Take a place on the board.
    pub async fn enter(
        board: AgentBoard,
        spec: RunnerSpec,
        equipment: RunnerEquipment,
    ) -> Result<RunnerAdmission, BoardError> {
        let process = LocalMachine::own_process();
        let log = RunnerLog::open(
            &equipment.runner_logs,
            process.pid,
            spec.id,
            equipment.is_shown,
        );
        let log = Arc::new(log.map_err(|error| {
            let folder = equipment.runner_logs.display();
            BoardError::Refused(format!("no log can be written in {folder}: {error}"))
        })?);
        let entry = RunnerEntry {
            id: spec.id,
            pid: process.pid,
            pid_started: process.start_time.to_string(),
            boot_id: process.scope.clone(),
            host: LocalMachine::host(),
            project: spec.project.clone(),
            section: spec.section.clone(),
            places: equipment.settings.max_concurrent,
        };
        match board.enter_runner(&entry).await? {
            RunnerPlace::Full(others) => {
                // It has not begun, so it has nothing to tell.
                let _ = std::fs::remove_file(log.path());
                Ok(RunnerAdmission::Full(others))
            }
            RunnerPlace::Taken(_) => Ok(RunnerAdmission::Admitted(Arc::new(Self {
                trees: ProcessTrees::begin(&Handle::current()),
                runtime: Handle::current(),
                logs: TaskLogs::at(equipment.task_logs.clone()),
                worktrees: Worktrees::at(equipment.worktrees.clone()),
                hooks: teller(&board, &equipment, &log),
                board,
                spec,
                equipment,
                log,
            }))),
        }
    }

    /// Take a place on the board and work until the end, in one call. Nothing is done if there is
    /// no place: these work on the project.
    pub async fn work(
        board: AgentBoard,
        spec: RunnerSpec,
        equipment: RunnerEquipment,
        stops: StopWishes,
    ) -> Result<Result<RunnerEnd, Vec<RunnerId>>, BoardError> {
        Ok(match Self::enter(board, spec, equipment).await? {
            RunnerAdmission::Admitted(runner) => Ok(runner.run(stops).await),
            RunnerAdmission::Full(others) => Err(others),
        })
    }

    /// Where it tells what it does.
    pub fn log_path(&self) -> &Path {
        self.log.path()
    }

    /// Work until the end. `stops` is how a person or the machine asks this process to stop.
    pub async fn run(self: &Arc<Self>, mut stops: StopWishes) -> RunnerEnd {
        self.log.line(&format!(
            "runner {} works on {}",
            self.spec.id, self.spec.project
        ));
        self.remove_old_logs().await;
        self.forget_old_runners().await;
        self.remove_old_worktrees().await;
        self.end_left_runs().await;
        let (ending, ended) = watch::channel(TellingEnd::Open);
        let mut telling = Box::pin(self.hooks.tell_until(ended));
        let mut is_told = false;
        let worked = {
            let mut work = Box::pin(self.work_through(&mut stops));
            loop {
                tokio::select! {
                    worked = &mut work => break worked,
                    () = &mut telling, if !is_told => is_told = true,
                }
            }
        };
        self.end_left_runs().await;
        // Its place is free from here on: tasks do not wait for hooks.
        let end = self.leave(worked).await;
        ending.send_replace(TellingEnd::Told);
        let asked = async {
            cancelled(&mut stops).await;
            self.log
                .line("asked to stop: what hooks have not heard is told by others");
            ending.send_replace(TellingEnd::Now);
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = &mut telling, if !is_told => {}
            () = asked, if !is_told => {}
            else => {}
        }
        match &end {
            RunnerEnd::Completed | RunnerEnd::NotStarted(_) => self.log.line("ended"),
            RunnerEnd::LeaseLost => self.log.line(LEASE_LOST),
            RunnerEnd::Failed(message) => self.log.line(message),
        }
        end
    }

    /// Give the place on the board back.
    async fn leave(&self, worked: Result<Option<String>, RunnerStop>) -> RunnerEnd {
        let end = match worked {
            Ok(None) => RunnerEnd::Completed,
            Ok(Some(why)) => RunnerEnd::NotStarted(why),
            Err(RunnerStop::LeaseLost) => RunnerEnd::LeaseLost,
            Err(RunnerStop::Failed(message)) => RunnerEnd::Failed(message),
        };
        let (status, error) = match &end {
            RunnerEnd::Completed | RunnerEnd::NotStarted(_) => (RunnerStatus::Completed, None),
            RunnerEnd::LeaseLost => (RunnerStatus::Failed, Some(LEASE_LOST)),
            RunnerEnd::Failed(message) => (RunnerStatus::Failed, Some(message.as_str())),
        };
        if let Err(error) = self.board.end_runner(self.spec.id, status, error).await {
            self.log
                .line(&format!("its end cannot be written: {error}"));
        }
        end
    }

    /// Logs that nobody writes to any more go when they are old.
    async fn remove_old_logs(&self) {
        let retention = self.equipment.settings.log_retention;
        let unremoved = |error: &dyn std::fmt::Display| {
            self.log
                .line(&format!("old logs cannot be removed: {error}"));
        };
        let live = match self.board.work_under_way().await {
            Ok(live) => live,
            Err(error) => return unremoved(&error),
        };
        let of_tasks = self.logs.remove_older(retention, &live.tasks);
        let removed = of_tasks.and_then(|count| {
            let folder = &self.equipment.runner_logs;
            let is_written = |path: &Path| live.runners.iter().any(|id| is_log_of(path, *id));
            Ok(count + remove_older(folder, retention, &is_written)?)
        });
        match removed {
            Ok(0) => {}
            Ok(count) => self
                .log
                .line(&format!("{count} logs are older than {retention} and gone")),
            Err(error) => unremoved(&error),
        }
    }

    /// What ended so long ago that its log is gone is not listed for ever.
    async fn forget_old_runners(&self) {
        let Ok(now) = self.board.now().await else {
            return;
        };
        let retention = self.equipment.settings.log_retention;
        let hooks_before = now.minus(retention.max(HOOKS_KEPT_MIN));
        let hooks = self.board.forget_hooks(hooks_before).await;
        let before = now.minus(retention);
        let runners = self.board.forget_runners(before, FORGOTTEN_MAX).await;
        if let Err(error) = hooks.and(runners) {
            self.log
                .line(&format!("old runners cannot be forgotten: {error}"));
        }
    }

    /// Work until the end; if that is because the one task that is meant cannot be started, why.
    async fn work_through(
        self: &Arc<Self>,
        stops: &mut StopWishes,
    ) -> Result<Option<String>, RunnerStop> {
        let mut changes = self.board.watch();
        let mut status = RunnerStatus::Running;
        let mut next_beat = Instant::now();
        let mut unwritten = 0;
        loop {
            changes.take();
            if Instant::now() >= next_beat {
                self.sign_of_life(status).await?;
                next_beat = Instant::now() + self.heartbeat();
            }
            if self.wished(stops).await?.is_some() {
                self.log.line("asked to stop");
                return Ok(None);
            }
            let look = match self.claim().await? {
                NextStep::Work(held) => {
                    (status, next_beat) = (RunnerStatus::Running, Instant::now());
                    let round = self.round(*held, stops).await?;
                    unwritten = self.paused_after(round, unwritten).await?;
                    if self.spec.task.is_some() && !self.is_open().await? {
                        return Ok(None);
                    }
                    continue;
                }
                NextStep::Again => continue,
                NextStep::End(why) => return Ok(why),
                NextStep::Wait(until) => until.map(not_before),
            };
            if status != RunnerStatus::Idle {
                (status, next_beat) = (RunnerStatus::Idle, Instant::now());
                self.log.line("no task can be started now");
                continue;
            }
            tokio::select! {
                () = changes.changed() => tokio::time::sleep(CHANGES_TOGETHER).await,
                () = tokio::time::sleep_until(look.unwrap_or(next_beat).min(next_beat).into()) => {}
                _ = stops.changed() => {}
            }
        }
    }

    async fn claim(&self) -> Result<NextStep, RunnerStop> {
        let query = TaskQuery {
            project: Some(&self.spec.project),
            section: self.spec.section.as_deref(),
            task: self.spec.task,
            me: Some(self.spec.id),
        };
        let expiry = self.spec.lock_expiry;
        let outcome = self.board.claim(&query, self.spec.id, expiry).await;
        Ok(match self.bear(outcome).await? {
            None => NextStep::Wait(None),
            Some(ClaimOutcome::Claimed(held)) => NextStep::Work(held),
            Some(ClaimOutcome::Exhausted { task, reason }) => {
                self.log.line(&format!("task {task} is blocked: {reason}"));
                NextStep::Again
            }
            Some(ClaimOutcome::NextDay(day)) => {
                let why = format!("the budget of the day is used up until {day}");
                self.log.line(&why);
                if self.spec.until_idle {
                    NextStep::End(self.spec.task.map(|_| why))
                } else {
                    NextStep::Wait(Some(day))
                }
            }
            Some(ClaimOutcome::Nothing | ClaimOutcome::Early(_)) if self.spec.until_idle => {
                NextStep::End(None)
            }
            Some(ClaimOutcome::Nothing) => NextStep::Wait(None),
            Some(ClaimOutcome::Early(time)) => NextStep::Wait(Some(time)),
            Some(ClaimOutcome::NotNow(why)) if is_passing(&why) && !self.spec.until_idle => {
                NextStep::Wait(match why {
                    NotEligible::Early(time) => Some(time),
                    _ => None,
                })
            }
            Some(ClaimOutcome::NotNow(why)) => {
                self.log.line(&format!("the task cannot be started: {why}"));
                NextStep::End(Some(why.to_string()))
            }
        })
    }

    /// What a round means for its runner: one whose task somebody else has taken ends. After one that
    /// could not be written there is a pause, longer each time, before the same task is taken again.
    /// Returned is how many such rounds followed one another.
    async fn paused_after(&self, round: RoundWritten, before: u32) -> Result<u32, RunnerStop> {
        match round {
            RoundWritten::Written => Ok(0),
            RoundWritten::Taken => Err(RunnerStop::LeaseLost),
            RoundWritten::Unwritten => {
                let pause = UNWRITTEN_PAUSE * 2_u32.saturating_pow(before.min(10));
                tokio::time::sleep(pause.min(UNWRITTEN_PAUSE_MAX)).await;
                Ok(before.saturating_add(1))
            }
        }
    }

    /// Can the one task that is meant still be worked on by this runner?
    async fn is_open(&self) -> Result<bool, RunnerStop> {
        let Some(task) = self.spec.task else {
            return Ok(true);
        };
        let task = self.board.task(&task.to_string()).await?;
        Ok(lope_agents::law::select::is_open(&task))
    }

    /// A store that is out of reach for a moment is borne.
    async fn bear<T>(&self, outcome: Result<T, BoardError>) -> Result<Option<T>, RunnerStop> {
        match outcome {
            Ok(value) => Ok(Some(value)),
            Err(BoardError::Store(error)) => {
                self.log.line(&format!("the store: {error}"));
                tokio::time::sleep(self.heartbeat() / 4).await;
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn sign_of_life(&self, status: RunnerStatus) -> Result<(), RunnerStop> {
        let beat = self.board.beat(self.spec.id, status, None).await;
        match self.bear(beat).await? {
            None | Some(Some(_)) => Ok(()),
            Some(None) => Err(RunnerStop::LeaseLost),
        }
    }

    /// How it is asked to stop: by its process's signals, or on the board.
    async fn wished(&self, stops: &StopWishes) -> Result<Option<StopLevel>, RunnerStop> {
        let by_signal = *stops.borrow();
        let found = self.board.runner(&self.spec.id.to_string()).await;
        let on_board = self.bear(found).await?;
        if on_board
            .as_ref()
            .is_some_and(|runner| runner.completed_at.is_some())
        {
            return Err(RunnerStop::LeaseLost);
        }
        Ok(by_signal.max(on_board.and_then(|runner| runner.stop)))
    }

    fn heartbeat(&self) -> Duration {
        self.equipment.settings.heartbeat_interval.to_duration()
    }
}

/// Until this process is asked to stop at once.
async fn cancelled(stops: &mut StopWishes) {
    let is_urgent = |level: &Option<StopLevel>| *level >= Some(StopLevel::Cancel);
    if stops.wait_for(is_urgent).await.is_err() {
        // Nobody can ask any more.
        std::future::pending::<()>().await;
    }
}

/// Tells hooks, and the runner's log what came of it.
fn teller(board: &AgentBoard, equipment: &RunnerEquipment, log: &Arc<RunnerLog>) -> HookTeller {
    let log = Arc::clone(log);
    let report: HookReport = Arc::new(move |line: &str| log.line(line));
    let board = board.clone().with_hooks(&equipment.settings.hooks);
    HookTeller::new(board, equipment.environment.clone(), report)
}

/// What comes of asking for a task.
enum NextStep {
    Work(Box<lope_agents::board::HeldTask>),
    Again,
    /// Nothing can be started, or nothing before this time.
    Wait(Option<Timestamp>),
    /// There is nothing to do; why the one task that is meant cannot be started.
    End(Option<String>),
}

/// When to look again for a task that may not be started before a time by the store's clock, which may
/// be behind ours.
fn not_before(time: Timestamp) -> Instant {
    let left = time.since(wall()).to_duration();
    Instant::now() + left.max(Duration::from_secs(1))
}

/// Will what keeps a task from being started pass by itself?
const fn is_passing(why: &NotEligible) -> bool {
    match why {
        NotEligible::Waits(_)
        | NotEligible::Early(_)
        | NotEligible::Locked(_)
        | NotEligible::SectionLocked(_) => true,
        NotEligible::Status(_) | NotEligible::ProjectDisabled | NotEligible::SectionSkipped => {
            false
        }
    }
}
