//! What becomes of inputs, and of a workflow that is done with them.

use std::sync::Arc;

use lope_flow::law::Settled;
use lope_model::{Failure, RunId};
use serde::de::DeserializeOwned;

use crate::convert::from_value;
use crate::error::{Error, Result};

/// What became of one input.
#[derive(Clone, PartialEq, Debug)]
pub struct InputResult {
    pub input: Arc<str>,
    pub result: Settled,
}

impl InputResult {
    /// The value, as a Rust type. An input that failed or was cancelled has none.
    pub fn value<T: DeserializeOwned>(&self) -> Result<T> {
        match &self.result {
            Settled::Done(value) => {
                from_value(value).map_err(|message| Error::bad_value("the result", message))
            }
            Settled::Failed(failure) => Err(Error::bad_value(
                "the input failed",
                format!("{}: {}", failure.kind, failure.message),
            )),
            Settled::Cancelled => Err(Error::bad_value("the input", "was cancelled")),
        }
    }

    /// Why it failed, if it did.
    pub fn failure(&self) -> Option<&Failure> {
        match &self.result {
            Settled::Failed(failure) => Some(failure),
            Settled::Done(_) | Settled::Cancelled => None,
        }
    }
}

/// What became of the inputs that have a result, in the order in which they settled.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Results(pub(crate) Vec<InputResult>);

impl Results {
    /// The values of the inputs that have one, as a Rust type.
    pub fn values<T: DeserializeOwned>(&self) -> Result<Vec<T>> {
        let done = self
            .0
            .iter()
            .filter(|result| matches!(result.result, Settled::Done(_)));
        done.map(InputResult::value).collect()
    }

    /// The failures of the inputs that failed.
    pub fn failures(&self) -> Vec<&Failure> {
        self.0.iter().filter_map(InputResult::failure).collect()
    }

    pub fn last(&self) -> Option<&InputResult> {
        self.0.last()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> std::slice::Iter<'_, InputResult> {
        self.0.iter()
    }
}

impl IntoIterator for Results {
    type Item = InputResult;
    type IntoIter = std::vec::IntoIter<InputResult>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Results {
    type Item = &'a InputResult;
    type IntoIter = std::slice::Iter<'a, InputResult>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// A workflow that has nothing more to do.
#[derive(Clone, PartialEq, Debug)]
pub struct Completion {
    pub id: Arc<str>,
    pub run: RunId,
    /// `idle` (it may be fed again), `completed`, `failed` or `cancelled`.
    pub status: &'static str,
    /// Inputs that were settled since the last completion, in order.
    pub results: Vec<InputResult>,
}

/// Called with a workflow's id and what became of it.
pub(crate) type Callback = Arc<dyn Fn(&str, &Completion) + Send + Sync>;
