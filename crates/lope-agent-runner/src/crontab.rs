//! The user's crontab: one line is ours, known by the mark at its end; all others are left as they
//! are. The program `crontab` reads and writes it.

use std::io;
use std::path::PathBuf;
use std::process::{Output, Stdio};

use lope_model::Span;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// What our line is known by; the home folder stands behind it.
const MARK: &str = "# lope wake-up of ";

/// The job that wakes runners up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CronJob {
    pub program: PathBuf,
    pub home: PathBuf,
    /// The user's PATH: that of cron finds few programs.
    pub path: String,
    /// Variables that the command needs besides.
    pub variables: Vec<(String, String)>,
    pub interval: Span,
}

/// Why the crontab could not be read or written.
#[derive(Debug)]
pub enum CronError {
    /// There is no program `crontab`.
    Missing,
    /// It was called, and complained.
    Told(String),
    /// A text that cannot stand in a crontab.
    Bad(String),
}

impl std::fmt::Display for CronError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing => f.write_str("there is no program 'crontab' on this machine"),
            Self::Told(message) => write!(f, "crontab: {message}"),
            Self::Bad(message) => f.write_str(message),
        }
    }
}

impl CronJob {
    /// Its line.
    pub fn line(&self) -> Result<String, CronError> {
        let home = self.home.to_string_lossy();
        let own = [("PATH", self.path.as_str()), ("LOPE_HOME", &home)];
        let more = self.variables.iter();
        let all = own
            .into_iter()
            .chain(more.map(|(name, value)| (name.as_str(), value.as_str())));
        let variables: Vec<String> = all
            .map(|(name, value)| format!("{name}={}", quoted(value)))
            .collect();
        let program = quoted(&self.program.to_string_lossy());
        let line = format!(
            "{} {} {program} runners wakeup --quiet {MARK}{home}",
            self.minutes()?,
            variables.join(" "),
        );
        if line.contains(['\n', '\r']) {
            return Err(CronError::Bad(
                "a path with a line break cannot stand in a crontab".to_owned(),
            ));
        }
        // A percent sign ends a command in a crontab unless it is escaped.
        Ok(line.replace('%', "\\%"))
    }

    fn minutes(&self) -> Result<String, CronError> {
        let minutes = self.interval.millis().div_ceil(60_000).max(1);
        match minutes {
            1 => Ok("* * * * *".to_owned()),
            2..=59 => Ok(format!("*/{minutes} * * * *")),
            60 => Ok("0 * * * *".to_owned()),
            _ => Err(CronError::Bad(
                "runners.wakeup.checkInterval: cron wakes at least once an hour".to_owned(),
            )),
        }
    }

    fn is_own(&self, line: &str) -> bool {
        let mark = format!("{MARK}{}", self.home.display()).replace('%', "\\%");
        line.ends_with(&mark)
    }

    /// Our line in a crontab, if it is there.
    pub fn find<'a>(&self, table: &'a str) -> Option<&'a str> {
        table.lines().find(|line| self.is_own(line))
    }

    /// A crontab with our line once, where it stood before, or at the end.
    pub fn installed(&self, table: &str) -> Result<String, CronError> {
        let line = self.line()?;
        let mut lines: Vec<&str> = Vec::new();
        let mut is_there = false;
        for other in table.lines() {
            if !self.is_own(other) {
                lines.push(other);
            } else if !std::mem::replace(&mut is_there, true) {
                lines.push(&line);
            }
        }
        if !is_there {
            lines.push(&line);
        }
        Ok(lines.join("\n") + "\n")
    }

    /// A crontab without our line.
    pub fn removed(&self, table: &str) -> String {
        let lines = table.lines().filter(|line| !self.is_own(line));
        lines.map(|line| format!("{line}\n")).collect()
    }

    /// Put our line into the user's crontab. False: it stood there.
    pub async fn install(&self) -> Result<bool, CronError> {
        let table = read().await?;
        let installed = self.installed(&table)?;
        let is_new = installed != table;
        if is_new {
            write(&installed).await?;
        }
        Ok(is_new)
    }

    /// Take our line out of the user's crontab. False: it was not there.
    pub async fn uninstall(&self) -> Result<bool, CronError> {
        let table = read().await?;
        let was_there = self.find(&table).is_some();
        if was_there {
            write(&self.removed(&table)).await?;
        }
        Ok(was_there)
    }

    /// Our line in the user's crontab, if it is there.
    pub async fn installed_line(&self) -> Result<Option<String>, CronError> {
        Ok(self.find(&read().await?).map(str::to_owned))
    }
}

/// One word for the shell.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-:=+,@".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// The user's crontab; one that is not there is empty.
async fn read() -> Result<String, CronError> {
    let output = Command::new("crontab")
        .arg("-l")
        .stdin(Stdio::null())
        .output()
        .await
        .map_err(|error| missing(&error))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() && complaint.to_lowercase().contains("no crontab") {
        return Ok(String::new());
    }
    let text = succeeded(&output)?;
    Ok(text)
}

/// Replace the user's crontab.
async fn write(table: &str) -> Result<(), CronError> {
    let mut child = Command::new("crontab")
        .arg("-")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| missing(&error))?;
    if let Some(mut input) = child.stdin.take() {
        let told = |error: io::Error| CronError::Told(error.to_string());
        input.write_all(table.as_bytes()).await.map_err(told)?;
    }
    let output = child.wait_with_output().await;
    succeeded(&output.map_err(|error| CronError::Told(error.to_string()))?)?;
    Ok(())
}

fn missing(error: &io::Error) -> CronError {
    match error.kind() {
        io::ErrorKind::NotFound => CronError::Missing,
        _ => CronError::Told(error.to_string()),
    }
}

fn succeeded(output: &Output) -> Result<String, CronError> {
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    Err(CronError::Told(match words.trim() {
        "" => format!("it ended with {} and said nothing", output.status),
        words => words.to_owned(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> CronJob {
        CronJob {
            program: "/usr/local/bin/lope".into(),
            home: "/home/a b/.lope".into(),
            path: "/usr/bin:/opt/100%/bin".to_owned(),
            variables: Vec::new(),
            interval: Span::from_secs(60),
        }
    }

    #[test]
    fn only_our_own_line_is_edited_and_twice_is_once() {
        let others = "MAILTO=me\n# a comment\n5 4 * * * backup # nightly\n";
        let once = job().installed(others).unwrap();
        assert_eq!(job().installed(&once).unwrap(), once);
        assert!(once.starts_with(others), "{once}");
        let line = job().find(&once).unwrap();
        let expected = "* * * * * PATH='/usr/bin:/opt/100\\%/bin' LOPE_HOME='/home/a b/.lope' \
                        /usr/local/bin/lope runners wakeup --quiet # lope wake-up of /home/a b/.lope";
        assert_eq!(line, expected);
        assert_eq!(job().removed(&once), others);
        let moved = CronJob {
            program: "/opt/lope".into(),
            interval: Span::from_secs(300),
            ..job()
        };
        let changed = moved.installed(&once).unwrap();
        assert!(moved.find(&changed).unwrap().starts_with("*/5 * * * * "));
        assert_eq!(changed.lines().count(), 4);
        let elsewhere = CronJob {
            home: "/other".into(),
            ..job()
        };
        assert_eq!(elsewhere.find(&once), None);
        assert_eq!(elsewhere.removed(&once), once);
    }
}
