//! What waits for a commit to be durable. What goes into the commit itself is not here.

use std::sync::Arc;

use lope_flow::law::{Dispatch, Notice, Settled};
use lope_model::Epoch;

use crate::executor::Token;

/// Something to be done when the commit that holds its cause is durable.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum AfterCommit {
    /// The end of a pause is durable.
    GoOn,
    /// Start an attempt.
    Start(Box<Dispatch>),
    /// An attempt with a slot begins.
    Begin(Token),
    /// Stop an attempt.
    Cancel(AttemptId),
    /// An input has its result.
    InputSettled {
        input: Arc<str>,
        result: Settled,
    },
    Notice(Notice),
}

/// An attempt of a run, as the law names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct AttemptId {
    pub(super) execution: Arc<str>,
    pub(super) attempt: u32,
    pub(super) epoch: Epoch,
}

impl AfterCommit {
    pub(super) fn is_start(&self) -> bool {
        matches!(self, Self::Start(_))
    }

    /// Does it start this attempt?
    pub(super) fn starts(&self, wanted: &AttemptId) -> bool {
        match self {
            Self::Start(it) => {
                it.execution == wanted.execution
                    && it.attempt == wanted.attempt
                    && it.epoch == wanted.epoch
            }
            Self::GoOn | Self::Begin(_) | Self::Cancel(_) => false,
            Self::InputSettled { .. } | Self::Notice(_) => false,
        }
    }
}
