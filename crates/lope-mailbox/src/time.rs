//! Time as it is handed in: a clock, and a way to sleep. The only file of this crate that waits.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use lope_model::{Clock, Span};
use lope_store::SystemClock;

/// A way to wait.
#[async_trait]
pub trait Sleep: Send + Sync + fmt::Debug {
    async fn sleep(&self, span: Span);
}

/// Waits by the runtime's timer.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemSleep;

/// The clock and the sleep of a worker.
#[derive(Clone, Debug)]
pub struct TimeHooks {
    pub clock: Arc<dyn Clock>,
    pub sleep: Arc<dyn Sleep>,
}

#[async_trait]
impl Sleep for SystemSleep {
    async fn sleep(&self, span: Span) {
        tokio::time::sleep(span.to_duration()).await;
    }
}

impl TimeHooks {
    /// This clock, and real sleep.
    pub fn on(clock: Arc<dyn Clock>) -> Self {
        Self { clock, sleep: Arc::new(SystemSleep) }
    }
}

impl Default for TimeHooks {
    /// The machine's clock. Its moments begin with this value: leases of one store must be judged by one clock, so workers in
    /// several processes are given the store's.
    fn default() -> Self {
        Self::on(Arc::new(SystemClock::default()))
    }
}
