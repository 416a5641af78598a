//! What a run was started with.

use lope_engine::{codec, query};
use lope_flow::law::EventKind;
use lope_model::Value;
use lope_store::runs::RunRecord;
use lope_store::{StoreError, StoreResult};

use super::Client;

impl Client {
    /// The input that a run was started with. Nothing: it was opened without one, or it is a fork.
    pub async fn input(&self, record: &RunRecord) -> StoreResult<Option<Value>> {
        let rows = self.store().runs.journal(record.run, 0, 1).await?;
        let Some(first) = rows.first().filter(|row| row.seq == 1) else {
            return Ok(None);
        };
        let blobs = query::blobs(self.store(), record.run, &rows).await?;
        let event = codec::event(first, &blobs).map_err(StoreError::corrupt)?;
        let EventKind::Start(start) = event.kind else {
            return Ok(None);
        };
        Ok(start.input.map(|fed| fed.value))
    }
}
