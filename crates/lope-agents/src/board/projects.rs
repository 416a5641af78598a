//! Projects: registered, switched on and off, taken away; sections that are skipped.

use lope_model::limit;
use lope_store::board::{
    BoardChange, BoardSelect, PROJECTS, SECTIONS, TASK_ATTEMPTS, TASK_EVENTS, TASK_HOOKS,
    TASK_LOCKS, TASKS,
};

use super::{AgentBoard, BoardError, BoardResult, TRIES_MAX, bounded, contended, pause};
use crate::law::lock::is_stale;
use crate::law::unstarted::UnstartedRunner;
use crate::records::{
    AgentRunnerRecord, BoardRecord, JsonText, ProjectRecord, SectionRecord, TaskAttemptRecord,
    TaskEventRecord, TaskHookRecord, TaskLockRecord, TaskRecord,
};

/// What was taken away with a project.
#[derive(Clone, PartialEq, Debug)]
pub struct RemovedProject {
    pub project: ProjectRecord,
    pub tasks: usize,
}

impl AgentBoard {
    pub async fn projects(&self) -> BoardResult<Vec<ProjectRecord>> {
        self.rows(BoardSelect::all(PROJECTS)).await
    }

    /// The project of a path, or the only one of a name.
    pub async fn project(&self, named: &str) -> BoardResult<ProjectRecord> {
        let all = self.projects().await?;
        if let Some(project) = all.iter().find(|project| project.path == named) {
            return Ok(project.clone());
        }
        let mut by_name = all.into_iter().filter(|project| project.name == named);
        match (by_name.next(), by_name.next()) {
            (Some(project), None) => Ok(project),
            (Some(one), Some(other)) => Err(BoardError::Ambiguous {
                name: named.to_owned(),
                matches: vec![one.path, other.path],
            }),
            (None, _) => Err(BoardError::Missing {
                what: "project",
                name: named.to_owned(),
            }),
        }
    }

    /// Register a project, or find it. True: it is new.
    pub async fn add_project(
        &self,
        path: &str,
        name: Option<&str>,
    ) -> BoardResult<(ProjectRecord, bool)> {
        for tries in 1..=TRIES_MAX {
            let now = self.now().await?;
            let select = BoardSelect::all(PROJECTS).among("path", [path]);
            let found: Vec<ProjectRecord> = self.rows(select).await?;
            let (project, change, new) = match found.into_iter().next() {
                Some(mut project) => {
                    project.last_seen_at = now;
                    UnstartedRunner::forget(&mut project);
                    if let Some(name) = name {
                        name.clone_into(&mut project.name);
                    }
                    (project.clone(), project.updated(), false)
                }
                None => {
                    let last = path.trim_end_matches('/').rsplit('/').next();
                    let own = last.filter(|name| !name.is_empty()).unwrap_or(path);
                    let project = ProjectRecord {
                        path: path.to_owned(),
                        revision: 1,
                        name: name.unwrap_or(own).to_owned(),
                        registered_at: now,
                        last_seen_at: now,
                        enabled: true,
                        settings: JsonText::default(),
                    };
                    (project.clone(), project.inserted(), true)
                }
            };
            if self.commit(vec![change]).await? {
                return Ok((project, new));
            }
            pause(tries).await;
        }
        contended()
    }

    /// Switch a project on or off. Starts that failed are forgotten.
    pub async fn enable_project(&self, named: &str, enabled: bool) -> BoardResult<ProjectRecord> {
        for tries in 1..=TRIES_MAX {
            let mut project = self.project(named).await?;
            project.enabled = enabled;
            UnstartedRunner::forget(&mut project);
            if self.commit(vec![project.clone().updated()]).await? {
                return Ok(project);
            }
            pause(tries).await;
        }
        contended()
    }

