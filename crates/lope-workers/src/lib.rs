//! Executors: who does the work of a step. Rust functions by name, processes, scripts, HTTP; and
//! the handlers of messages that need one: an action or a program for each.
//!
//! An executor takes tasks from the engine and answers them. It decides nothing about
//! retries or time.

pub mod action_handler;
#[cfg(test)]
mod bench_tests;
pub mod clock;
pub mod environment;
pub mod function;
pub mod http;
pub mod lines;
pub mod logs;
pub mod pool;
pub mod process;
pub mod process_handler;
pub mod process_tree;
pub mod script;

pub use environment::InheritedEnvironment;
pub use function::{FunctionCall, Functions};
pub use http::Requests;
pub use logs::Logs;
pub use pool::{Pool, PoolSettings, RealmChange};
pub use process::Processes;
pub use script::Scripts;
