//! What a command says when it cannot do what was asked: a message, a hint, a stable exit code.

use std::fmt;

use lope::Breakdown;
use lope::runs::InputError;
use lope::stores::StoreError;
use lope_remote::CallError;

/// The exit codes that scripts rely on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Exit {
    Done = 0,
    /// The work failed, or what was asked for does not exist.
    Failed = 1,
    /// Wrong usage or bad input.
    Usage = 2,
    /// Conflict, lock held, already exists.
    Refused = 3,
    /// The store or server is out of reach.
    OutOfReach = 4,
    /// A bug in Lope.
    Bug = 70,
}

impl Exit {
    /// From its number.
    pub(crate) const fn of(code: u8) -> Self {
        match code {
            0 => Self::Done,
            1 => Self::Failed,
            2 => Self::Usage,
            3 => Self::Refused,
            4 => Self::OutOfReach,
            _ => Self::Bug,
        }
    }
}

/// A command that could not do what was asked.
#[derive(Debug)]
pub(crate) struct CliError {
    pub(crate) exit: Exit,
    message: String,
    hint: Option<String>,
}

pub(crate) type CliResult<T> = Result<T, CliError>;

impl CliError {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
            hint: None,
        }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// The engine in this process can do no more work.
    fn broken(why: &Breakdown) -> Self {
        let (exit, hint) = match why {
            Breakdown::StoreGone(_) => (
                Exit::OutOfReach,
                "put the store back, or start on another one",
            ),
            Breakdown::Panicking { .. } | Breakdown::Unrecoverable { .. } => (
                Exit::Bug,
                "nothing is lost: start it again; please report it with the lines above",
            ),
        };
        Self::new(exit, format!("this runner cannot go on: {why}")).hint(hint)
    }

    /// The same with another message.
    pub(crate) fn reworded(mut self, word: impl FnOnce(&str) -> String) -> Self {
        self.message = word(&self.message);
        self
    }

    /// The message and the hint apart.
    pub(crate) fn words(self) -> (String, Option<String>) {
        (self.message, self.hint)
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.hint
            .iter()
            .try_for_each(|hint| write!(f, "\n  hint: {hint}"))
    }
}

impl From<lope::Error> for CliError {
    fn from(error: lope::Error) -> Self {
        match error {
            lope::Error::Store(error) => error.into(),
            lope::Error::Input(error) => error.into(),
            lope::Error::Broken { why, .. } => Self::broken(&why),
            other => Self::new(Exit::Bug, other.to_string()),
        }
    }
}

impl From<InputError> for CliError {
    fn from(error: InputError) -> Self {
        let (exit, hint) = match error {
            InputError::Store(error) => return error.into(),
            InputError::Unfit { .. } => (Exit::Usage, "the workflow's 'input' says what it takes"),
            InputError::OtherWorkflow { .. } => (Exit::Refused, "give another --key"),
            InputError::NotOpen { .. } => (
                Exit::Refused,
                "'lope start --open' starts a run that may be fed",
            ),
        };
        Self::new(exit, error.to_string()).hint(hint)
    }
}

impl From<CallError> for CliError {
    fn from(error: CallError) -> Self {
        let message = error.to_string();
        let (exit, hint) = match error {
            CallError::BadUrl(_) => (Exit::Usage, None),
            CallError::Unreachable(_) => {
                let hint = "is it running ('lope up'), and is the address right?";
                (Exit::OutOfReach, Some(hint.to_owned()))
            }
            CallError::Broken(_) => (Exit::OutOfReach, None),
            CallError::Denied { hint, .. } => (Exit::Refused, hint),
            CallError::Refused { status, hint, .. } => match status {
                404 => (Exit::Failed, hint),
                409 => (Exit::Refused, hint),
                500 => (Exit::Bug, hint),
                _ => (Exit::Usage, hint),
            },
            CallError::Unwritten { hint, exists, .. } => {
                let exit = if exists { Exit::Refused } else { Exit::Usage };
                (exit, hint)
            }
        };
        Self {
            exit,
            message,
            hint,
        }
    }
}

impl From<StoreError> for CliError {
    fn from(error: StoreError) -> Self {
        let (exit, hint) = match &error {
            StoreError::Unavailable { .. } => (
                Exit::OutOfReach,
                "a server: is it running, and is the address right? A file: the message names who holds it",
            ),
            StoreError::Unknown { .. } => (
                Exit::OutOfReach,
                "look at the state before you repeat the command",
            ),
            StoreError::Full { .. } => (
                Exit::OutOfReach,
                "free some space and repeat the command; nothing was lost",
            ),
            StoreError::ReadOnly { .. } => (
                Exit::Refused,
                "check the permissions of the file and its folder, or the rights of the login",
            ),
            StoreError::Corrupt { .. } => (Exit::Failed, "restore a backup"),
            StoreError::Version { hint, .. } => {
                return Self::new(Exit::Refused, error.to_string()).hint(hint.clone());
            }
            StoreError::Missing { .. } => (Exit::Failed, "'lope store migrate' creates it"),
            StoreError::Refused { .. } => (Exit::Usage, "the message names what is out of bounds"),
            StoreError::Closed => (Exit::Bug, "please report this"),
        };
        Self::new(exit, error.to_string()).hint(hint)
    }
}
