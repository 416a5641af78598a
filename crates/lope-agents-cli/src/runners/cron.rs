//! `lope runners cron install|uninstall|status`: one line of the user's crontab, or a timer of
//! systemd.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use clap::Subcommand;
use lope::agents::crontab::{self, CronError, CronJob};
use lope::agents::systemd_timer::{UNIT, unit_files};
use lope::stores::StoreUrl;
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
        CronCommand::Install { systemd: false } => install(&job).await,
        CronCommand::Uninstall { systemd: false } => uninstall(&job).await,
        CronCommand::Install { systemd: true } => install_timer(&job, context).await,
        CronCommand::Uninstall { systemd: true } => uninstall_timer(context).await,
        CronCommand::Status => status(&job, context).await,
    }
}

pub(crate) fn job(context: &AgentsContext) -> CronJob {
    let home = context.folder.join(&context.home);
    let mut variables = Vec::new();
    // The URL of a server may hold a password, which is not for a crontab; the configuration has it.
    if let StoreUrl::Sqlite(path) = &context.store {
        let path = context.folder.join(path);
        if path != home.join("lope.db") {
            variables.push((
                "LOPE_STORE".to_owned(),
                format!("sqlite:{}", path.display()),
            ));
        }
    }
    CronJob {
        program: context.program.clone(),
        home,
        path: context.path.clone(),
        variables,
        interval: context.runners.wakeup.check_interval,
    }
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
    let table = crontab::read().await.map_err(failed)?;
    let installed = job.installed(&table).map_err(failed)?;
    let is_new = installed != table;
    if is_new {
        crontab::write(&installed).await.map_err(failed)?;
    }
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
    let table = crontab::read().await.map_err(failed)?;
    let was_there = job.find(&table).is_some();
    if was_there {
        crontab::write(&job.removed(&table)).await.map_err(failed)?;
    }
    let words = if was_there {
        "uninstalled"
    } else {
        "it was not installed"
    };
    let value = json!({ "installed": false, "by": "cron", "changed": was_there });
    Ok(CommandReport::new(value, words))
}

async fn status(job: &CronJob, context: &AgentsContext) -> CommandResult {
    let timer = units(context)?.join(format!("{UNIT}.timer"));
    let (line, cron) = match crontab::read().await {
        Ok(table) => (job.find(&table).map(str::to_owned), true),
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
    for file in unit_files(job, &units) {
        let written =
            std::fs::create_dir_all(&units).and_then(|()| std::fs::write(&file.path, &file.text));
        written.map_err(|error| {
            CommandError::new(
                CommandExit::Failed,
                format!("{}: {error}", file.path.display()),
            )
        })?;
    }
    systemctl(&["daemon-reload"]).await?;
    let timer = format!("{UNIT}.timer");
    systemctl(&["enable", "--now", &timer]).await?;
    let value = json!({ "installed": true, "by": "systemd", "timer": timer });
    Ok(CommandReport::new(
        value,
        format!("installed {timer} in {}", units.display()),
    ))
}

async fn uninstall_timer(context: &AgentsContext) -> CommandResult {
    let units = units(context)?;
    let timer = units.join(format!("{UNIT}.timer"));
    let was_there = timer.is_file();
    if was_there {
        systemctl(&["disable", "--now", &format!("{UNIT}.timer")]).await?;
        for end in ["timer", "service"] {
            // One that is gone is what we want.
            let _ = std::fs::remove_file(units.join(format!("{UNIT}.{end}")));
        }
        systemctl(&["daemon-reload"]).await?;
    }
    let words = if was_there {
        "uninstalled"
    } else {
        "it was not installed"
    };
    let value = json!({ "installed": false, "by": "systemd", "changed": was_there });
    Ok(CommandReport::new(value, words))
}

async fn systemctl(words: &[&str]) -> CommandResult<()> {
    let output = tokio::process::Command::new("systemctl")
        .arg("--user")
        .args(words)
        .stdin(Stdio::null())
        .output()
        .await;
    let told =
        |words: String| CommandError::new(CommandExit::Failed, format!("systemctl: {words}"));
    let output = output.map_err(|error| told(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(told(
        String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    ))
}
