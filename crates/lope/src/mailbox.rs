//! The mailbox of seed 000 with the engine behind it: everything of `lope-mailbox`, and two handlers that it cannot have by
//! itself: a workflow run per message, and an action of a worker per message.

mod action;
mod workflow;

pub use lope_mailbox::*;

pub use action::{ActionHandler, NEVER};
pub use workflow::{Source, WorkflowHandler, run_key};
