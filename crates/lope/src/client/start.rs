//! Starting runs for whoever works on their queue.

use std::sync::Arc;

use lope_definition::json_schema::{self, SchemaViolation};
use lope_engine::client::{self, PendingRun, StartOptions};
use lope_flow::law::Plan;
use lope_model::{RunId, Value};
use lope_store::runs::{Admitted, validate};
use lope_store::{StoreError, StoreResult};

use super::Client;
use crate::clock;

/// A run that a store would take, as it will be admitted. Made before any store is opened or made,
/// so that what cannot be started leaves nothing behind.
#[derive(Clone, Debug)]
pub struct PreparedRun {
    pub(crate) plan: Arc<Plan>,
    pub(crate) new_run: PendingRun,
}

impl PreparedRun {
    /// Refused: what is out of bounds. Whether the input fits is another question: see
    /// [`validate_input`](Self::validate_input).
    pub fn new(plan: &Arc<Plan>, options: StartOptions) -> StoreResult<Self> {
        let new_run = client::new_run(plan, options, clock::now());
        validate::admits(std::slice::from_ref(&new_run.admit))?;
        Ok(Self {
            plan: Arc::clone(plan),
            new_run,
        })
    }

    /// Would a store take a run that is started so? For what starts later, such as a schedule's.
    pub fn validate(plan: &Plan, options: StartOptions) -> StoreResult<()> {
        client::validate_start(plan, options)
    }

    /// Does an input fit what a workflow says about it?
    pub fn validate_input(plan: &Plan, input: &Value) -> Result<(), SchemaViolation> {
        json_schema::validate(&plan.definition().input, input)
    }

    pub const fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// The key that it was given.
    pub fn key(&self) -> Option<&str> {
        self.new_run.admit.key.as_deref()
    }
}

impl Client {
    /// Start a run of a deployed workflow for whoever works on its queue. A key that exists answers
    /// with the run that has it.
    pub async fn start(&self, run: PreparedRun) -> StoreResult<(RunId, Admitted)> {
        let fresh = run.new_run.admit.run;
        let answers = self.store().runs.admit(vec![run.new_run.admit]).await?;
        let answer = answers.into_iter().next().ok_or(StoreError::Closed)?;
        Ok(match answer {
            Admitted::Exists { run } => (run, answer),
            Admitted::Created { .. } | Admitted::UnknownVersion => (fresh, answer),
        })
    }
}
