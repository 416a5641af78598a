//! What the dispatcher tells the task that asks the limits.

use lope_limits::{LimitEnd, LimitRequest};

use crate::executor::TaskOutcome;

/// What the dispatcher tells.
#[derive(Debug)]
pub(crate) enum LimitInput {
    Request(Box<LimitRequest>),
    End {
        end: Box<LimitEnd>,
        /// An outcome of the attempt comes too, and waits until the limits know its end.
        settles: bool,
    },
    Outcome(Box<TaskOutcome>),
}
