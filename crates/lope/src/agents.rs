//! Agents: projects, tasks, locks and runners, on the store of a client.

pub use lope_agent_runner::executor::AgentSteps;
pub use lope_agent_runner::runner::{
    EnteredRunner, ROUND_ENGINE, RoundEngine, RunnerEnd, RunnerEquipment, RunnerOrder, TASK_QUEUE,
    TaskRunner,
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

use std::path::PathBuf;
use std::sync::Arc;

use lope_definition::executor;
use lope_model::Value;
use tokio::runtime::Handle;

use crate::error::{Error, Result};
use crate::executors::{AgentKit, standard};
use crate::secrets::Secrets;
use crate::{Client, Settings};

/// What steps of the workflows of tasks work with, besides agents.
#[derive(Clone, Debug)]
pub struct RoundKit {
    /// How the engine works.
    pub engine: Settings,
    /// Where secrets that steps name are found.
    pub secrets: Arc<dyn Secrets>,
    /// What expressions see as `env`.
    pub env: Value,
    /// Where processes of steps are logged.
    pub logs: PathBuf,
    /// What they inherit.
    pub environment: InheritedEnvironment,
}

impl Client {
    /// The board of agents, under the rules that these settings give.
    pub fn agents(&self, settings: &settings::RunnerSettings) -> AgentBoard {
        let board = Arc::clone(&self.store().board);
        AgentBoard::new(board, Arc::new(LocalMachine), settings.rules())
    }

    /// What works on the runs of tasks, on the store of this client.
    pub fn round_engine(&self, kit: RoundKit) -> Result<RoundEngine> {
        let runtime = Handle::current();
        let executors = standard(&runtime, kit.logs, kit.environment, AgentKit::default());
        let mut executors = executors.map_err(|error| Error::System {
            message: error.to_string(),
        })?;
        // Agents of tasks are the task runner's own.
        executors.remove(executor::AGENT);
        Ok(RoundEngine {
            store: self.store().clone(),
            executors,
            settings: Settings {
                host: crate::host::name(),
                mailbox_send: Some(crate::mailbox_send::encode),
                end_abandoned: Some(|| Box::pin(lope_workers::process_tree::end_abandoned())),
                secrets: Some(kit.secrets),
                ..kit.engine
            },
            env: kit.env,
        })
    }
}
