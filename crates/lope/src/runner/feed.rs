//! Feeding a workflow, signalling it, and waiting for what comes of it.

use std::sync::Arc;
use std::time::Duration;

use lope_engine::client::{self, STOPPED};
use lope_flow::law::{EventKind, Fed};
use lope_model::RunId;
use lope_store::runs::{Delivered, LiveStatus, RunRecord, RunStatus};
use serde::Serialize;
use uuid::Uuid;

use super::Runner;
use crate::convert::to_value;
use crate::error::{Error, Result};
use crate::flows::PolicyRule;
use crate::results::InputResult;

/// How often a wait looks for itself: somebody else may do the work.
const POLL: Duration = Duration::from_millis(250);

/// How one input is run.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    policies: Vec<PolicyRule>,
    input: Option<String>,
}

impl RunOptions {
    /// A policy for this input alone; it wins over the workflow's.
    #[must_use]
    pub fn policy(mut self, rule: PolicyRule) -> Self {
        self.policies.push(rule);
        self
    }

    /// A name for the input: fed twice under one name, it is taken once.
    #[must_use]
    pub fn input_id(mut self, id: &str) -> Self {
        self.input = Some(id.to_owned());
        self
    }
}

impl Runner {
    /// Feed an input. It is durable when this returns; the work goes on by itself. The answer is
    /// the input's id.
    pub async fn run<T: Serialize>(&self, id: &str, input: T) -> Result<Arc<str>> {
        self.run_with(id, input, RunOptions::default()).await
    }

    /// As `run`, with policies for this input alone, or a name that makes it arrive once.
    pub async fn run_with<T: Serialize>(
        &self,
        id: &str,
        input: T,
        options: RunOptions,
    ) -> Result<Arc<str>> {
        let value = to_value(&input).map_err(|message| Error::bad_value("the input", message))?;
        let record = self.live(id).await?;
        let plan = self.plan(record.version).await?;
        client::validate_input(plan.name(), &plan.definition().input, &value)?;
        let policies = self.overrides(&record, &options.policies)?;
        let name: Arc<str> = options
            .input
            .map_or_else(|| Uuid::now_v7().to_string().into(), Into::into);
        let fed = Fed {
            id: Arc::clone(&name),
            value,
            policies,
        };
        self.0.telemetry.fed(record.run, &name);
        self.tell(
            id,
            record.run,
            &EventKind::Input(Box::new(fed)),
            Some(format!("input/{name}")),
        )
        .await?;
        Ok(name)
    }

    /// Send a signal that a step may wait for.
    pub async fn signal<T: Serialize>(&self, id: &str, name: &str, value: T) -> Result<()> {
        let value = to_value(&value).map_err(|message| Error::bad_value("the signal", message))?;
        let record = self.live(id).await?;
        self.tell(
            id,
            record.run,
            &EventKind::Signal {
                name: name.into(),
                value,
            },
            None,
        )
        .await
    }

    /// Feed an input and wait for its result.
    pub async fn run_to_end<T: Serialize>(&self, id: &str, input: T) -> Result<InputResult> {
        let input = self.run(id, input).await?;
        self.wait(id, &input).await
    }

    /// Wait until an input has its result.
    pub async fn wait(&self, id: &str, input: &str) -> Result<InputResult> {
        let run = self.run_of(id).await?;
        loop {
            let notified = self.0.telemetry.await_input(run, input);
            let found = self
                .results(id)
                .await?
                .into_iter()
                .find(|result| &*result.input == input);
            if let Some(found) = found {
                return Ok(found);
            }
            self.live(id).await?;
            self.can_go_on().await?;
            if let Ok(Ok(result)) = tokio::time::timeout(POLL, notified).await {
                return Ok(InputResult {
                    input: input.into(),
                    result,
                });
            }
        }
    }

    /// Wait until a workflow has nothing more to do: it is idle, or has ended.
    pub async fn wait_idle(&self, id: &str) -> Result<RunStatus> {
        let run = self.run_of(id).await?;
        loop {
            let notification = self.0.telemetry.notification();
            let record = self.record_of(id, run).await?;
            match record.status {
                RunStatus::Live(LiveStatus::Idle) if !self.has_mail(&record).await? => {
                    return Ok(record.status);
                }
                RunStatus::Live(_) => {}
                RunStatus::Final(_) => return Ok(record.status),
            }
            self.can_go_on().await?;
            let _ = tokio::time::timeout(POLL, notification).await;
        }
    }

    /// Does an input wait that was fed here and that nobody had read when the record was made?
    async fn has_mail(&self, record: &RunRecord) -> Result<bool> {
        if !self.0.telemetry.has_unsettled(record.run) {
            return Ok(false);
        }
        let loaded = self.store().runs.load(&[record.run]).await?;
        // What was read meanwhile has left a row.
        let later = self.store().runs.run(record.run).await?;
        let read = later.is_none_or(|later| later.head != record.head);
        Ok(read
            || loaded
                .into_iter()
                .flatten()
                .any(|loaded| !loaded.mail.is_empty()))
    }

    /// The record of a workflow that takes inputs.
    pub(super) async fn live(&self, id: &str) -> Result<RunRecord> {
        let run = self.run_of(id).await?;
        let record = self.record_of(id, run).await?;
        match record.status {
            RunStatus::Final(_) => Err(Error::Ended {
                id: id.to_owned(),
                status: record.status,
            }),
            RunStatus::Live(_) if is_stopped(&record) => Err(Error::Stopped { id: id.to_owned() }),
            RunStatus::Live(_) => Ok(record),
        }
    }

    pub(super) async fn tell(
        &self,
        id: &str,
        run: RunId,
        kind: &EventKind,
        mail: Option<String>,
    ) -> Result<()> {
        match client::tell(self.store(), run, kind, mail).await? {
            Delivered::Accepted | Delivered::Duplicate => Ok(()),
            Delivered::Missing => Err(self.not_found(id)),
            Delivered::Full => Err(Error::Full { id: id.to_owned() }),
            Delivered::Finished => {
                let record = self.record_of(id, run).await?;
                Err(Error::Ended {
                    id: id.to_owned(),
                    status: record.status,
                })
            }
        }
    }

    /// Overrides that ask a predicate need the flow that is meant.
    fn overrides(
        &self,
        record: &RunRecord,
        rules: &[PolicyRule],
    ) -> Result<Vec<lope_definition::Rule>> {
        if rules.is_empty() {
            return Ok(Vec::new());
        }
        let flows = self
            .0
            .flows
            .read()
            .expect("no panic while the flows are held");
        let flow = flows
            .get(record.workflow.as_str())
            .ok_or_else(|| Error::BadOption {
                option: "policy",
                message: format!(
                    "flow '{}' is not registered in this runner: resume it first",
                    record.workflow
                ),
            })?;
        flow.rules(rules)
    }
}

pub(super) fn is_stopped(record: &RunRecord) -> bool {
    record.parked.as_deref() == Some(STOPPED)
}
