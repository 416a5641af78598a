//! The store in memory keeps every promise, on a clock moved by hand and on the machine's.

use std::sync::Arc;

use async_trait::async_trait;
use lope_model::{Clock, Span};
use lope_store::conformance::{self, Harness, Place};
use lope_store::{ManualClock, MemoryStore, Store, SystemClock};

struct ByHand;

struct OnManualClock {
    clock: Arc<ManualClock>,
    memory: MemoryStore,
}

#[async_trait]
impl Harness for ByHand {
    async fn fresh(&self) -> Arc<dyn Place> {
        let clock = Arc::new(ManualClock::default());
        let memory = MemoryStore::new(Arc::clone(&clock) as Arc<dyn Clock>);
        Arc::new(OnManualClock { clock, memory })
    }
}

#[async_trait]
impl Place for OnManualClock {
    async fn open(&self) -> Store {
        self.memory.handle()
    }

    async fn pass(&self, span: Span) {
        self.clock.pass(span);
    }
}

struct InRealTime;

struct OnSystemClock(MemoryStore);

#[async_trait]
impl Harness for InRealTime {
    async fn fresh(&self) -> Arc<dyn Place> {
        Arc::new(OnSystemClock(MemoryStore::new(Arc::new(SystemClock::default()))))
    }
}

#[async_trait]
impl Place for OnSystemClock {
    async fn open(&self) -> Store {
        self.0.handle()
    }
}

#[test]
fn memory_keeps_every_promise() {
    conformance::run(ByHand);
}

#[test]
fn memory_keeps_every_promise_in_real_time() {
    conformance::run(InRealTime);
}
