//! What works on the runs of rounds: the store, how an engine is set, and who does steps that are no
//! agent's.

use std::path::PathBuf;
use std::sync::Arc;

use lope_definition::executor;
use lope_engine::executor::Executor;
use lope_engine::secret::Secrets;
use lope_engine::{Executors, Settings};
use lope_model::Value;
use lope_store::Store;
use lope_workers::http::NoClient;
use lope_workers::{InheritedEnvironment, Logs, Processes, Requests, Scripts};
use tokio::runtime::Handle;

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

/// What works on the runs of rounds.
#[derive(Clone)]
pub struct RoundEngine {
    pub store: Store,
    /// Who does steps that are no agent's.
    pub executors: Executors,
    pub settings: Settings,
    /// What expressions see as `env`.
    pub env: Value,
}

impl std::fmt::Debug for RoundEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RoundEngine({})", self.store.upkeep.describe())
    }
}

impl RoundEngine {
    /// With executors for `run`, `js` and `http` steps; agents of tasks are their runner's own.
    pub fn new(store: Store, settings: RoundSettings) -> Result<Self, NoClient> {
        let runtime = Handle::current();
        let requests = Requests::new(runtime.clone())?;
        let processes = Processes::new(runtime.clone(), Logs::at(settings.logs));
        let all: [(&str, Arc<dyn Executor>); 3] = [
            (
                executor::RUN,
                Arc::new(processes.inheriting(settings.environment)),
            ),
            (executor::JS, Arc::new(Scripts::new(runtime))),
            (executor::HTTP, Arc::new(requests)),
        ];
        Ok(Self {
            store,
            executors: all.map(|(name, it)| (Arc::from(name), it)).into(),
            settings: Settings {
                end_abandoned: Some(|| Box::pin(lope_workers::process_tree::end_abandoned())),
                secrets: Some(settings.secrets),
                ..settings.engine
            },
            env: settings.env,
        })
    }
}
