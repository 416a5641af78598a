//! What the server and the network report, sorted into the decisions of `StoreError`.
//!
//! The one question that matters after a cut connection is whether something that commits was under way: if so nobody
//! knows whether it happened, if not nothing was written.

use std::error::Error as _;

use lope_store::StoreError;
use tokio_postgres::Error;
use tokio_postgres::error::{DbError, Severity, SqlState};

/// What the server had been told when the error came up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sent {
    /// Nothing that commits by itself.
    Work,
    /// Something that commits, in the same flight: without an answer it may have happened.
    Commit,
}

/// Why a transaction ended without being committed, or without a word.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) error: StoreError,
    pub(crate) then: Then,
}

/// What may be done about it at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Then {
    /// Nothing: tell the caller.
    Tell,
    /// It was rolled back because somebody stood in the way: do it again.
    Again,
    /// It was rolled back because of what one of the commands carries: find out which.
    Isolate,
}

/// What a verb comes back with inside this crate.
pub(crate) type Worked<T> = Result<T, Fault>;

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self { error, then: Then::Tell }
    }
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        fault.error
    }
}

/// No answer came in time.
pub(crate) fn late(sent: Sent) -> Fault {
    cut("the server did not answer in time".to_owned(), sent).into()
}

pub(crate) fn fault(error: &Error, sent: Sent) -> Fault {
    match error.as_db_error() {
        Some(report) => Fault { error: reported(report, sent), then: then(report) },
        None => cut(said(error), sent).into(),
    }
}

/// An error while connecting: nothing was sent.
pub(crate) fn connect(error: &Error) -> StoreError {
    if let Some(report) = error.as_db_error() {
        return reported(report, Sent::Work);
    }
    let message = said(error);
    let is_certificate = causes(error).any(|cause| cause.downcast_ref::<rustls::Error>().is_some());
    if is_certificate || message.starts_with("invalid configuration") || message.starts_with("authentication") {
        return StoreError::Refused { message };
    }
    StoreError::Unavailable { message }
}

fn causes(error: &Error) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    let first: Option<&(dyn std::error::Error + 'static)> = error.source();
    std::iter::successors(first, next_of)
}

/// An I/O error keeps what it wraps to itself.
fn next_of<'error>(
    cause: &&'error (dyn std::error::Error + 'static),
) -> Option<&'error (dyn std::error::Error + 'static)> {
    let cause: &'error (dyn std::error::Error + 'static) = *cause;
    match cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref) {
        Some(inner) => Some(inner),
        None => cause.source(),
    }
}

fn cut(message: String, sent: Sent) -> StoreError {
    match sent {
        Sent::Work => StoreError::Unavailable { message },
        Sent::Commit => StoreError::Unknown { message },
    }
}

fn said(error: &Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

fn then(report: &DbError) -> Then {
    let code = report.code();
    if [SqlState::T_R_DEADLOCK_DETECTED, SqlState::T_R_SERIALIZATION_FAILURE, SqlState::UNIQUE_VIOLATION].contains(code)
    {
        return Then::Again;
    }
    match class(code) {
        // The class of the cause: data, constraints, limits of the server.
        "22" | "23" | "54" => Then::Isolate,
        _ => Then::Tell,
    }
}

fn class(code: &SqlState) -> &str {
    code.code().get(..2).unwrap_or_default()
}

fn reported(report: &DbError, sent: Sent) -> StoreError {
    let code = report.code();
    let message = told(report);
    match class(code) {
        // The server ends this connection; whether it had committed before is unknown if it had been told to.
        _ if is_ending(report) => cut(message, sent),
        "25" | "42" if [SqlState::READ_ONLY_SQL_TRANSACTION, SqlState::INSUFFICIENT_PRIVILEGE].contains(code) => {
            StoreError::ReadOnly { message }
        }
        "53" if *code == SqlState::DISK_FULL => StoreError::Full { message },
        // Somebody was faster, again and again.
        "23" if *code == SqlState::UNIQUE_VIOLATION => StoreError::Unavailable { message },
        "08" | "40" | "53" | "55" | "57" => StoreError::Unavailable { message },
        "3D" | "3F" => StoreError::Missing { message },
        "42" if *code == SqlState::UNDEFINED_TABLE => StoreError::Missing { message },
        "58" | "XX" => StoreError::Corrupt { message },
        _ => StoreError::Refused { message },
    }
}

fn is_ending(report: &DbError) -> bool {
    let is_fatal = matches!(report.parsed_severity(), Some(Severity::Fatal | Severity::Panic));
    is_fatal && matches!(class(report.code()), "57" | "08" | "25" | "XX")
}

fn told(report: &DbError) -> String {
    let hint = report.hint().map_or(String::new(), |hint| format!(" ({hint})"));
    format!("{}{hint}", report.message())
}
