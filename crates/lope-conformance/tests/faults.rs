//! A store that fails when it is told to, and otherwise is the store behind it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use lope_conformance::{Harness, StoreSite};
use lope_model::{Clock, Span};
use lope_store::faults::{Door, InjectedFault, StoreCall, with_faults};
use lope_store::tables::{At, Batch, Range, TableId, Write};
use lope_store::{ManualClock, MemoryStore, Store, StoreError, StoreResult, SystemClock};

struct Hooked;

struct HookedPlace {
    clock: Arc<ManualClock>,
    memory: MemoryStore,
}

#[async_trait]
impl Harness for Hooked {
    async fn fresh(&self) -> Arc<dyn StoreSite> {
        let clock = Arc::new(ManualClock::default());
        let memory = MemoryStore::new(Arc::clone(&clock) as Arc<dyn Clock>);
        Arc::new(HookedPlace { clock, memory })
    }
}

#[async_trait]
impl StoreSite for HookedPlace {
    async fn open(&self) -> Store {
        with_faults(self.memory.handle(), Arc::new(|_| InjectedFault::None))
    }

    async fn pass(&self, span: Span) {
        self.clock.pass(span);
    }
}

#[test]
fn without_a_fault_it_keeps_every_promise_of_the_store_behind_it() {
    lope_conformance::run(Hooked);
}

/// Puts a key; the calls are numbered from 0.
async fn put(store: &Store, key: u8) -> StoreResult<()> {
    let batch = Batch {
        guards: vec![],
        writes: vec![Write::Put(At::new(TableId::INBOX, [key]), vec![])],
    };
    store.tables.commit(vec![batch]).await.map(drop)
}

async fn keys(store: &Store) -> u64 {
    store
        .tables
        .count(Range::whole(TableId::INBOX))
        .await
        .expect("the store behind is up")
}

/// A memory, and a store on it whose call number 1 has a fault.
fn second_call(fault: fn() -> InjectedFault) -> (Store, Store) {
    let memory = MemoryStore::new(Arc::new(SystemClock::default()));
    let hook = move |call: StoreCall| {
        if call.number == 1 {
            fault()
        } else {
            InjectedFault::None
        }
    };
    (
        memory.handle(),
        with_faults(memory.handle(), Arc::new(hook)),
    )
}

#[tokio::test]
async fn a_failed_call_is_not_made() {
    let (behind, store) =
        second_call(|| InjectedFault::Fail(StoreError::unavailable("gone fishing")));
    put(&store, 1).await.unwrap();
    assert!(matches!(
        put(&store, 2).await,
        Err(StoreError::Unavailable { .. })
    ));
    put(&store, 3).await.unwrap();
    assert_eq!(keys(&behind).await, 2);
}

#[tokio::test]
async fn a_lost_answer_leaves_the_call_made() {
    let (behind, store) = second_call(|| InjectedFault::LoseAnswer);
    put(&store, 1).await.unwrap();
    assert!(matches!(
        put(&store, 2).await,
        Err(StoreError::Unknown { .. })
    ));
    put(&store, 3).await.unwrap();
    assert_eq!(keys(&behind).await, 3);
}

#[tokio::test]
async fn after_a_crash_everything_is_closed_but_what_stands_behind_remains() {
    for (fault, made) in [
        ((|| InjectedFault::CrashBefore) as fn() -> InjectedFault, 1),
        (|| InjectedFault::CrashAfter, 2),
    ] {
        let (behind, store) = second_call(fault);
        put(&store, 1).await.unwrap();
        for key in 2..5 {
            assert!(matches!(put(&store, key).await, Err(StoreError::Closed)));
        }
        assert!(matches!(store.runs.counts().await, Err(StoreError::Closed)));
        assert_eq!(keys(&behind).await, made);
    }
}

#[tokio::test]
async fn the_hook_sees_every_call() {
    let seen = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&seen);
    let hook = move |call: StoreCall| {
        let expected = [
            (Door::Tables, "count"),
            (Door::Runs, "counts"),
            (Door::Upkeep, "check"),
        ];
        assert_eq!((call.door, call.verb), expected[call.number as usize]);
        counter.fetch_add(1, Ordering::Relaxed);
        InjectedFault::None
    };
    let store = with_faults(MemoryStore::open(), Arc::new(hook));
    keys(&store).await;
    store.runs.counts().await.unwrap();
    store.upkeep.check().await.unwrap();
    assert_eq!(seen.load(Ordering::Relaxed), 3);
}
