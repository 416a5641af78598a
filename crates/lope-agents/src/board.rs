//! The board as people, agents and runners use it: each call reads, asks the law, and writes what it
//! decided over what was read; if somebody was faster, it begins again.

mod add;
mod claims;
mod declare;
mod hooks;
mod projects;
mod rounds;
mod runners;
mod tasks;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use lope_model::id::TaskId;
use lope_model::{RunnerId, Timestamp, limit};
use lope_store::board::{
    Board, BoardChange, BoardClock, BoardConflict, BoardRead, BoardSelect, PROJECTS, RUNNERS,
    SECTIONS, TASK_EVENTS, TASK_LOCKS, TASKS,
};
use lope_store::{StoreError, StoreResult, Watch};
use thiserror::Error;

use crate::law::decide::Refused;
use crate::law::lock::{BroughtBack, brought_back};
use crate::law::select::is_open;
use crate::law::watched::WatchedRunners;
use crate::law::{BoardView, ProcessProof, TaskRules};
use crate::records::{
    AgentRunnerRecord, Author, BoardRecord, RunnerStatus, TaskEventKind, TaskEventRecord,
    TaskRecord, TaskStatus,
};
use crate::settings::HookSettings;

pub use add::TaskDraft;
pub(crate) use add::{AddedList, ListEnd, partly};
pub use claims::{ClaimOutcome, HeldTask, LockLost};
pub use declare::{TOKEN_VARIABLE, TaskToken};
pub use hooks::{HookAgain, HooksToTell};
pub use projects::RemovedProject;
pub use rounds::{AttemptStart, NotBegun, StartedAttempt};
pub use runners::{RunnerEntry, RunnerPlace, WorkUnderWay};
pub use tasks::{TaskDetail, TaskFilter};

/// How often a change is tried again when others were faster.
pub(crate) const TRIES_MAX: u32 = 50;
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(3);
/// How many rows are deleted in one commit.
const FORGET_TOGETHER: usize = 100;

/// What is known about the processes of this machine.
pub trait ProcessFacts: Send + Sync {
    /// The clock that stands still while the machine sleeps, in milliseconds.
    fn awake(&self) -> i64;
    fn proof(&self, runner: &AgentRunnerRecord) -> ProcessProof;
}

/// The board with its rules.
#[derive(Clone)]
pub struct AgentBoard {
    board: Arc<dyn Board>,
    facts: Arc<dyn ProcessFacts>,
    pub rules: TaskRules,
    hooks: Arc<[HookSettings]>,
    watched: Arc<Mutex<WatchedRunners>>,
}

/// Why the board did not do what it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BoardError {
    #[error("there is no {what} '{name}'")]
    Missing { what: &'static str, name: String },
    #[error("'{name}' is the beginning of several ids: {}", matches.join(", "))]
    Ambiguous { name: String, matches: Vec<String> },
    /// It exists, or somebody else holds it.
    #[error("{0}")]
    Refused(String),
    /// What was given cannot be.
    #[error("{0}")]
    Bad(String),
    /// A list cannot be, and which line of it.
    #[error("line {line}: {message}")]
    BadList { line: usize, message: String },
    /// The beginning of a long list is there, the rest is not.
    #[error("{added} of {of} tasks were added, then: {error}")]
    Partly {
        added: usize,
        of: usize,
        error: Box<BoardError>,
    },
    #[error(transparent)]
    Store(#[from] StoreError),
}

pub type BoardResult<T> = Result<T, BoardError>;

impl From<Refused> for BoardError {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused.message)
    }
}

impl std::fmt::Debug for AgentBoard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AgentBoard({:?})", self.rules)
    }
}

impl AgentBoard {
    pub fn new(board: Arc<dyn Board>, facts: Arc<dyn ProcessFacts>, rules: TaskRules) -> Self {
        Self {
            board,
            facts,
            rules,
            hooks: Arc::default(),
            watched: Arc::default(),
        }
    }

    /// Wakes when something on the board may have changed.
    pub fn watch(&self) -> Watch {
        self.board.watch()
    }

