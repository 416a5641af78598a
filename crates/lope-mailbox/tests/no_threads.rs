//! A build without threads: what needs one answers with an error, everything else works. Empty with the feature `threads`;
//! `cargo xtask test` builds it without.
#![cfg(not(feature = "threads"))]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;

use lope_mailbox::frame::{Message, MessageKind};
use lope_mailbox::key::WorkerId;
use lope_mailbox::record::Owner;
use lope_mailbox::time::TimeHooks;
use lope_mailbox::{Config, Crew, Mailbox, Until, Worker, WorkerError, plain};
use lope_store::MemoryStore;

/// "a build without threads answers with an error"
#[tokio::test]
async fn start_and_join_answer_with_an_error_and_the_host_ticks() {
    let store = MemoryStore::open();
    let config = Config::new(WorkerId::new(7).unwrap(), Owner::new("desk").unwrap());
    let handler = Arc::new(plain(|_, _| Ok(())));
    let mut worker = Worker::init(Arc::clone(&store.tables), handler, config, TimeHooks::default()).await.unwrap();
    assert!(matches!(worker.start(), Err(WorkerError::NoThreads)));
    assert!(matches!(worker.join(), Err(WorkerError::NoThreads)));
    let mailbox = Mailbox::new(Arc::clone(&store.tables));
    for id in [b"a", b"b"] {
        mailbox.send(&Message::new(MessageKind::Command, 7, id, b"")).await.unwrap();
        worker.tick().await.unwrap();
    }
    worker.run(Until::Idle).await.unwrap();
    assert_eq!(worker.counters().read().successes, 2);
    let mut crew = Crew::default();
    crew.add(worker);
    assert!(matches!(crew.start(), Err(WorkerError::NoThreads)));
}
