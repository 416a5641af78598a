//! Building a runner: its name, its store, its executors, its limits. A bad option is an error that
//! names it.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, RwLock};

use lope_agents::settings::{AgentsSettings, RunnerSettings};
use lope_definition::executor;
use lope_engine::executor::Executor;
use lope_engine::secret::Secrets;
use lope_engine::{Engine, Executors, Settings};
use lope_model::{QueueName, Realm};
use lope_store::{MemoryStore, Store};
use lope_workers::{Functions, InheritedEnvironment, Logs, Pool, RealmChange};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::RwLock as AsyncLock;

use super::{Runner, RunnerState, gone};
use crate::client::Client;
use crate::error::{Error, Result};
use crate::executors::AgentExecutorSettings;
use crate::stores::{self, CreateStore, StoreUrl};
use crate::telemetry::{self, Telemetry};

/// Most runtimes that functions are spread over.
const PARTITIONS_MAX: usize = 256;
/// Longest name of a runner: it stands before every id of its workflows.
const NAME_MAX: usize = 64;

/// Where runs are kept.
#[derive(Debug, Default)]
enum StoreSource {
    /// Nowhere: they end with the runner.
    #[default]
    Nowhere,
    Url(String),
    Store(Store),
}

/// Builds a [`Runner`]. Without a store nothing is persisted.
#[derive(Default)]
pub struct RunnerBuilder {
    name: Option<String>,
    source: StoreSource,
    executors: Executors,
    settings: Settings,
    concurrency: Option<usize>,
    partitions: Option<usize>,
    workers: Option<PathBuf>,
    pool: Option<Arc<Pool>>,
    secrets: Option<Arc<dyn Secrets>>,
    /// Name, queues, realms and claims are those of the settings.
    shared: bool,
    unobserved: bool,
    inherited: InheritedEnvironment,
    agents: AgentExecutorSettings,
}

impl RunnerBuilder {
    /// The runner's name; `default` unless it is said. Runners with different names do not meet,
    /// whatever store they share.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Keep runs in the store that a URL names; it is created if it is missing.
    #[must_use]
    pub fn url(mut self, url: &str) -> Self {
        self.source = StoreSource::Url(url.to_owned());
        self
    }

    /// Keep runs in this store, whoever wrote it.
    #[must_use]
    pub fn store(mut self, store: Store) -> Self {
        self.source = StoreSource::Store(store);
        self
    }

    /// Persist nothing.
    #[must_use]
    pub fn without_store(mut self) -> Self {
        self.source = StoreSource::Nowhere;
        self
    }

    /// An executor for steps of a kind, besides (or instead of) the one that calls this program's
    /// functions.
    #[must_use]
    pub fn executor(mut self, kind: &str, executor: Arc<dyn Executor>) -> Self {
        self.executors.insert(kind.into(), executor);
        self
    }

    /// Also serve `run`, `js`, `http` and `agent` steps, and runs of its own queue that are made of them;
    /// what processes print goes to files in this folder.
    #[must_use]
    pub fn workers(mut self, logs: impl Into<PathBuf>) -> Self {
        self.workers = Some(logs.into());
        self
    }

    /// What processes of `run` steps inherit of this program's environment, besides a small base
    /// (PATH, HOME, the language and the like).
    #[must_use]
    pub fn inherited(mut self, environment: InheritedEnvironment) -> Self {
        self.inherited = environment;
        self
    }

    /// Which agents `agent` steps may name, and how they are run.
    #[must_use]
    pub fn agents(mut self, agents: AgentsSettings, settings: RunnerSettings) -> Self {
        self.agents = AgentExecutorSettings { agents, settings };
        self
    }

    /// Keep runs in the store that this client has open.
    #[must_use]
    pub fn client(self, client: &Client) -> Self {
        self.store(client.store().clone())
    }

    /// A pool of worker processes, here and elsewhere, does the actions; realms that its workers
    /// bring are served.
    #[must_use]
    pub fn pool(mut self, pool: Arc<Pool>) -> Self {
        self.pool = Some(pool);
        self
    }

    /// Where steps find the secrets that they name.
    #[must_use]
    pub fn secrets(mut self, secrets: Arc<dyn Secrets>) -> Self {
        self.secrets = Some(secrets);
        self
    }

