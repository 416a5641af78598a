//! What must not be shown of runs: known by version, so that a list does not read definitions again
//! and again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use lope::runs::RunRecord;
use lope::stores::StoreResult;
use lope::{Client, RedactedPath, Redaction};
use lope_model::VersionId;

/// Versions that are remembered.
const VERSIONS: usize = 10_000;

/// The paths of versions that were looked at.
#[derive(Debug, Default)]
pub struct Redactions {
    known: Mutex<HashMap<VersionId, Arc<[RedactedPath]>>>,
}

impl Redactions {
    pub async fn paths(
        &self,
        client: &Client,
        record: &RunRecord,
    ) -> StoreResult<Arc<[RedactedPath]>> {
        let known = {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.get(&record.version).map(Arc::clone)
        };
        if let Some(paths) = known {
            return Ok(paths);
        }
        let paths = client.redacted_paths(record).await?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= VERSIONS {
            known.clear();
        }
        known.insert(record.version, Arc::clone(&paths));
        Ok(paths)
    }

    /// What must not be shown of a run; nothing for most.
    pub async fn of(&self, client: &Client, record: &RunRecord) -> StoreResult<Option<Redaction>> {
        let paths = self.paths(client, record).await?;
        if paths.is_empty() {
            return Ok(None);
        }
        client.redaction(record, paths).await.map(Some)
    }

    /// A run of a list, as it may be shown. What cannot be known is not shown either.
    pub async fn listed(&self, client: &Client, record: &mut RunRecord) {
        if record.result.is_none() && record.error.is_none() {
            return;
        }
        let blind = match self.paths(client, record).await {
            Ok(paths) if paths.is_empty() => return,
            Ok(paths) => Redaction::blind(paths),
            Err(_) => Redaction::blind(Arc::default()),
        };
        blind.record(record);
    }
}
