//! Runners on the board: one in each place of a project, with a heartbeat, asked to stop, ended.

use std::collections::BTreeSet;
use std::time::Duration;

use lope_model::id::TaskId;
use lope_model::{Moment, RunnerId, Timestamp};
use lope_store::board::{BoardChange, BoardSelect, RUNNERS, TASK_LOCKS};

use super::{AgentBoard, BoardError, BoardResult, TRIES_MAX, contended, pause, taken};
use crate::law::BoardView;
use crate::law::lock::{is_doubtful, is_stale};
use crate::law::seen::SeenRunner;
use crate::law::unstarted::UnstartedRunner;
use crate::records::{AgentRunnerRecord, BoardRecord, RunnerStatus, StopLevel, TaskLockRecord};

/// How often a runner that may be dead is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// A runner that is to begin.
#[derive(Clone, PartialEq, Debug)]
pub struct RunnerEntry {
    pub id: RunnerId,
    pub pid: u32,
    pub pid_started: String,
    pub boot_id: String,
    pub host: String,
    pub project: String,
    pub section: Option<String>,
    /// Most runners of the project at once.
    pub places: u32,
}

/// Whether a runner may begin.
#[derive(Clone, PartialEq, Debug)]
pub enum RunnerPlace {
    Taken(Box<AgentRunnerRecord>),
    /// These work on the project, and there is no place for another; or in the same section.
    Full(Vec<RunnerId>),
}

/// Who is at work, and on what: what they write to is not old.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WorkUnderWay {
    /// Runners that have not ended.
    pub runners: BTreeSet<RunnerId>,
    /// Tasks that are held.
    pub tasks: BTreeSet<TaskId>,
}

/// The place of a new runner beside those that live, or who is in its way.
fn place_beside(live: &[&AgentRunnerRecord], new: &RunnerEntry) -> Result<i64, Vec<RunnerId>> {
    let is_same = |it: &&&AgentRunnerRecord| new.section.is_some() && it.section_id == new.section;
    if let Some(same) = live.iter().find(is_same) {
        return Err(vec![same.id]);
    }
    let mut places = 1..=i64::from(new.places);
    let free = places.find(|place| live.iter().all(|it| it.place != *place));
    free.ok_or_else(|| live.iter().map(|it| it.id).collect())
}

/// A runner could be started: that it could not be before is forgotten.
fn started(view: &BoardView, path: &str) -> Option<BoardChange> {
    let mut project = view.project(path)?.clone();
    UnstartedRunner::forget(&mut project).then(|| project.updated())
}

impl AgentBoard {
    /// Enter a runner where a place is free. Places of runners that are gone are freed first.
    pub async fn enter_runner(&self, new: &RunnerEntry) -> BoardResult<RunnerPlace> {
        for tries in 1..=TRIES_MAX {
            let view = self.certain_view(&new.project).await?;
            if self.bring_back(&view).await? {
                continue;
            }
            let here = view
                .runners
                .iter()
                .filter(|runner| runner.project_path.as_ref() == Some(&new.project));
            let (gone, live): (Vec<_>, Vec<_>) =
                here.partition(|runner| is_stale(&view, runner, &self.rules));
            for runner in &gone {
                self.end_runner(
                    runner.id,
                    RunnerStatus::Failed,
                    Some("it gave no sign of life"),
                )
                .await?;
            }
            let place = match place_beside(&live, new) {
                Ok(place) => place,
                Err(others) => return Ok(RunnerPlace::Full(others)),
            };
            let runner = AgentRunnerRecord {
                id: new.id,
                revision: 1,
                status: RunnerStatus::Running,
                pid: Some(i64::from(new.pid)),
                pid_started: new.pid_started.clone(),
                boot_id: new.boot_id.clone(),
                host: new.host.clone(),
                project_path: Some(new.project.clone()),
                section_id: new.section.clone(),
                place,
                current_task_id: None,
                started_at: view.clock.now,
                completed_at: None,
                heartbeat_at: view.clock.now,
                beat: view.clock.moment,
                awake: self.facts.awake(),
                stop: None,
                error: None,
            };
            let mut changes = vec![runner.clone().inserted()];
            changes.extend(started(&view, &new.project));
            if self.commit(changes).await? {
                return Ok(RunnerPlace::Taken(Box::new(runner)));
            }
            pause(tries).await;
        }
        contended()
    }

