//! What a command may do, decided once for every store: facts in, verdict out.
//!
//! A store gathers the facts in the way that is fast for it, asks here, and stores the verdict. A
//! store that compares some facts in the statement that writes (set-based SQL) asks here why a
//! command was left out; Postgres decides on commits, mail, admissions and removals in its
//! statements, and tests there hold each to the same answers. Pure: no clock, no I/O, and no look into a journal row.

mod admit;
mod batch;
mod batch_fold;
mod commit;
mod deliver;
mod remove;
mod schedule;

pub use admit::{AdmitFacts, Birth, ChildFacts, admit, children};
pub use batch::{RowFacts, TableFacts, create, guards};
pub use batch_fold::{BatchChanges, BatchFold};
pub use commit::{CommitFacts, Granted, Rest, commit, is_consecutive, release};
pub use deliver::{Accepted, DeliverFacts, deliver};
pub use remove::{RemoveFacts, remove};
pub use schedule::schedule;
