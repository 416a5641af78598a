//! A wake-up: projects are found in folders, what becomes of each is decided by the law from one
//! snapshot, and then done: runners without a sign of life are ended, runners are started.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};

use lope_agents::board::{AgentBoard, BoardError, BoardResult};
use lope_agents::law::wakeup::{StaleRunner, WakeAction, WakeStep, wakeup};
use lope_agents::law::watched::WatchedRunners;
use lope_agents::machine::LocalMachine;
use lope_agents::records::RunnerStatus;
use lope_workers::InheritedEnvironment;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::hooks::HookTeller;

/// What marks a folder as a project.
pub const PROJECT_MARK: &str = ".lope";
/// How deep below a folder projects are looked for.
const DEPTH_MAX: usize = 3;
/// Most folders that are looked into.
const FOLDERS_MAX: usize = 20_000;
/// Folders that hold no projects.
const PASSED_OVER: [&str; 4] = ["node_modules", "target", "vendor", "__pycache__"];

/// What a wake-up would do.
#[derive(Clone, PartialEq, Debug)]
pub struct WakePlan {
    /// Projects that are new.
    pub found: Vec<String>,
    pub steps: Vec<WakeStep>,
}

/// What a wake-up did. While it is kept, no other one acts: whoever starts runners drops it when
/// they have their places.
#[derive(Debug)]
pub struct WakeOutcome {
    pub plan: WakePlan,
    /// Projects for which a runner is to be started.
    pub start: Vec<String>,
    _lock: File,
}

/// Why there was no wake-up.
#[derive(Debug, Error)]
pub enum WakeError {
    #[error("{path}: {error}", path = path.display())]
    Lock { path: PathBuf, error: io::Error },
    #[error(transparent)]
    Board(#[from] BoardError),
}

/// Wake up: register the projects that [`scan`] found, decide, end what is stale, and say where a
/// runner is to be started. Of several at once on a machine, which share `home`, one acts; nothing:
/// that is another one.
pub async fn wake_up(
    board: &AgentBoard,
    found: Vec<String>,
    home: &Path,
) -> Result<Option<WakeOutcome>, WakeError> {
    let Some(lock) = only_one(home)? else {
        return Ok(None);
    };
    let plan = plan(board, found, home).await?;
    let start = act(board, &plan).await?;
    keep_watched(board, home)?;
    Ok(Some(WakeOutcome {
        plan,
        start,
        _lock: lock,
    }))
}

/// Tell hooks what nobody has told them: what people decided when no runner was there, and what was
/// not heard. Returned is, in words, what was not heard again.
pub async fn tell_hooks(
    board: AgentBoard,
    environment: InheritedEnvironment,
) -> BoardResult<Vec<String>> {
    let (sender, unheard) = mpsc::channel();
    let report = Arc::new(move |line: &str| {
        // Whoever does not listen any more has ended.
        let _ = sender.send(line.to_owned());
    });
    HookTeller::new(board, environment, report)
        .tell_due()
        .await?;
    Ok(unheard.try_iter().collect())
}

/// The right to act, on this machine.
fn only_one(home: &Path) -> Result<Option<File>, WakeError> {
    let folder = home.join("runners");
    let path = folder.join("wakeup.lock");
    let opened = fs::create_dir_all(&folder).and_then(|()| File::create(&path));
    let locked = opened.and_then(|file| match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    });
    locked.map_err(|error| WakeError::Lock { path, error })
}

/// Folders below these that hold a `.lope` folder; `home`, which may be called so, is none.
pub fn scan(folders: &[PathBuf], home: &Path) -> Vec<String> {
    let mut found = BTreeSet::new();
    let mut rest: Vec<(PathBuf, usize)> = folders.iter().map(|path| (path.clone(), 0)).collect();
    let mut looked = 0;
    while let Some((folder, depth)) = rest.pop() {
        looked += 1;
        if looked > FOLDERS_MAX {
            tracing::warn!("more than {FOLDERS_MAX} folders: the rest is not looked into");
            break;
        }
        let mark = folder.join(PROJECT_MARK);
        let is_home = || fs::canonicalize(&mark).ok() == fs::canonicalize(home).ok();
        if mark.is_dir() && !is_home() {
            let path = fs::canonicalize(&folder).unwrap_or(folder);
            found.extend(path.to_str().map(str::to_owned));
            continue;
        }
        if depth < DEPTH_MAX {
            rest.extend(below(&folder).into_iter().map(|path| (path, depth + 1)));
        }
    }
    found.into_iter().collect()
}

