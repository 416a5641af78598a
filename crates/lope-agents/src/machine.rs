//! This machine: its clock that stands still while it sleeps, and whether the process of a runner is
//! there, known by number, start and boot.

use lope_workers::process_tree::ProcessIdentity;
use rustix::time::{ClockId, clock_gettime};

use crate::board::ProcessFacts;
use crate::law::ProcessProof;
use crate::records::AgentRunnerRecord;

/// The machine that this program runs on.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalMachine;

impl LocalMachine {
    /// This process, as a runner enters it on the board.
    pub fn own_process() -> ProcessIdentity {
        ProcessIdentity::own()
    }

    /// Kill the process of a runner, if it is proven to be the same. False: it is gone, or elsewhere.
    pub fn kill(runner: &AgentRunnerRecord) -> std::io::Result<bool> {
        identity(runner).map_or(Ok(false), |process| process.kill())
    }

    /// This start of the machine, or of the container.
    pub fn boot() -> String {
        Self::own_process().scope
    }

    pub fn host() -> String {
        rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned()
    }
}

/// The process that a runner entered.
pub(crate) fn identity(runner: &AgentRunnerRecord) -> Option<ProcessIdentity> {
    Some(ProcessIdentity {
        pid: u32::try_from(runner.pid?).ok()?,
        start_time: runner.pid_started.parse().ok()?,
        scope: runner.boot_id.clone(),
    })
}

impl ProcessFacts for LocalMachine {
    fn awake(&self) -> i64 {
        let since = clock_gettime(ClockId::Monotonic);
        since.tv_sec * 1_000 + since.tv_nsec / 1_000_000
    }

    fn proof(&self, runner: &AgentRunnerRecord) -> ProcessProof {
        match identity(runner) {
            Some(process) if !process.is_here() => ProcessProof::Unknown,
            Some(process) if process.is_gone() => ProcessProof::Gone,
            Some(_) => ProcessProof::Alive,
            None => ProcessProof::Unknown,
        }
    }
}
