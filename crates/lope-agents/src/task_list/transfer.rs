//! Lists into a board and out of it.

use std::collections::BTreeSet;

use super::ListedTask;
use crate::board::{AgentBoard, BoardResult, TaskDraft, TaskFilter};
use crate::records::{ReviewBy, TaskRecord};

/// What became of a list.
#[derive(Clone, PartialEq, Debug)]
pub struct ImportedTasks {
    pub added: Vec<TaskRecord>,
    /// How many were there already.
    pub skipped: usize,
}

/// The tasks of a list that a project lacks.
#[derive(Clone, PartialEq, Debug)]
pub struct MissingTasks {
    /// As they would be added.
    pub drafts: Vec<TaskDraft>,
    /// How many of the list are there already.
    pub skipped: usize,
}

/// Add what a list has to a project; `review` is for tasks that name no reviewer. What is there
/// already, by id or by section and title, is left as it is: a list may be read again when it has
/// grown.
pub async fn import(
    board: &AgentBoard,
    project: &str,
    listed: &[ListedTask],
    review: ReviewBy,
) -> BoardResult<ImportedTasks> {
    let MissingTasks { drafts, skipped } = missing(board, project, listed, review).await?;
    let added = board.add_list(&drafts).await?;
    Ok(ImportedTasks { added, skipped })
}

/// What a list has that a project lacks.
pub async fn missing(
    board: &AgentBoard,
    project: &str,
    listed: &[ListedTask],
    review: ReviewBy,
) -> BoardResult<MissingTasks> {
    let known = tasks(board, project).await?;
    let ids: BTreeSet<_> = known.iter().map(|task| task.id).collect();
    let titles: BTreeSet<_> = known
        .iter()
        .map(|task| (&task.section_id, &task.title))
        .collect();
    let is_new = |task: &&ListedTask| match task.id {
        Some(id) => !ids.contains(&id),
        None => !titles.contains(&(&task.section, &task.title)),
    };
    let fresh = listed.iter().filter(is_new);
    let drafts: Vec<_> = fresh.map(|task| task.to_new(project, review)).collect();
    let skipped = listed.len() - drafts.len();
    Ok(MissingTasks { drafts, skipped })
}

/// The tasks of a project as a list has them.
pub async fn export(board: &AgentBoard, project: &str) -> BoardResult<Vec<ListedTask>> {
    let tasks = tasks(board, project).await?;
    Ok(tasks.iter().map(ListedTask::from).collect())
}

async fn tasks(board: &AgentBoard, project: &str) -> BoardResult<Vec<TaskRecord>> {
    let filter = TaskFilter {
        project: Some(project.to_owned()),
        ..TaskFilter::default()
    };
    board.tasks(&filter).await
}
