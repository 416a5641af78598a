//! What can go wrong behind a door, sorted by what the caller should do about it.
//!
//! A guard that failed, a lease that was lost, a run that does not exist are answers, not errors;
//! they are in the replies of the verbs.

use lope_model::RunId;
use thiserror::Error;

pub type StoreResult<T> = Result<T, StoreError>;

/// Why a store did not answer. Each variant is a decision of the caller's.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StoreError {
    /// Out of reach for now; nothing was written. Try again with backoff.
    #[error("the store is out of reach: {message}")]
    Unavailable { message: String },
    /// The connection was cut while a commit was under way: it may or may not have happened. Read
    /// the head again.
    #[error("the store did not say whether the commit happened: {message}")]
    Unknown { message: String },
    /// No room left on the device. Nothing was written; free some and try again.
    #[error("the store's disk is full: {message}")]
    Full { message: String },
    /// The store may not be written by this process.
    #[error("the store is read-only: {message}")]
    ReadOnly { message: String },
    /// What is on disk is not a sound store. Stop; restore a backup.
    #[error("the store is damaged: {message}")]
    Corrupt { message: String },
    /// The store has another schema version than this program.
    #[error("the store has schema version {found}, this program needs {needed}")]
    Version {
        found: i64,
        needed: i64,
        hint: String,
    },
    /// The store does not exist or is empty, and this call may not create it.
    #[error("there is no store: {message}")]
    Missing { message: String },
    /// The command itself is wrong (a bound exceeded, a table not in the manifest). A bug or bad
    /// input; do not repeat.
    #[error("the store refused the command: {message}")]
    Refused { message: String },
    /// The store was closed by this program.
    #[error("the store is closed")]
    Closed,
}

impl StoreError {
    /// The store has a schema version that this program does not work with.
    pub fn other_version(found: i64, needed: i64) -> Self {
        let hint = if found > needed {
            "the store was written by a newer lope: use that one, or a newer one still"
        } else {
            "run `lope store migrate` to bring the store to this version"
        };
        Self::Version {
            found,
            needed,
            hint: hint.to_owned(),
        }
    }

    pub fn unavailable(error: impl ToString) -> Self {
        Self::Unavailable {
            message: error.to_string(),
        }
    }

    pub fn unknown(error: impl ToString) -> Self {
        Self::Unknown {
            message: error.to_string(),
        }
    }

    pub fn corrupt(error: impl ToString) -> Self {
        Self::Corrupt {
            message: error.to_string(),
        }
    }

    /// Damage of one run, with its id and what takes it away.
    #[must_use]
    pub fn in_run(self, run: RunId) -> Self {
        let mends = format!("take it away: `lope store remove-run {run}`");
        match self {
            Self::Corrupt { message } if !message.contains(&mends) => {
                Self::corrupt(format!("run {run} is damaged: {message}; {mends}"))
            }
            other => other,
        }
    }

    pub fn refused(message: impl Into<String>) -> Self {
        Self::Refused {
            message: message.into(),
        }
    }

    /// May the same command succeed later, without anybody mending anything by hand?
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Unavailable { .. } | Self::Unknown { .. } | Self::Full { .. } => true,
            Self::ReadOnly { .. }
            | Self::Corrupt { .. }
            | Self::Version { .. }
            | Self::Missing { .. }
            | Self::Refused { .. }
            | Self::Closed => false,
        }
    }
}
