//! Who a process is: its number, when it started, and in which life of the machine.
//!
//! A number alone is given out again, and means another process in another container; with the
//! others it names one process for ever.

use std::fs;
use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// A process that is not mistaken for another one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProcessIdentity {
    pub pid: u32,
    /// In ticks of the kernel since the machine started.
    pub start_time: u64,
    /// Since which start of the machine, in which namespace of numbers.
    pub scope: String,
}

/// What the kernel tells about a process.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProcessStat {
    pub(super) parent: u32,
    pub(super) start_time: u64,
    /// It has ended and waits to be reaped.
    pub(super) is_zombie: bool,
    /// Somebody has told it to stand still.
    pub(super) is_stopped: bool,
    /// Of a processor, its own use and that of children that it has reaped, in ticks of the kernel.
    pub(super) cpu_ticks: u64,
}

impl ProcessIdentity {
    /// This process.
    pub fn own() -> Self {
        let pid = std::process::id();
        Self {
            pid,
            start_time: stat(pid).map_or(0, |stat| stat.start_time),
            scope: scope().to_owned(),
        }
    }

    /// The process of this machine that the kernel tells this about.
    pub(super) fn of(pid: u32, stat: ProcessStat) -> Self {
        Self {
            pid,
            start_time: stat.start_time,
            scope: scope().to_owned(),
        }
    }

    /// Does its number mean anything here: the same boot, the same container?
    pub fn is_here(&self) -> bool {
        self.scope == scope()
    }

    /// The number of its namespace of numbers.
    pub(super) fn namespace(&self) -> u64 {
        let number = self.scope.rsplit('-').next();
        number
            .and_then(|text| text.parse().ok())
            .unwrap_or_default()
    }

    /// Is it certain that it has ended? Nothing can be said about one of another container.
    pub fn is_gone(&self) -> bool {
        let is_it = |stat: ProcessStat| stat.start_time == self.start_time && !stat.is_zombie;
        self.is_here() && !stat(self.pid).is_some_and(is_it)
    }

    /// Kill it, if it is certain that no other one gets the signal. False: it is not here, or has
    /// ended.
    pub fn kill(&self) -> io::Result<bool> {
        let Some(pid) = Pid::from_raw(self.pid.cast_signed()).filter(|_| self.is_here()) else {
            return Ok(false);
        };
        let handle = match pidfd_open(pid, PidfdFlags::empty()) {
            Err(rustix::io::Errno::SRCH) => return Ok(false),
            opened => opened?,
        };
        // Whom the handle means does not change any more; now look who that is.
        if self.is_gone() {
            return Ok(false);
        }
        match pidfd_send_signal(&handle, Signal::KILL) {
            Err(rustix::io::Errno::SRCH) => Ok(false),
            sent => Ok(sent.map(|()| true)?),
        }
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, '.');
        Some(Self {
            pid: parts.next()?.parse().ok()?,
            start_time: parts.next()?.parse().ok()?,
            scope: parts.next()?.to_owned(),
        })
    }
}

impl std::fmt::Display for ProcessIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.pid, self.start_time, self.scope)
    }
}

/// Nothing if there is no such process.
pub(super) fn stat(pid: u32) -> Option<ProcessStat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let mut cpu_ticks = fields.nth(9)?.parse::<u64>().ok()?;
    for _ in 0..3 {
        cpu_ticks += fields.next()?.parse::<u64>().ok()?;
    }
    Some(ProcessStat {
        parent,
        start_time: fields.nth(4)?.parse().ok()?,
        is_zombie: matches!(state, "Z" | "X"),
        is_stopped: state == "T",
        cpu_ticks,
    })
}

/// Everything below a process that has not left it.
pub(super) fn descendants(root: u32) -> Vec<(u32, ProcessStat)> {
    let mut rest: Vec<(u32, ProcessStat)> = all()
        .into_iter()
        .filter_map(|pid| Some((pid, stat(pid)?)))
        .collect();
    let mut above = vec![root];
    let mut found = Vec::new();
    loop {
        let (below, others): (Vec<_>, Vec<_>) = rest
            .into_iter()
            .partition(|(_, stat)| above.contains(&stat.parent));
        if below.is_empty() {
            return found;
        }
        above.extend(below.iter().map(|(pid, _)| *pid));
        found.extend(below);
        rest = others;
    }
}

/// What a process and everything below it has used of a processor so far.
pub(super) fn cpu_time(root: u32) -> Duration {
    let own = stat(root).map_or(0, |stat| stat.cpu_ticks);
    let below = descendants(root).into_iter();
    let ticks = own + below.map(|(_, stat)| stat.cpu_ticks).sum::<u64>();
    let rate = rustix::param::clock_ticks_per_second().max(1);
    Duration::from_millis(ticks.saturating_mul(1_000) / rate)
}

/// Every process that there is.
pub(super) fn all() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    names.collect()
}

fn scope() -> &'static str {
    static SCOPE: OnceLock<String> = OnceLock::new();
    SCOPE.get_or_init(|| {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let numbers = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        let numbers = numbers.to_string_lossy();
        let numbers: String = numbers.chars().filter(char::is_ascii_digit).collect();
        format!("{}-{numbers}", boot.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_more_than_its_number() {
        let own = ProcessIdentity::own();
        assert!(!own.is_gone());
        assert_eq!(ProcessIdentity::parse(&own.to_string()), Some(own.clone()));
        let earlier = ProcessIdentity {
            start_time: own.start_time - 1,
            ..own.clone()
        };
        let elsewhere = ProcessIdentity {
            scope: "another".to_owned(),
            ..earlier.clone()
        };
        assert!(earlier.is_gone() && !elsewhere.is_gone());
    }

    /// "nothing is ever signalled on a mismatch"
    #[test]
    fn only_the_same_process_is_killed_not_another_with_its_number() {
        let mut child = std::process::Command::new("sleep")
            .arg("1000")
            .spawn()
            .unwrap();
        let right = ProcessIdentity {
            pid: child.id(),
            start_time: stat(child.id()).unwrap().start_time,
            scope: scope().to_owned(),
        };
        let reused = ProcessIdentity {
            start_time: right.start_time + 1,
            ..right.clone()
        };
        let elsewhere = ProcessIdentity {
            scope: "another boot".to_owned(),
            ..right.clone()
        };
        assert!(!reused.kill().unwrap() && !elsewhere.kill().unwrap());
        assert!(child.try_wait().unwrap().is_none(), "it lives");
        assert!(right.kill().unwrap());
        child.wait().unwrap();
        assert!(!right.kill().unwrap(), "it has ended");
    }
}