    /// How the engine works. Name, queues and realms are the runner's own.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// How the engine works, all of it: name, queues and realms too. For a process that works on
    /// queues which others fill, as `lope up` does.
    #[must_use]
    pub fn shared_settings(mut self, settings: Settings) -> Self {
        self.shared = true;
        self.settings(settings)
    }

    /// Count nothing and tell nobody. Waits of this runner then look for themselves.
    #[must_use]
    pub fn without_telemetry(mut self) -> Self {
        self.unobserved = true;
        self
    }

    /// Most attempts at once, over all workflows.
    #[must_use]
    pub fn concurrency(mut self, most: usize) -> Self {
        self.concurrency = Some(most);
        self
    }

    /// Call functions on so many runtimes of their own, so that one that blocks its thread holds up
    /// its partition alone. Calls of one workflow stay in one partition. Unless it is said, they
    /// run where the runner was built.
    #[must_use]
    pub fn task_partitions(mut self, partitions: usize) -> Self {
        self.partitions = Some(partitions);
        self
    }

    pub async fn build(mut self) -> Result<Runner> {
        let runtime = Handle::try_current().map_err(system)?;
        let settings = self.valid_settings()?;
        let name: Arc<str> = settings.name.as_str().into();
        let pools = Pools::new(self.partitions)?;
        let functions = Arc::new(Functions::over(pools.handles_or(&runtime)));
        let executors = self.executors(&runtime, &functions)?;
        let (store, persists) = open(self.source).await?;
        gone::end_sessions(&store).await;
        let telemetry = Telemetry::new(Arc::clone(&name), runtime);
        let (store, executors, listener) = if self.unobserved {
            (store, executors, None)
        } else {
            (
                telemetry::observed_store(store, &telemetry),
                telemetry::observed_executors(executors, &telemetry),
                Some(Telemetry::listener(&telemetry)),
            )
        };
        let client = Client::new(store.clone()).with_queue_limits(&settings.queue_limits);
        let engine = Engine::begin_with_listener(store, executors, settings, listener);
        let runner = Runner(Arc::new(RunnerState {
            name,
            client,
            persists,
            engine: AsyncLock::new(Some(engine.map_err(system)?)),
            functions,
            telemetry,
            flows: RwLock::default(),
            deployed: Mutex::default(),
            _pools: pools,
        }));
        if let Some(pool) = self.pool {
            runner.metrics().count_workers_of(&pool);
            serve_brought(&runner, &pool);
        }
        Ok(runner)
    }

    /// The settings as the engine gets them.
    fn valid_settings(&mut self) -> Result<Settings> {
        let settings = std::mem::take(&mut self.settings);
        let concurrency = self.concurrency.unwrap_or(settings.concurrency);
        let mut settings = validated(Settings {
            concurrency,
            ..settings
        })?;
        if !self.shared {
            let name = valid_name(self.name.as_deref().unwrap_or("default"))?;
            let queue = QueueName::parse(&name).map_err(|error| Error::BadOption {
                option: "name",
                message: error.to_string(),
            })?;
            settings.name = name.to_string();
            settings.queues = vec![queue];
            settings.realms = self.workers.iter().map(|_| Realm::default()).collect();
        }
        let mut settings = equipped(settings);
        settings.secrets = self.secrets.take().or(settings.secrets);
        if let Some(logs) = &self.workers {
            settings.on_pruned = Some(Arc::new(Logs::at(logs.clone())));
        }
        Ok(settings)
    }

    /// Who does steps, by their kind.
    fn executors(&mut self, runtime: &Handle, functions: &Arc<Functions>) -> Result<Executors> {
        let mut executors: Executors = HashMap::new();
        if let Some(logs) = self.workers.take() {
            let inherited = std::mem::take(&mut self.inherited);
            executors = {
                let agents = std::mem::take(&mut self.agents);
                crate::executors::standard(runtime, logs, inherited, agents).map_err(system)?
            };
        }
        let actions: Arc<dyn Executor> = match &self.pool {
            Some(pool) => Arc::<Pool>::clone(pool),
            None => Arc::<Functions>::clone(functions),
        };
        executors.insert(executor::ACTION.into(), actions);
        executors.extend(std::mem::take(&mut self.executors));
        Ok(executors)
    }
}

