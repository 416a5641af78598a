//! Agents: projects, tasks, locks and runners, on the store of a client.

pub use lope_agent_runner::executor::AgentSteps;
pub use lope_agent_runner::runner::{
    ROUND_ENGINE, RoundEngine, RunnerAdmission, RunnerEnd, RunnerEquipment, RunnerSpec, TASK_QUEUE,
    TaskRunner, longest_stop,
};
pub use lope_agent_runner::{
    agent_masks, crontab, detach, hooks, runner_log, systemd_timer, task_logs, task_workflow, wake,
    worktree,
};
pub use lope_agents::board::{
    AgentBoard, AttemptStart, BoardError, BoardResult, ClaimOutcome, HeldTask, ProcessFacts,
    RunnerEntry, RunnerPlace, TOKEN_VARIABLE, TaskDetail, TaskDraft, TaskFilter, TaskToken,
};
pub use lope_agents::machine::LocalMachine;
pub use lope_agents::{describe, law, records, settings, task_list};
pub use lope_workers::InheritedEnvironment;
pub use lope_workers::process_tree::TREE_VARIABLE;

use std::path::PathBuf;
use std::sync::Arc;

use tokio::runtime::Handle;

use crate::error::{Error, Result};
use crate::executors::{self, AgentExecutorSettings};
use crate::secrets::Secrets;
use crate::{Client, Settings, Value};

/// What steps of the workflows of tasks work with, besides agents.
#[derive(Clone, Debug)]
pub struct RoundSettings {
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
        AgentBoard::new(board, Arc::new(LocalMachine), settings.rules()).with_hooks(&settings.hooks)
    }

    /// What works on the runs of tasks, on the store of this client: with the executors of every
    /// runner, but for agents, which are the task runner's own.
    pub fn round_engine(&self, settings: RoundSettings) -> Result<RoundEngine> {
        let RoundSettings {
            engine,
            secrets,
            env,
            logs,
            environment,
        } = settings;
        let agents = AgentExecutorSettings::default();
        let executors = executors::standard(&Handle::current(), logs, environment, agents);
        Ok(RoundEngine {
            store: self.store().clone(),
            executors: executors.map_err(|error| Error::System {
                message: error.to_string(),
            })?,
            settings: crate::runner::equipped(Settings {
                secrets: Some(secrets),
                ..engine
            }),
            env,
        })
    }
}
