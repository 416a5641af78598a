//! The sweeper: a second process that cleans up after us however we end, by itself, by Ctrl-C, by
//! TERM or by KILL. We hold one end of a pipe to it and tell it, line by line, which process groups
//! and folders are ours. When the pipe closes, it ends what still runs and removes the folders. It
//! needs no signal handler and knows nothing of Postgres.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::io::{BufRead, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// The hidden command under which we start ourselves as the sweeper.
pub(crate) const VERB: &str = "sweep-when-the-pipe-closes";

/// How the folders we make are called; the sweeper removes no other.
pub(crate) const FOLDER_PREFIX: &str = "lope-test-";

/// How long something may take to end before it is killed.
const GRACE: Duration = Duration::from_secs(10);
/// The variable by which a command that was just started is known.
const MARK: &str = "LOPE_XTASK_SWEEPER";
const POLL: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(crate) struct Sweeper {
    process: Child,
    orders: Option<ChildStdin>,
    /// How many commands were started.
    commands: Cell<u64>,
}

impl Sweeper {
    pub(crate) fn start() -> Result<Self> {
        let mut command =
            Command::new(std::env::current_exe().context("we do not know our own file")?);
        // A group of its own, or Ctrl-C would end it together with us.
        command.arg(VERB).stdin(Stdio::piped()).process_group(0);
        let mut process = command.spawn().context("cannot start the sweeper")?;
        let orders = process.stdin.take();
        Ok(Self {
            process,
            orders,
            commands: Cell::new(0),
        })
    }

    /// Runs a command in a process group of its own that ends with us.
    pub(crate) fn run(&self, command: &mut Command) -> Result<bool> {
        self.run_within(Duration::MAX, command)
    }

    /// As `run`; one that is not done by then hangs, is ended and has failed.
    pub(crate) fn run_within(&self, patience: Duration, command: &mut Command) -> Result<bool> {
        self.run_together(patience, std::slice::from_mut(command))
    }

    /// As `run_within`, all at once; whether all went well.
    pub(crate) fn run_together(
        &self,
        patience: Duration,
        commands: &mut [Command],
    ) -> Result<bool> {
        let started = Instant::now();
        let children: Result<Vec<Child>> = commands
            .iter_mut()
            .map(|command| self.spawn(command))
            .collect();
        let mut well = true;
        for child in children? {
            well &= self.wait(child, patience.saturating_sub(started.elapsed()))?;
        }
        Ok(well)
    }

    fn wait(&self, mut child: Child, patience: Duration) -> Result<bool> {
        let group = child.id().to_string();
        let started = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().context("lost what was started")? {
                break status;
            }
            if started.elapsed() > patience {
                // What it started and leaves behind stays in the sweeper's book.
                end("TERM", || {
                    if matches!(child.try_wait(), Ok(None)) {
                        vec![format!("-{group}")]
                    } else {
                        Vec::new()
                    }
                });
                child.wait().context("what hung does not end")?;
                anyhow::bail!("it hung: not done after {} s", patience.as_secs());
            }
            std::thread::sleep(POLL);
        };
        self.order(&format!("forget {group}"))?;
        Ok(status.success())
    }

    /// Starts a command in a process group of its own that ends with us.
    pub(crate) fn spawn(&self, command: &mut Command) -> Result<Child> {
        self.spawn_with_input(command.stdin(Stdio::null()))
    }

    /// As `spawn`, with the input that the command was given.
    pub(crate) fn spawn_with_input(&self, command: &mut Command) -> Result<Child> {
        // We may be killed between its start and the order that names it: until then its mark
        // tells the sweeper whom to look for.
        let count = self.commands.get() + 1;
        self.commands.set(count);
        let mark = format!("{}-{count}", self.process.id());
        self.order(&format!("starting {mark}"))?;
        command.env(MARK, mark);
        let started = command.process_group(0).spawn();
        let child =
            started.with_context(|| format!("cannot start {}", command.get_program().display()))?;
        self.order(&format!("group {}", child.id()))?;
        Ok(child)
    }

    /// Kills what was spawned, with its whole group.
    pub(crate) fn kill(&self, child: &mut Child) -> Result<()> {
        let group = child.id().to_string();
        send("KILL", &[format!("-{group}")]);
        child.wait().context("what was killed does not end")?;
        self.order(&format!("forget {group}"))
    }

    /// Makes a private folder that is removed with us, and ends whatever runs on it before.
    pub(crate) fn folder(&self, parent: &Path) -> Result<PathBuf> {
        let started = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default();
        let name = format!(
            "{FOLDER_PREFIX}{}-{:x}",
            std::process::id(),
            started.as_nanos() & 0xffff_ffff
        );
        let folder = parent.join(name);
        self.order(&format!("folder {}", folder.display()))?;
        let mut builder = std::fs::DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder
            .create(&folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(folder)
    }

    fn order(&self, line: &str) -> Result<()> {
        let mut pipe = self
            .orders
            .as_ref()
            .context("the sweeper takes no more orders")?;
        writeln!(pipe, "{line}").context("the sweeper is gone")
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        self.orders = None;
        let _ = self.process.wait();
    }
}

