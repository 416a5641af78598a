//! Agents: projects, tasks, locks, runners, and the law of who may work on what.
//!
//! `records` gives the rows of the door *Board* their types. `law` is pure: what a stop means, which
//! task is next, who holds a lock, what a wake-up does; it reads no clock and no store. `board`
//! reads, asks the law and writes what it decided over what was read. `machine` tells what is known
//! about processes, `settings` what is configured. `task_list` turns check lists
//! and JSON into tasks and back.

pub mod board;
pub mod describe;
pub mod law;
pub mod machine;
pub mod records;
pub mod settings;
pub mod task_list;

pub use board::{AgentBoard, BoardError};
