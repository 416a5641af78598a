//! An inbox with very many messages: it is counted, listed, claimed from and worked off like a
//! short one, and what it took on the disk is used again. How long each took is printed.
//!
//! Three thousand messages in the normal tests, a million when `LOPE_CHAOS` is `full`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::pipeline;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use lope_mailbox::frame::{Message, MessageKind};
use lope_mailbox::key::WorkerId;
use lope_mailbox::limit::COUNTED_MAX;
use lope_mailbox::record::Owner;
use lope_mailbox::time::{StoreClock, TimeHooks};
use lope_mailbox::{ConsumerConfig, ConsumerLoop, Counting, Depth, Mailbox, Until, plain};
use lope_store::Store;

const WORKER: i64 = 7;
const CHUNK: usize = 5_000;
/// Claims of one message each, before the rest is worked off in batches.
const SINGLES: usize = 10;

fn count() -> usize {
    if pipeline::full() { 1_000_000 } else { 3_000 }
}

async fn fill(mailbox: &Mailbox, count: usize) {
    for begin in (0..count).step_by(CHUNK) {
        let frames = (begin..(begin + CHUNK).min(count)).map(|number| {
            let id = format!("message-{number}");
            Message::new(
                MessageKind::Command,
                WORKER,
                id.as_bytes(),
                b"a payload of thirty-two bytes...",
            )
            .encode()
            .unwrap()
        });
        mailbox.send_frames(frames.collect()).await.unwrap();
    }
}

async fn worker(store: &Store, max_batch: usize) -> ConsumerLoop {
    let owner = Owner::new("many").unwrap();
    let config = ConsumerConfig {
        max_batch,
        ..ConsumerConfig::new(WorkerId::new(WORKER).unwrap(), owner)
    };
    let clock = StoreClock::open(Arc::clone(&store.upkeep)).await.unwrap();
    let handler = Arc::new(plain(|_, _| Ok(())));
    ConsumerLoop::init(
        Arc::clone(&store.tables),
        handler,
        config,
        TimeHooks::on(Arc::new(clock)),
    )
    .await
    .unwrap()
}

/// "A million queued messages: `stats`, `list --limit`, claim and ack stay fast"
async fn work_off(store: &Store, count: usize) {
    let mailbox = Mailbox::new(Arc::clone(&store.tables));
    fill(&mailbox, count).await;
    let began = Instant::now();
    let stats = mailbox.stats(100, Counting::Quick).await.unwrap();
    println!("stats of {count}: {:?}", began.elapsed());
    let of_all = if count > COUNTED_MAX {
        Depth::MoreThan(COUNTED_MAX as u64)
    } else {
        Depth::Exactly(count as u64)
    };
    assert_eq!(
        (stats.inbox, stats.workers[0].inbox.number()),
        (of_all, count as u64)
    );
    let began = Instant::now();
    let exact = mailbox.stats(100, Counting::Exact).await.unwrap();
    println!("exact stats of {count}: {:?}", began.elapsed());
    assert_eq!(
        (exact.inbox, exact.workers[0].inbox),
        (Depth::Exactly(count as u64), Depth::Exactly(count as u64))
    );
    let began = Instant::now();
    let listed = mailbox
        .list(WorkerId::new(WORKER).unwrap(), None, 20)
        .await
        .unwrap();
    println!("list of 20: {:?}", began.elapsed());
    assert_eq!(listed.len(), 20);
    let mut single = worker(store, 1).await;
    let began = Instant::now();
    for _ in 0..SINGLES {
        single.tick().await.unwrap();
    }
    println!(
        "claim and acknowledge one: {:?}",
        began.elapsed() / SINGLES as u32
    );
    single.shutdown().await.unwrap();
    let mut many = worker(store, 1_024).await;
    let began = Instant::now();
    many.run(Until::Idle).await.unwrap();
    println!(
        "the rest: {:.0} a second",
        (count - SINGLES) as f64 / began.elapsed().as_secs_f64()
    );
    let handled = single.counters().read().successes + many.counters().read().successes;
    assert_eq!(
        (
            handled,
            mailbox.stats(9, Counting::Quick).await.unwrap().inbox
        ),
        (count as u64, Depth::Exactly(0))
    );
}

fn size(file: &Path) -> u64 {
    std::fs::metadata(file).unwrap().len()
}

/// "the file shrinks or is reused after draining"
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_sqlite_a_long_inbox_is_like_a_short_one_and_its_file_is_used_again() {
    let folder = tempfile::tempdir().unwrap();
    let place = pipeline::sqlite(folder.path());
    let store = pipeline::open(&place).await;
    let mut sizes = Vec::new();
    for round in 0..3 {
        work_off(&store, count()).await;
        // A copy has as many pages as the store, wherever they are just now: in the file or in its
        // log.
        let copy = folder.path().join(format!("copy{round}"));
        store.upkeep.backup(copy.clone()).await.unwrap();
        sizes.push(size(&copy));
    }
    store.upkeep.close().await.unwrap();
    println!("bytes after each round: {sizes:?}");
    assert!(
        sizes[2] <= sizes[0] + sizes[0] / 4,
        "the store grows: {sizes:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_postgres_a_long_inbox_is_like_a_short_one() {
    let Some(place) = pipeline::postgres() else {
        return;
    };
    let store = pipeline::open(&place).await;
    work_off(&store, count()).await;
    store.upkeep.close().await.unwrap();
}
