//! What whoever holds a task says about it: an agent from within its shell, or a person who claimed
//! it by hand. The token names the claim; one that is stale is refused.

use std::fmt;
use std::str::FromStr;

use lope_model::RunnerId;
use lope_model::id::TaskId;
use lope_store::board::{BoardSelect, TASK_LOCKS};

use super::claims::own_lock;
use super::{AgentBoard, BoardError, BoardResult, TRIES_MAX, contended, pause};
use crate::law::decide::{Decision, decide};
use crate::records::{Author, BoardRecord, TaskLockRecord, TaskRecord, TaskStatus};

/// The variable in which an agent finds its token.
pub const TOKEN_VARIABLE: &str = "LOPE_TASK_TOKEN";

/// Which claim of which task somebody speaks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskToken {
    pub task: TaskId,
    pub epoch: i64,
    pub runner: RunnerId,
}

impl fmt::Display for TaskToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.task, self.epoch, self.runner)
    }
}

impl FromStr for TaskToken {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("{TOKEN_VARIABLE} is no token of a claim");
        let mut parts = text.split(':');
        let (task, epoch, runner) = (parts.next(), parts.next(), parts.next());
        Ok(Self {
            task: task.and_then(|text| text.parse().ok()).ok_or_else(bad)?,
            epoch: epoch.and_then(|text| text.parse().ok()).ok_or_else(bad)?,
            runner: runner.and_then(|text| text.parse().ok()).ok_or_else(bad)?,
        })
    }
}

impl From<&TaskLockRecord> for TaskToken {
    fn from(lock: &TaskLockRecord) -> Self {
        Self {
            task: lock.task_id,
            epoch: lock.epoch,
            runner: lock.runner_id,
        }
    }
}

impl AgentBoard {
    /// The lock that a token names, if it is still there.
    pub async fn lock_of_token(&self, token: &TaskToken) -> BoardResult<TaskLockRecord> {
        let select = BoardSelect::all(TASK_LOCKS).among("task_id", [token.task.to_string()]);
        let locks: Vec<TaskLockRecord> = self.rows(select).await?;
        let own = locks
            .into_iter()
            .find(|lock| TaskToken::from(lock) == *token);
        own.ok_or_else(|| {
            BoardError::Refused(format!(
                "lease lost: task {} is no longer yours",
                token.task
            ))
        })
    }

    /// The same for somebody who wants to write; a stale holder's words are kept as evidence.
    pub async fn lock_to_write(
        &self,
        token: &TaskToken,
        words: &str,
    ) -> BoardResult<TaskLockRecord> {
        let found = self.lock_of_token(token).await;
        if let Err(BoardError::Refused(_)) = &found {
            let words = format!(
                "runner {} under epoch {} came too late: {words}",
                token.runner, token.epoch
            );
            // One that is gone has no evidence either.
            if !self.tasks_of(&[token.task]).await?.is_empty() {
                self.keep_refused(token.task, Author::Agent, &words).await?;
            }
        }
        found
    }

    /// Say that a task is done or cannot be done. Under a runner, the runner settles it when the
    /// agent has ended; a claim by hand is settled and given back at once.
    pub async fn declare(&self, token: &TaskToken, decision: &Decision) -> BoardResult<TaskRecord> {
        for tries in 1..=TRIES_MAX {
            let said = format!("{} {}", decision.event(), decision.words());
            let lock = self.lock_to_write(token, &said).await?;
            let task = self.task(&token.task.to_string()).await?;
            self.may_be_decided(&task, decision).await?;
            let view = self.view(Some(&task.project_path)).await?;
            let kind = decision.event();
            let words = decision.words();
            let event = self.event(task.id, kind, Author::Agent, words).await?;
            let (next, changes) = if view.runner(token.runner).is_some() {
                let mut next = task;
                // A reviewer's words are no result of the work.
                if !words.is_empty() && next.status != TaskStatus::Review {
                    next.result = Some(super::bounded(words));
                }
                (next.clone(), vec![own_lock(&lock), next.updated(), event])
            } else {
                let now = view.clock.now;
                let mut next = decide(&task, decision, Author::Agent, &self.rules, now)?;
                next.attempts += 1;
                (next.clone(), vec![lock.deleted(), next.updated(), event])
            };
            if self.commit(changes).await? {
                return Ok(next);
            }
            pause(tries).await;
        }
        contended()
    }
}
