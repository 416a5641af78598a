//! How far the steps of a run are, as drawings show it. In: a run's executions; out: a standing for
//! every step that was executed.

use std::borrow::Cow;
use std::collections::BTreeMap;

use lope_flow::history::{Execution, ExecutionStatus};

/// How far a step of a run is. Of several executions of a step, the last in this order tells most.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum StepStanding {
    Pending,
    Skipped,
    Done,
    Running,
    Failed,
}

/// How far a step of a run is, and how often it was executed: more than once in a loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StepProgress {
    pub standing: StepStanding,
    pub executions: usize,
}

/// How far the steps of a run are, by path (`mail/send`).
pub type StepStandings = BTreeMap<String, StepProgress>;

/// How far each step of a run is: one that has several executions is as far as the one that says
/// most. While nobody works on the run, what was opened waits.
pub fn standings<'a>(
    executions: impl Iterator<Item = Cow<'a, Execution>>,
    is_waiting: bool,
) -> StepStandings {
    let mut standings = StepStandings::new();
    for execution in executions {
        let standing = match StepStanding::from(execution.status) {
            StepStanding::Running if is_waiting => StepStanding::Pending,
            standing => standing,
        };
        let known = standings
            .entry(execution.step.to_string())
            .or_insert(StepProgress {
                standing,
                executions: 0,
            });
        known.standing = known.standing.max(standing);
        known.executions += 1;
    }
    standings
}

impl From<ExecutionStatus> for StepStanding {
    fn from(status: ExecutionStatus) -> Self {
        match status {
            ExecutionStatus::Running => Self::Running,
            ExecutionStatus::Done => Self::Done,
            ExecutionStatus::Failed => Self::Failed,
            ExecutionStatus::Skipped
            | ExecutionStatus::Forgiven
            | ExecutionStatus::Cancelled
            | ExecutionStatus::Lost => Self::Skipped,
        }
    }
}

impl StepStanding {
    /// The word for it: what statuses and class names say.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }

    /// The sign for it in a drawing.
    pub const fn mark(self) -> char {
        match self {
            Self::Pending => '○',
            Self::Running => '▶',
            Self::Done => '✓',
            Self::Failed => '✗',
            Self::Skipped => '⊘',
        }
    }
}
