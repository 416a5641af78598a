//! Mailboxes of a store: sending, looking, mending, and consumers that handle messages.

use std::sync::Arc;

use lope_mailbox::time::StoreClock;
use lope_mailbox::{Boot, BootError, Consumer, ConsumerConfig, Handler, Mailbox};
use lope_store::StoreResult;

use super::Client;
use crate::mailbox::{WorkflowHandler, WorkflowSource};

impl Client {
    /// The mailboxes: send, list, timers, dead letters, replay, drop, statistics.
    pub async fn mailbox(&self) -> Result<Mailbox, BootError> {
        Mailbox::open(Arc::clone(&self.store().tables), &Boot::default()).await
    }

    /// A consumer of a worker's messages; it is booted by whoever runs it.
    pub fn consumer(&self, handler: Arc<dyn Handler>, config: ConsumerConfig) -> Consumer {
        Consumer::new(Arc::clone(&self.store().tables), handler, config)
    }

    /// The clock that consumers on this store go by.
    pub async fn clock(&self) -> StoreResult<StoreClock> {
        StoreClock::open(Arc::clone(&self.store().upkeep)).await
    }

    /// A handler that starts a run for each message.
    pub fn workflow_handler(&self, source: WorkflowSource) -> WorkflowHandler {
        WorkflowHandler::new(self.clone(), source)
    }
}
