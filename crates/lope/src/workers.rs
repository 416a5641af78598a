//! Workers: functions of this program, and pools of worker processes, here and elsewhere.

pub use lope_workers::logs::LogEntry;
pub use lope_workers::pool::{PoolSettings, WorkerProgram};
pub use lope_workers::pool::{Remote, tls};
pub use lope_workers::{FunctionCall, Functions, Logs, Pool};
