//! Tasks: listed, decided about, split, taken away.

use lope_model::id::TaskId;
use lope_model::{Timestamp, limit};
use lope_store::board::{
    BoardChange, BoardSelect, RUNNERS, TASK_ATTEMPTS, TASK_EVENTS, TASK_HOOKS, TASK_LOCKS, TASKS,
};

use super::add::fresh_task;
use super::{AgentBoard, BoardError, BoardResult, TRIES_MAX, TaskDraft, bounded, contended, pause};
use crate::law::decide::{Decision, SPLIT_DEPTH_MAX, SplitFacts, decide, may_be_done, may_split};
use crate::law::lock::{LockStanding, standing};
use crate::records::{
    AgentRunnerRecord, Author, BoardRecord, TaskAttemptRecord, TaskEventKind, TaskEventRecord,
    TaskHookRecord, TaskLockRecord, TaskRecord, TaskStatus,
};

/// Which tasks are listed.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct TaskFilter {
    pub project: Option<String>,
    pub section: Option<String>,
    pub statuses: Vec<TaskStatus>,
}

/// A task with all that is known of it.
#[derive(Clone, PartialEq, Debug)]
pub struct TaskDetail {
    pub task: TaskRecord,
    pub lock: Option<(TaskLockRecord, LockStanding)>,
    pub attempts: Vec<TaskAttemptRecord>,
    pub events: Vec<TaskEventRecord>,
}

impl AgentBoard {
    /// Tasks of these ids.
    pub async fn tasks_of(&self, ids: &[TaskId]) -> BoardResult<Vec<TaskRecord>> {
        let mut found = Vec::with_capacity(ids.len());
        for part in ids.chunks(limit::BOARD_VALUES_MAX) {
            let select = BoardSelect::all(TASKS).among("id", part.iter().map(TaskId::to_string));
            found.extend(self.rows::<TaskRecord>(select).await?);
        }
        Ok(found)
    }

    /// Tasks that match, oldest first.
    pub async fn tasks(&self, filter: &TaskFilter) -> BoardResult<Vec<TaskRecord>> {
        let mut select = BoardSelect::all(TASKS);
        if let Some(project) = &filter.project {
            select = select.among("project_path", [project]);
        }
        if let Some(section) = &filter.section {
            select = select.among("section_id", [section]);
        }
        if !filter.statuses.is_empty() {
            let statuses = filter.statuses.iter().map(|status| status.as_str());
            select = select.among("status", statuses);
        }
        let mut tasks: Vec<TaskRecord> = self.rows(select).await?;
        tasks.sort_by_key(|task| (task.created_at, task.id));
        Ok(tasks)
    }

    /// The task of an id, or of its beginning.
    pub async fn task(&self, named: &str) -> BoardResult<TaskRecord> {
        let missing = || BoardError::Missing {
            what: "task",
            name: named.to_owned(),
        };
        if named.is_empty() {
            return Err(missing());
        }
        let select = BoardSelect::all(TASKS).prefix("id", named.to_ascii_lowercase());
        let mut found: Vec<TaskRecord> = self.rows(select.last(5)).await?;
        match found.len() {
            0 => Err(missing()),
            1 => Ok(found.remove(0)),
            _ => Err(BoardError::Ambiguous {
                name: named.to_owned(),
                matches: found.iter().map(|task| task.id.to_string()).collect(),
            }),
        }
    }

    pub async fn task_detail(&self, named: &str) -> BoardResult<TaskDetail> {
        let task = self.task(named).await?;
        let id = task.id.to_string();
        let select = |table| BoardSelect::all(table).among("task_id", [&id]);
        let view = self.view(Some(&task.project_path)).await?;
        let lock = view.lock_of(&task).cloned();
        let lock = lock.map(|lock| {
            let stands = standing(&view, &lock, None, &self.rules);
            (lock, stands)
        });
        Ok(TaskDetail {
            lock,
            attempts: self.rows(select(TASK_ATTEMPTS)).await?,
            events: self.rows(select(TASK_EVENTS)).await?,
            task,
        })
    }

    /// Attempts of a project's tasks.
    pub async fn attempts(&self, project: &str) -> BoardResult<Vec<TaskAttemptRecord>> {
        self.rows(BoardSelect::all(TASK_ATTEMPTS).among("project_path", [project]))
            .await
    }

