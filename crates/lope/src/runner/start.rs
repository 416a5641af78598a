//! Starting and resuming workflows.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::{Arc, MutexGuard};

use lope_definition::Checkpoint;
use lope_engine::{client, plans};
use lope_flow::law::{EventKind, Plan};
use lope_model::{Priority, RunId, VersionId, limit};
use lope_store::runs::{Admitted, Delivered, RunRecord, RunStatus};

use super::Runner;
use crate::clock;
use crate::error::{Error, Result};
use crate::flows::{Flow, PolicyRule, actions};
use crate::results::{Callback, Completion};

/// How a workflow is started. What it says about steps (`policies`, `checkpoint`, `concurrency`) is
/// kept with the run and holds after a resume too.
#[derive(Clone, Default)]
pub struct StartOptions {
    pub(super) policies: Vec<PolicyRule>,
    pub(super) checkpoint: Option<Checkpoint>,
    pub(super) concurrency: Option<u32>,
    pub(super) priority: Option<i64>,
    pub(super) tags: BTreeMap<String, String>,
    pub(super) on_complete: Option<Callback>,
}

impl StartOptions {
    /// A policy that comes before the flow's own.
    #[must_use]
    pub fn policy(mut self, rule: PolicyRule) -> Self {
        self.policies.push(rule);
        self
    }

    #[must_use]
    pub fn checkpoint(mut self, strategy: Checkpoint) -> Self {
        self.checkpoint = Some(strategy);
        self
    }

    /// Most attempts of this workflow at once.
    #[must_use]
    pub fn concurrency(mut self, most: u32) -> Self {
        self.concurrency = Some(most);
        self
    }

    /// Who is claimed first: 0 to 9, higher first. Unless it is said, that of the queue in the
    /// settings, else 4.
    #[must_use]
    pub fn priority(mut self, level: i64) -> Self {
        self.priority = Some(level);
        self
    }

    /// Something to list runs by.
    #[must_use]
    pub fn tag(mut self, name: &str, value: &str) -> Self {
        self.tags.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Called once per completion: see [`Runner::on_complete`].
    #[must_use]
    pub fn on_complete(
        mut self,
        callback: impl Fn(&str, &Completion) + Send + Sync + 'static,
    ) -> Self {
        self.on_complete = Some(Arc::new(callback));
        self
    }

    fn changes_the_flow(&self) -> bool {
        !self.policies.is_empty() || self.checkpoint.is_some() || self.concurrency.is_some()
    }
}

impl Runner {
    /// Start a workflow under an id. It is open: idle until it is fed, and again between inputs,
    /// until it is stopped. An id that was started before is [`Error::AlreadyStarted`], with what
    /// is there.
    pub async fn start_workflow(
        &self,
        id: &str,
        flow: &Flow,
        options: StartOptions,
    ) -> Result<RunId> {
        let key = self.key(id);
        if id.is_empty() || key.len() > limit::NAME_MAX {
            let message = format!(
                "an id has 1 to {} bytes, its runner's name included",
                limit::NAME_MAX - 1
            );
            return Err(Error::BadOption {
                option: "id",
                message,
            });
        }
        let priority = options.priority.map(Priority::new).transpose();
        let priority = priority.map_err(|error| Error::BadOption {
            option: "priority",
            message: error.to_string(),
        })?;
        let plan = self.serve(flow, &options).await?;
        let started = client::RunStartOptions {
            open: true,
            key: Some(key),
            queue: self.queue(),
            priority,
            realm: flow.realm().clone(),
            tags: options.tags,
            ..client::RunStartOptions::default()
        };
        let limits = self.client().queue_limits();
        let new_run = client::fresh_run(&plan, started, limits, clock::now())?;
        let run = new_run.admit.run;
        self.0.telemetry.know(run, id, flow.name());
        let engine = self.engine().await?;
        engine.know(Arc::clone(&plan));
        if let Some(callback) = options.on_complete {
            self.0.telemetry.call_back(run, callback);
        }
        match engine.admit(new_run, &plan).await? {
            Admitted::Created { .. } => {
                self.0.telemetry.started(run);
                Ok(run)
            }
            Admitted::Exists { run: there, .. } => {
                self.0.telemetry.forget(run);
                Err(self.already(id, there).await?)
            }
            Admitted::UnknownVersion => Err(self.unserved(flow, vec![plan.version().to_string()])),
        }
    }

