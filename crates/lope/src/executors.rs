//! Executors, which do the work of steps: those that every runner can bring (processes, scripts,
//! HTTP, agents), and what an executor of one's own is made of.

use std::path::PathBuf;
use std::sync::Arc;

use lope_agent_runner::AgentSteps;
use lope_agents::settings::{AgentsSettings, RunnerSettings};
use lope_definition::executor;
use lope_engine::Executors;
use lope_workers::{InheritedEnvironment, Logs, Processes, Requests, Scripts};
use tokio::runtime::Handle;

pub use lope_engine::executor::{Done, Executor, Limits, OutcomeSink, Task, TaskOutcome, Token};

use crate::config::{Config, Secret};

/// The kind of steps that call an action.
pub const ACTION: &str = executor::ACTION;

/// What processes inherit: the variables that the configuration names for expressions, and none
/// that a secret is read from.
pub fn inherited(config: &Config) -> InheritedEnvironment {
    let secrets = config.secrets.values().filter_map(|secret| match secret {
        Secret::Env(variable) => Some(variable.clone()),
        Secret::File(_) => None,
    });
    InheritedEnvironment::default()
        .allow(config.env.iter().cloned())
        .withhold(secrets)
}

/// Which agents there are, and how long they may be silent.
#[derive(Default, Debug)]
pub(crate) struct AgentExecutorSettings {
    pub(crate) agents: AgentsSettings,
    pub(crate) settings: RunnerSettings,
}

/// Processes, scripts, HTTP and agents; logs go under `logs`.
pub(crate) fn standard(
    runtime: &Handle,
    logs: PathBuf,
    environment: InheritedEnvironment,
    agent_settings: AgentExecutorSettings,
) -> Result<Executors, lope_workers::http::NoClient> {
    let requests = Requests::new(runtime.clone())?;
    let logs = Logs::at(logs);
    let processes = Processes::new(runtime.clone(), logs.clone());
    let agents = AgentSteps::new(
        runtime.clone(),
        logs,
        environment.clone(),
        agent_settings.agents,
        agent_settings.settings,
    );
    let all: [(&str, Arc<dyn Executor>); 4] = [
        (executor::RUN, Arc::new(processes.inheriting(environment))),
        (executor::AGENT, Arc::new(agents)),
        (executor::JS, Arc::new(Scripts::new(runtime.clone()))),
        (executor::HTTP, Arc::new(requests)),
    ];
    Ok(all
        .into_iter()
        .map(|(name, executor)| (Arc::from(name), executor))
        .collect())
}
