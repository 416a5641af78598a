//! The runner: a program's own engine. It starts flows under ids of the program's choosing, feeds
//! them, looks at them, stops them and takes them up again.
//!
//! Everything a runner does is a verb of the store or of the engine; what becomes of a run is
//! decided by the law. A workflow's id is the key of its run, `RUNNER/ID`; its runs wait in the
//! queue of the runner's name, so that runners with different names do not meet.

mod builder;
mod complete;
mod feed;
mod find;
mod gone;
mod query;
mod start;
mod stop;
mod work;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use lope_engine::{Breakdown, Engine};
use lope_model::{RunId, VersionId};
use lope_store::Store;
use lope_store::runs::RunRecord;
use lope_workers::Functions;
use tokio::sync::{RwLock as AsyncLock, RwLockReadGuard, broadcast};

use crate::client::Client;
use crate::error::{Error, Result};
use crate::flows::Flow;
use crate::telemetry::{Metrics, Telemetry, TelemetryEvent};

pub use builder::RunnerBuilder;
pub(crate) use builder::equipped;
pub use feed::RunOptions;
pub use find::LiveWorkflow;
pub use query::{PendingAttempt, Workflow};
pub use start::StartOptions;
pub use stop::Stop;

/// Longest wait of `stop` and `checkpoint` for a store that does not answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// A runner inside this program. Cheap to clone; the last one dropped stops it at once, `shutdown`
/// ends it in order.
#[derive(Clone)]
pub struct Runner(Arc<RunnerState>);

struct RunnerState {
    name: Arc<str>,
    client: Client,
    /// False: nothing outlives this runner.
    persists: bool,
    engine: AsyncLock<Option<Engine>>,
    functions: Arc<Functions>,
    telemetry: Arc<Telemetry>,
    flows: RwLock<HashMap<Arc<str>, Flow>>,
    deployed: Mutex<HashSet<VersionId>>,
    /// Runtimes of their own for functions; kept as long as the runner is.
    _pools: builder::Pools,
}

impl Runner {
    /// A runner called `default` on the store that a URL names: `memory:`, `sqlite:PATH`,
    /// `postgres://…`.
    pub async fn open(url: &str) -> Result<Self> {
        Self::builder().url(url).build().await
    }

    pub fn builder() -> RunnerBuilder {
        RunnerBuilder::default()
    }

    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// What looks at runs and steers them, on the store of this runner.
    pub fn client(&self) -> &Client {
        &self.0.client
    }

    /// The store behind it.
    pub fn store(&self) -> &Store {
        self.0.client.store()
    }

    /// What happens in this runner from now on. One that is slow misses the oldest, and is told how
    /// many.
    pub fn subscribe(&self) -> broadcast::Receiver<TelemetryEvent> {
        self.0.telemetry.subscribe()
    }

    /// From now on attempts are told which span of their run's trace they are: HTTP steps and
    /// actions hand it on as `traceparent`.
    pub fn trace(&self) {
        self.0.telemetry.trace();
    }

    pub fn metrics(&self) -> &Metrics {
        self.0.telemetry.metrics()
    }

    /// Attempts in flight at this moment.
    pub async fn in_flight(&self) -> Result<usize> {
        Ok(self.engine().await?.in_flight())
    }

    /// Take nothing more, let what is in flight finish for at most `grace`, give every run back,
    /// and end.
    pub async fn shutdown(&self, grace: Duration) -> Result<()> {
        self.give_back(grace).await?;
        self.0.client.close().await?;
        Ok(())
    }

    fn closed(&self) -> Error {
        Error::Closed {
            runner: self.name().to_owned(),
        }
    }

    async fn engine(&self) -> Result<RwLockReadGuard<'_, Engine>> {
        let guard = self.0.engine.read().await;
        let engine = RwLockReadGuard::try_map(guard, Option::as_ref).map_err(|_| self.closed())?;
        match engine.why_broken() {
            None => Ok(engine),
            Some(why) => Err(self.broke(why)),
        }
    }

    /// Waits until this runner can do no more work, which may never be.
    pub async fn broken(&self) -> Error {
        let broken = self.0.engine.read().await.as_ref().map(Engine::broken);
        match broken {
            Some(broken) => self.broke(broken.await),
            None => std::future::pending().await,
        }
    }

    fn broke(&self, why: Breakdown) -> Error {
        Error::Broken {
            runner: self.name().to_owned(),
            why,
        }
    }

    /// Nobody waits for what a broken engine will never do.
    async fn can_go_on(&self) -> Result<()> {
        let why = self
            .0
            .engine
            .read()
            .await
            .as_ref()
            .and_then(Engine::why_broken);
        why.map_or(Ok(()), |why| Err(self.broke(why)))
    }

    fn key(&self, id: &str) -> String {
        format!("{}/{id}", self.name())
    }

    fn not_found(&self, id: &str) -> Error {
        Error::NotFound {
            id: id.to_owned(),
            runner: self.name().to_owned(),
        }
    }

    async fn record_of(&self, id: &str, run: RunId) -> Result<RunRecord> {
        let found = self.store().runs.run(run).await?;
        found.ok_or_else(|| self.not_found(id))
    }

    /// The run of an id.
    async fn run_of(&self, id: &str) -> Result<RunId> {
        if id.is_empty() {
            return Err(self.not_found(id));
        }
        self.store()
            .runs
            .find_key(&self.key(id))
            .await?
            .ok_or_else(|| self.not_found(id))
    }
}

impl fmt::Debug for Runner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Runner({} on {})",
            self.0.name,
            self.store().upkeep.describe()
        )
    }
}
