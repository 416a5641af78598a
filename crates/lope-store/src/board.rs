//! The door *Board*: projects, tasks, locks, attempts and runners of agents, as rows of tables.
//!
//! Two verbs: `read` gives rows of several tables as they are at one moment, with what the store's
//! clock said then; `commit` writes rows over the revisions that were read, all or nothing. What a
//! row means and who may change it is the law of `lope-agents`; a store keeps rows, revisions and
//! the rules of uniqueness.

mod change;
mod select;
mod tables;
pub mod validate;

use lope_model::{Moment, Timestamp};

pub use change::{BoardChange, BoardConflict, BoardReply};
pub use select::{BoardSelect, RowOrder};
pub use tables::{
    ALL, BoardIndex, BoardTable, PROJECTS, RUNNERS, SECTIONS, TASK_ATTEMPTS, TASK_EVENTS,
    TASK_HOOKS, TASK_LOCKS, TASKS,
};

use crate::door::door;
use crate::row::TransferRow;
use crate::watch::Watch;

/// Rows as they were at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BoardRead {
    pub clock: BoardClock,
    /// The rows of each selection, in the order in which they were asked for.
    pub rows: Vec<Vec<TransferRow>>,
}

/// What the store's clock said: the time, and the moment in the life of the machine that it belongs
/// to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BoardClock {
    pub now: Timestamp,
    /// Leases that are written now run from here.
    pub moment: Moment,
    /// Leases are judged by this. It is earlier than `moment` while a clock that serves all machines
    /// has been set forward: that ends no lease.
    pub lease_moment: Moment,
    /// Moments of another boot mean nothing. Empty where one clock serves all machines.
    pub boot_id: String,
}

door! {
    /// Projects, tasks, locks, attempts, runners.
    door Board, verbs BoardVerbs, request BoardRequest, answer BoardAnswer;

    plain {
        /// Wakes when somebody, in this process or another, may have changed something.
        fn watch(&self) -> Watch;
    }

    verbs {
        /// Rows of several tables, as they are at one moment.
        async fn read as Read(selects: Vec<BoardSelect>) -> StoreResult<BoardRead>;

        /// Write rows over the revisions that were read: all of them, durably, or none.
        async fn commit as Commit(changes: Vec<BoardChange>) -> StoreResult<BoardReply>;
    }
}
