//! Tasks that are added: one, a few together, or a list of any length.

use std::collections::BTreeSet;

use lope_model::id::TaskId;
use lope_model::{Timestamp, limit};
use lope_store::board::BoardChange;

use super::{AgentBoard, BoardError, BoardResult};
use crate::law::waiting::dependencies_first;
use crate::records::{BoardRecord, Budget, JsonText, ReviewBy, TaskRecord, TaskStatus};

/// Longest title of a task, in bytes.
const TITLE_MAX: usize = 1_000;
/// Most tasks that a task may wait for.
const DEPENDENCIES_MAX: usize = 100;

/// A task to be added.
#[derive(Clone, PartialEq, Debug)]
pub struct TaskDraft {
    pub id: Option<TaskId>,
    pub project: String,
    pub title: String,
    pub description: String,
    pub section: Option<String>,
    pub priority: i64,
    pub dependencies: Vec<TaskId>,
    pub source_file: Option<String>,
    pub review: ReviewBy,
    pub budget: Budget,
    pub status: TaskStatus,
    pub parent: Option<TaskId>,
}

impl TaskDraft {
    pub fn new(project: impl Into<String>, title: impl Into<String>) -> Self {
        Self {
            id: None,
            project: project.into(),
            title: title.into(),
            description: String::new(),
            section: None,
            priority: 4,
            dependencies: Vec::new(),
            source_file: None,
            review: ReviewBy::None,
            budget: Budget::default(),
            status: TaskStatus::Pending,
            parent: None,
        }
    }

    pub(crate) fn validate(&self) -> BoardResult<()> {
        let bad = |message: String| Err(BoardError::Bad(message));
        if self.title.trim().is_empty() {
            return bad("a task needs a title".to_owned());
        }
        if self.title.len() > TITLE_MAX {
            return bad(format!("a title has at most {TITLE_MAX} bytes"));
        }
        if !(0..=9).contains(&self.priority) {
            return bad(format!("priority {} is not from 0 to 9", self.priority));
        }
        if !self.budget.is_sound() {
            return bad("a cost is an amount of dollars, and attempts are at least one".to_owned());
        }
        if self.dependencies.len() > DEPENDENCIES_MAX {
            return bad(format!(
                "a task waits for at most {DEPENDENCIES_MAX} others"
            ));
        }
        let texts = [
            Some(&self.title),
            Some(&self.description),
            self.section.as_ref(),
            self.source_file.as_ref(),
        ];
        for text in texts.into_iter().flatten() {
            if text.contains('\0') {
                return bad("a task's texts hold no zero bytes".to_owned());
            }
            if text.len() > limit::BOARD_TEXT_MAX {
                return bad(format!(
                    "a text has at most {} bytes",
                    limit::BOARD_TEXT_MAX
                ));
            }
        }
        if self
            .section
            .as_ref()
            .is_some_and(|name| name.trim().is_empty())
        {
            return bad("a section needs a name".to_owned());
        }
        Ok(())
    }

    pub(super) fn record(&self, id: TaskId, now: Timestamp) -> TaskRecord {
        let ended = match self.status {
            TaskStatus::Completed | TaskStatus::Failed | TaskStatus::Skipped => Some(now),
            TaskStatus::Pending
            | TaskStatus::InProgress
            | TaskStatus::Review
            | TaskStatus::Blocked => None,
        };
        TaskRecord {
            id,
            revision: 0,
            project_path: self.project.clone(),
            section_id: self.section.clone(),
            title: self.title.clone(),
            description: self.description.clone(),
            status: self.status,
            priority: self.priority,
            dependencies: JsonText(self.dependencies.clone()),
            source_file: self.source_file.clone(),
            epoch: 0,
            attempts: 0,
            rejections: 0,
            interrupted: false,
            not_before: None,
            reason: None,
            decided_by: None,
            review: self.review,
            budget: JsonText(self.budget),
            session: None,
            parent_id: self.parent,
            question: None,
            answer: None,
            result: None,
            created_at: now,
            updated_at: now,
            completed_at: ended,
        }
    }
}

impl AgentBoard {
    /// Add tasks, all or none; they may wait for one another. Ids that are there are refused.
    pub async fn add_tasks(&self, tasks: Vec<TaskDraft>) -> BoardResult<Vec<TaskRecord>> {
        if tasks.len() > limit::BOARD_CHANGES_MAX {
            let message = format!("at most {} tasks at once", limit::BOARD_CHANGES_MAX);
            return Err(BoardError::Bad(message));
        }
        self.add_list(&tasks).await
    }

    /// Add the tasks of a list, however long. Nothing of one that is wrong is added; a long one comes
    /// in parts, those that others wait for first.
    pub async fn add_list(&self, tasks: &[TaskDraft]) -> BoardResult<Vec<TaskRecord>> {
        tasks.iter().try_for_each(TaskDraft::validate)?;
        let now = self.now().await?;
        let mut records: Vec<TaskRecord> = Vec::with_capacity(tasks.len());
        for (place, task) in tasks.iter().enumerate() {
            // Those added together are a millisecond apart, so that their age has their order.
            let at = Timestamp::from_millis(now.millis() + place as i64);
            let id = task.id.unwrap_or_else(fresh_task);
            records.push(task.record(id, at));
        }
        let order = self.order_of_new(&records).await?;
        for part in order.chunks(limit::BOARD_CHANGES_MAX) {
            let changes = part.iter().map(|place| records[*place].clone().inserted());
            let changes: Vec<BoardChange> = changes.collect();
            if let Err(conflict) = self.board.commit(changes).await? {
                return Err(there_already(records[part[conflict.change]].id));
            }
        }
        for task in &mut records {
            task.revision = 1;
        }
        Ok(records)
    }

    /// In which order new tasks are written. Each has an id of its own, every dependency is there,
    /// and none leads back to where it began.
    async fn order_of_new(&self, added: &[TaskRecord]) -> BoardResult<Vec<usize>> {
        let mut own: BTreeSet<TaskId> = BTreeSet::new();
        if let Some(twice) = added.iter().find(|task| !own.insert(task.id)) {
            return Err(there_already(twice.id));
        }
        if added.len() > limit::BOARD_CHANGES_MAX {
            let ids: Vec<TaskId> = own.iter().copied().collect();
            if let Some(there) = self.tasks_of(&ids).await?.first() {
                return Err(there_already(there.id));
            }
        }
        let named = added.iter().flat_map(|task| task.dependencies.iter());
        let elsewhere: BTreeSet<TaskId> = named.copied().filter(|id| !own.contains(id)).collect();
        let ids: Vec<TaskId> = elsewhere.iter().copied().collect();
        let found: BTreeSet<TaskId> = self.tasks_of(&ids).await?.iter().map(|t| t.id).collect();
        if let Some(id) = elsewhere.difference(&found).next() {
            return Err(BoardError::Missing {
                what: "task",
                name: id.to_string(),
            });
        }
        dependencies_first(added)
            .map_err(|id| BoardError::Bad(format!("task {id} waits for itself")))
    }
}

fn there_already(id: TaskId) -> BoardError {
    BoardError::Refused(format!("task {id} exists already"))
}

/// A new task's id. It is random, so that its beginning tells it from others.
pub(super) fn fresh_task() -> TaskId {
    TaskId::from_uuid(uuid::Uuid::new_v4())
}