/// What the second process does.
pub(crate) fn sweep() -> Result<ExitCode> {
    let mut groups = BTreeSet::new();
    let mut folders = Vec::new();
    let mut starting = None;
    for line in std::io::stdin().lock().lines() {
        let line = line.context("the pipe broke")?;
        match line.split_once(' ') {
            Some(("starting", mark)) => starting = Some(mark.to_owned()),
            Some(("group", group)) => {
                starting = None;
                groups.insert(group.to_owned());
            }
            Some(("forget", group)) => {
                groups.remove(group);
            }
            Some(("folder", folder)) => folders.push(PathBuf::from(folder)),
            _ => anyhow::bail!("an order that makes no sense: {line}"),
        }
    }
    if let Some(mark) = starting {
        groups.extend(groups_with(&mark));
    }
    for group in &groups {
        end("TERM", || {
            if is_alive(group) {
                vec![format!("-{group}")]
            } else {
                Vec::new()
            }
        });
    }
    for folder in folders.iter().filter(|folder| is_ours(folder)) {
        // INT is what a Postgres server takes as "now, but cleanly".
        end("INT", || processes_on(folder));
        let _ = std::fs::remove_dir_all(folder);
    }
    Ok(ExitCode::SUCCESS)
}

/// The groups of processes that bear the mark. Only `/proc` shows it.
fn groups_with(mark: &str) -> Vec<String> {
    let word = format!("{MARK}={mark}");
    let bears_it = |process: &str| {
        let words = std::fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        let mut words = words.split(|byte| *byte == 0);
        words.any(|found| found == word.as_bytes())
    };
    // The first process of a group has the group's number.
    let processes = command_lines().into_iter().map(|(process, _)| process);
    processes
        .filter(|process| bears_it(process) && is_alive(process))
        .collect()
}

/// Sends the signal, waits until nobody is left, and kills who stays over the grace.
fn end(signal: &str, mut alive: impl FnMut() -> Vec<String>) {
    let targets = alive();
    if targets.is_empty() {
        return;
    }
    send(signal, &targets);
    let started = Instant::now();
    while started.elapsed() < GRACE {
        if alive().is_empty() {
            return;
        }
        std::thread::sleep(POLL);
    }
    send("KILL", &alive());
}

/// Sends a signal to processes, or to groups when the number is negative. The shell has `kill`
/// built in everywhere.
pub(crate) fn send(signal: &str, targets: &[String]) {
    let script = format!("kill -s {signal} -- {} 2>/dev/null", targets.join(" "));
    let _ = Command::new("sh").args(["-c", &script]).status();
}

fn is_alive(group: &str) -> bool {
    let script = format!("kill -s 0 -- -{group} 2>/dev/null");
    Command::new("sh")
        .args(["-c", &script])
        .status()
        .is_ok_and(|status| status.success())
}

fn is_ours(folder: &Path) -> bool {
    let name = folder
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    folder.is_absolute() && name.starts_with(FOLDER_PREFIX)
}

/// The processes whose command line names the folder: servers, whoever started them.
fn processes_on(folder: &Path) -> Vec<String> {
    let folder = folder.to_string_lossy();
    command_lines()
        .into_iter()
        .filter(|(_, line)| line.contains(folder.as_ref()))
        .map(|(process, _)| process)
        .collect()
}

fn command_lines() -> Vec<(String, String)> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return listed_by_ps();
    };
    let of_process = |entry: std::fs::DirEntry| {
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        Some((
            entry.file_name().into_string().ok()?,
            String::from_utf8_lossy(&line).replace('\0', " "),
        ))
    };
    let is_number = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
    entries
        .flatten()
        .filter_map(of_process)
        .filter(|(name, _)| is_number(name))
        .collect()
}

/// For systems without `/proc`.
fn listed_by_ps() -> Vec<(String, String)> {
    let Ok(output) = Command::new("ps").args(["-axo", "pid=,args="]).output() else {
        return Vec::new();
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let split = |line: &str| {
        line.trim()
            .split_once(' ')
            .map(|(process, line)| (process.to_owned(), line.to_owned()))
    };
    text.lines().filter_map(split).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_hangs_is_ended_and_has_failed() {
        let mut process = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("cat is there");
        let orders = process.stdin.take();
        let sweeper = Sweeper {
            process,
            orders,
            commands: Cell::new(0),
        };
        let hung = sweeper
            .run_within(Duration::ZERO, Command::new("sleep").arg("600"))
            .expect_err("it hangs");
        assert!(hung.to_string().starts_with("it hung"), "{hung}");
        assert!(
            sweeper
                .run_within(GRACE, &mut Command::new("true"))
                .expect("it ends")
        );
    }

    #[test]
    fn only_our_own_folders_are_removed() {
        assert!(is_ours(Path::new("/tmp/lope-test-12-ab")));
        assert!(
            !is_ours(Path::new("/tmp"))
                && !is_ours(Path::new("lope-test-1"))
                && !is_ours(Path::new("/tmp/lope"))
        );
    }
}
