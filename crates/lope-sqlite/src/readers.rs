//! A few threads that read, each on a connection of its own, each read in one short transaction.
//!
//! Reads never wait for the writer and never become writes.

use std::sync::{Arc, Mutex};
use std::thread;

use lope_store::{StoreError, StoreResult};
use rusqlite::Connection;
use tokio::sync::mpsc;

use crate::failure::{self, SqliteFault, Worked};
use crate::inner::SqliteInner;
use crate::options::READER_QUEUE_MAX;
use crate::tx::{StoreJob, Tx, job};

/// How often a read is tried again when other processes stand in its way, each time after the
/// connection's own patience.
const TRIES: usize = 3;

/// What a reader is asked to do.
enum ReaderMessage {
    Do(Box<dyn StoreJob>),
    Stop,
}

/// The door to the readers' threads. When the last one is dropped, they end.
#[derive(Debug, Clone)]
pub(crate) struct ReadersDoor {
    queue: mpsc::Sender<ReaderMessage>,
    threads: usize,
}

type ReaderQueue = Arc<Mutex<mpsc::Receiver<ReaderMessage>>>;

impl ReadersDoor {
    /// Look at the store in one snapshot.
    pub(crate) async fn call<T, F>(&self, verb: F) -> StoreResult<T>
    where
        T: Send + 'static,
        F: FnMut(&Tx<'_>) -> Worked<T> + Send + 'static,
    {
        let (job, reply) = job(0, verb);
        self.queue
            .send(ReaderMessage::Do(job))
            .await
            .map_err(|_| StoreError::Closed)?;
        reply.await.unwrap_or(Err(StoreError::Closed))
    }

    /// Finish what was asked for so far, and end every thread.
    pub(crate) async fn stop(&self) {
        for _ in 0..self.threads {
            // They may have ended before.
            let _ = self.queue.send(ReaderMessage::Stop).await;
        }
        self.queue.closed().await;
    }
}

/// Start a thread for each connection. They end when they are stopped or the last door is dropped.
pub(crate) fn start(
    connections: Vec<Connection>,
    inner: &Arc<SqliteInner>,
) -> StoreResult<ReadersDoor> {
    let (door, queue) = mpsc::channel(READER_QUEUE_MAX);
    let queue = Arc::new(Mutex::new(queue));
    let threads = connections.len();
    for db in connections {
        let inner = Arc::clone(inner);
        let queue = Arc::clone(&queue);
        let named = thread::Builder::new().name("lope-sqlite-reader".to_owned());
        named
            .spawn(move || read(&db, &inner, &queue))
            .map_err(StoreError::unavailable)?;
    }
    Ok(ReadersDoor {
        queue: door,
        threads,
    })
}

fn read(db: &Connection, inner: &SqliteInner, queue: &ReaderQueue) {
    while let Some(mut job) = next(queue) {
        let mut read = transact(db, inner, &mut *job);
        for _ in 1..TRIES {
            match &read {
                Err(SqliteFault::Sqlite(error)) if failure::is_busy(error) => {
                    read = transact(db, inner, &mut *job);
                }
                Ok(()) | Err(_) => break,
            }
        }
        job.settle(read.map_err(StoreError::from));
    }
}

fn next(queue: &ReaderQueue) -> Option<Box<dyn StoreJob>> {
    match queue
        .lock()
        .expect("nobody panics while waiting for a job")
        .blocking_recv()?
    {
        ReaderMessage::Do(job) => Some(job),
        ReaderMessage::Stop => None,
    }
}

fn transact(db: &Connection, inner: &SqliteInner, job: &mut dyn StoreJob) -> Worked<()> {
    db.prepare_cached("BEGIN")?.execute([])?;
    let read = job.work(&Tx::new(db, inner));
    // Nothing was written. One that met a damaged page, and read around it, is rolled back instead.
    if !db.is_autocommit()
        && let Err(error) = db.prepare_cached("COMMIT")?.execute([])
        && !db.is_autocommit()
    {
        return Err(error.into());
    }
    read
}
