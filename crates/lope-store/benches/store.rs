//! The figures of the store in memory: guarded table operations on one thread without a runtime,
//! commits, journal rows, and claims out of short and long queues. Wanted: a million guarded
//! operations a second.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use lope_model::Digest;
use lope_store::bench::{Figure, Stopwatch, claim, committers, fill, fsync_probe, journal_rows};
use lope_store::tables::{At, Batch, Guard, TableId, Write};
use lope_store::{MemoryStore, Store, StoreResult};

const KEYS: u64 = 10_000;
const OPERATIONS: u64 = 1_000_000;
const REPEATS: usize = 9;

fn main() -> StoreResult<()> {
    match fsync_probe(&std::env::temp_dir()) {
        Ok(probe) => println!("fsync probe: {probe:?} (the memory flushes nothing)"),
        Err(error) => println!("fsync probe: {error}"),
    }
    for batches in [1, 100] {
        println!(
            "guarded writes, {batches:>3} a call       {}",
            guarded(batches, false)?
        );
        println!(
            "  with a scope, {batches:>3} a call       {}",
            guarded(batches, true)?
        );
    }
    println!("guarded by digest,   1 a call       {}", by_digest()?);
    println!("created and deleted, 1 a call       {}", created()?);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .build()
        .expect("a runtime starts");
    runtime.block_on(runs())
}

/// The memory answers at once: one poll is enough, and no runtime is in the way.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("the memory waits for nothing"),
    }
}

fn key(table: TableId, number: u64) -> At {
    At::new(table, (number % KEYS).to_be_bytes())
}

fn value(number: u64) -> Vec<u8> {
    vec![number as u8; 32]
}

fn filled(table: TableId) -> StoreResult<Store> {
    let store = MemoryStore::open();
    let writes = (0..KEYS)
        .map(|number| Write::Put(key(table, number), value(0)))
        .collect();
    at_once(store.tables.commit(vec![Batch {
        guards: vec![],
        writes,
    }]))?;
    Ok(store)
}

/// Each operation: the key holds what we read, then it holds something else.
fn guarded(batches: u64, scoped: bool) -> StoreResult<Figure> {
    let table = if scoped {
        TableId::APP_STATE
    } else {
        TableId::INBOX
    };
    let store = filled(table)?;
    let operation = |number: u64| Batch {
        guards: vec![Guard::Equals(key(table, number), value(number / KEYS))],
        writes: vec![Write::Put(key(table, number), value(number / KEYS + 1))],
    };
    let watch = Stopwatch::start();
    for call in 0..OPERATIONS / batches {
        let numbers = call * batches..(call + 1) * batches;
        let replies = at_once(store.tables.commit(numbers.map(operation).collect()))?;
        assert!(replies.iter().all(Result::is_ok), "every guard holds");
    }
    Ok(watch.stop(OPERATIONS))
}

fn by_digest() -> StoreResult<Figure> {
    let store = filled(TableId::INBOX)?;
    let digest = Digest::of(&value(0));
    let watch = Stopwatch::start();
    for number in 0..OPERATIONS {
        let at = key(TableId::INBOX, number);
        let batch = Batch {
            guards: vec![Guard::Unchanged(at.clone(), digest)],
            writes: vec![Write::Put(at, value(0))],
        };
        assert!(at_once(store.tables.commit(vec![batch]))?[0].is_ok());
    }
    Ok(watch.stop(OPERATIONS))
}

fn created() -> StoreResult<Figure> {
    let store = MemoryStore::open();
    let watch = Stopwatch::start();
    for number in 0..OPERATIONS / 2 {
        let at = key(TableId::INBOX, number);
        let create = Batch {
            guards: vec![Guard::Absent(at.clone())],
            writes: vec![Write::Create(at.clone(), value(1))],
        };
        let delete = Batch {
            guards: vec![Guard::Equals(at.clone(), value(1))],
            writes: vec![Write::Delete(at)],
        };
        for batch in [create, delete] {
            assert!(at_once(store.tables.commit(vec![batch]))?[0].is_ok());
        }
    }
    Ok(watch.stop(OPERATIONS))
}

async fn runs() -> StoreResult<()> {
    println!(
        "commits, one at a time              {}",
        committers(&MemoryStore::open(), 1, 100_000).await?
    );
    println!(
        "commits, 64 at once                 {}",
        committers(&MemoryStore::open(), 64, 5_000).await?
    );
    println!(
        "journal rows, 1,000 a call          {}",
        journal_rows(&MemoryStore::open(), 100, 1_000, 500).await?
    );
    for queued in [10_000, 1_000_000] {
        let store = MemoryStore::open();
        fill(&store, queued).await?;
        let mut figures = Vec::new();
        for _ in 0..REPEATS {
            figures.push(claim(&store, 500).await?);
        }
        figures.sort_by_key(|figure| figure.wall);
        let median = figures[REPEATS / 2];
        println!(
            "claim 500 out of {queued:>9}          {median}  ({:?} a claim)",
            median.wall
        );
    }
    Ok(())
}
