//! `lope runners cron install|uninstall|status`: one line of the user's crontab, or a timer of
//! systemd.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use lope::agents::crontab::{CronError, CronJob};
use lope::agents::systemd_timer::{self, TimerError, UNIT};
use serde_json::json;

use crate::context::AgentsContext;
use crate::report::{CommandError, CommandExit, CommandReport, CommandResult};

#[derive(Debug, Subcommand)]
pub enum CronCommand {
    /// Have runners woken up every minute, or as often as `runners.wakeup.checkInterval` says
    Install {
        /// By a timer of systemd instead of cron
        #[arg(long)]
        systemd: bool,
    },
    /// Wake nobody up any more
    Uninstall {
        /// The timer of systemd instead of the line of cron
        #[arg(long)]
        systemd: bool,
    },
    /// Say whether runners are woken up
    Status,
}

pub(super) async fn run(command: &CronCommand, context: &AgentsContext) -> CommandResult {
    context.for_people()?;
    let job = job(context);
    match command {
        CronCommand::Install { .. } if context.is_password_lost() => Err(password(context)),
        CronCommand::Install { systemd: false } => install(&job).await,
        CronCommand::Uninstall { systemd: false } => uninstall(&job).await,
        CronCommand::Install { systemd: true } => install_timer(&job, context).await,
        CronCommand::Uninstall { systemd: true } => uninstall_timer(context).await,
        CronCommand::Status => status(&job, context).await,
    }
}

pub(crate) fn job(context: &AgentsContext) -> CronJob {
    let home = context.folder.join(&context.home);
    let store = context.store_to_pass_on();
    let variables = store.map(|url| ("LOPE_STORE".to_owned(), url));
    let variables = variables.into_iter().collect();
    CronJob {
        program: context.program.clone(),
        home,
        path: context.path.clone(),
        variables,
        interval: context.runners.wakeup.check_interval,
    }
}

/// A password is not for a crontab, where others may read it.
fn password(context: &AgentsContext) -> CommandError {
    let file = context.folder.join(&context.home).join("config.yaml");
    let message = format!("the URL of {} has a password", context.store);
    CommandError::refused(message).hint(format!(
        "put 'store: URL' into {} and leave --store and LOPE_STORE away: wake-ups find it there",
        file.display()
    ))
}

fn failed(error: CronError) -> CommandError {
    let exit = match error {
        CronError::Bad(_) => CommandExit::Usage,
        CronError::Missing | CronError::Told(_) => CommandExit::Failed,
    };
    CommandError::new(exit, error.to_string())
        .hint("'lope runners cron install --systemd' uses a timer of systemd instead")
}

async fn install(job: &CronJob) -> CommandResult {
    let is_new = job.install().await.map_err(failed)?;
    let line = job.line().map_err(failed)?;
    let verb = if is_new {
        "installed"
    } else {
        "installed already"
    };
    let value = json!({ "installed": true, "by": "cron", "changed": is_new, "line": line });
    Ok(CommandReport::new(value, format!("{verb}: {line}")))
}

async fn uninstall(job: &CronJob) -> CommandResult {
    let was_there = job.uninstall().await.map_err(failed)?;
    Ok(uninstalled("cron", was_there))
}

fn uninstalled(by: &str, was_there: bool) -> CommandReport {
    let words = if was_there {
        "uninstalled"
    } else {
        "it was not installed"
    };
    let value = json!({ "installed": false, "by": by, "changed": was_there });
    CommandReport::new(value, words)
}

async fn status(job: &CronJob, context: &AgentsContext) -> CommandResult {
    let timer = units(context)?.join(format!("{UNIT}.timer"));
    let (line, cron) = match job.installed_line().await {
        Ok(line) => (line, true),
        Err(CronError::Missing) => (None, false),
        Err(error) => return Err(failed(error)),
    };
    let current = line.as_deref() == job.line().ok().as_deref();
    let text = match (&line, timer.is_file()) {
        (Some(line), _) if current => format!("cron: {line}"),
        (Some(line), _) => format!("cron, but not as it would be installed now: {line}"),
        (None, true) => format!("systemd: {}", timer.display()),
        (None, false) if cron => "not installed".to_owned(),
        (None, false) => "not installed; there is no program 'crontab' on this machine".to_owned(),
    };
    let value = json!({
        "installed": line.is_some() || timer.is_file(),
        "cron": cron,
        "line": line,
        "current": line.is_some() && current,
        "timer": timer.is_file().then(|| timer.display().to_string()),
    });
    Ok(CommandReport::document(value, text))
}

/// The timer's file, whether it is there or not.
pub(crate) fn timer(context: &AgentsContext) -> Option<PathBuf> {
    let units = context.user_folder.as_ref()?.join(".config/systemd/user");
    Some(units.join(format!("{UNIT}.timer")))
}

fn units(context: &AgentsContext) -> CommandResult<PathBuf> {
    let timer = timer(context);
    let units = timer.and_then(|timer| timer.parent().map(Path::to_owned));
    units.ok_or_else(|| CommandError::usage("there is no home folder"))
}

async fn install_timer(job: &CronJob, context: &AgentsContext) -> CommandResult {
    let units = units(context)?;
    let installed = systemd_timer::install(job, &units).await;
    installed.map_err(|error| unset(&error))?;
    let timer = format!("{UNIT}.timer");
    let value = json!({ "installed": true, "by": "systemd", "timer": timer });
    Ok(CommandReport::new(
        value,
        format!("installed {timer} in {}", units.display()),
    ))
}

async fn uninstall_timer(context: &AgentsContext) -> CommandResult {
    let removed = systemd_timer::uninstall(&units(context)?).await;
    let was_there = removed.map_err(|error| unset(&error))?;
    Ok(uninstalled("systemd", was_there))
}

fn unset(error: &TimerError) -> CommandError {
    CommandError::new(CommandExit::Failed, error.to_string())
}
