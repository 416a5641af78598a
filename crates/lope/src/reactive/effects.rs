//! Effects that are durable runs: a node of the kind `workflow` starts one, an effect `http` or
//! `action` one of a single step, and what comes of it lands in its cell.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use lope_cells::Json;
use lope_engine::client::{self, InputError};
use lope_flow::law::Plan;
use lope_model::{Digest, Failure, RunId, Span, value};
use lope_reactive::hosting::{EffectPerformer, RequestedEffect};
use lope_reactive::machine::NOT_DEPLOYED;
use lope_store::StoreResult;
use lope_store::runs::Admitted;

use super::single_step::SingleStep;
use crate::client::Client;
use crate::describe;
use crate::runs::RunStartOptions;

/// The tag of a run that a space asked for; its value is the space.
const TAG: &str = "space";

/// Starts runs for spaces. The key of a run comes from the request, so that one that is asked for
/// again after a crash finds its run and starts no second one.
#[derive(Clone, Debug)]
pub struct WorkflowEffects {
    client: Client,
    /// Whether to wait for the end of a run.
    waits: bool,
}

impl WorkflowEffects {
    /// Starts runs, waits for their ends and tells what came of them.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            waits: true,
        }
    }

    /// Starts runs and leaves the rest to whoever hosts the space next.
    pub fn starting(client: Client) -> Self {
        Self {
            client,
            waits: false,
        }
    }

    async fn start(&self, effect: &RequestedEffect) -> StoreResult<Result<RunId, Failure>> {
        let (plan, input) = match self.asked(effect).await? {
            Ok(asked) => asked,
            Err(failure) => return Ok(Err(failure)),
        };
        let input = match value::from_json(&input.to_string()) {
            Ok(input) => input,
            Err(error) => return Ok(Err(Failure::new("BadInput", error.to_string()))),
        };
        let space = effect.space.as_str();
        let digest = Digest::of_parts(&[space.as_bytes(), effect.key.as_bytes()]);
        let mut shown = space.to_owned();
        shown.truncate(shown.floor_char_boundary(100));
        let options = RunStartOptions {
            input: Some(input),
            key: Some(format!("space:{digest}")),
            tags: BTreeMap::from([(TAG.to_owned(), shown)]),
            ..RunStartOptions::default()
        };
        let now = self.client.now().await?;
        let limits = self.client.queue_limits();
        let started = client::start(self.client.store(), &plan, options, limits, now).await;
        Ok(match started {
            Ok((run, Admitted::Created { .. } | Admitted::Exists { .. })) => Ok(run),
            Ok((_, Admitted::UnknownVersion)) => Err(Failure::new(NOT_DEPLOYED, "it was removed")),
            Err(InputError::Store(error)) => return Err(error),
            Err(other) => Err(Failure::new("BadInput", other.to_string())),
        })
    }

    /// The workflow that does an effect, and the input of its run.
    async fn asked(
        &self,
        effect: &RequestedEffect,
    ) -> StoreResult<Result<(Arc<Plan>, Json), Failure>> {
        if let Some(step) = SingleStep::of(&effect.name, &effect.request) {
            return match step {
                Ok(step) => {
                    self.keep(&step.plan).await?;
                    Ok(Ok((step.plan, step.input)))
                }
                Err(failure) => Ok(Err(failure)),
            };
        }
        let name = effect.request.child("workflow").and_then(Json::as_str);
        let Some(name) = name.filter(|_| &*effect.name == "workflow") else {
            let message = format!("'{}' is no effect of this runner", effect.name);
            return Ok(Err(Failure::new("UnknownEffect", message)));
        };
        let Some(plan) = self.client.latest_plan(name).await? else {
            let message = format!("no workflow '{name}' is deployed");
            return Ok(Err(Failure::new(NOT_DEPLOYED, message)));
        };
        let input = effect.request.child("input").cloned().unwrap_or_default();
        Ok(Ok((plan, input)))
    }

    /// Has a workflow in the store.
    async fn keep(&self, plan: &Plan) -> StoreResult<()> {
        let known = self.client.workflow(plan.name()).await?;
        if known.is_some_and(|known| known.version == plan.version()) {
            return Ok(());
        }
        self.client.deploy(plan).await
    }

    async fn outcome(&self, run: RunId) -> StoreResult<Result<Json, Failure>> {
        let Some(record) = self.client.wait(run).await? else {
            return Ok(Err(Failure::new("Removed", "the run was removed")));
        };
        let told = describe::run(&record);
        if told["status"] == "completed" {
            return Ok(Ok(Json::from(told["result"].clone())));
        }
        let text = |key: &str| told["error"][key].as_str().map(str::to_owned);
        let kind = text("type").unwrap_or_else(|| "Cancelled".to_owned());
        let message = text("message").unwrap_or_else(|| format!("run {run} was cancelled"));
        Ok(Err(Failure::new(&kind, message)))
    }
}

#[async_trait]
impl EffectPerformer for WorkflowEffects {
    async fn can_begin(&self, effect: &RequestedEffect) -> bool {
        matches!(self.asked(effect).await, Ok(Ok(_)))
    }

    async fn perform(&self, effect: &RequestedEffect) -> Option<Result<Json, Failure>> {
        let mut pause = Span::from_millis(100);
        loop {
            let tried = match self.start(effect).await {
                Ok(Ok(_)) if !self.waits => return None,
                Ok(Ok(run)) => self.outcome(run).await,
                Ok(Err(failure)) => Ok(Err(failure)),
                Err(error) => Err(error),
            };
            match tried {
                Ok(outcome) => return Some(outcome),
                Err(error) if error.is_passing() => {}
                Err(error) => return Some(Err(Failure::new("Store", error.to_string()))),
            }
            tokio::time::sleep(pause.to_duration()).await;
            pause = pause.times(2).min(Span::from_secs(10));
        }
    }
}
