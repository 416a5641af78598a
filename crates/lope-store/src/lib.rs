//! The doors to storage: `Tables` (ordered byte tables), `Runs` (workflow runs) and `Board` (tasks of
//! agents), the errors they share, and the store kept in memory.
//!
//! A door is a small trait with coarse verbs and command structs. Whoever stands behind it stores
//! what the law decided, guarded by owner and epoch; it never looks at what a journal row means.
//! The conformance suite (`lope-conformance`) holds every store to the same promises, one function
//! each.

#[cfg(feature = "bench")]
pub mod bench;
pub mod board;
pub mod clock;
pub mod door;
pub mod error;
pub mod faults;
pub mod memory;
pub mod row;
pub mod runs;
pub mod store;
pub mod tables;
pub mod transfer;
pub mod verdict;
pub mod watch;

pub use board::Board;
pub use clock::{ManualClock, Reading, SystemClock};
pub use error::{StoreError, StoreResult};
pub use memory::MemoryStore;
pub use runs::{Runs, RunsVerbs};
pub use store::{Access, Migrated, Store, Upkeep, UpkeepVerbs};
pub use tables::{Tables, TablesVerbs};
pub use transfer::Transfer;
pub use watch::Watch;