    /// Decide about a task; what was said is kept.
    pub async fn decide(
        &self,
        named: &str,
        decision: &Decision,
        author: Author,
    ) -> BoardResult<TaskRecord> {
        for tries in 1..=TRIES_MAX {
            let task = self.task(named).await?;
            let now = self.now().await?;
            self.may_be_decided(&task, decision).await?;
            let next = decide(&task, decision, author, &self.rules, now)?;
            let kind = decision.event();
            let words = decision.words();
            let mut changes = self.moved(&task, next.clone());
            changes.push(self.event(task.id, kind, author, words).await?);
            if author == Author::Person && next.status != task.status {
                let by_hand = self.lock_by_hand(task.id).await?;
                changes.extend(by_hand.map(|lock| lock.deleted()));
            }
            if self.commit(changes).await? {
                return Ok(next);
            }
            pause(tries).await;
        }
        contended()
    }

    /// The lock of somebody who is no runner: nobody gives it back when the task was decided about.
    async fn lock_by_hand(&self, task: TaskId) -> BoardResult<Option<TaskLockRecord>> {
        let select = BoardSelect::all(TASK_LOCKS).among("task_id", [task.to_string()]);
        let locks: Vec<TaskLockRecord> = self.rows(select).await?;
        let Some(lock) = locks.into_iter().next() else {
            return Ok(None);
        };
        let select = BoardSelect::all(RUNNERS).among("id", [lock.runner_id.to_string()]);
        let holder: Vec<AgentRunnerRecord> = self.rows(select).await?;
        Ok(Some(lock).filter(|_| holder.is_empty()))
    }

    /// What is said to be done waits for its parts all the same.
    pub(super) async fn may_be_decided(
        &self,
        task: &TaskRecord,
        decision: &Decision,
    ) -> BoardResult<()> {
        if let Decision::Done { .. } = decision {
            may_be_done(task, &self.tasks_of(&task.dependencies).await?)?;
        }
        Ok(())
    }

    /// Say something about a task.
    pub async fn note(
        &self,
        named: &str,
        author: Author,
        message: &str,
    ) -> BoardResult<TaskRecord> {
        for tries in 1..=TRIES_MAX {
            let task = self.task(named).await?;
            let event = self
                .event(task.id, TaskEventKind::Note, author, &bounded(message))
                .await?;
            if self.commit(vec![event]).await? {
                return Ok(task);
            }
            pause(tries).await;
        }
        contended()
    }

    /// Add tasks that a task falls apart into; it waits for them.
    pub async fn split(
        &self,
        named: &str,
        titles: &[String],
        author: Author,
    ) -> BoardResult<Vec<TaskRecord>> {
        if titles.is_empty() {
            return Err(BoardError::Bad("a split needs titles".to_owned()));
        }
        for tries in 1..=TRIES_MAX {
            let mut parent = self.task(named).await?;
            if author == Author::Agent {
                may_split(&parent, &self.split_facts(&parent).await?, &self.rules)?;
            }
            let now = self.now().await?;
            let parts = titles.iter().enumerate().map(|(place, title)| {
                let at = Timestamp::from_millis(now.millis() + place as i64);
                let part = TaskDraft {
                    section: parent.section_id.clone(),
                    priority: parent.priority,
                    source_file: parent.source_file.clone(),
                    review: parent.review,
                    parent: Some(parent.id),
                    ..TaskDraft::new(&parent.project_path, title)
                };
                part.validate().map(|()| part.record(fresh_task(), at))
            });
            let parts = parts.collect::<BoardResult<Vec<TaskRecord>>>()?;
            parent.dependencies.extend(parts.iter().map(|part| part.id));
            parent.updated_at = now;
            let words = format!("split into {} tasks", parts.len());
            let event = self
                .event(parent.id, TaskEventKind::Split, author, &words)
                .await?;
            let mut changes: Vec<BoardChange> =
                parts.iter().cloned().map(BoardRecord::inserted).collect();
            changes.extend([parent.updated(), event]);
            if self.commit(changes).await? {
                return Ok(parts);
            }
            pause(tries).await;
        }
        contended()
    }

