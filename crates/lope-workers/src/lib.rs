//! Executors: who does the work of a step. Rust functions by name, and processes.
//!
//! An executor takes tasks through the engine's door and answers them. It decides nothing about retries or time.

pub mod function;
pub mod logs;
pub mod process;

pub use function::Functions;
pub use logs::Logs;
pub use process::Processes;
