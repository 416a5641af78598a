//! How much there is of what.

use lope_store::StoreResult;
use lope_store::runs::{QueueCount, RunCounts};

use super::Client;

impl Client {
    /// How many runs there are by status, and how deep the queues are.
    pub async fn counts(&self) -> StoreResult<RunCounts> {
        self.store().runs.counts().await
    }

    /// How deep the queues are.
    pub async fn queues(&self) -> StoreResult<Vec<QueueCount>> {
        self.store().runs.queues().await
    }
}
