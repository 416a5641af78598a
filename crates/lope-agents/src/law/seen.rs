//! How a runner stands: what the board says of it, unless its process is proven to be gone. Whoever
//! tells people of runners asks here.

use super::{BoardView, ProcessProof};
use crate::records::{AgentRunnerRecord, RunnerStatus};

/// A runner as it is on the board, and whether it is there at all.
#[derive(Clone, PartialEq, Debug)]
pub struct SeenRunner {
    pub runner: AgentRunnerRecord,
    /// The board says that it works, and its process is gone: whoever comes next ends it.
    pub is_dead: bool,
}

impl SeenRunner {
    pub fn new(runner: AgentRunnerRecord, proof: ProcessProof) -> Self {
        let is_dead = !has_ended(&runner) && proof == ProcessProof::Gone;
        Self { runner, is_dead }
    }

    /// Is it at work, as far as is known?
    pub const fn is_live(&self) -> bool {
        !self.has_ended() && !self.is_dead
    }

    /// Does the board say that it has ended?
    pub const fn has_ended(&self) -> bool {
        has_ended(&self.runner)
    }

    /// How it stands, in a word; as locks that are free for the same reason are called.
    pub const fn word(&self) -> &'static str {
        if self.is_dead {
            return "dead";
        }
        self.runner.status.as_str()
    }

    /// What went wrong, and what comes of it.
    pub fn error(&self) -> Option<&str> {
        match (self.is_dead, self.runner.current_task_id) {
            (false, _) => self.runner.error.as_deref(),
            (true, None) => Some("its process is gone; the next runner takes its place"),
            (true, Some(_)) => Some("its process is gone; the next runner takes its task back"),
        }
    }
}

/// One that was just heard of.
impl From<AgentRunnerRecord> for SeenRunner {
    fn from(runner: AgentRunnerRecord) -> Self {
        Self {
            runner,
            is_dead: false,
        }
    }
}

impl BoardView {
    /// The runners that have not ended, as they stand.
    pub fn seen_runners(&self) -> impl Iterator<Item = SeenRunner> {
        let runners = self.runners.iter();
        runners.map(|runner| SeenRunner::new(runner.clone(), self.proof(runner.id)))
    }
}

const fn has_ended(runner: &AgentRunnerRecord) -> bool {
    match runner.status {
        RunnerStatus::Idle | RunnerStatus::Running => false,
        RunnerStatus::Completed | RunnerStatus::Failed => true,
    }
}
