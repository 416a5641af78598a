//! What commands print with: results and remarks, tables, a run's steps as a tree, progress, reports
//! of the rooms; for a terminal, a pipe, or whoever a command is done for.
//!
//! Values and runs flow in, text flows out. Which commands there are is not known here.

pub mod clock;
pub mod format;
pub mod output;
pub mod picture;
mod plain;
pub mod progress;
pub mod reports;
pub mod table;
pub mod this_process;
