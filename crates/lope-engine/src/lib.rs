//! The engine: it claims runs, advances them by the law, commits what happened before anything that
//! depends on it, and has the work done.

#[cfg(test)]
extern crate self as lope_engine;

mod admission;
pub mod breakdown;
pub mod client;
pub mod codec;
mod drive;
pub mod engine;
pub mod executor;
pub mod fire;
pub mod fork;
pub mod limits;
pub mod mailbox_send;
pub mod plans;
pub mod query;
pub mod session;
pub mod settings;
pub mod shard;
pub mod slots;

pub use breakdown::Breakdown;
pub use drive::dispatcher::Executors;
pub use drive::prune::due as too_old;
pub use engine::{Engine, News, NewsListener};
pub use lope_expr::secret;
pub use settings::{PrunedListener, QueueLimits, Settings};
