//! Evaluations that fail, and where.
//!
//! A failed evaluation becomes a step's `Failure` with the name and bases that Python gives it, so
//! that handlers of either front end match it.

use lope_model::Failure;
use lope_model::failure::kind;
use thiserror::Error;

use crate::location::TextLocation;

/// Why an evaluation failed; the names are Python's, plus `Limit`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum ErrorKind {
    Type,
    Value,
    Key,
    Index,
    ZeroDivision,
    Overflow,
    Name,
    Unbound,
    Limit,
}

/// An evaluation that failed.
#[derive(Debug, Clone, PartialEq, Error)]
#[error("{}: {message}", kind.name())]
pub struct EvalError {
    pub kind: ErrorKind,
    pub message: String,
    /// The nearest node that was written somewhere.
    pub at: TextLocation,
}

impl ErrorKind {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Type => "TypeError",
            Self::Value => "ValueError",
            Self::Key => "KeyError",
            Self::Index => "IndexError",
            Self::ZeroDivision => "ZeroDivisionError",
            Self::Overflow => "OverflowError",
            Self::Name => "NameError",
            Self::Unbound => "UnboundLocalError",
            Self::Limit => kind::LIMIT,
        }
    }

    /// Base types, nearest first.
    pub const fn bases(self) -> &'static [&'static str] {
        match self {
            Self::Type | Self::Value | Self::Name => &["Exception", kind::EXPRESSION],
            Self::Key | Self::Index => &["LookupError", "Exception", kind::EXPRESSION],
            Self::ZeroDivision | Self::Overflow => {
                &["ArithmeticError", "Exception", kind::EXPRESSION]
            }
            Self::Unbound => &["NameError", "Exception", kind::EXPRESSION],
            Self::Limit => &[kind::EXPRESSION],
        }
    }
}

impl EvalError {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            at: TextLocation::NOWHERE,
        }
    }

    pub fn typed(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Type, message)
    }

    pub fn value(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Value, message)
    }

    /// An integer that is too large.
    pub fn overflow() -> Self {
        Self::new(
            ErrorKind::Overflow,
            "the result does not fit a 64-bit integer",
        )
    }

    pub fn limit(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Limit, message)
    }

    /// Gives the error a place unless it already has a nearer one.
    #[must_use]
    pub fn or_at(mut self, at: TextLocation) -> Self {
        if !self.at.is_known() {
            self.at = at;
        }
        self
    }
}

impl From<EvalError> for Failure {
    fn from(error: EvalError) -> Self {
        let mut failure = Self::new(error.kind.name(), error.message);
        failure.bases = error
            .kind
            .bases()
            .iter()
            .map(|base| (*base).into())
            .collect();
        if error.at.is_known() {
            failure.traceback = Some(format!(
                "expression at line {}, column {}",
                error.at.line, error.at.column
            ));
        }
        failure
    }
}
