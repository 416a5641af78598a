//! What works on the runs of rounds: the store, how an engine is set, and who does steps that are no
//! agent's. The face assembles it; the engine of each round is begun here.

use std::io;
use std::sync::Arc;

use lope_definition::executor::AGENT;
use lope_engine::executor::Executor;
use lope_engine::{Engine, Executors, Settings};
use lope_model::Value;
use lope_store::Store;

/// What engines that work on rounds are called in the registry.
pub const ROUND_ENGINE: &str = "lope.tasks";

/// What works on the runs of rounds.
#[derive(Clone)]
pub struct RoundEngine {
    pub store: Store,
    /// Who does steps; agents of tasks are their runner's own.
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
    /// An engine whose agents are these. It works on what it is given and claims nothing.
    pub(super) fn begin(&self, agents: Arc<dyn Executor>) -> io::Result<Engine> {
        let mut executors = self.executors.clone();
        executors.insert(AGENT.into(), agents);
        let settings = Settings {
            name: ROUND_ENGINE.to_owned(),
            shards: 1,
            claims: false,
            queues: Vec::new(),
            ..self.settings.clone()
        };
        Engine::begin(self.store.clone(), executors, settings)
    }
}
