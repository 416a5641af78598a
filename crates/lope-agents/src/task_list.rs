//! Task lists as people keep them: Markdown check lists and JSON, read and written, so that what is
//! written is read back the same.
//!
//! ```text
//! ## Phase 2
//! - [ ] Fix login <!-- {"priority":7,"sourceFile":"docs/SPEC.md#login"} -->
//!   What is to be done, in as many lines as it takes.
//! - [x] Write the specification
//! ```
//!
//! Headings from the second level on are sections. `[ ]` is pending, `[x]` completed, `[-]` skipped;
//! every other status stands with the rest that a line cannot show in the comment behind the title.

mod json;
mod markdown;
mod sound;
mod transfer;

use lope_model::id::TaskId;
use thiserror::Error;

use crate::board::TaskDraft;
use crate::records::{Budget, ReviewBy, TaskRecord, TaskStatus};

pub use json::{read_json, write_json};
pub use markdown::{read_markdown, write_markdown};
pub use transfer::{ImportedTasks, MissingTasks, export, import, missing};

/// A task as a list has it.
#[derive(Clone, PartialEq, Debug)]
pub struct ListedTask {
    /// Where it stands in its file, from 1.
    pub line: usize,
    pub id: Option<TaskId>,
    pub title: String,
    pub description: String,
    pub section: Option<String>,
    pub status: TaskStatus,
    pub priority: Option<i64>,
    pub dependencies: Vec<TaskId>,
    pub source_file: Option<String>,
    pub review: Option<ReviewBy>,
    pub budget: Budget,
    pub parent: Option<TaskId>,
}

/// What is wrong with a list, and where.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{line}: {message}")]
pub struct BadTaskList {
    pub line: usize,
    pub message: String,
}

impl ListedTask {
    /// The task to be added to a project.
    pub fn to_new(&self, project: &str, review: ReviewBy) -> TaskDraft {
        let task = TaskDraft::new(project, &self.title);
        TaskDraft {
            id: self.id,
            description: self.description.clone(),
            section: self.section.clone(),
            priority: self.priority.unwrap_or(task.priority),
            dependencies: self.dependencies.clone(),
            source_file: self.source_file.clone(),
            review: self.review.unwrap_or(review),
            budget: self.budget,
            status: self.status,
            parent: self.parent,
            ..task
        }
    }
}

impl ListedTask {
    /// The task, if a board would take it.
    fn checked(self) -> Result<Self, BadTaskList> {
        match self.to_new("", ReviewBy::None).validate() {
            Ok(()) => Ok(self),
            Err(error) => Err(BadTaskList {
                line: self.line,
                message: error.to_string(),
            }),
        }
    }
}

/// A text without the mark that some editors begin files with.
fn unmarked(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

impl From<&TaskRecord> for ListedTask {
    fn from(task: &TaskRecord) -> Self {
        Self {
            line: 0,
            id: Some(task.id),
            title: task.title.clone(),
            description: task.description.clone(),
            section: task.section_id.clone(),
            status: task.status,
            priority: Some(task.priority),
            dependencies: task.dependencies.to_vec(),
            source_file: task.source_file.clone(),
            review: Some(task.review),
            budget: *task.budget,
            parent: task.parent_id,
        }
    }
}

/// Work that was under way when the list was written is to be done again.
const fn as_added(status: TaskStatus) -> TaskStatus {
    match status {
        TaskStatus::InProgress => TaskStatus::Pending,
        TaskStatus::Pending
        | TaskStatus::Review
        | TaskStatus::Completed
        | TaskStatus::Failed
        | TaskStatus::Skipped
        | TaskStatus::Blocked => status,
    }
}
