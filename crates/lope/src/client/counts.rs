//! How much there is of what.

use lope_store::StoreResult;
use lope_store::runs::RunCounts;

use super::Client;

impl Client {
    /// How many runs there are by status, and how deep the queues are.
    pub async fn counts(&self) -> StoreResult<RunCounts> {
        self.store().runs.counts().await
    }
}
