//! Agents: projects, tasks, locks and runners, on the store of a client.

pub use lope_agent_runner::executor::AgentSteps;
pub use lope_agent_runner::runner::{
    ROUND_ENGINE, RoundEngine, RoundSettings, RunnerAdmission, RunnerEnd, RunnerEquipment,
    RunnerSpec, TASK_QUEUE, TaskRunner,
};
pub use lope_agent_runner::{
    crontab, detach, runner_log, systemd_timer, task_logs, task_workflow, wake, worktree,
};
pub use lope_agents::board::{
    AgentBoard, AttemptStart, BoardError, BoardResult, ClaimOutcome, HeldTask, RunnerEntry,
    RunnerPlace, TOKEN_VARIABLE, TaskDetail, TaskDraft, TaskFilter, TaskToken,
};
pub use lope_agents::machine::LocalMachine;
pub use lope_agents::{describe, law, records, settings, task_list};
pub use lope_workers::InheritedEnvironment;

use std::sync::Arc;

use crate::Client;
use crate::error::{Error, Result};

impl Client {
    /// The board of agents, under the rules that these settings give.
    pub fn agents(&self, settings: &settings::RunnerSettings) -> AgentBoard {
        let board = Arc::clone(&self.store().board);
        AgentBoard::new(board, Arc::new(LocalMachine), settings.rules())
    }

    /// What works on the runs of tasks, on the store of this client.
    pub fn round_engine(&self, mut settings: RoundSettings) -> Result<RoundEngine> {
        settings.engine.host = crate::host::name();
        settings.engine.mailbox_send = Some(crate::mailbox_send::encode);
        let engine = RoundEngine::new(self.store().clone(), settings);
        engine.map_err(|error| Error::System {
            message: error.to_string(),
        })
    }
}
