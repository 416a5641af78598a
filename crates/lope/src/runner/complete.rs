//! Callbacks when a workflow is done with what it was given.

use std::sync::Arc;

use super::Runner;
use crate::error::Result;
use crate::results::Completion;

impl Runner {
    /// Call this each time the workflow completes: when it has nothing more to do, and all of it is
    /// durable. A callback that panics hurts nobody. It belongs to this program: after a restart it
    /// has to be given again.
    pub async fn on_complete(
        &self,
        id: &str,
        callback: impl Fn(&str, &Completion) + Send + Sync + 'static,
    ) -> Result<()> {
        let record = self.live(id).await?;
        self.0.telemetry.know(record.run, id, &record.workflow);
        self.0.telemetry.call_back(record.run, Arc::new(callback));
        Ok(())
    }
}
