//! What a wake-up does, project by project, from one snapshot: nothing where a runner gives signs of
//! life, a new runner where tasks wait and none is there, and in place of a dead one.

use std::collections::BTreeSet;

use lope_model::RunnerId;

use super::lock::is_stale;
use super::select::{TaskQuery, eligible};
use super::{BoardView, ProcessProof, TaskRules};
use crate::records::ProjectRecord;

/// What becomes of a project.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WakeStep {
    pub project: String,
    pub action: WakeAction,
}

/// What is done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WakeAction {
    /// A runner works there.
    Healthy { runner: RunnerId },
    /// No task could be started.
    NothingToDo,
    /// Somebody switched the project off.
    Disabled,
    /// Tasks wait and nobody works.
    Start,
    /// Runners without a sign of life are ended; a new one starts if tasks wait.
    Replace {
        ended: Vec<StaleRunner>,
        start: bool,
    },
}

/// A runner without a sign of life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StaleRunner {
    pub id: RunnerId,
    /// Its process is there, proven to be the same: it is killed.
    pub is_there: bool,
}

/// One step for each project, by path.
pub fn wakeup(view: &BoardView, rules: &TaskRules) -> Vec<WakeStep> {
    let stale = view.runners.iter();
    let stale = stale.filter(|runner| is_stale(view, runner, rules));
    let stale: BTreeSet<RunnerId> = stale.map(|runner| runner.id).collect();
    let mut after = view.clone();
    after.locks.retain(|lock| !stale.contains(&lock.runner_id));
    let waiting = eligible(&after, &TaskQuery::default(), rules);
    let waiting: BTreeSet<&str> = waiting
        .iter()
        .map(|task| task.project_path.as_str())
        .collect();
    let steps = view.projects.iter().map(|project| WakeStep {
        project: project.path.clone(),
        action: action(
            view,
            project,
            &stale,
            waiting.contains(project.path.as_str()),
        ),
    });
    steps.collect()
}

fn action(
    view: &BoardView,
    project: &ProjectRecord,
    stale: &BTreeSet<RunnerId>,
    has_work: bool,
) -> WakeAction {
    let runners = view.runners.iter();
    let runners = runners.filter(|runner| runner.project_path.as_deref() == Some(&project.path));
    let (dead, live): (Vec<_>, Vec<_>) = runners.partition(|runner| stale.contains(&runner.id));
    if let Some(runner) = live.first() {
        return WakeAction::Healthy { runner: runner.id };
    }
    let ended = dead.iter().map(|runner| StaleRunner {
        id: runner.id,
        is_there: view.proof(runner.id) == ProcessProof::Alive,
    });
    let ended: Vec<StaleRunner> = ended.collect();
    let start = project.enabled && has_work;
    match (ended.is_empty(), project.enabled, start) {
        (false, _, start) => WakeAction::Replace { ended, start },
        (true, false, _) => WakeAction::Disabled,
        (true, true, true) => WakeAction::Start,
        (true, true, false) => WakeAction::NothingToDo,
    }
}
