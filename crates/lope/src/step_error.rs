//! Why a step written in Rust failed: a type that handlers and retry rules match on, and a message.
//! Every error becomes one with `?`.

use std::fmt;

use lope_model::{Failure, Value};

/// Why a step failed. Any `std::error::Error` becomes one with `?`; its type is the name of the
/// error's own.
#[derive(Clone, PartialEq)]
pub struct StepError(Box<Failure>);

/// What a step gives back.
pub type StepResult<T> = Result<T, StepError>;

impl StepError {
    /// A failure of this type, which `retry_on`, `never_retry_on` and `catch` may name.
    pub fn new(kind: &str, message: impl Into<String>) -> Self {
        Self(Box::new(Failure::new(kind, message)))
    }

    /// Something more for whoever handles it.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<Value>) -> Self {
        self.0.detail = detail.into();
        self
    }

    pub fn failure(&self) -> &Failure {
        &self.0
    }
}

impl<E: std::error::Error> From<E> for StepError {
    fn from(error: E) -> Self {
        let full = std::any::type_name::<E>();
        let plain = full.split('<').next().unwrap_or(full);
        Self::new(
            plain.rsplit("::").next().unwrap_or(plain),
            error.to_string(),
        )
    }
}

impl From<StepError> for Failure {
    fn from(error: StepError) -> Self {
        *error.0
    }
}

impl fmt::Debug for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.kind, self.0.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_keeps_its_type_and_message() {
        fn read() -> StepResult<i64> {
            Ok("x".parse::<i64>()?)
        }
        let failure = Failure::from(read().unwrap_err());
        assert_eq!(
            (&*failure.kind, failure.message.as_str()),
            ("ParseIntError", "invalid digit found in string")
        );
    }
}
