//! What can go wrong when a program asks something of a runner or builds a flow. Each variant is a
//! decision of the caller's.

use lope_definition::Problem;
use lope_engine::Breakdown;
use lope_engine::client::InputError;
use lope_model::RunId;
use lope_store::StoreError;
use lope_store::runs::RunStatus;
use thiserror::Error as ThisError;

pub type Result<T> = std::result::Result<T, Error>;

/// Why a runner did not do what it was asked to.
#[derive(Debug, Clone, PartialEq, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// An option that means nothing. Mend the program.
    #[error("bad option '{option}': {message}")]
    BadOption {
        option: &'static str,
        message: String,
    },
    /// The flow cannot be run. Mend it.
    #[error("flow '{flow}': {}", list(problems))]
    BadFlow {
        flow: String,
        problems: Vec<Problem>,
    },
    /// The id is taken. Feed what is there, resume it if it was stopped, or choose another id.
    #[error("'{id}' was started before: run {run} is {status}")]
    AlreadyStarted {
        id: String,
        run: RunId,
        status: RunStatus,
    },
    /// No such workflow.
    #[error("there is no workflow '{id}' in runner '{runner}'")]
    NotFound { id: String, runner: String },
    /// It was stopped: resume it first.
    #[error("'{id}' is stopped: resume it first")]
    Stopped { id: String },
    /// It has ended and takes nothing more.
    #[error("'{id}' has ended: {status}")]
    Ended { id: String, status: RunStatus },
    /// Too much waits for it already. Try again later.
    #[error("too many inputs wait for '{id}'")]
    Full { id: String },
    /// The flow has no function for an action that the run needs. Resume it with the flow (or the
    /// version) it was started with.
    #[error("flow '{flow}' has no function for {}", missing.join(", "))]
    Unserved { flow: String, missing: Vec<String> },
    /// A Rust value that has no form as a value, or the other way round.
    #[error("{what}: {message}")]
    BadValue { what: String, message: String },
    /// It did not happen in the time allowed.
    #[error("'{id}' was not {what} in time")]
    Late { id: String, what: &'static str },
    /// A run is not started so. Nothing was written.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The store failed; what it says is what to do.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The system refused a thread or a client.
    #[error("the runner cannot start: {message}")]
    System { message: String },
    /// The runner's engine has stopped for good, and says why. Nothing that was acknowledged is lost:
    /// build another one, or end the program.
    #[error("runner '{runner}' cannot go on: {why}")]
    Broken { runner: String, why: Breakdown },
    /// The runner was shut down.
    #[error("runner '{runner}' is shut down")]
    Closed { runner: String },
}

impl Error {
    pub(crate) fn bad_value(what: impl Into<String>, message: impl Into<String>) -> Self {
        Self::BadValue {
            what: what.into(),
            message: message.into(),
        }
    }
}

fn list(problems: &[Problem]) -> String {
    problems
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("; ")
}
