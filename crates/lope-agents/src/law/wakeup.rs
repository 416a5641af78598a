//! What a wake-up does, project by project, from one snapshot: each runner without a sign of life is
//! ended, whatever the others do, and a new one begins where tasks wait and a place is free.

use std::collections::BTreeSet;

use lope_model::RunnerId;

use super::lock::is_stale;
use super::select::{TaskQuery, eligible};
use super::unstarted::UnstartedRunner;
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
    /// A runner works there, and there is nothing for another or no place.
    Healthy { runner: RunnerId },
    /// No task could be started.
    NothingToDo,
    /// Somebody switched the project off.
    Disabled,
    /// Tasks wait and a place is free.
    Start,
    /// The same, but no runner could be started; it is too early to try it again.
    Later(UnstartedRunner),
    /// Runners without a sign of life are ended; a new one starts if tasks wait and a place is free.
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
    let steps = view.projects.iter().map(|project| {
        let is_waiting = waiting.contains(project.path.as_str());
        let start = is_waiting.then(|| start(view, project, rules));
        WakeStep {
            project: project.path.clone(),
            action: action(view, project, &stale, start, rules),
        }
    });
    steps.collect()
}

fn action(
    view: &BoardView,
    project: &ProjectRecord,
    stale: &BTreeSet<RunnerId>,
    start: Option<WakeAction>,
    rules: &TaskRules,
) -> WakeAction {
    let runners = view.runners.iter();
    let runners = runners.filter(|runner| runner.project_path.as_deref() == Some(&project.path));
    let (dead, live): (Vec<_>, Vec<_>) = runners.partition(|runner| stale.contains(&runner.id));
    let has_place = (live.len() as u64) < u64::from(rules.places);
    let start = start.filter(|_| project.enabled && has_place);
    let ended = dead.iter().map(|runner| StaleRunner {
        id: runner.id,
        is_there: view.proof(runner.id) == ProcessProof::Alive,
    });
    let ended: Vec<StaleRunner> = ended.collect();
    if !ended.is_empty() {
        let start = start == Some(WakeAction::Start);
        return WakeAction::Replace { ended, start };
    }
    match (start, live.first()) {
        (Some(start), _) => start,
        (None, Some(runner)) => WakeAction::Healthy { runner: runner.id },
        (None, None) if project.enabled => WakeAction::NothingToDo,
        (None, None) => WakeAction::Disabled,
    }
}

/// What is done where tasks wait.
fn start(view: &BoardView, project: &ProjectRecord, rules: &TaskRules) -> WakeAction {
    let unstarted = UnstartedRunner::of(project);
    let is_early = |it: &UnstartedRunner| it.is_early(view.clock.now, rules.wakeup_interval);
    unstarted
        .filter(is_early)
        .map_or(WakeAction::Start, WakeAction::Later)
}
