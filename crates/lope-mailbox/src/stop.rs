//! A request to stop, from anywhere to one worker or many.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Asks workers to stop: no new work, the current message finishes. Clones ask the same workers.
#[derive(Debug, Clone, Default)]
pub struct StopSignal(Arc<StopFlag>);

#[derive(Debug, Default)]
struct StopFlag {
    is_made: AtomicBool,
    made: Notify,
}

impl StopSignal {
    pub fn request(&self) {
        self.0.is_made.store(true, Ordering::Release);
        self.0.made.notify_waiters();
    }

    pub fn is_requested(&self) -> bool {
        self.0.is_made.load(Ordering::Acquire)
    }

    /// Returns when a stop is requested.
    pub async fn requested(&self) {
        let waiting = self.0.made.notified();
        tokio::pin!(waiting);
        // Listen before looking, so that a request in between is heard.
        waiting.as_mut().enable();
        if !self.is_requested() {
            waiting.await;
        }
    }
}