    /// A runner of a project could not be started: the next wake-ups leave it alone for a while.
    /// Where one is at work by now, somebody else was faster, and nothing is noted.
    pub async fn note_unstarted(&self, path: &str, error: &str) -> BoardResult<()> {
        for tries in 1..=TRIES_MAX {
            let view = self.view(Some(path)).await?;
            let is_there = |it: &AgentRunnerRecord| {
                it.project_path.as_deref() == Some(path) && !is_stale(&view, it, &self.rules)
            };
            let project = view.project(path).cloned();
            let is_worked_on = view.runners.iter().any(is_there);
            let Some(mut project) = project.filter(|_| !is_worked_on) else {
                return Ok(());
            };
            let interval = self.rules.wakeup_interval;
            UnstartedRunner::after(&project, &bounded(error), view.clock.now, interval)
                .keep(&mut project);
            if self.commit(vec![project.updated()]).await? {
                return Ok(());
            }
            pause(tries).await;
        }
        contended()
    }

    /// Forget a project with its tasks. One with tasks that are not ended is refused unless that is
    /// meant; one that a runner works on always.
    pub async fn remove_project(
        &self,
        named: &str,
        with_tasks: bool,
    ) -> BoardResult<RemovedProject> {
        let project = self.project(named).await?;
        let path = project.path.as_str();
        let view = self.view(Some(path)).await?;
        let mut runners = view.runners.iter();
        if let Some(runner) = runners.find(|runner| runner.project_path.as_deref() == Some(path)) {
            let message = format!("runner {} works on {path}", runner.id);
            return Err(BoardError::Refused(message));
        }
        let select = |table| BoardSelect::all(table).among("project_path", [path]);
        let tasks: Vec<TaskRecord> = self.rows(select(TASKS)).await?;
        if !tasks.is_empty() && !with_tasks {
            let message = format!("{path} has {} tasks", tasks.len());
            return Err(BoardError::Refused(message));
        }
        let sections: Vec<SectionRecord> = self.rows(select(SECTIONS)).await?;
        let locks: Vec<TaskLockRecord> = self.rows(select(TASK_LOCKS)).await?;
        let attempts: Vec<TaskAttemptRecord> = self.rows(select(TASK_ATTEMPTS)).await?;
        let mut changes: Vec<BoardChange> = Vec::new();
        changes.extend(locks.iter().map(BoardRecord::deleted));
        changes.extend(attempts.iter().map(BoardRecord::deleted));
        let hooks: Vec<TaskHookRecord> = self.rows(select(TASK_HOOKS)).await?;
        changes.extend(hooks.iter().map(BoardRecord::deleted));
        for part in tasks.chunks(limit::BOARD_VALUES_MAX) {
            let ids = part.iter().map(|task| task.id.to_string());
            let select = BoardSelect::all(TASK_EVENTS).among("task_id", ids);
            let events: Vec<TaskEventRecord> = self.rows(select).await?;
            changes.extend(events.iter().map(BoardRecord::deleted));
        }
        changes.extend(tasks.iter().map(BoardRecord::deleted));
        changes.extend(sections.iter().map(BoardRecord::deleted));
        changes.push(project.deleted());
        // The project's own row goes last, so that what was interrupted can be done again.
        if !self.commit_in_parts(&changes).await? {
            let message = format!("{path} changed while it was removed; try again");
            return Err(BoardError::Refused(message));
        }
        Ok(RemovedProject {
            project,
            tasks: tasks.len(),
        })
    }

    pub async fn sections(&self, project: &str) -> BoardResult<Vec<SectionRecord>> {
        self.rows(BoardSelect::all(SECTIONS).among("project_path", [project]))
            .await
    }

    /// Start no task of a section any more, or again.
    pub async fn skip_section(
        &self,
        project: &str,
        section: &str,
        skipped: bool,
    ) -> BoardResult<SectionRecord> {
        for tries in 1..=TRIES_MAX {
            let now = self.now().await?;
            let all = self.sections(project).await?;
            let found = all.into_iter().find(|found| found.section_id == section);
            let is_new = found.is_none();
            let mut record = found.unwrap_or_else(|| SectionRecord {
                project_path: project.to_owned(),
                section_id: section.to_owned(),
                revision: 1,
                skipped,
                decided_at: now,
            });
            (record.skipped, record.decided_at) = (skipped, now);
            let change = if is_new {
                record.clone().inserted()
            } else {
                record.clone().updated()
            };
            if self.commit(vec![change]).await? {
                return Ok(record);
            }
            pause(tries).await;
        }
        contended()
    }
}
