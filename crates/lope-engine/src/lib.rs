//! The engine: it claims runs, advances them by the law, commits what happened before anything that depends on it, and
//! has the work done.

#[cfg(test)]
extern crate self as lope_engine;

mod adopter;
pub mod client;
pub mod codec;
pub mod dispatch;
mod drive;
pub mod engine;
pub mod executor;
pub mod fork;
pub mod keeper;
pub mod look;
pub mod post;
pub mod schedule;
pub mod secret;
pub mod settings;
pub mod shard;
pub mod why;

pub use drive::desk::Executors;
pub use engine::{Ear, Engine, News};
pub use settings::Settings;
