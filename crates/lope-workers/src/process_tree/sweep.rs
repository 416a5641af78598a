//! Ends processes by the cookie or the mark that they carry, wherever they went: told to end, then
//! killed, until none is left.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::cookie::TreeCookie;
use super::identity;
use super::mark::TreeMark;

/// How often it is looked again while processes end.
const POLL: Duration = Duration::from_millis(10);
/// How long processes may take to end when they were killed.
pub(super) const KILL_LIMIT: Duration = Duration::from_secs(10);

/// Which trees are meant.
#[derive(Clone, Copy, Debug)]
pub(super) enum Swept<'a> {
    /// Those of owners that are gone.
    Abandoned,
    /// What came before this one.
    Before(&'a TreeCookie),
    /// This one.
    Own(&'a TreeCookie),
}

impl Swept<'_> {
    fn is_meant(self, cookie: &TreeCookie) -> bool {
        match self {
            Self::Abandoned => cookie.is_abandoned(),
            Self::Before(own) => cookie.is_before(own),
            Self::Own(own) => cookie == own,
        }
    }

    /// What lost its cookie does not tell what it works on: before a tree goes what nobody owns.
    fn is_marked(self, mark: TreeMark) -> bool {
        match self {
            Self::Abandoned | Self::Before(_) => mark.is_abandoned(),
            Self::Own(own) => mark == own.mark(),
        }
    }

    /// Is a process meant, and is it a subreaper? What cannot be read belongs to somebody else, or is
    /// gone.
    fn find(self, pid: u32) -> Option<bool> {
        let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
        match TreeCookie::find(&environment) {
            Some((cookie, is_subreaper)) => self.is_meant(&cookie).then_some(is_subreaper),
            None => TreeMark::find(pid)
                .filter(|mark| self.is_marked(*mark))
                .map(|_| false),
        }
    }
}

/// A process of a tree. What is sent to it reaches no other one that gets its number.
struct Carrier {
    pid: u32,
    handle: OwnedFd,
    is_subreaper: bool,
}

/// End every process of the trees that are meant. A subreaper is not told to end: it does when its tree
/// is gone.
pub(super) async fn end(grace: Duration, swept: Swept<'_>) -> io::Result<()> {
    let begun = Instant::now();
    let mut told = HashSet::new();
    loop {
        let carriers = carriers(swept);
        if carriers.is_empty() {
            return Ok(());
        }
        let waited = begun.elapsed();
        if waited > grace + KILL_LIMIT {
            let pids: Vec<String> = carriers.iter().map(|each| each.pid.to_string()).collect();
            return Err(io::Error::other(format!(
                "processes of an earlier attempt cannot be ended: {}",
                pids.join(", ")
            )));
        }
        for carrier in &carriers {
            let signal = match (waited >= grace, carrier.is_subreaper) {
                (true, false) => Signal::KILL,
                (true, true) if waited > grace + KILL_LIMIT / 2 => Signal::KILL,
                (false, false) if told.insert(carrier.pid) => Signal::TERM,
                // Somebody may have stopped it.
                (_, true) => Signal::CONT,
                (false, false) => continue,
            };
            // It may have ended meanwhile.
            let _ = pidfd_send_signal(&carrier.handle, signal);
        }
        tokio::time::sleep(POLL).await;
    }
}

fn carriers(swept: Swept<'_>) -> Vec<Carrier> {
    let carrier = |pid: u32| {
        swept.find(pid)?;
        let handle = pidfd_open(Pid::from_raw(pid.cast_signed())?, PidfdFlags::empty()).ok()?;
        // Looked at again now that the number cannot be given to another.
        let is_subreaper = swept.find(pid)?;
        Some(Carrier {
            pid,
            handle,
            is_subreaper,
        })
    };
    identity::all().into_iter().filter_map(carrier).collect()
}
