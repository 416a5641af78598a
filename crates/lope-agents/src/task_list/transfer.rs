//! Lists into a board and out of it.

use std::collections::{BTreeMap, BTreeSet};

use lope_model::id::TaskId;
use lope_model::limit;

use super::ListedTask;
use crate::board::{
    AddedList, AgentBoard, BoardError, BoardResult, ListEnd, TRIES_MAX, TaskDraft, TaskFilter,
    contended, partly, pause,
};
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
/// grown, when only a part of it was added, and by two at once.
pub async fn import(
    board: &AgentBoard,
    project: &str,
    listed: &[ListedTask],
    review: ReviewBy,
) -> BoardResult<ImportedTasks> {
    let mut all: Vec<TaskRecord> = Vec::new();
    for tries in 1..=TRIES_MAX {
        // Read first: what somebody adds after that is found by the look, or changes the project.
        let over = board.project(project).await?;
        let missing = missing(board, project, listed, review).await?;
        let of = all.len() + missing.drafts.len();
        let AddedList { added, end } = board.add_list_over(over, &missing.drafts).await?;
        all.extend(added);
        match end {
            ListEnd::Whole => {
                let skipped = listed.len() - all.len();
                return Ok(ImportedTasks {
                    added: all,
                    skipped,
                });
            }
            ListEnd::ProjectChanged => pause(tries).await,
            ListEnd::Failed(error) => return Err(partly(all.len(), of, error)),
        }
    }
    contended().map_err(|error| partly(all.len(), listed.len(), error))
}

/// What a list has that a project lacks. Of tasks of the same section and title there are as many as
/// the list has.
pub async fn missing(
    board: &AgentBoard,
    project: &str,
    listed: &[ListedTask],
    review: ReviewBy,
) -> BoardResult<MissingTasks> {
    let known = tasks(board, project).await?;
    let ids: BTreeSet<_> = known.iter().map(|task| task.id).collect();
    let named: BTreeSet<_> = listed.iter().filter_map(|task| task.id).collect();
    let mut titles: BTreeMap<_, usize> = BTreeMap::new();
    for task in known.iter().filter(|task| !named.contains(&task.id)) {
        *titles.entry((&task.section_id, &task.title)).or_default() += 1;
    }
    let mut drafts = Vec::new();
    for task in listed {
        let is_there = match task.id {
            Some(id) => ids.contains(&id),
            None => match titles.get_mut(&(&task.section, &task.title)) {
                Some(left) if *left > 0 => {
                    *left -= 1;
                    true
                }
                Some(_) | None => false,
            },
        };
        if !is_there {
            drafts.push(task.to_new(project, review));
        }
    }
    // Of more than that nobody could tell what is there.
    if known.len() + drafts.len() > limit::BOARD_ROWS_MAX {
        let message = format!(
            "lists make projects of at most {} tasks",
            limit::BOARD_ROWS_MAX
        );
        return Err(BoardError::Refused(message));
    }
    refuse_unknown(board, listed, &drafts, &ids).await?;
    let skipped = listed.len() - drafts.len();
    Ok(MissingTasks { drafts, skipped })
}

/// Does a task that is to be added wait for one that is nowhere?
async fn refuse_unknown(
    board: &AgentBoard,
    listed: &[ListedTask],
    drafts: &[TaskDraft],
    there: &BTreeSet<TaskId>,
) -> BoardResult<()> {
    let mut known: BTreeSet<TaskId> = listed.iter().filter_map(|task| task.id).collect();
    known.extend(there);
    let needed = drafts.iter().flat_map(|task| task.dependencies.iter());
    let elsewhere: BTreeSet<TaskId> = needed.copied().filter(|id| !known.contains(id)).collect();
    let elsewhere: Vec<TaskId> = elsewhere.into_iter().collect();
    known.extend(board.tasks_of(&elsewhere).await?.iter().map(|task| task.id));
    let Some(unknown) = elsewhere.into_iter().find(|id| !known.contains(id)) else {
        return Ok(());
    };
    let waits = |task: &&ListedTask| task.dependencies.contains(&unknown);
    let line = listed.iter().find(waits).map_or(0, |task| task.line);
    let message = format!("there is no task '{unknown}', for which this one waits");
    Err(BoardError::BadList { line, message })
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
