//! Tasks that are added: one, a few together, or a list of any length.

use std::collections::BTreeSet;

use lope_model::id::TaskId;
use lope_model::{Timestamp, limit};
use lope_store::board::{BoardChange, BoardConflict};

use super::{AgentBoard, BoardError, BoardResult};
use crate::law::waiting::dependencies_first;
use crate::records::{
    BoardRecord, Budget, JsonText, ProjectRecord, ReviewBy, TaskRecord, TaskStatus,
};

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
        let AddedList { added, end } = self.add_parts(tasks, None).await?;
        match end {
            ListEnd::Whole | ListEnd::ProjectChanged => Ok(added),
            ListEnd::Failed(error) => Err(partly(added.len(), tasks.len(), error)),
        }
    }

    /// Add tasks of a list to a project as it was read: whoever else adds a list to it, or changes it
    /// otherwise, ends that, so that nobody adds what the other one does.
    pub(crate) async fn add_list_over(
        &self,
        project: ProjectRecord,
        tasks: &[TaskDraft],
    ) -> BoardResult<AddedList> {
        self.add_parts(tasks, Some(project)).await
    }

    async fn add_parts(
        &self,
        tasks: &[TaskDraft],
        mut over: Option<ProjectRecord>,
    ) -> BoardResult<AddedList> {
        tasks.iter().try_for_each(TaskDraft::validate)?;
        let now = self.now().await?;
        let records = records(tasks, now);
        let order = self.order_of_new(&records).await?;
        let before = usize::from(over.is_some());
        let mut written = 0;
        let mut end = ListEnd::Whole;
        for part in order.chunks(limit::BOARD_CHANGES_MAX - before) {
            let new = part.iter().map(|place| records[*place].clone().inserted());
            let seen = over.as_mut().map(|project| seen_at(project, now));
            let changes: Vec<BoardChange> = seen.into_iter().chain(new).collect();
            end = match self.board.commit(changes).await {
                Ok(Ok(())) => ListEnd::Whole,
                Ok(Err(BoardConflict { change })) => match change.checked_sub(before) {
                    Some(place) => ListEnd::Failed(there_already(records[part[place]].id)),
                    None => ListEnd::ProjectChanged,
                },
                Err(error) => ListEnd::Failed(error.into()),
            };
            let ListEnd::Whole = end else { break };
            written += part.len();
        }
        let mut places = order[..written].to_vec();
        places.sort_unstable();
        let added = places.into_iter().map(|place| TaskRecord {
            revision: 1,
            ..records[place].clone()
        });
        Ok(AddedList {
            added: added.collect(),
            end,
        })
    }

    /// In which order new tasks are written. Each has an id of its own, every dependency is there,
    /// and none leads back to where it began.
    async fn order_of_new(&self, added: &[TaskRecord]) -> BoardResult<Vec<usize>> {
        let mut own: BTreeSet<TaskId> = BTreeSet::new();
        if let Some(twice) = added.iter().find(|task| !own.insert(task.id)) {
            return Err(there_already(twice.id));
        }
        // Those that one commit may not hold.
        if added.len() >= limit::BOARD_CHANGES_MAX {
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
        let waits = added.iter().map(|task| (task.id, &task.dependencies[..]));
        let order = dependencies_first(&waits.collect::<Vec<_>>());
        order.map_err(|circle| BoardError::Bad(circle.to_string()))
    }
}

/// What was added of a list, in its order.
pub(crate) struct AddedList {
    pub(crate) added: Vec<TaskRecord>,
    pub(crate) end: ListEnd,
}

/// Why no more of a list was added.
pub(crate) enum ListEnd {
    Whole,
    ProjectChanged,
    Failed(BoardError),
}

/// Why a list was not added whole.
pub(crate) fn partly(added: usize, of: usize, error: BoardError) -> BoardError {
    if added == 0 {
        return error;
    }
    BoardError::Partly {
        added,
        of,
        error: Box::new(error),
    }
}

/// Tasks as they are added together: a millisecond apart, so that their age has their order.
fn records(tasks: &[TaskDraft], now: Timestamp) -> Vec<TaskRecord> {
    let all = tasks.iter().enumerate().map(|(place, task)| {
        let at = Timestamp::from_millis(now.millis() + place as i64);
        task.record(task.id.unwrap_or_else(fresh_task), at)
    });
    all.collect()
}

/// A project to which something is added, over the one that was read or written last.
fn seen_at(project: &mut ProjectRecord, now: Timestamp) -> BoardChange {
    project.last_seen_at = now;
    let change = project.clone().updated();
    project.revision += 1;
    change
}

fn there_already(id: TaskId) -> BoardError {
    BoardError::Refused(format!("task {id} exists already"))
}

/// A new task's id. It is random, so that its beginning tells it from others.
pub(super) fn fresh_task() -> TaskId {
    TaskId::from_uuid(uuid::Uuid::new_v4())
}