/// Settings with what every engine that the face assembles has: this machine's name, messages to
/// mailboxes, and the end of what runners that are gone have left.
pub(crate) fn equipped(settings: Settings) -> Settings {
    Settings {
        host: crate::host::name(),
        process: lope_workers::process_tree::own_mark(),
        mailbox_send: Some(crate::mailbox_send::encode),
        end_abandoned: Some(|| Box::pin(lope_workers::process_tree::end_abandoned())),
        ..settings
    }
}

#[allow(clippy::needless_pass_by_value, reason = "it is what `map_err` gives")]
fn system(error: impl ToString) -> Error {
    Error::System {
        message: error.to_string(),
    }
}

/// Serve what workers of the pool bring, until pool or runner end.
fn serve_brought(runner: &Runner, pool: &Pool) {
    let Some(mut realms) = pool.realms() else {
        return;
    };
    let state = Arc::downgrade(&runner.0);
    tokio::spawn(async move {
        while let Some(change) = realms.recv().await {
            let Some(state) = state.upgrade() else {
                return;
            };
            if let Some(engine) = state.engine.read().await.as_ref() {
                match change {
                    RealmChange::Came(realm) => engine.serve(realm),
                    RealmChange::Gone(realm) => engine.unserve(realm),
                }
            }
        }
    });
}

async fn open(source: StoreSource) -> Result<(Store, bool)> {
    match source {
        StoreSource::Nowhere => Ok((MemoryStore::open(), false)),
        StoreSource::Store(store) => Ok((store, true)),
        StoreSource::Url(url) => {
            let url: StoreUrl = url.parse().map_err(|error| Error::BadOption {
                option: "url",
                message: format!("{error}"),
            })?;
            Ok((stores::open(&url, CreateStore::IfMissing).await?, true))
        }
    }
}

fn valid_name(name: &str) -> Result<Arc<str>> {
    let fits = !name.is_empty()
        && name.len() <= NAME_MAX
        && !name.contains('/')
        && !name.chars().any(char::is_control);
    let message = || format!("'{name}': 1 to {NAME_MAX} bytes, without '/' and control characters");
    fits.then(|| name.into()).ok_or_else(|| Error::BadOption {
        option: "name",
        message: message(),
    })
}

fn validated(settings: Settings) -> Result<Settings> {
    let bad = |option, message: &str| {
        Err(Error::BadOption {
            option,
            message: message.to_owned(),
        })
    };
    if settings.concurrency == 0 {
        return bad("concurrency", "with 0 attempts at once nothing ever runs");
    }
    if settings.shards == 0 || settings.max_runs == 0 || settings.claim_batch == 0 {
        return bad("settings", "shards, max_runs and claim_batch are 1 or more");
    }
    if settings.heartbeat >= settings.lease {
        return bad("settings", "the heartbeat must be shorter than the lease");
    }
    Ok(settings)
}

/// Runtimes for functions, each with one thread.
#[derive(Debug)]
pub(super) struct Pools(Vec<Runtime>);

impl Pools {
    fn new(partitions: Option<usize>) -> Result<Self> {
        let count = partitions.unwrap_or(0);
        if partitions == Some(0) || count > PARTITIONS_MAX {
            let message = format!("{count} partitions: 1 to {PARTITIONS_MAX}");
            return Err(Error::BadOption {
                option: "task_partitions",
                message,
            });
        }
        let one = |number| {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            builder
                .worker_threads(1)
                .thread_name(format!("lope-tasks-{number}"))
                .enable_all()
                .build()
        };
        let pools: std::io::Result<Vec<Runtime>> = (0..count).map(one).collect();
        pools.map(Self).map_err(|error| Error::System {
            message: error.to_string(),
        })
    }

    /// Their handles; those of this runtime if there are none.
    fn handles_or(&self, runtime: &Handle) -> Vec<Handle> {
        if self.0.is_empty() {
            return vec![runtime.clone()];
        }
        self.0
            .iter()
            .map(|runtime| runtime.handle().clone())
            .collect()
    }
}

/// A runtime may not wait for its tasks where tasks run.
impl Drop for Pools {
    fn drop(&mut self) {
        self.0.drain(..).for_each(Runtime::shutdown_background);
    }
}

impl fmt::Debug for RunnerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunnerBuilder")
            .field("name", &self.name)
            .field("keep", &self.source)
            .finish_non_exhaustive()
    }
}
