//! What a command comes to: a value for programs, text for people, an exit code; or what went wrong,
//! with a hint.

use lope::agents::BoardError;
use lope::stores::StoreError;
use serde_json::Value as Json;

/// How a command ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CommandExit {
    Done,
    /// What was asked for does not exist, or the work failed.
    Failed,
    /// Wrong usage or bad input.
    Usage,
    /// Conflict, lock held, already exists.
    Refused,
}

/// What is printed.
#[derive(Clone, PartialEq, Debug)]
pub struct CommandReport {
    pub value: Json,
    pub text: String,
    pub exit: CommandExit,
    pub form: ReportForm,
}

/// What a report is to whoever reads it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReportForm {
    /// Words about what was done.
    Words,
    /// It is itself what was asked for: printed also when quiet.
    Document,
    /// So is this, and each of its bytes counts.
    Verbatim,
    /// It was printed already.
    Streamed,
}

/// Why a command did not do what was asked.
#[derive(Debug)]
pub enum CommandError {
    Told {
        exit: CommandExit,
        message: String,
        hint: Option<String>,
    },
    Store(StoreError),
}

pub type CommandResult<T = CommandReport> = Result<T, CommandError>;

impl CommandReport {
    pub(crate) fn new(value: Json, text: impl Into<String>) -> Self {
        Self {
            value,
            text: text.into(),
            exit: CommandExit::Done,
            form: ReportForm::Words,
        }
    }

    /// The same, printed also when quiet.
    pub(crate) fn document(value: Json, text: impl Into<String>) -> Self {
        Self {
            form: ReportForm::Document,
            ..Self::new(value, text)
        }
    }

    /// A document that is a file, wherever it goes.
    pub(crate) fn verbatim(value: Json, text: impl Into<String>) -> Self {
        Self {
            form: ReportForm::Verbatim,
            ..Self::new(value, text)
        }
    }

    /// All of it was printed while the command went on.
    pub(crate) fn streamed() -> Self {
        Self {
            form: ReportForm::Streamed,
            ..Self::new(Json::Null, "")
        }
    }

    pub(crate) fn exiting(self, exit: CommandExit) -> Self {
        Self { exit, ..self }
    }
}

impl CommandError {
    pub(crate) fn new(exit: CommandExit, message: impl Into<String>) -> Self {
        Self::Told {
            exit,
            message: message.into(),
            hint: None,
        }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(CommandExit::Usage, message)
    }

    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self::new(CommandExit::Refused, message)
    }

    pub(crate) fn hint(self, words: impl Into<String>) -> Self {
        match self {
            Self::Told { exit, message, .. } => Self::Told {
                exit,
                message,
                hint: Some(words.into()),
            },
            store @ Self::Store(_) => store,
        }
    }
}

impl std::fmt::Display for CommandError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Told { message, .. } => f.write_str(message),
            Self::Store(error) => write!(f, "{error}"),
        }
    }
}

impl From<StoreError> for CommandError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<BoardError> for CommandError {
    fn from(error: BoardError) -> Self {
        let message = error.to_string();
        match error {
            BoardError::Store(error) => Self::Store(error),
            BoardError::Missing {
                what: "project", ..
            } => Self::new(CommandExit::Failed, message).hint(
                "'lope projects list' shows what there is; 'lope projects add PATH' adds one",
            ),
            BoardError::Missing { what: "runner", .. } => Self::new(CommandExit::Failed, message)
                .hint("'lope runners list' shows what there is"),
            BoardError::Missing { .. } => Self::new(CommandExit::Failed, message)
                .hint("'lope tasks list' shows what there is"),
            BoardError::Ambiguous { .. } => Self::usage(message).hint("type more of the id"),
            BoardError::Refused(_) => Self::refused(message),
            BoardError::Bad(_) | BoardError::BadList { .. } => Self::usage(message),
            BoardError::Partly { .. } => Self::new(CommandExit::Failed, message)
                .hint("the same list again adds the rest: what is there is left as it is"),
        }
    }
}