/// Folders in a folder, without those behind links.
fn below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        entry.file_type().is_ok_and(|kind| kind.is_dir())
            && !name.starts_with('.')
            && !PASSED_OVER.contains(&&*name)
    });
    folders.map(|entry| entry.path()).collect()
}

/// What wake-ups of this start of the machine have seen of runners elsewhere.
#[derive(Serialize, Deserialize)]
struct WatchedFile {
    boot: String,
    runners: WatchedRunners,
}

fn watched_file(home: &Path) -> PathBuf {
    home.join("runners").join("watched.json")
}

/// A file that is missing or torn tells nothing: then watching begins anew.
fn recall_watched(board: &AgentBoard, home: &Path) {
    let text = fs::read(watched_file(home)).unwrap_or_default();
    let kept = serde_json::from_slice::<WatchedFile>(&text).ok();
    if let Some(kept) = kept.filter(|kept| kept.boot == LocalMachine::boot()) {
        board.go_on_watching(kept.runners);
    }
}

fn keep_watched(board: &AgentBoard, home: &Path) -> Result<(), WakeError> {
    let path = watched_file(home);
    let kept = WatchedFile {
        boot: LocalMachine::boot(),
        runners: board.watched_runners(),
    };
    let text = serde_json::to_vec(&kept).map_err(io::Error::from);
    let written = text.and_then(|text| fs::write(&path, text));
    written.map_err(|error| WakeError::Lock { path, error })
}

/// Decide, and change nothing.
pub async fn plan(board: &AgentBoard, found: Vec<String>, home: &Path) -> BoardResult<WakePlan> {
    recall_watched(board, home);
    let view = board.view(None).await?;
    let is_new = |path: &String| view.project(path).is_none();
    let mut steps = wakeup(&view, &board.rules);
    for step in &mut steps {
        if !starts(&step.action) || !board.waits_for_next_day(&view, &step.project).await? {
            continue;
        }
        match &mut step.action {
            WakeAction::Replace { start, .. } => *start = false,
            action => *action = WakeAction::NothingToDo,
        }
    }
    Ok(WakePlan {
        found: found.into_iter().filter(is_new).collect(),
        steps,
    })
}

/// Is a runner started?
const fn starts(action: &WakeAction) -> bool {
    match action {
        WakeAction::Start => true,
        WakeAction::Replace { start, .. } => *start,
        WakeAction::Healthy { .. }
        | WakeAction::NothingToDo
        | WakeAction::Disabled
        | WakeAction::Later(_) => false,
    }
}

/// End what is stale, and say for which projects a runner is to be started.
async fn act(board: &AgentBoard, plan: &WakePlan) -> BoardResult<Vec<String>> {
    // Whoever is dead is found to be so by the next wake-up.
    board.bring_back(&board.view(None).await?).await?;
    for path in &plan.found {
        board.add_project(path, None).await?;
    }
    let mut start = Vec::new();
    for step in &plan.steps {
        match &step.action {
            WakeAction::Healthy { .. }
            | WakeAction::NothingToDo
            | WakeAction::Disabled
            | WakeAction::Later(_) => {}
            WakeAction::Start => start.push(step.project.clone()),
            WakeAction::Replace {
                ended,
                start: again,
            } => {
                for runner in ended {
                    end_stale(board, runner).await?;
                }
                if *again {
                    start.push(step.project.clone());
                }
            }
        }
    }
    Ok(start)
}

/// Its process is killed if it is proven to be the same one; its agents die with it.
async fn end_stale(board: &AgentBoard, stale: &StaleRunner) -> BoardResult<()> {
    let runner = board.runner(&stale.id.to_string()).await?;
    if stale.is_there
        && let Err(error) = LocalMachine::kill(&runner)
    {
        tracing::warn!(runner = %stale.id, %error, "a runner without a sign of life cannot be killed");
    }
    let words = "it gave no sign of life";
    board
        .end_runner(stale.id, RunnerStatus::Failed, Some(words))
        .await?;
    Ok(())
}
