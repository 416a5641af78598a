//! How messages are sent: one of a `send` step becomes the row that delivers it, in the run's
//! own commit.
//!
//! The engine knows no frames; whoever builds one gives it the function that makes them.

use lope_flow::law::Send;
use lope_model::{RunId, Timestamp};
use lope_store::tables::Append;

/// A message that a run sends.
#[derive(Clone, Copy, Debug)]
pub struct OutgoingMessage<'a> {
    /// The run and the execution in it: the same however often the step is folded.
    pub run: RunId,
    pub send: &'a Send,
    /// When the step was reached.
    pub at: Timestamp,
}

/// Makes the row of a message, or says what is wrong with it. Pure: equal messages give equal rows.
pub type EncodeMessage = for<'a> fn(OutgoingMessage<'a>) -> Result<Append, String>;
