//! What the server and the network report, sorted into the decisions of `StoreError`.
//!
//! The one question that matters after a cut connection is whether something that commits was under
//! way: if so nobody knows whether it happened, if not nothing was written.

use std::error::Error as _;

use lope_store::StoreError;
use tokio_postgres::Error;
use tokio_postgres::error::{DbError, Severity, SqlState};

/// What the server had been told when the error came up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sent {
    /// Nothing that commits by itself.
    Work,
    /// Something that commits, in the same pipeline: without an answer it may have happened.
    Commit,
}

/// Why a transaction ended without being committed, or without a word.
#[derive(Debug)]
pub(crate) struct PostgresFault {
    pub(crate) error: StoreError,
    pub(crate) response: FaultResponse,
}

impl PostgresFault {
    /// Is what was read no sound row?
    pub(crate) fn is_damage(&self) -> bool {
        matches!(self.error, StoreError::Corrupt { .. })
    }
}

/// What may be done about it at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FaultResponse {
    /// Nothing: tell the caller.
    Tell,
    /// It was rolled back because somebody stood in the way: do it again.
    Again,
    /// It was rolled back because of what one of the commands carries: find out which.
    Isolate,
}

/// What a verb comes back with inside this crate.
pub(crate) type Worked<T> = Result<T, PostgresFault>;

impl From<StoreError> for PostgresFault {
    fn from(error: StoreError) -> Self {
        Self {
            error,
            response: FaultResponse::Tell,
        }
    }
}

impl From<PostgresFault> for StoreError {
    fn from(fault: PostgresFault) -> Self {
        fault.error
    }
}

/// No answer came in time.
pub(crate) fn late(sent: Sent) -> PostgresFault {
    cut("the server did not answer in time".to_owned(), sent).into()
}

pub(crate) fn fault(error: &Error, sent: Sent) -> PostgresFault {
    match error.as_db_error() {
        Some(error) => {
            let report = ServerReport::of(error);
            PostgresFault {
                response: report.response(),
                error: report.decide(sent),
            }
        }
        None => cut(said(error), sent).into(),
    }
}

/// What poolers say of settings that a connection begins with.
const REFUSED_SETTING: &str = "startup parameter";

/// Does something before the server refuse the settings that a connection begins with?
pub(crate) fn is_refused_setting(error: &StoreError) -> bool {
    matches!(error, StoreError::Refused { message } if message.contains(REFUSED_SETTING))
}

