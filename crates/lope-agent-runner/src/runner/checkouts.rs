//! Where the agents of a task work, if each attempt has a worktree: a new one, or that of the attempt
//! whose work they go on with. What nobody needs any more and holds nothing goes.

use std::collections::BTreeSet;
use std::path::Path;

use lope_agents::board::TaskDetail;
use lope_agents::records::{AttemptRole, StopReason, TaskStatus};
use lope_model::id::TaskId;

use super::TaskRunner;
use crate::worktree::{GitError, Removal, remove};

/// Most tasks whose worktrees one runner looks at when it begins.
const LOOKED_AT_MAX: usize = 1_000;

impl TaskRunner {
    /// The worktree for an attempt that is about to begin; none if the project is worked in itself.
    pub(super) async fn worktree(
        &self,
        detail: &TaskDetail,
        role: AttemptRole,
        agent: &str,
    ) -> Result<Option<String>, GitError> {
        if !self.equipment.settings.worktrees {
            return Ok(None);
        }
        if let Some(before) = gone_on_with(detail, role, agent) {
            return Ok(Some(before));
        }
        let project = Path::new(&detail.task.project_path);
        let number = detail.attempts.last().map_or(1, |last| last.number + 1);
        let made = self.worktrees.make(project, detail.task.id, number).await?;
        Ok(Some(made.display().to_string()))
    }

    /// Look at all worktrees of the project that are left.
    pub(super) async fn remove_old_worktrees(&self) {
        let entries = std::fs::read_dir(&self.equipment.worktrees);
        let names = entries.into_iter().flatten().flatten();
        let names = names.filter_map(|entry| entry.file_name().into_string().ok());
        let tasks = names.filter(|name| name.parse::<TaskId>().is_ok());
        for task in tasks.take(LOOKED_AT_MAX).collect::<Vec<_>>() {
            self.remove_worktrees(&task).await;
        }
    }

    /// Take away the worktrees of a task that has ended, and of attempts that another one followed,
    /// as far as nothing in them would be lost.
    pub(super) async fn remove_worktrees(&self, task: &str) {
        if !self.equipment.settings.worktrees {
            return;
        }
        let Ok(detail) = self.board.task_detail(task).await else {
            return;
        };
        if detail.task.project_path != self.spec.project || detail.lock.is_some() {
            return;
        }
        let project = Path::new(&detail.task.project_path);
        for path in spent(&detail) {
            match remove(Path::new(path), project).await {
                Ok(Removal::Removed) => self.log.line(&format!("worktree {path} is gone")),
                Ok(Removal::Kept(why)) => self.log.line(&format!("worktree {path} stays: {why}")),
                Err(error) => self.log.line(&format!("worktree {path} stays: {error}")),
            }
        }
    }
}

/// A review looks at what the work left; work that was rejected, asked something or goes on in its
/// tool's session goes on where it was.
fn gone_on_with(detail: &TaskDetail, role: AttemptRole, agent: &str) -> Option<String> {
    let mut work = detail
        .attempts
        .iter()
        .rev()
        .filter(|attempt| attempt.role == AttemptRole::Work);
    let last = work.next()?;
    let is_same_session =
        last.agent == agent && last.session.is_some() && last.session == detail.task.session;
    let goes_on = role == AttemptRole::Review
        || last.stop_reason == Some(StopReason::Success)
        || is_same_session;
    let path = last.worktree.clone().filter(|_| goes_on)?;
    Path::new(&path).is_dir().then_some(path)
}

/// Worktrees that no attempt will go on with, and that are there.
fn spent(detail: &TaskDetail) -> BTreeSet<&str> {
    let is_over = matches!(
        detail.task.status,
        TaskStatus::Completed | TaskStatus::Skipped
    );
    let of = |attempt: &lope_agents::records::TaskAttemptRecord| attempt.worktree.clone();
    let last = detail.attempts.iter().rev().find_map(of);
    let all = detail.attempts.iter();
    let all = all.filter_map(|attempt| attempt.worktree.as_deref());
    all.filter(|path| is_over || last.as_deref() != Some(path))
        .filter(|path| Path::new(path).is_dir())
        .collect()
}
