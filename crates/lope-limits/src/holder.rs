//! Who holds something: an attempt, and the runner in whose session it is made.

use std::sync::Arc;

use lope_model::{Epoch, RunId, RunnerId, Timestamp};
use serde::{Deserialize, Serialize};

/// One attempt of an execution under one owner.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct AttemptRef {
    pub run: RunId,
    pub execution: Arc<str>,
    pub attempt: u32,
    pub epoch: Epoch,
}

/// An attempt that holds something, for as long as its runner's session lives.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Holder {
    pub runner: RunnerId,
    pub attempt: AttemptRef,
    pub since: Timestamp,
}

impl Holder {
    pub(crate) fn is(&self, runner: RunnerId, attempt: &AttemptRef) -> bool {
        self.runner == runner && self.attempt == *attempt
    }
}
