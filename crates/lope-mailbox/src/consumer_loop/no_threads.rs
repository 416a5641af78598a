//! A build without threads: what needs one answers with an error, everything else works. Compiled
//! without the feature `threads` alone; `cargo xtask test` does that.

use std::sync::Arc;

use crate::frame::{Message, MessageKind};
use crate::key::WorkerId;
use crate::record::Owner;
use crate::time::TimeHooks;
use crate::{ConsumerConfig, ConsumerLoop, ConsumerLoopError, ConsumerPool, Mailbox, Until, plain};
use lope_store::MemoryStore;

/// "a build without threads answers with an error"
#[tokio::test]
async fn start_and_join_answer_with_an_error_and_the_host_ticks() {
    let store = MemoryStore::open();
    let config = ConsumerConfig::new(WorkerId::new(7).unwrap(), Owner::new("desk").unwrap());
    let handler = Arc::new(plain(|_, _| Ok(())));
    let mut worker = ConsumerLoop::init(
        Arc::clone(&store.tables),
        handler,
        config,
        TimeHooks::default(),
    )
    .await
    .unwrap();
    assert!(matches!(worker.start(), Err(ConsumerLoopError::NoThreads)));
    assert!(matches!(worker.join(), Err(ConsumerLoopError::NoThreads)));
    let mailbox = Mailbox::new(Arc::clone(&store.tables));
    for id in [b"a", b"b"] {
        mailbox
            .send(&Message::new(MessageKind::Command, 7, id, b""))
            .await
            .unwrap();
        worker.tick().await.unwrap();
    }
    worker.run(Until::Idle).await.unwrap();
    assert_eq!(worker.counters().read().successes, 2);
    let mut pool = ConsumerPool::default();
    pool.add(worker);
    assert!(matches!(pool.start(), Err(ConsumerLoopError::NoThreads)));
}