    /// What time it is by the store.
    pub async fn now(&self) -> BoardResult<Timestamp> {
        Ok(self.board.read(Vec::new()).await?.clock.now)
    }

    /// The board at one moment; of one project, or of all.
    pub async fn view(&self, project: Option<&str>) -> BoardResult<BoardView> {
        let live = [RunnerStatus::Idle, RunnerStatus::Running].map(RunnerStatus::as_str);
        let of = |select: BoardSelect, column: &'static str| match project {
            Some(path) => select.among(column, [path]),
            None => select,
        };
        let read = self
            .board
            .read(vec![
                of(BoardSelect::all(PROJECTS), "path"),
                of(BoardSelect::all(SECTIONS), "project_path"),
                of(not_completed(), "project_path"),
                of(BoardSelect::all(TASK_LOCKS), "project_path"),
                BoardSelect::all(RUNNERS).among("status", live),
            ])
            .await?;
        let mut view = self.seen(read)?;
        if project.is_some() {
            view.open_elsewhere = self.open_elsewhere(&view.tasks).await?;
        }
        Ok(view)
    }

    /// Tasks that these wait for, that are not completed and not among them. Asked for only if
    /// something that they wait for is not there.
    async fn open_elsewhere(&self, tasks: &[TaskRecord]) -> BoardResult<BTreeSet<TaskId>> {
        let own: BTreeSet<TaskId> = tasks.iter().map(|task| task.id).collect();
        let startable = tasks.iter().filter(|task| is_open(task));
        let waits = startable.flat_map(|task| task.dependencies.iter());
        let others: BTreeSet<TaskId> = waits.copied().filter(|id| !own.contains(id)).collect();
        let others: Vec<String> = others.iter().map(TaskId::to_string).collect();
        let mut open = BTreeSet::new();
        for part in others.chunks(limit::BOARD_VALUES_MAX) {
            let select = not_completed().among("id", part.iter().cloned());
            let found: Vec<TaskRecord> = self.rows(select).await?;
            open.extend(found.iter().map(|task| task.id));
        }
        Ok(open)
    }

    /// Bring back what lies ahead of a clock that was set back. False: there was nothing.
    pub async fn bring_back(&self, view: &BoardView) -> BoardResult<bool> {
        let all = brought_back(view);
        let is_any = !all.is_empty();
        for BroughtBack { runner, locks } in all {
            let locks = locks.into_iter().map(BoardRecord::updated);
            let runner = runner.map(BoardRecord::updated);
            // What its holder wrote meanwhile is right.
            self.commit(locks.chain(runner).collect()).await?;
        }
        Ok(is_any)
    }

    fn seen(&self, mut read: BoardRead) -> BoardResult<BoardView> {
        let runners: Vec<AgentRunnerRecord> = taken(&mut read, 4)?;
        let proofs: BTreeMap<RunnerId, ProcessProof> = runners
            .iter()
            .map(|runner| (runner.id, self.proof(runner, &read.clock.boot_id)))
            .collect();
        let awake = self.facts.awake();
        Ok(BoardView {
            unwatched: self.look_at(&runners, &proofs, awake, &read.clock),
            awake,
            projects: taken(&mut read, 0)?,
            sections: taken(&mut read, 1)?,
            tasks: taken(&mut read, 2)?,
            open_elsewhere: BTreeSet::new(),
            locks: taken(&mut read, 3)?,
            clock: read.clock,
            runners,
            proofs,
        })
    }

    /// A clock that belongs to one boot of one machine is never set.
    fn look_at(
        &self,
        runners: &[AgentRunnerRecord],
        proofs: &BTreeMap<RunnerId, ProcessProof>,
        awake: i64,
        clock: &BoardClock,
    ) -> BTreeSet<RunnerId> {
        if !clock.boot_id.is_empty() {
            return BTreeSet::new();
        }
        let elsewhere = runners
            .iter()
            .filter(|it| proofs.get(&it.id) == Some(&ProcessProof::Unknown));
        self.watched()
            .look(elsewhere, awake, self.rules.watch_time())
    }

    fn watched(&self) -> MutexGuard<'_, WatchedRunners> {
        self.watched
            .lock()
            .expect("no panic while the lock is held")
    }

    /// What was seen of runners elsewhere, for whoever looks next on this machine.
    pub fn watched_runners(&self) -> WatchedRunners {
        self.watched().clone()
    }

    /// Go on watching where somebody else has stopped.
    pub fn go_on_watching(&self, seen: WatchedRunners) {
        *self.watched() = seen;
    }

    /// All that share a store with a boot id share a machine: what ran in another boot is gone.
    fn proof(&self, runner: &AgentRunnerRecord, boot_id: &str) -> ProcessProof {
        match self.facts.proof(runner) {
            ProcessProof::Unknown if !runner.boot_id.starts_with(boot_id) => ProcessProof::Gone,
            proof @ (ProcessProof::Alive | ProcessProof::Gone | ProcessProof::Unknown) => proof,
        }
    }

    /// Rows of one table.
    async fn rows<R: BoardRecord>(&self, select: BoardSelect) -> BoardResult<Vec<R>> {
        let mut read = self.board.read(vec![select]).await?;
        Ok(taken(&mut read, 0)?)
    }

    async fn commit(&self, changes: Vec<BoardChange>) -> BoardResult<bool> {
        Ok(self.board.commit(changes).await?.is_ok())
    }

    /// Write one part after the other. False: somebody was faster; parts may be written.
    async fn commit_in_parts(&self, changes: &[BoardChange]) -> BoardResult<bool> {
        for part in changes.chunks(limit::BOARD_CHANGES_MAX) {
            if !self.commit(part.to_vec()).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Delete rows, many in one commit; how many. One that somebody changed or deleted meanwhile is
    /// left to him.
    async fn forget<R: BoardRecord>(&self, old: &[R]) -> BoardResult<usize> {
        let mut forgotten = 0;
        for group in old.chunks(FORGET_TOGETHER) {
            let mut changes: Vec<BoardChange> = group.iter().map(BoardRecord::deleted).collect();
            while let Err(BoardConflict { change }) = self.board.commit(changes.clone()).await? {
                changes.remove(change);
            }
            forgotten += changes.len();
        }
        Ok(forgotten)
    }

    /// An event of a task, numbered behind the last one.
    async fn event(
        &self,
        task: TaskId,
        kind: TaskEventKind,
        author: Author,
        message: &str,
    ) -> BoardResult<BoardChange> {
        let select = BoardSelect::all(TASK_EVENTS).among("task_id", [task.to_string()]);
        let mut read = self.board.read(vec![select.last(1)]).await?;
        let last: Vec<TaskEventRecord> = taken(&mut read, 0)?;
        let event = TaskEventRecord {
            task_id: task,
            number: last.first().map_or(1, |event| event.number + 1),
            revision: 0,
            at: read.clock.now,
            kind,
            author,
            message: bounded(message),
        };
        Ok(event.inserted())
    }
}

/// Tasks that are not completed.
fn not_completed() -> BoardSelect {
    let open = TaskStatus::ALL.iter().copied();
    let open = open.filter(|status| *status != TaskStatus::Completed);
    BoardSelect::all(TASKS).among("status", open.map(TaskStatus::as_str))
}

/// Rows of one selection.
fn taken<R: BoardRecord>(read: &mut BoardRead, place: usize) -> StoreResult<Vec<R>> {
    let rows = std::mem::take(&mut read.rows[place]);
    rows.iter().map(R::from_row).collect()
}

/// A text that fits into a column, its end left out if need be; zero bytes are no text.
pub(crate) fn bounded(text: &str) -> String {
    let mut end = text.len().min(limit::BOARD_TEXT_MAX / 4);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].replace('\0', "\u{fffd}")
}

/// Begin again: at once the first time, for who was faster is done; then each time after a longer
/// pause.
pub(crate) async fn pause(tries: u32) {
    if tries > 1 {
        tokio::time::sleep(TRY_AGAIN_AFTER * tries.min(10)).await;
    }
}

/// Somebody was always faster.
pub(crate) fn contended<T>() -> BoardResult<T> {
    Err(StoreError::unavailable("others kept changing the same rows of the board").into())
}
