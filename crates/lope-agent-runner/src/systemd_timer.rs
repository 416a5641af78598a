//! The other way to be woken up: a timer of the user's systemd.

use std::path::{Path, PathBuf};

use crate::crontab::CronJob;

/// The name of the unit.
pub const UNIT: &str = "lope-wakeup";

/// A file of a unit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnitFile {
    pub path: PathBuf,
    pub text: String,
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
