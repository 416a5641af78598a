//! Upkeep that nobody asks for: the partitions of coming weeks are made in time. One task, which
//! ends with the store.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinHandle;

use crate::failure::Worked;
use crate::options::Access;
use crate::partition;
use crate::pool::Connector;

/// Partitions are made weeks ahead, so looking now and then is enough.
const POLL: Duration = Duration::from_hours(6);

#[derive(Debug)]
pub(crate) struct PartitionTask(Mutex<Option<JoinHandle<()>>>);

impl PartitionTask {
    /// Nobody looks after a store that may not be written.
    pub(crate) fn start(connector: Arc<Connector>, access: Access) -> Self {
        let task = (access == Access::ReadWrite).then(|| tokio::spawn(look_after(connector)));
        Self(Mutex::new(task))
    }

    pub(crate) async fn close(&self) {
        let task = self
            .0
            .lock()
            .expect("nobody panics while holding it")
            .take();
        if let Some(task) = task {
            task.abort();
            // Aborted on purpose.
            let _ = task.await;
        }
    }
}

impl Drop for PartitionTask {
    fn drop(&mut self) {
        if let Some(task) = self
            .0
            .lock()
            .expect("nobody panics while holding it")
            .take()
        {
            task.abort();
        }
    }
}

async fn look_after(connector: Arc<Connector>) {
    loop {
        if let Err(fault) = keep_ahead(&connector).await {
            tracing::debug!(error = %fault.error, "partitions could not be made; the next look tries again");
        }
        tokio::time::sleep(POLL).await;
    }
}

async fn keep_ahead(connector: &Connector) -> Worked<()> {
    let db = connector.connect().await?;
    partition::keep_ahead(&db).await
}
