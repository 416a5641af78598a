//! Building a runner: its name, its store, its executors, its limits. A bad option is an error that names it.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, RwLock};

use lope_engine::executor::Executor;
use lope_engine::{Engine, Executors, Settings};
use lope_flow::definition::executor;
use lope_model::QueueName;
use lope_store::Store;
use lope_store::memory::MemoryStore;
use lope_workers::Functions;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::RwLock as AsyncLock;

use super::{Inner, Runner};
use crate::error::{Error, Result};
use crate::stores::{self, Create, StoreUrl};
use crate::telemetry::{self, Tower};

/// Most runtimes that functions are spread over.
const PARTITIONS_MAX: usize = 256;
/// Longest name of a runner: it stands before every id of its workflows.
const NAME_MAX: usize = 64;

/// Where runs are kept.
#[derive(Debug, Default)]
enum Keep {
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
    keep: Keep,
    executors: Executors,
    settings: Settings,
    concurrency: Option<usize>,
    partitions: Option<usize>,
    workers: Option<PathBuf>,
}

impl RunnerBuilder {
    /// The runner's name; `default` unless it is said. Runners with different names do not meet, whatever store they share.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Keep runs in the store that a URL names; it is created if it is missing.
    #[must_use]
    pub fn url(mut self, url: &str) -> Self {
        self.keep = Keep::Url(url.to_owned());
        self
    }

    /// Keep runs in this store, whoever wrote it.
    #[must_use]
    pub fn store(mut self, store: Store) -> Self {
        self.keep = Keep::Store(store);
        self
    }

    /// Persist nothing.
    #[must_use]
    pub fn without_store(mut self) -> Self {
        self.keep = Keep::Nowhere;
        self
    }

    /// An executor for steps of a kind, besides (or instead of) the one that calls this program's functions.
    #[must_use]
    pub fn executor(mut self, kind: &str, executor: Arc<dyn Executor>) -> Self {
        self.executors.insert(kind.into(), executor);
        self
    }

    /// Also serve `run`, `js` and `http` steps; what processes print goes to files in this folder.
    #[must_use]
    pub fn workers(mut self, logs: impl Into<PathBuf>) -> Self {
        self.workers = Some(logs.into());
        self
    }

    /// How the engine works. Name, queues and realms are the runner's own.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Most attempts at once, over all workflows.
    #[must_use]
    pub fn concurrency(mut self, most: usize) -> Self {
        self.concurrency = Some(most);
        self
    }

    /// Call functions on so many runtimes of their own, so that one that blocks its thread holds up its partition alone. Calls
    /// of one workflow stay in one partition. Unless it is said, they run where the runner was built.
    #[must_use]
    pub fn task_partitions(mut self, partitions: usize) -> Self {
        self.partitions = Some(partitions);
        self
    }

    pub async fn build(self) -> Result<Runner> {
        let runtime = Handle::try_current().map_err(|error| Error::System { message: error.to_string() })?;
        let name = checked_name(self.name.as_deref().unwrap_or("default"))?;
        let settings = checked(self.settings, self.concurrency, &name)?;
        let pools = Pools::new(self.partitions)?;
        let (store, persists) = open(self.keep).await?;
        let tower = Tower::new(Arc::clone(&name), runtime.clone());
        let store = telemetry::observed_store(store, &tower);
        let handles = if pools.0.is_empty() { vec![runtime.clone()] } else { pools.handles() };
        let functions = Arc::new(Functions::over(handles));
        let mut executors: Executors = HashMap::new();
        if let Some(logs) = self.workers {
            let standard = crate::executors::standard(&runtime, logs, Functions::new(runtime.clone()));
            executors = standard.map_err(|error| Error::System { message: error.to_string() })?;
        }
        executors.insert(executor::ACTION.into(), Arc::<Functions>::clone(&functions));
        executors.extend(self.executors);
        let executors = telemetry::observed_executors(executors, &tower);
        let engine = Engine::begin_heard(store.clone(), executors, settings, Some(Tower::ear(&tower)));
        let engine = engine.map_err(|error| Error::System { message: error.to_string() })?;
        Ok(Runner(Arc::new(Inner {
            name,
            store,
            persists,
            engine: AsyncLock::new(Some(engine)),
            functions,
            tower,
            flows: RwLock::default(),
            plans: Mutex::default(),
            _pools: pools,
        })))
    }
}

async fn open(keep: Keep) -> Result<(Store, bool)> {
    match keep {
        Keep::Nowhere => Ok((MemoryStore::open(), false)),
        Keep::Store(store) => Ok((store, true)),
        Keep::Url(url) => {
            let url: StoreUrl =
                url.parse().map_err(|error| Error::BadOption { option: "url", message: format!("{error}") })?;
            Ok((stores::open(&url, Create::IfMissing).await?, true))
        }
    }
}

fn checked_name(name: &str) -> Result<Arc<str>> {
    let fits = !name.is_empty() && name.len() <= NAME_MAX && !name.contains('/') && !name.chars().any(char::is_control);
    let message = || format!("'{name}': 1 to {NAME_MAX} bytes, without '/' and control characters");
    fits.then(|| name.into()).ok_or_else(|| Error::BadOption { option: "name", message: message() })
}

fn checked(settings: Settings, concurrency: Option<usize>, name: &str) -> Result<Settings> {
    let bad = |option, message: &str| Err(Error::BadOption { option, message: message.to_owned() });
    let concurrency = concurrency.unwrap_or(settings.concurrency);
    if concurrency == 0 {
        return bad("concurrency", "with 0 attempts at once nothing ever runs");
    }
    if settings.shards == 0 || settings.max_runs == 0 || settings.claim_batch == 0 {
        return bad("settings", "shards, max_runs and claim_batch are 1 or more");
    }
    if settings.heartbeat >= settings.lease {
        return bad("settings", "the heartbeat must be shorter than the lease");
    }
    let queue = QueueName::parse(name);
    let queue = queue.map_err(|error| Error::BadOption { option: "name", message: error.to_string() })?;
    let post = Some(crate::post::encode as lope_engine::post::Encode);
    Ok(Settings { name: name.to_owned(), queues: vec![queue], realms: Vec::new(), concurrency, post, ..settings })
}

/// Runtimes for functions, each with one thread.
#[derive(Debug)]
pub(super) struct Pools(Vec<Runtime>);

impl Pools {
    fn new(partitions: Option<usize>) -> Result<Self> {
        let count = partitions.unwrap_or(0);
        if partitions == Some(0) || count > PARTITIONS_MAX {
            let message = format!("{count} partitions: 1 to {PARTITIONS_MAX}");
            return Err(Error::BadOption { option: "task_partitions", message });
        }
        let one = |number| {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            builder.worker_threads(1).thread_name(format!("lope-tasks-{number}")).enable_all().build()
        };
        let pools: std::io::Result<Vec<Runtime>> = (0..count).map(one).collect();
        pools.map(Self).map_err(|error| Error::System { message: error.to_string() })
    }

    fn handles(&self) -> Vec<Handle> {
        self.0.iter().map(|runtime| runtime.handle().clone()).collect()
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
        f.debug_struct("RunnerBuilder").field("name", &self.name).field("keep", &self.keep).finish_non_exhaustive()
    }
}