    /// How often a task was split since it was last reset, and how deep it is a part itself.
    async fn split_facts(&self, task: &TaskRecord) -> BoardResult<SplitFacts> {
        let splits = BoardSelect::all(TASK_EVENTS)
            .among("task_id", [task.id.to_string()])
            .among("kind", [TaskEventKind::Split.as_str()]);
        let splits: Vec<TaskEventRecord> = self.rows(splits).await?;
        let since = self.reset_at(task.id).await?;
        let own = splits
            .iter()
            .filter(|event| since.is_none_or(|since| event.at >= since));
        let mut depth = 0;
        let mut part = task.clone();
        while let Some(id) = part.parent_id.filter(|_| depth < SPLIT_DEPTH_MAX) {
            // A task that was only added by an agent is no part: nobody waits for it.
            let whole = self.tasks_of(&[id]).await?.into_iter().next();
            match whole.filter(|whole| whole.dependencies.contains(&part.id)) {
                Some(whole) => part = whole,
                None => break,
            }
            depth += 1;
        }
        Ok(SplitFacts {
            times: own.count(),
            depth,
        })
    }

    /// Forget a task. Those that waited for it wait no more; one that is worked on is refused.
    pub async fn remove_task(&self, named: &str) -> BoardResult<TaskRecord> {
        for tries in 1..=TRIES_MAX {
            let TaskDetail {
                task,
                lock,
                attempts,
                events,
            } = self.task_detail(named).await?;
            if let Some((lock, _)) = lock.as_ref().filter(|(_, stands)| !stands.is_free()) {
                let message = format!("runner {} works on task {}", lock.runner_id, task.id);
                return Err(BoardError::Refused(message));
            }
            let select = BoardSelect::all(TASK_HOOKS).among("task_id", [task.id.to_string()]);
            let hooks: Vec<TaskHookRecord> = self.rows(select).await?;
            let mut changes: Vec<BoardChange> = hooks.iter().map(BoardRecord::deleted).collect();
            changes.extend(attempts.iter().map(BoardRecord::deleted));
            changes.extend(events.iter().map(BoardRecord::deleted));
            let filter = TaskFilter {
                project: Some(task.project_path.clone()),
                ..TaskFilter::default()
            };
            for mut other in self.tasks(&filter).await? {
                if other.dependencies.contains(&task.id) {
                    other.dependencies.retain(|id| *id != task.id);
                    changes.push(other.updated());
                }
            }
            // Its own row goes last, so that what was interrupted can be done again.
            changes.extend(lock.map(|(lock, _)| lock.deleted()));
            changes.push(task.deleted());
            if self.commit_in_parts(&changes).await? {
                return Ok(task);
            }
            pause(tries).await;
        }
        contended()
    }

    /// All locks with how they stand.
    pub async fn locks(&self) -> BoardResult<Vec<(TaskLockRecord, LockStanding)>> {
        let view = self.view(None).await?;
        let locks = view.locks.iter();
        let stands = |lock: &TaskLockRecord| standing(&view, lock, None, &self.rules);
        Ok(locks.map(|lock| (lock.clone(), stands(lock))).collect())
    }

    /// Take a lock away. One that is held only if that is meant: its holder then writes nothing more.
    pub async fn release_lock(&self, named: &str, force: bool) -> BoardResult<TaskLockRecord> {
        for tries in 1..=TRIES_MAX {
            let task = self.task(named).await?;
            let select = BoardSelect::all(TASK_LOCKS).among("task_id", [task.id.to_string()]);
            let locks: Vec<TaskLockRecord> = self.rows(select).await?;
            let lock = locks
                .into_iter()
                .next()
                .ok_or_else(|| BoardError::Missing {
                    what: "lock on task",
                    name: task.id.to_string(),
                })?;
            let view = self.view(Some(&task.project_path)).await?;
            if !standing(&view, &lock, None, &self.rules).is_free() && !force {
                let message = format!("runner {} holds task {}", lock.runner_id, task.id);
                return Err(BoardError::Refused(message));
            }
            let event = self
                .event(
                    task.id,
                    TaskEventKind::Released,
                    Author::Person,
                    "the lock was released",
                )
                .await?;
            let mut changes = vec![lock.deleted(), event];
            if task.status == TaskStatus::InProgress {
                let mut next = task.clone();
                (next.status, next.interrupted) = (TaskStatus::Pending, true);
                next.updated_at = view.clock.now;
                changes.extend(self.moved(&task, next));
            }
            if self.commit(changes).await? {
                return Ok(lock);
            }
            pause(tries).await;
        }
        contended()
    }
}