/// An error while connecting: nothing was sent.
pub(crate) fn connect(error: &Error) -> StoreError {
    if let Some(report) = error.as_db_error() {
        if report.message().contains(REFUSED_SETTING) {
            return StoreError::refused(format!(
                "a pooler stands before the server ({}): write pooler=transaction in the store's URL",
                report.message()
            ));
        }
        return ServerReport::of(report).decide(Sent::Work);
    }
    let message = said(error);
    let is_certificate = causes(error).any(|cause| cause.downcast_ref::<rustls::Error>().is_some());
    if is_certificate
        || message.starts_with("invalid configuration")
        || message.starts_with("authentication")
    {
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
    match cause
        .downcast_ref::<std::io::Error>()
        .and_then(std::io::Error::get_ref)
    {
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

const LOCKED: &str =
    "somebody else has held it for longer than this waits, as one who migrates the store does";

/// What the server said, as far as it matters here.
struct ServerReport<'a> {
    code: &'a SqlState,
    /// The server ends the connection, or itself.
    is_fatal: bool,
    message: String,
}

impl<'a> ServerReport<'a> {
    fn of(error: &'a DbError) -> Self {
        let is_fatal = matches!(
            error.parsed_severity(),
            Some(Severity::Fatal | Severity::Panic)
        );
        let hint = match error.hint() {
            None if *error.code() == SqlState::LOCK_NOT_AVAILABLE => Some(LOCKED),
            said => said,
        };
        let hint = hint.map_or(String::new(), |hint| format!(" ({hint})"));
        Self {
            code: error.code(),
            is_fatal,
            message: format!("{}{hint}", error.message()),
        }
    }

    fn class(&self) -> &str {
        self.code.code().get(..2).unwrap_or_default()
    }

    fn response(&self) -> FaultResponse {
        let passing = [
            SqlState::T_R_DEADLOCK_DETECTED,
            SqlState::T_R_SERIALIZATION_FAILURE,
            SqlState::UNIQUE_VIOLATION,
        ];
        if passing.contains(self.code) {
            return FaultResponse::Again;
        }
        match self.class() {
            // The class of the cause: data, constraints, limits of the server, rules that somebody
            // added, damaged pages.
            "22" | "23" | "54" | "P0" => FaultResponse::Isolate,
            "XX" if !self.is_fatal => FaultResponse::Isolate,
            _ => FaultResponse::Tell,
        }
    }

    fn decide(self, sent: Sent) -> StoreError {
        let Self { code, is_fatal, .. } = self;
        let class = self.class().to_owned();
        let message = self.message;
        match class.as_str() {
            // Whatever the cause, a server that gives up in mid-commit may have committed: only its
            // log knows.
            _ if is_fatal && sent == Sent::Commit => StoreError::Unknown { message },
            "57" | "08" | "25" | "XX" if is_fatal => StoreError::Unavailable { message },
            "25" | "42"
                if [
                    SqlState::READ_ONLY_SQL_TRANSACTION,
                    SqlState::INSUFFICIENT_PRIVILEGE,
                ]
                .contains(code) =>
            {
                StoreError::ReadOnly { message }
            }
            "53" if *code == SqlState::DISK_FULL => StoreError::Full { message },
            "08" | "40" | "53" | "55" | "57" => StoreError::Unavailable { message },
            // A database that is not there may come, as a server may: it is not Lope's to create.
            "3D" => StoreError::Unavailable { message },
            "3F" => StoreError::Missing { message },
            "42" if *code == SqlState::UNDEFINED_TABLE => StoreError::Missing { message },
            "58" | "XX" => StoreError::Corrupt { message },
            _ => StoreError::Refused { message },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decided(code: &str, is_fatal: bool, sent: Sent) -> String {
        let report = ServerReport {
            code: &SqlState::from_code(code),
            is_fatal,
            message: String::new(),
        };
        let told = format!("{:?}", report.decide(sent));
        told.split(' ').next().unwrap().to_owned()
    }

    #[test]
    fn what_the_server_says_is_a_decision() {
        let said = [
            ("53100", "Full"),
            ("25006", "ReadOnly"),
            ("42501", "ReadOnly"),
            ("XX001", "Corrupt"),
            ("58030", "Corrupt"),
            ("3D000", "Unavailable"),
            ("42P01", "Missing"),
            ("53300", "Unavailable"),
            ("57014", "Unavailable"),
            ("40P01", "Unavailable"),
            // It was tried again while another could have been faster.
            ("23505", "Refused"),
            ("22021", "Refused"),
        ];
        for (code, decision) in said {
            // An error that ends the transaction and nothing else has rolled it back, commit or
            // not.
            assert_eq!(decided(code, false, Sent::Work), decision, "{code}");
            assert_eq!(decided(code, false, Sent::Commit), decision, "{code}");
        }
    }

    #[test]
    fn a_server_that_ends_in_mid_commit_may_have_committed() {
        for code in [
            "57P01", "57P02", "08006", "25P03", "XX000", "53100", "58030",
        ] {
            assert_eq!(decided(code, true, Sent::Commit), "Unknown", "{code}");
        }
        for code in ["57P01", "57P02", "57P03", "08006", "XX000", "53300"] {
            assert_eq!(decided(code, true, Sent::Work), "Unavailable", "{code}");
        }
        assert_eq!(decided("28000", true, Sent::Work), "Refused");
        assert_eq!(decided("3D000", true, Sent::Work), "Unavailable");
    }
}
