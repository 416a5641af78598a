//! Starting runs for whoever works on their queue.

use std::sync::Arc;

use lope_engine::QueueLimits;
use lope_engine::client::{self, InputError, PendingRun, RunStartOptions};
use lope_flow::law::Plan;
use lope_model::RunId;
use lope_store::runs::Admitted;

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
    /// Refused: what is out of bounds, and an input that the workflow does not take. A run without
    /// a priority gets that of its queue.
    pub fn new(
        plan: &Arc<Plan>,
        options: RunStartOptions,
        limits: &QueueLimits,
    ) -> Result<Self, InputError> {
        Ok(Self {
            plan: Arc::clone(plan),
            new_run: client::fresh_run(plan, options, limits, clock::now())?,
        })
    }

    /// Would it be started so? For what starts later, such as a schedule's.
    pub fn validate(plan: &Plan, options: &RunStartOptions) -> Result<(), InputError> {
        client::validate_start(plan, options)
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
    /// with the run that has it; one of another workflow is an error.
    pub async fn start(&self, run: PreparedRun) -> Result<(RunId, Admitted), InputError> {
        client::admit(self.store(), &run.plan, run.new_run.admit).await
    }
}
