//! Which workflows a runner has.

use lope_model::{QueueName, RunId, limit};
use lope_store::runs::{LiveStatus, RunFilter, RunRecord, RunStatus};

use super::Runner;
use super::feed::is_stopped;
use crate::error::Result;

/// A workflow that is live.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LiveWorkflow {
    pub id: String,
    pub run: RunId,
    pub workflow: String,
    pub status: RunStatus,
}

impl Runner {
    /// The workflows that were started and neither stopped nor ended, youngest first.
    pub async fn list(&self) -> Result<Vec<LiveWorkflow>> {
        let mut found = Vec::new();
        let mut after = None;
        loop {
            let statuses = LiveStatus::ALL.map(RunStatus::Live).to_vec();
            let queue = Some(self.queue());
            let limit = limit::PAGE_MAX;
            let filter = RunFilter {
                statuses,
                queue,
                after,
                limit,
                ..RunFilter::default()
            };
            let page = self.store().runs.list(filter).await?;
            after = page.last().map(RunRecord::cursor);
            let full = page.len() == limit::PAGE_MAX;
            found.extend(page.into_iter().filter_map(|record| self.found(record)));
            if !full {
                return Ok(found);
            }
        }
    }

    /// The workflow of an id, if it is live.
    pub async fn lookup(&self, id: &str) -> Result<Option<LiveWorkflow>> {
        let Some(run) = self.store().runs.find_key(&self.key(id)).await? else {
            return Ok(None);
        };
        let record = self.store().runs.run(run).await?;
        Ok(record
            .filter(|record| matches!(record.status, RunStatus::Live(_)))
            .and_then(|record| self.found(record)))
    }

    fn found(&self, record: RunRecord) -> Option<LiveWorkflow> {
        let id = record
            .key
            .as_deref()?
            .strip_prefix(self.name())?
            .strip_prefix('/')?
            .to_owned();
        let stopped = is_stopped(&record);
        (!stopped).then_some(LiveWorkflow {
            id,
            run: record.run,
            workflow: record.workflow,
            status: record.status,
        })
    }

    /// The queue that runs of this runner wait in.
    pub(super) fn queue(&self) -> QueueName {
        QueueName::parse(self.name()).expect("the name was checked when the runner was built")
    }
}
