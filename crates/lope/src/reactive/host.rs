//! The spaces of a client: asked, and hosted in this process.

use std::sync::Arc;

use lope_reactive::hosting::{
    Directory, EffectPerformer, HostError, PoolOptions, SpaceClient, SpacePool,
};

use super::effects::WorkflowEffects;
use crate::client::Client;

impl Client {
    /// The spaces of the store; none if it never had any.
    pub async fn spaces(&self) -> Result<Option<Directory>, HostError> {
        Directory::find(Arc::clone(&self.store().tables)).await
    }

    /// Sends requests to spaces; one that nobody hosts is hosted here for as long as it takes. Runs
    /// that its recipes ask for are started and left to whoever works.
    pub async fn space_client(&self, options: PoolOptions) -> Result<SpaceClient, HostError> {
        let effects = WorkflowEffects::starting(self.clone());
        self.space_client_with(options, Arc::new(effects)).await
    }

    /// The same, with effects of the caller's own.
    pub async fn space_client_with(
        &self,
        options: PoolOptions,
        performer: Arc<dyn EffectPerformer>,
    ) -> Result<SpaceClient, HostError> {
        let clock = Arc::new(self.clock().await?);
        let tables = Arc::clone(&self.store().tables);
        SpaceClient::open(tables, clock, performer, options).await
    }

    /// Hosts every space that needs a host, until the pool is stopped.
    pub async fn host_spaces(
        &self,
        options: PoolOptions,
        performer: Arc<dyn EffectPerformer>,
    ) -> Result<SpacePool, HostError> {
        let clock = Arc::new(self.clock().await?);
        let tables = Arc::clone(&self.store().tables);
        SpacePool::start(tables, clock, performer, options).await
    }
}
