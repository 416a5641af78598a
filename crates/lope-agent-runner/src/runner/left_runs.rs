//! Runs of rounds that nobody will go on with: their task ended without them, or is gone. They are
//! cancelled, so that no run stays open for ever.

use std::sync::Arc;
use std::time::Duration;

use lope_agents::board::{BoardError, TaskDetail};
use lope_agents::records::TaskStatus;
use lope_engine::client;
use lope_engine::executor::{Done, Executor, Task, Token};
use lope_flow::law::EventKind;
use lope_model::{Failure, QueueName, RunId};
use lope_store::runs::{LiveStatus, RunFilter, RunStatus};
use lope_store::{StoreError, StoreResult};

use super::TaskRunner;
use super::round::TASK_QUEUE;

/// Most runs that are looked at by one runner.
const SCANNED_MAX: usize = 1_000;
/// How long their end is waited for; the next runner looks again.
const PATIENCE: Duration = Duration::from_secs(10);

/// No agent is started for a run that is only to end.
struct NoAgents;

impl Executor for NoAgents {
    fn start(&self, _task: Task, done: Done) {
        let failure = Failure::new("Cancelled", "its task has ended");
        done.finish(Err(failure), None);
    }

    fn cancel(&self, _token: &Token) {}
}

impl TaskRunner {
    /// End the runs of this project's tasks that nobody goes on with.
    pub(super) async fn end_left_runs(&self) {
        let ended = async {
            let left = self.left_runs().await?;
            self.end_runs(&left).await
        };
        match ended.await {
            Ok(0) => {}
            Ok(count) => self
                .log
                .line(&format!("{count} runs of tasks that have ended are over")),
            Err(error) => self.log.line(&format!("runs that were left stay: {error}")),
        }
    }

    async fn left_runs(&self) -> StoreResult<Vec<RunId>> {
        let filter = RunFilter {
            statuses: LiveStatus::ALL.map(RunStatus::Live).to_vec(),
            queue: QueueName::parse(TASK_QUEUE).ok(),
            tags: [("project".to_owned(), self.spec.project.clone())].into(),
            limit: SCANNED_MAX,
            ..RunFilter::default()
        };
        let mut left = Vec::new();
        for record in self.equipment.engine.store.runs.list(filter).await? {
            let task = record.tags.get("task").map_or("", String::as_str);
            match self.board.task_detail(task).await {
                Ok(detail) if !is_over(&detail) => {}
                Ok(_) | Err(BoardError::Missing { .. }) => left.push(record.run),
                Err(error) => return Err(StoreError::unavailable(error.to_string())),
            }
        }
        Ok(left)
    }

    async fn end_runs(&self, runs: &[RunId]) -> StoreResult<usize> {
        if runs.is_empty() {
            return Ok(0);
        }
        let store = &self.equipment.engine.store;
        let engine = self.equipment.engine.begin(Arc::new(NoAgents));
        let engine = engine.map_err(|error| StoreError::unavailable(error.to_string()))?;
        for run in runs {
            client::tell(store, *run, &EventKind::Cancel { force: true }, None).await?;
            engine.own(*run);
        }
        let ends = async {
            for run in runs {
                client::wait(store, *run).await?;
            }
            Ok::<_, StoreError>(runs.len())
        };
        let ended = tokio::time::timeout(PATIENCE, ends).await;
        engine.shutdown(Duration::ZERO).await?;
        ended.unwrap_or(Ok(0))
    }
}

/// Has a task ended, and does nobody hold it?
fn is_over(detail: &TaskDetail) -> bool {
    let is_held = detail
        .lock
        .as_ref()
        .is_some_and(|(_, standing)| !standing.is_free());
    let has_ended = match detail.task.status {
        TaskStatus::Completed | TaskStatus::Failed | TaskStatus::Skipped => true,
        TaskStatus::Pending | TaskStatus::InProgress | TaskStatus::Review | TaskStatus::Blocked => {
            false
        }
    };
    has_ended && !is_held
}
