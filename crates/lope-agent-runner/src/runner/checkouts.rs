//! Where the agents of a task work, if each attempt has a worktree: a new one, or that of the attempt
//! whose work they go on with. What nobody needs any more and holds nothing goes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use lope_agents::board::TaskDetail;
use lope_agents::records::{AttemptRole, StopReason, TaskAttemptRecord, TaskEventKind, TaskStatus};
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
        match workplace(detail, role, agent) {
            Workplace::Project => return Ok(None),
            Workplace::Before(path) => return Ok(Some(path)),
            Workplace::Gone(path) => {
                let message = format!("the worktree {path} of the work is gone");
                return Err(GitError::told(message));
            }
            Workplace::Fresh => {}
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
        // Before the board is asked: whoever holds the task after that makes others.
        let made = self.worktrees.made(task);
        let Ok(detail) = self.board.task_detail(task).await else {
            return;
        };
        if detail.task.project_path != self.spec.project || detail.lock.is_some() {
            return;
        }
        let project = Path::new(&detail.task.project_path);
        let known = spent(&detail).into_iter().map(PathBuf::from);
        let unknown = made.into_iter().filter(|path| is_unknown(path, &detail));
        for path in known.chain(unknown) {
            let shown = path.display();
            match remove(&path, project).await {
                Ok(Removal::Removed) => self.log.line(&format!("worktree {shown} is gone")),
                Ok(Removal::Kept(why)) => self.log.line(&format!("worktree {shown} stays: {why}")),
                Err(error) => self.log.line(&format!("worktree {shown} stays: {error}")),
            }
        }
    }
}

/// Where an attempt works.
enum Workplace {
    Fresh,
    /// The project itself, where the work was before.
    Project,
    /// The worktree of the attempt before.
    Before(String),
    /// Nowhere: what is to be reviewed is gone.
    Gone(String),
}

/// A review looks at what the work left; work that was rejected, asked something or goes on in its
/// tool's session goes on where it was, unless it is to begin anew.
fn workplace(detail: &TaskDetail, role: AttemptRole, agent: &str) -> Workplace {
    let mut work = detail
        .attempts
        .iter()
        .rev()
        .filter(|attempt| attempt.role == AttemptRole::Work);
    let Some(last) = work.next() else {
        return Workplace::Fresh;
    };
    let is_same_session =
        last.agent == agent && last.session.is_some() && last.session == detail.task.session;
    let goes_on = role == AttemptRole::Review
        || !was_reset(detail, last)
            && (last.stop_reason == Some(StopReason::Success) || is_same_session);
    match &last.worktree {
        _ if !goes_on => Workplace::Fresh,
        None => Workplace::Project,
        Some(path) if Path::new(path).is_dir() => Workplace::Before(path.clone()),
        Some(path) if role == AttemptRole::Review => Workplace::Gone(path.clone()),
        Some(_) => Workplace::Fresh,
    }
}

/// Was a task reset since an attempt began? It is worked on from the beginning then.
fn was_reset(detail: &TaskDetail, attempt: &TaskAttemptRecord) -> bool {
    let mut events = detail.events.iter();
    events.any(|event| event.kind == TaskEventKind::Reset && event.at >= attempt.started_at)
}

/// Does no attempt know of a worktree? Whoever made it died before it began one.
fn is_unknown(made: &Path, detail: &TaskDetail) -> bool {
    let known = detail.attempts.iter();
    let mut known = known.filter_map(|attempt| attempt.worktree.as_deref());
    !known.any(|path| Path::new(path).starts_with(made))
}

/// Worktrees that no attempt will go on with, and that are there.
fn spent(detail: &TaskDetail) -> BTreeSet<&str> {
    let is_over = matches!(
        detail.task.status,
        TaskStatus::Completed | TaskStatus::Skipped
    );
    let of = |attempt: &TaskAttemptRecord| attempt.worktree.clone();
    let last = detail.attempts.iter().rev().find_map(of);
    let all = detail.attempts.iter();
    let all = all.filter_map(|attempt| attempt.worktree.as_deref());
    all.filter(|path| is_over || last.as_deref() != Some(path))
        .filter(|path| Path::new(path).is_dir())
        .collect()
}
