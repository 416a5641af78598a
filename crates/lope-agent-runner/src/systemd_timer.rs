//! The other way to be woken up: a timer of the user's systemd.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use thiserror::Error;
use tokio::process::Command;

use crate::crontab::CronJob;

/// The name of the unit.
pub const UNIT: &str = "lope-wakeup";

/// A file of a unit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnitFile {
    pub path: PathBuf,
    pub text: String,
}

/// Why a timer could not be set or taken away.
#[derive(Debug, Error)]
pub enum TimerError {
    #[error("{path}: {error}", path = path.display())]
    File {
        path: PathBuf,
        error: std::io::Error,
    },
    #[error("systemctl: {0}")]
    Told(String),
}

/// Write the units into the user's folder of units, and set the timer. If that fails, the folder is
/// as it was.
pub async fn install(job: &CronJob, units: &Path) -> Result<(), TimerError> {
    let files = unit_files(job, units);
    let before = files.each_ref().map(|file| fs::read(&file.path).ok());
    let set = set(&files, units).await;
    if set.is_err() {
        for (UnitFile { path, .. }, text) in files.iter().zip(before) {
            // What is told is why it could not be set.
            let _ = match text {
                Some(text) => fs::write(path, text),
                None => fs::remove_file(path),
            };
        }
    }
    set
}

async fn set(files: &[UnitFile], units: &Path) -> Result<(), TimerError> {
    for UnitFile { path, text } in files {
        let written = fs::create_dir_all(units).and_then(|()| fs::write(path, text));
        written.map_err(|error| TimerError::File {
            path: path.clone(),
            error,
        })?;
    }
    systemctl(&["daemon-reload"]).await?;
    systemctl(&["enable", "--now", &format!("{UNIT}.timer")]).await
}

/// Stop the timer and remove its units. False: it was not there.
pub async fn uninstall(units: &Path) -> Result<bool, TimerError> {
    let timer = format!("{UNIT}.timer");
    if !units.join(&timer).is_file() {
        return Ok(false);
    }
    systemctl(&["disable", "--now", &timer]).await?;
    for end in ["timer", "service"] {
        // One that is gone is what we want.
        let _ = fs::remove_file(units.join(format!("{UNIT}.{end}")));
    }
    systemctl(&["daemon-reload"]).await?;
    Ok(true)
}

async fn systemctl(words: &[&str]) -> Result<(), TimerError> {
    let output = Command::new("systemctl")
        .arg("--user")
        .args(words)
        .stdin(Stdio::null())
        .output()
        .await;
    let output = output.map_err(|error| TimerError::Told(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(TimerError::Told(said))
}

/// The service and its timer, in the user's folder of units.
pub fn unit_files(job: &CronJob, units: &Path) -> [UnitFile; 2] {
    let mut variables = vec![
        ("PATH".to_owned(), job.path.clone()),
        ("LOPE_HOME".to_owned(), job.home.display().to_string()),
    ];
    variables.extend(job.variables.iter().cloned());
    let lines: Vec<String> = variables
        .iter()
        .map(|(name, value)| format!("Environment={}\n", quoted(&format!("{name}={value}"))))
        .collect();
    let service = format!(
        "[Unit]\nDescription=Wake up agents\n\n[Service]\nType=oneshot\n{}ExecStart={} runners wakeup --quiet\n\
         # Runners that it starts go on when it has ended.\nKillMode=process\n",
        lines.concat(),
        quoted(&job.program.display().to_string()),
    );
    let seconds = job.interval.millis().div_ceil(1_000).max(1);
    let timer = format!(
        "[Unit]\nDescription=Wake up agents\n\n[Timer]\nOnBootSec={seconds}s\nOnUnitActiveSec={seconds}s\n\
         AccuracySec=1s\n\n[Install]\nWantedBy=timers.target\n"
    );
    [
        UnitFile {
            path: units.join(format!("{UNIT}.service")),
            text: service,
        },
        UnitFile {
            path: units.join(format!("{UNIT}.timer")),
            text: timer,
        },
    ]
}

fn quoted(text: &str) -> String {
    let escaped = text
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('%', "%%")
        .replace('$', "$$");
    format!("\"{escaped}\"")
}
