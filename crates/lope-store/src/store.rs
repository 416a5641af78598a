//! One store as the rooms above hold it: its doors, and its upkeep.
//!
//! Which backend stands behind them is known only to whoever opened it.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use lope_model::RunId;

use crate::board::Board;
use crate::clock::Reading;
use crate::door::door;
use crate::runs::Runs;
use crate::tables::Tables;
use crate::transfer::Transfer;

/// What a process that opens a store may do to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    ReadWrite,
    /// For looking only: nothing is ever written.
    ReadOnly,
}

/// A store: the doors that rooms use, cheap to clone.
#[derive(Clone)]
pub struct Store {
    pub tables: Arc<dyn Tables>,
    pub runs: Arc<dyn Runs>,
    pub board: Arc<dyn Board>,
    pub upkeep: Arc<dyn Upkeep>,
}

/// What `lope store check` found: nothing, in a sound store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Which rule is broken: `schema`, `marker`, `journal`, `lease`, `mail`, `runs`, `schedules`,
    /// `tables`, `file`, `spaces`; `writer`: it is sound, but nobody can write.
    pub rule: &'static str,
    pub message: String,
    pub hint: String,
}

impl Finding {
    /// Most findings of one rule that are told one by one.
    pub const TOLD_MAX: usize = 100;

    /// What is told of those of one rule: the first of them, and how many more there are.
    #[must_use]
    pub fn told(mut found: Vec<Self>) -> Vec<Self> {
        let more = found.len().saturating_sub(Self::TOLD_MAX);
        found.truncate(Self::TOLD_MAX);
        let rest = found.last().and_then(|last| Self::more(last.rule, more));
        found.extend(rest);
        found
    }

    /// How many more there are of a rule than are told, if there are.
    pub fn more(rule: &'static str, count: usize) -> Option<Self> {
        (count > 0).then(|| Self {
            rule,
            message: format!("and {count} more"),
            hint: "see to those that are named and check again: the next ones are named then"
                .to_owned(),
        })
    }
}

/// From which schema version to which a store was brought; 0: there was none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Migrated {
    pub from: i64,
    pub to: i64,
}

door! {
    /// Looking after a store from the command line.
    door Upkeep, verbs UpkeepVerbs, request UpkeepRequest, answer UpkeepAnswer;

    plain {
        /// What kind of store this is and where, without secrets: `sqlite:/path`,
        /// `postgres://user@host/db`, `memory:`.
        fn describe(&self) -> String;

        /// The door through which the store is moved as a whole; none for stores that live no longer
        /// than their process.
        fn transfer(&self) -> Option<&dyn Transfer>;

        /// Does a process stand still in the middle of a write, so that nobody can write? Which, and
        /// what helps.
        fn stopped_writer(&self) -> Option<Finding>;
    }

    verbs {
        /// What the clock that judges leases says. It is one for all processes that share the store.
        async fn reading as Reading() -> StoreResult<Reading>;

        /// Prove the store sound: schema, marker, journal gaps, orphaned leases, file integrity.
        async fn check as Check() -> StoreResult<Vec<Finding>>;

        /// The schema as SQL text, as it is in the store now.
        async fn schema as Schema() -> StoreResult<String>;

        /// Copy the store, online, into a new file. Stores that have tools of their own for it refuse
        /// and name them.
        async fn backup as Backup(to: PathBuf) -> StoreResult<()>;

        /// Delete a run, ended or not, with all that belongs to it, without reading it: also one that is
        /// damaged. One whose owner lives is refused. False: there is none of this id.
        async fn remove_run as RemoveRun(run: RunId) -> StoreResult<bool>;

        /// Give the space of what was deleted back. How many bytes the store is smaller. Refused while
        /// runners work, and by stores that do it by themselves or have tools of their own for it.
        async fn compact as Compact() -> StoreResult<u64>;

        /// Finish what is under way and let go of files, threads and connections.
        async fn close as Close() -> StoreResult<()>;
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Store({})", self.upkeep.describe())
    }
}
