//! Mail of a run that is known and not in its journal.

use lope_store::runs::Mail;

#[derive(Debug, Default)]
pub(super) struct UnreadMail {
    pub(super) waiting: Vec<Mail>,
    /// Bytes of what was read since the last commit.
    pub(super) bytes: usize,
    /// The bite was full: more can be read when it is written.
    pub(super) goes_on: bool,
}
