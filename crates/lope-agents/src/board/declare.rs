//! What whoever holds a task says about it: an agent from within its shell, or a person who claimed
//! it by hand. The token names the claim; one that is stale is refused.

use std::fmt;
use std::str::FromStr;

use lope_model::RunnerId;
use lope_model::id::TaskId;
use lope_model::masks::Masks;
use lope_store::board::{BoardChange, BoardSelect, TASK_LOCKS};

use super::claims::own_lock;
use super::{AgentBoard, BoardError, BoardResult, TRIES_MAX, contended, pause};
use crate::law::decide::{Decision, decide};
use crate::records::{
    Author, BoardRecord, TaskEventRecord, TaskLockRecord, TaskRecord, TaskStatus,
};

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

    /// Take out of what an agent said about its task, after the event of this number, what must not be
    /// seen.
    pub async fn hide_said(&self, task: TaskId, after: i64, masks: &Masks) -> BoardResult<()> {
        if masks.is_empty() {
            return Ok(());
        }
        for tries in 1..=TRIES_MAX {
            let detail = self.task_detail(&task.to_string()).await?;
            let said = detail.events.into_iter();
            let said = said.filter(|it| it.number > after && it.author == Author::Agent);
            let mut changes: Vec<BoardChange> = said
                .filter_map(|event| {
                    let message = masks.hide(&event.message);
                    let is_hidden = message != event.message;
                    is_hidden.then(|| TaskEventRecord { message, ..event }.updated())
                })
                .collect();
            let mut next = detail.task.clone();
            for text in [&mut next.question, &mut next.result] {
                *text = text.as_deref().map(|words| masks.hide(words));
            }
            if next != detail.task {
                changes.push(next.updated());
            }
            if changes.is_empty() || self.commit(changes).await? {
                return Ok(());
            }
            pause(tries).await;
        }
        contended()
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
                let mut changes = vec![lock.deleted(), event];
                changes.extend(self.moved(&task, next.clone()));
                (next, changes)
            };
            if self.commit(changes).await? {
                return Ok(next);
            }
            pause(tries).await;
        }
        contended()
    }
}
