//! What must not be shown of a run: its definition and journal are read for it.

use std::sync::Arc;

use lope_definition::RedactedPath;
use lope_redaction::{Redaction, RedactionSearch};
use lope_store::StoreResult;
use lope_store::runs::RunRecord;

use crate::Client;

impl Client {
    /// What must not be shown of the runs of a run's version; mostly nothing.
    pub async fn redacted_paths(&self, record: &RunRecord) -> StoreResult<Arc<[RedactedPath]>> {
        let plan = self.plan(record).await?;
        Ok(plan.definition().redacted().into())
    }

    /// What stands at these paths in a run. Its journal is read for that.
    pub async fn redaction(
        &self,
        record: &RunRecord,
        paths: Arc<[RedactedPath]>,
    ) -> StoreResult<Redaction> {
        let plan = self.plan(record).await?;
        let mut follower = self.follow(record.run, &plan).await?;
        let mut search = RedactionSearch::new(paths);
        let read = follower.catch_up(|_, event, history| {
            search.event(event);
            history.touched().for_each(|it| search.execution(it));
        });
        read.await?;
        Ok(search.end(record))
    }
}