    /// Take a workflow up again, in this program: after a crash, or because it was stopped. What
    /// was settled stays settled; what was in flight is tried again. One that is at work here
    /// already goes on.
    pub async fn resume(&self, id: &str, flow: &Flow) -> Result<RunId> {
        let run = self.run_of(id).await?;
        let record = self.record_of(id, run).await?;
        if let RunStatus::Final(_) = record.status {
            return Err(Error::Ended {
                id: id.to_owned(),
                status: record.status,
            });
        }
        self.check_served(flow, &record).await?;
        self.serve(flow, &StartOptions::default()).await?;
        self.engine().await?.serve(record.realm);
        self.0.telemetry.know(run, id, flow.name());
        match client::tell(self.store(), run, &EventKind::Resume, None).await? {
            Delivered::Accepted | Delivered::Duplicate => {}
            Delivered::Full => return Err(Error::Full { id: id.to_owned() }),
            Delivered::Missing | Delivered::Finished => return Err(self.not_found(id)),
        }
        self.0.telemetry.started(run);
        Ok(run)
    }

    /// Serve a flow: its functions can be called, its runs are claimed. Whatever of it was left
    /// unfinished goes on.
    pub async fn register(&self, flow: &Flow) -> Result<()> {
        self.serve(flow, &StartOptions::default()).await.map(drop)
    }

    async fn serve(&self, flow: &Flow, options: &StartOptions) -> Result<Arc<Plan>> {
        let plan = if options.changes_the_flow() {
            varied(flow, options)?
        } else {
            Arc::clone(flow.plan())
        };
        for (name, function) in flow.functions() {
            self.0.functions.add_boxed(&name, function);
        }
        self.deploy(&plan, flow).await?;
        self.0
            .flows
            .write()
            .expect("no panic while the flows are held")
            .insert(flow.name().into(), flow.clone());
        self.engine().await?.serve(flow.realm().clone());
        Ok(plan)
    }

    /// The flow itself is deployed last: it is the latest of its name.
    async fn deploy(&self, plan: &Arc<Plan>, flow: &Flow) -> Result<()> {
        let mut wanted: Vec<Arc<Plan>> = vec![Arc::clone(plan)];
        let mut flows = vec![flow.clone()];
        while let Some(flow) = flows.pop() {
            wanted.push(Arc::clone(flow.plan()));
            flows.extend(flow.children().iter().cloned());
        }
        for plan in wanted {
            let version = plan.version();
            if self.deployed().contains(&version) {
                continue;
            }
            client::deploy(self.store(), &plan).await?;
            self.engine().await?.know(plan);
            self.deployed().insert(version);
        }
        Ok(())
    }

    /// The versions that this runner has deployed.
    fn deployed(&self) -> MutexGuard<'_, HashSet<VersionId>> {
        self.0
            .deployed
            .lock()
            .expect("no panic while the versions are held")
    }

    /// The plan of a version: the engine's, or the store's when there is no engine any more.
    pub(super) async fn plan(&self, version: VersionId) -> Result<Arc<Plan>> {
        match self.0.engine.read().await.as_ref() {
            Some(engine) => Ok(engine.plan(version).await?),
            None => Ok(plans::load(self.store(), version).await?),
        }
    }

    /// Does the flow have a function for everything that a run may ask for?
    async fn check_served(&self, flow: &Flow, record: &RunRecord) -> Result<()> {
        let plan = self.plan(record.version).await?;
        let functions = flow.functions();
        let wanted = actions(plan.definition()).into_iter();
        let missing: Vec<String> = wanted
            .filter(|action| !functions.contains_key(&**action))
            .map(|action| action.to_string())
            .collect();
        if missing.is_empty() {
            Ok(())
        } else {
            Err(self.unserved(flow, missing))
        }
    }

    #[allow(clippy::unused_self, reason = "reads as the runner's answer")]
    fn unserved(&self, flow: &Flow, missing: Vec<String>) -> Error {
        Error::Unserved {
            flow: flow.name().to_owned(),
            missing,
        }
    }

    async fn already(&self, id: &str, run: RunId) -> Result<Error> {
        let record = self.record_of(id, run).await?;
        Ok(Error::AlreadyStarted {
            id: id.to_owned(),
            run,
            status: record.status,
        })
    }
}

fn varied(flow: &Flow, options: &StartOptions) -> Result<Arc<Plan>> {
    let mut rules = flow.rules(&options.policies)?;
    flow.variant(|definition| {
        rules.append(&mut definition.policies);
        definition.policies = rules;
        definition.checkpoint = options.checkpoint.unwrap_or(definition.checkpoint);
        definition.concurrency = options.concurrency.or(definition.concurrency);
    })
}

impl fmt::Debug for StartOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            policies,
            checkpoint,
            concurrency,
            priority,
            tags,
            on_complete,
        } = self;
        f.debug_struct("StartOptions")
            .field("policies", policies)
            .field("checkpoint", checkpoint)
            .field("concurrency", concurrency)
            .field("priority", priority)
            .field("tags", tags)
            .field("on_complete", &on_complete.is_some())
            .finish()
    }
}