    /// A project in which no runner may be dead or not: whoever looks for the first time watches
    /// those of other machines for a while.
    async fn certain_view(&self, project: &str) -> BoardResult<BoardView> {
        loop {
            let view = self.view(Some(project)).await?;
            let own = view.runners.iter();
            let mut own = own.filter(|it| it.project_path.as_deref() == Some(project));
            if !own.any(|runner| is_doubtful(&view, runner, &self.rules)) {
                return Ok(view);
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// All runners that there are or were, as they stand, youngest last.
    pub async fn runners(&self) -> BoardResult<Vec<SeenRunner>> {
        let mut seen = self.seen_runners(BoardSelect::all(RUNNERS)).await?;
        seen.sort_by_key(|it| (it.runner.started_at, it.runner.id));
        Ok(seen)
    }

    async fn seen_runners(&self, select: BoardSelect) -> BoardResult<Vec<SeenRunner>> {
        let mut read = self.board.read(vec![select]).await?;
        let runners: Vec<AgentRunnerRecord> = taken(&mut read, 0)?;
        let seen = runners.into_iter().map(|runner| {
            let proof = self.proof(&runner, &read.clock.boot_id);
            SeenRunner::new(runner, proof)
        });
        Ok(seen.collect())
    }

    /// Who is at work, and on what.
    pub async fn work_under_way(&self) -> BoardResult<WorkUnderWay> {
        let live = [RunnerStatus::Idle, RunnerStatus::Running].map(RunnerStatus::as_str);
        let live = BoardSelect::all(RUNNERS).among("status", live);
        let selects = vec![live, BoardSelect::all(TASK_LOCKS)];
        let mut read = self.board.read(selects).await?;
        let runners: Vec<AgentRunnerRecord> = taken(&mut read, 0)?;
        let locks: Vec<TaskLockRecord> = taken(&mut read, 1)?;
        Ok(WorkUnderWay {
            runners: runners.iter().map(|runner| runner.id).collect(),
            tasks: locks.iter().map(|lock| lock.task_id).collect(),
        })
    }

    /// The runner of an id, or of its beginning.
    pub async fn runner(&self, named: &str) -> BoardResult<AgentRunnerRecord> {
        Ok(self.seen_runner(named).await?.runner)
    }

    /// The runner of an id, or of its beginning, as it stands.
    pub async fn seen_runner(&self, named: &str) -> BoardResult<SeenRunner> {
        let select = BoardSelect::all(RUNNERS).prefix("id", named.to_ascii_lowercase());
        let mut found = self.seen_runners(select.last(5)).await?;
        match found.len() {
            1 if !named.is_empty() => Ok(found.remove(0)),
            0 | 1 => Err(BoardError::Missing {
                what: "runner",
                name: named.to_owned(),
            }),
            _ => Err(BoardError::Ambiguous {
                name: named.to_owned(),
                matches: found.iter().map(|it| it.runner.id.to_string()).collect(),
            }),
        }
    }

    /// A sign of life, with what is worked on. The runner as it is now, with how it is asked to
    /// stop; nothing if it was ended by somebody.
    pub async fn beat(
        &self,
        id: RunnerId,
        status: RunnerStatus,
        task: Option<TaskId>,
    ) -> BoardResult<Option<AgentRunnerRecord>> {
        self.change_runner(id, |runner, now, moment, awake| {
            runner.status = status;
            runner.current_task_id = task;
            runner.heartbeat_at = now;
            runner.beat = moment;
            runner.awake = awake;
        })
        .await
    }

    /// Ask a runner to stop. A more urgent wish stays.
    pub async fn ask_to_stop(
        &self,
        id: RunnerId,
        level: StopLevel,
    ) -> BoardResult<Option<AgentRunnerRecord>> {
        self.change_runner(id, |runner, _, _, _| {
            runner.stop = runner.stop.max(Some(level));
        })
        .await
    }

    /// Change a runner that has not ended.
    async fn change_runner(
        &self,
        id: RunnerId,
        change: impl Fn(&mut AgentRunnerRecord, Timestamp, Moment, i64),
    ) -> BoardResult<Option<AgentRunnerRecord>> {
        for tries in 1..=TRIES_MAX {
            let select = BoardSelect::all(RUNNERS).among("id", [id.to_string()]);
            let read = self.board.read(vec![select]).await?;
            let found = read.rows[0].first().map(AgentRunnerRecord::from_row);
            let live = |runner: &AgentRunnerRecord| {
                matches!(runner.status, RunnerStatus::Idle | RunnerStatus::Running)
            };
            let Some(mut runner) = found.transpose()?.filter(live) else {
                return Ok(None);
            };
            let (now, moment) = (read.clock.now, read.clock.moment);
            let news = |it: &AgentRunnerRecord| (it.status, it.current_task_id, it.stop);
            let before = news(&runner);
            change(&mut runner, now, moment, self.facts.awake());
            let next = runner.clone();
            let is_news = news(&next) != before;
            let written = if is_news {
                next.updated()
            } else {
                next.renewed()
            };
            if self.commit(vec![written]).await? {
                runner.revision += 1;
                return Ok(Some(runner));
            }
            pause(tries).await;
        }
        contended()
    }

    /// Forget runners that ended before this time, so many at most.
    pub async fn forget_runners(&self, before: Timestamp, most: usize) -> BoardResult<usize> {
        let ended = [RunnerStatus::Completed, RunnerStatus::Failed].map(RunnerStatus::as_str);
        let select = BoardSelect::all(RUNNERS).among("status", ended);
        let mut old: Vec<AgentRunnerRecord> = self.rows(select).await?;
        old.retain(|runner| runner.completed_at.is_some_and(|at| at < before));
        old.truncate(most);
        self.forget(&old).await
    }

    /// A runner has ended. Its locks are given back; tasks that it was at work on keep their open
    /// attempts, which whoever takes them next settles. Nothing: it had ended before.
    pub async fn end_runner(
        &self,
        id: RunnerId,
        status: RunnerStatus,
        error: Option<&str>,
    ) -> BoardResult<Option<AgentRunnerRecord>> {
        for tries in 1..=TRIES_MAX {
            let own = id.to_string();
            let read = self
                .board
                .read(vec![
                    BoardSelect::all(RUNNERS).among("id", [&own]),
                    BoardSelect::all(TASK_LOCKS).among("runner_id", [&own]),
                ])
                .await?;
            let found = read.rows[0].first().map(AgentRunnerRecord::from_row);
            let Some(mut runner) = found.transpose()? else {
                return Ok(None);
            };
            if !matches!(runner.status, RunnerStatus::Idle | RunnerStatus::Running) {
                return Ok(None);
            }
            runner.status = status;
            runner.completed_at = Some(read.clock.now);
            runner.error = error.map(str::to_owned);
            runner.current_task_id = None;
            let mut changes = vec![runner.clone().updated()];
            for row in &read.rows[1] {
                changes.push(TaskLockRecord::from_row(row)?.deleted());
            }
            if self.commit(changes).await? {
                return Ok(Some(runner));
            }
            pause(tries).await;
        }
        contended()
    }
}
