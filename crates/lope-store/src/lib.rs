//! The doors to storage: `Tables` (ordered byte tables) and `Runs` (workflow runs), the errors both share, and the store
//! kept in memory.
//!
//! A door is a small trait with coarse verbs and command structs. Whoever stands behind it stores what the law decided,
//! guarded by owner and epoch; it never looks at what a journal row means. The conformance suite (feature
//! `conformance`) holds every store to the same promises, one function each.

#[cfg(feature = "bench")]
pub mod bench;
pub mod clock;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod error;
pub mod faults;
pub mod memory;
pub mod moving;
pub mod runs;
pub mod store;
pub mod tables;
pub mod watch;

pub use clock::{ManualClock, Reading, SystemClock};
pub use error::{StoreError, StoreResult};
pub use memory::MemoryStore;
pub use moving::Moving;
pub use runs::Runs;
pub use store::{Store, Upkeep};
pub use tables::Tables;
pub use watch::Watch;

/// The guide to stores: its example is compiled and run with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/write-your-own-store.md")]
mod guide {}
