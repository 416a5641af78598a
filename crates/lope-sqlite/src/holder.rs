//! Who keeps the store's write lock, as far as the system tells: a process that was stopped in the
//! middle of a transaction keeps it, and nobody can take it away without ending that process.
//!
//! In: the locks that the kernel lists. Out: words for people.

use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use lope_store::StoreError;
use lope_store::store::Finding;

use crate::files::StoreFiles;

/// The byte of the shared index of the log that a writer locks, as SQLite's file format has it.
const WRITE_BYTE: &str = "120";
/// How often the list of locks is read before nobody has the lock: the kernel hands it out a page at
/// a time, and a line that moves to an earlier page meanwhile is in none of them.
const LOOKS: usize = 5;

/// The process that is in a write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LockHolder {
    pid: u32,
    command: String,
    is_stopped: bool,
}

impl LockHolder {
    /// Who holds SQLite's write lock of this store; nothing where nobody does, or nobody can tell.
    pub(crate) fn of(files: &StoreFiles) -> Option<Self> {
        let index = std::fs::metadata(files.beside("-shm")).ok()?.ino();
        let pid = (0..LOOKS).find_map(|_| {
            let locks = std::fs::read_to_string("/proc/locks").ok()?;
            locks.lines().find_map(|line| writer(line, index))
        })?;
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (command, is_stopped) = process(&stat)?;
        Some(Self {
            pid,
            command,
            is_stopped,
        })
    }

    /// The process stands still in a write: what to do about it.
    pub(crate) fn finding(&self) -> Option<Finding> {
        let Self { pid, command, .. } = self;
        self.is_stopped.then(|| Finding {
            rule: "writer",
            message: format!("process {pid} ({command}) was stopped in the middle of a write: nobody else can write"),
            hint: self.remedy(),
        })
    }

    fn remedy(&self) -> String {
        let pid = self.pid;
        format!(
            "`kill -CONT {pid}` lets it go on, `kill -9 {pid}` ends it; nothing is lost either way"
        )
    }
}

/// What a writer is told that waited in vain.
pub(crate) fn kept_out(files: &StoreFiles, waited: Duration) -> StoreError {
    StoreError::Unavailable {
        message: waited_for(files, waited),
    }
}

/// Whom a writer has waited for so long.
pub(crate) fn waited_for(files: &StoreFiles, waited: Duration) -> String {
    let waited = waited.as_secs();
    match LockHolder::of(files) {
        None => format!("another process kept the store's write lock for {waited} s or longer"),
        Some(holder) if holder.is_stopped => format!(
            "process {} ({}) was stopped in the middle of a write, {waited} s ago or longer: {}",
            holder.pid,
            holder.command,
            holder.remedy()
        ),
        Some(holder) => format!(
            "process {} ({}) has kept the store's write lock for {waited} s or longer",
            holder.pid, holder.command
        ),
    }
}

/// The process that holds the write lock, if this line of `/proc/locks` is about it:
/// `7: POSIX  ADVISORY  WRITE 4711 08:01:1234 120 120`.
fn writer(line: &str, index: u64) -> Option<u32> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, "POSIX" | "OFDLCK", _, "WRITE", pid, file, first, last] = words[..] else {
        return None;
    };
    let inode: u64 = file.rsplit(':').next()?.parse().ok()?;
    let range = first.parse::<u64>().ok()?..=last.parse::<u64>().unwrap_or(u64::MAX);
    let byte: u64 = WRITE_BYTE.parse().ok()?;
    (inode == index && range.contains(&byte))
        .then(|| pid.parse().ok())
        .flatten()
}

/// Name and whether it is stopped, from `/proc/PID/stat`.
fn process(stat: &str) -> Option<(String, bool)> {
    let (before, behind) = stat.rsplit_once(')')?;
    let (_, name) = before.split_once('(')?;
    let state = behind.trim_start().chars().next()?;
    Some((name.to_owned(), matches!(state, 'T' | 't')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_about_the_write_lock_are_told_from_others() {
        let line = "7: POSIX  ADVISORY  WRITE 4711 08:01:1234 120 120";
        assert_eq!(writer(line, 1234), Some(4711));
        assert_eq!(writer(line, 1235), None);
        for other in [
            "7: POSIX  ADVISORY  READ 4711 08:01:1234 120 120",
            "7: POSIX  ADVISORY  WRITE 4711 08:01:1234 123 123",
            "7: -> POSIX  ADVISORY  WRITE 4711 08:01:1234 120 120",
            "7: FLOCK  ADVISORY  WRITE 4711 08:01:1234 0 EOF",
            "",
        ] {
            assert_eq!(writer(other, 1234), None, "{other}");
        }
        let wide = "7: POSIX  ADVISORY  WRITE 4711 08:01:1234 120 EOF";
        assert_eq!(writer(wide, 1234), Some(4711));
    }

    #[test]
    fn names_with_brackets_are_names() {
        let stat = |text| process(text).unwrap();
        assert_eq!(stat("12 (a (b)) T 1 2"), ("a (b)".to_owned(), true));
        assert_eq!(stat("12 (lope) S 1 2"), ("lope".to_owned(), false));
    }
}
