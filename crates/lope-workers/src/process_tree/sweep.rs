//! Ends processes by the cookie that they carry, wherever they went: told to end, then killed,
//! until none is left.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::cookie::TreeCookie;
use super::identity;

/// How often it is looked again while processes end.
const POLL: Duration = Duration::from_millis(10);
/// How long processes may take to end when they were killed.
pub(super) const KILL_LIMIT: Duration = Duration::from_secs(10);

/// A process that carries a cookie. What is sent to it reaches no other one that gets its number.
struct Carrier {
    pid: u32,
    handle: OwnedFd,
    is_subreaper: bool,
}

/// End every process whose cookie is meant. A subreaper is not told to end: it does when its tree
/// is gone.
pub(super) async fn end(grace: Duration, is_meant: impl Fn(&TreeCookie) -> bool) -> io::Result<()> {
    let begun = Instant::now();
    let mut told = HashSet::new();
    loop {
        let carriers = carriers(&is_meant);
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

fn carriers(is_meant: &impl Fn(&TreeCookie) -> bool) -> Vec<Carrier> {
    let carrier = |pid: u32| {
        // What cannot be read belongs to somebody else, or is gone.
        let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
        TreeCookie::find(&environment).filter(|(cookie, _)| is_meant(cookie))?;
        let handle = pidfd_open(Pid::from_raw(pid.cast_signed())?, PidfdFlags::empty()).ok()?;
        // Read again now that the number cannot be given to another.
        let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
        let (_, is_subreaper) =
            TreeCookie::find(&environment).filter(|(cookie, _)| is_meant(cookie))?;
        Some(Carrier {
            pid,
            handle,
            is_subreaper,
        })
    };
    identity::all().into_iter().filter_map(carrier).collect()
}
