//! What SQLite and the file system report, sorted into the decisions of `StoreError`.

use std::io;
use std::path::Path;

use lope_store::StoreError;
use rusqlite::ErrorCode;
use rusqlite::ffi;

/// Why a verb stopped in the middle: SQLite said so, or we did.
#[derive(Debug)]
pub(crate) enum SqliteFault {
    Sqlite(rusqlite::Error),
    Store(StoreError),
}

/// What a verb comes back with inside this crate.
pub(crate) type Worked<T> = Result<T, SqliteFault>;

impl From<rusqlite::Error> for SqliteFault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<StoreError> for SqliteFault {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<SqliteFault> for StoreError {
    fn from(fault: SqliteFault) -> Self {
        match fault {
            SqliteFault::Sqlite(error) => sqlite(error),
            SqliteFault::Store(error) => error,
        }
    }
}

/// Where an error came up: a commit that fails while flushing may yet be found after a crash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum During {
    Work,
    Commit,
}

pub(crate) fn sqlite(error: rusqlite::Error) -> StoreError {
    sorted(&error, During::Work)
}

/// An error of the statement `COMMIT`.
pub(crate) fn commit(error: rusqlite::Error) -> StoreError {
    sorted(&error, During::Commit)
}

fn sorted(error: &rusqlite::Error, during: During) -> StoreError {
    let message = error.to_string();
    let Some(failure) = error.sqlite_error() else {
        return StoreError::Corrupt { message };
    };
    match failure.code {
        ErrorCode::DatabaseBusy
        | ErrorCode::DatabaseLocked
        | ErrorCode::FileLockingProtocolFailed => StoreError::Unavailable {
            message: "other processes kept the file locked for too long".to_owned(),
        },
        ErrorCode::DiskFull => StoreError::Full { message },
        ErrorCode::ReadOnly if failure.extended_code == ffi::SQLITE_READONLY_DBMOVED => {
            StoreError::Missing {
                message: "the file was moved or deleted while it was open".to_owned(),
            }
        }
        ErrorCode::ReadOnly | ErrorCode::PermissionDenied => StoreError::ReadOnly { message },
        ErrorCode::SystemIoFailure => io_failure(failure.extended_code, message, during),
        ErrorCode::OutOfMemory
        | ErrorCode::OperationInterrupted
        | ErrorCode::OperationAborted
        | ErrorCode::CannotOpen => StoreError::Unavailable { message },
        ErrorCode::TooBig => StoreError::Refused { message },
        _ => StoreError::Corrupt { message },
    }
}

fn io_failure(extended: i32, message: String, during: During) -> StoreError {
    match (extended, during) {
        // The shared index of the log could not grow.
        (ffi::SQLITE_IOERR_SHMSIZE, _) => StoreError::Full { message },
        (_, During::Commit) => StoreError::Unknown { message },
        (_, During::Work) => StoreError::Unavailable { message },
    }
}

pub(crate) fn file(path: &Path, error: io::Error) -> StoreError {
    let message = format!("{}: {error}", path.display());
    match error.kind() {
        io::ErrorKind::NotFound => StoreError::Missing { message },
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            StoreError::ReadOnly { message }
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreError::Full { message },
        _ => StoreError::Unavailable { message },
    }
}

/// Is it worth trying again at once: did another process merely stand in the way?
pub(crate) fn is_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|failure| {
        matches!(
            failure.code,
            ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::FileLockingProtocolFailed
        )
    })
}
