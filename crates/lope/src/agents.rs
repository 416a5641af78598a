//! Agents: projects, tasks, locks and runners, on the store of a client.

pub use lope_agent_runner::executor::AgentSteps;
pub use lope_agent_runner::runner::{
    EnteredRunner, RunnerEnd, RunnerEquipment, RunnerOrder, TaskRunner,
};
pub use lope_agent_runner::{crontab, detach, runner_log, systemd_timer, task_logs, wake};
pub use lope_agents::board::{
    AgentBoard, BoardError, BoardResult, ClaimOutcome, HeldTask, RunnerEntry, RunnerPlace,
    TOKEN_VARIABLE, TaskDetail, TaskDraft, TaskFilter, TaskToken,
};
pub use lope_agents::machine::LocalMachine;
pub use lope_agents::{describe, law, records, settings, task_list};
pub use lope_workers::InheritedEnvironment;

use std::sync::Arc;

use crate::Client;

impl Client {
    /// The board of agents, under the rules that these settings give.
    pub fn agents(&self, settings: &settings::RunnerSettings) -> AgentBoard {
        let board = Arc::clone(&self.store().board);
        AgentBoard::new(board, Arc::new(LocalMachine), settings.rules())
    }
}
