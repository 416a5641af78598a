//! Workflows that a store knows.

use std::sync::Arc;

use lope_definition::Definition;
use lope_engine::client;
use lope_flow::law::Plan;
use lope_model::{Timestamp, VersionId};
use lope_store::StoreResult;
use lope_store::runs::StoredDefinition;

use super::Client;

/// Workflows read at a time.
const PAGE: usize = 1_000;

/// The version of a workflow that was deployed last under its name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeployedWorkflow {
    pub name: String,
    pub version: VersionId,
    pub deployed_at: Timestamp,
    body: Vec<u8>,
}

impl DeployedWorkflow {
    /// What was deployed, or why this program cannot read it.
    pub fn definition(&self) -> Result<Definition, String> {
        Definition::decode(&self.body).map_err(|error| error.to_string())
    }
}

impl From<StoredDefinition> for DeployedWorkflow {
    fn from(stored: StoredDefinition) -> Self {
        Self {
            name: stored.name,
            version: stored.version,
            deployed_at: stored.deployed_at,
            body: stored.body,
        }
    }
}

impl Client {
    /// Keep a workflow in the store, so that runs of it can be started. Repeating it makes it the
    /// latest of its name.
    pub async fn deploy(&self, plan: &Plan) -> StoreResult<()> {
        client::deploy(self.store(), plan).await
    }

    /// The workflows that are deployed, by name.
    pub async fn workflows(&self) -> StoreResult<Vec<DeployedWorkflow>> {
        let mut all: Vec<DeployedWorkflow> = Vec::new();
        loop {
            let after = all.last().map(|last| last.name.clone());
            let page = self
                .store()
                .runs
                .definitions(after.as_deref(), PAGE)
                .await?;
            if page.is_empty() {
                return Ok(all);
            }
            all.extend(page.into_iter().map(DeployedWorkflow::from));
        }
    }

    /// The workflow of a name.
    pub async fn workflow(&self, name: &str) -> StoreResult<Option<DeployedWorkflow>> {
        let stored = self.store().runs.latest(name).await?;
        Ok(stored.map(DeployedWorkflow::from))
    }

    /// The plan of the version that was deployed last under a name.
    pub async fn latest_plan(&self, name: &str) -> StoreResult<Option<Arc<Plan>>> {
        self.plans.latest(self.store(), name).await
    }
}
