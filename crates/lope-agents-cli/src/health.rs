//! What `lope doctor` looks at for agents: are their programs there, the folders of projects, git, and
//! is somebody woken up? Reads only; where no agent is configured and no project is registered,
//! nothing is said.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use lope::agents::crontab::CronError;
use lope::agents::law::seen::SeenRunner;
use lope::agents::law::unstarted::UnstartedRunner;
use lope::agents::records::ProjectRecord;
use lope::agents::settings::AgentSettings;
use lope::doctor::HealthCheck;
use rustix::fs::{Access, access};

use crate::context::{AgentsContext, OpenBoard};
use crate::runners::{cron, unstarted_words};

/// Is everything there that agents need?
pub async fn examine(context: &AgentsContext) -> Vec<HealthCheck> {
    let Registered { projects, runners } = registered(context).await;
    if projects.is_empty() && context.agents.is_empty() {
        return Vec::new();
    }
    let mut checks = agents(context);
    checks.extend(folders(&projects, context));
    checks.extend(unstarted(&projects));
    checks.extend(dead(&runners));
    if !projects.is_empty() {
        checks.push(git(context));
        checks.push(woken(context).await);
    }
    checks
}

/// What the board says.
#[derive(Default)]
struct Registered {
    projects: Vec<ProjectRecord>,
    /// Those that have not ended.
    runners: Vec<SeenRunner>,
}

/// A store that cannot be read is told of elsewhere.
async fn registered(context: &AgentsContext) -> Registered {
    let Ok(Some(OpenBoard { client, board })) = context.board_if_there().await else {
        return Registered::default();
    };
    let projects = board.projects().await.unwrap_or_default();
    let mut runners = board.runners().await.unwrap_or_default();
    runners.retain(|seen| !seen.has_ended());
    let _ = client.close().await;
    Registered { projects, runners }
}

fn agents(context: &AgentsContext) -> Vec<HealthCheck> {
    let usual = [("default".to_owned(), AgentSettings::usual())];
    let configured = context.agents.iter();
    let mut all: Vec<(String, AgentSettings)> = configured
        .map(|(name, agent)| (name.clone(), agent.clone()))
        .collect();
    if !context.agents.contains_key("default") {
        all.extend(usual);
    }
    let check = |(name, agent): &(String, AgentSettings)| {
        let program = agent.command.first().map_or("", String::as_str);
        match find(program, context) {
            Some(path) => {
                HealthCheck::ok("agents", format!("agent '{name}' is {}", path.display()))
            }
            None => HealthCheck::fail(
                "agents",
                format!("agent '{name}': there is no program '{program}'"),
                "install it, or name another command under 'agents:' in the configuration",
            ),
        }
    };
    all.iter().map(check).collect()
}

/// A program by path, or in the folders of PATH.
fn find(program: &str, context: &AgentsContext) -> Option<PathBuf> {
    let can_run = |path: &Path| {
        let found = std::fs::metadata(path);
        found.is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
    };
    if program.contains('/') {
        let path = context.folder.join(program);
        return can_run(&path).then_some(path);
    }
    let mut places = std::env::split_paths(&context.path).map(|folder| folder.join(program));
    places.find(|path| can_run(path))
}

/// Projects for which wake-ups could start no runner.
fn unstarted(projects: &[ProjectRecord]) -> impl Iterator<Item = HealthCheck> {
    let unstarted = projects
        .iter()
        .filter_map(|project| Some((project, UnstartedRunner::of(project)?)));
    unstarted.map(|(project, unstarted)| {
        HealthCheck::warn(
            "starts",
            format!("{}: {}", project.path, unstarted_words(&unstarted)),
            "'lope runners start' tries it at once",
        )
    })
}

/// Runners whose process is gone, and that nobody has ended yet.
fn dead(runners: &[SeenRunner]) -> impl Iterator<Item = HealthCheck> {
    let dead = runners.iter().filter(|seen| seen.is_dead);
    dead.map(|seen| {
        let runner = &seen.runner;
        let project = runner.project_path.as_deref().unwrap_or("-");
        let why = seen.error().unwrap_or_default();
        HealthCheck::warn(
            "runners",
            format!(
                "runner {} of {project} is {}: {why}",
                runner.id,
                seen.word()
            ),
            "'lope runners wakeup' starts the next one",
        )
    })
}

fn folders(projects: &[ProjectRecord], context: &AgentsContext) -> Vec<HealthCheck> {
    let scanned = context.runners.wakeup.project_paths.iter();
    let scanned = scanned.map(|path| ("folder of projects", context.absolute(path)));
    let own = projects.iter();
    let own: Vec<PathBuf> = own.map(|project| PathBuf::from(&project.path)).collect();
    let all = scanned.chain(own.iter().map(|path| ("project", path.clone())));
    let gone = all.filter(|(_, path)| !path.is_dir());
    let gone = gone.map(|(what, path)| {
        HealthCheck::warn(
            "projects",
            format!("the {what} {} is not there", path.display()),
            "'lope projects remove' forgets a project; runners.wakeup.projectPaths names folders",
        )
    });
    let closed = own
        .iter()
        .filter(|path| path.is_dir() && !may_work_in(path));
    let closed = closed.map(|path| {
        HealthCheck::warn(
            "projects",
            format!("agents may not write in the project {}", path.display()),
            "let the user write in it whose runners work there",
        )
    });
    let told: Vec<HealthCheck> = gone.chain(closed).collect();
    if told.is_empty() {
        let message = match projects.len() {
            1 => "1 project is there".to_owned(),
            many => format!("{many} projects are there"),
        };
        return vec![HealthCheck::ok("projects", message)];
    }
    told
}

/// May this user write in a folder, and is it meant to be written in at all?
fn may_work_in(folder: &Path) -> bool {
    let wanted = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
    let is_kept = std::fs::metadata(folder).is_ok_and(|it| it.permissions().readonly());
    access(folder, wanted).is_ok() && !is_kept
}

fn git(context: &AgentsContext) -> HealthCheck {
    match find("git", context) {
        Some(path) => HealthCheck::ok("git", format!("{} is there", path.display())),
        None => HealthCheck::warn(
            "git",
            "there is no program 'git'",
            "agents keep what they did in it",
        ),
    }
}

async fn woken(context: &AgentsContext) -> HealthCheck {
    let job = cron::job(context);
    let has_timer = cron::timer(context).is_some_and(|timer| timer.is_file());
    let line = job.installed_line().await;
    let has_line = line.as_ref().is_ok_and(Option::is_some);
    match (has_line || has_timer, line) {
        (true, _) => HealthCheck::ok("wakeup", "runners are woken up"),
        (false, Err(CronError::Missing)) => HealthCheck::warn(
            "wakeup",
            "nobody wakes runners up, and there is no cron",
            "'lope runners cron install --systemd' uses a timer of systemd",
        ),
        (false, _) => HealthCheck::warn(
            "wakeup",
            "nobody wakes runners up",
            "'lope runners cron install' has cron do it",
        ),
    }
}
