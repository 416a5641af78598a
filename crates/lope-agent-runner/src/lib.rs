//! Agents at work: their processes, what they say, and the runner that has them do a project's tasks.
//!
//! `adapter` reads what a tool says (pure), `invocation` says how it is called, `watchdog` when it
//! must stop (pure); `process` starts an agent and attends to it until nothing of it is left.
//! `runner` claims tasks and works on their runs, whose steps start agents; `task_workflow` says
//! what those runs are. `executor` does `agent` steps of other workflows, `wake` acts on
//! what a wake-up decided, `crontab` edits the user's. What a stop means for a task is the law of
//! `lope-agents`; nothing is decided about tasks here.

pub mod adapter;
pub mod agent_masks;
mod agent_request;
pub mod crontab;
pub mod detach;
pub mod executor;
mod hook_command;
pub mod hooks;
pub mod invocation;
pub mod process;
pub mod prompt;
pub mod runner;
pub mod runner_log;
pub mod systemd_timer;
pub mod task_logs;
pub mod task_workflow;
pub mod wake;
pub mod watchdog;
pub mod worktree;

pub use executor::AgentSteps;
pub use runner::{RoundEngine, RunnerEnd, RunnerSpec, TaskRunner};
