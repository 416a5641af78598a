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
    inbox: mpsc::Sender<ReaderMessage>,
    threads: usize,
}

type Inbox = Arc<Mutex<mpsc::Receiver<ReaderMessage>>>;

impl ReadersDoor {
    /// Look at the store in one snapshot.
    pub(crate) async fn call<T, F>(&self, verb: F) -> StoreResult<T>
    where
        T: Send + 'static,
        F: FnMut(&Tx<'_>) -> Worked<T> + Send + 'static,
    {
        let (job, reply) = job(0, verb);
        self.inbox
            .send(ReaderMessage::Do(job))
            .await
            .map_err(|_| StoreError::Closed)?;
        reply.await.unwrap_or(Err(StoreError::Closed))
    }

    /// Finish what was asked for so far, and end every thread.
    pub(crate) async fn stop(&self) {
        for _ in 0..self.threads {
            // They may have ended before.
            let _ = self.inbox.send(ReaderMessage::Stop).await;
        }
        self.inbox.closed().await;
    }
}

/// Start a thread for each connection. They end when they are stopped or the last door is dropped.
pub(crate) fn start(
    connections: Vec<Connection>,
    inner: &Arc<SqliteInner>,
) -> StoreResult<ReadersDoor> {
    let (door, inbox) = mpsc::channel(READER_QUEUE_MAX);
    let inbox = Arc::new(Mutex::new(inbox));
    let threads = connections.len();
    for db in connections {
        let inner = Arc::clone(inner);
        let inbox = Arc::clone(&inbox);
        let named = thread::Builder::new().name("lope-sqlite-reader".to_owned());
        named
            .spawn(move || read(&db, &inner, &inbox))
            .map_err(StoreError::unavailable)?;
    }
    Ok(ReadersDoor {
        inbox: door,
        threads,
    })
}

fn read(db: &Connection, inner: &SqliteInner, inbox: &Inbox) {
    while let Some(mut job) = next(inbox) {
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

fn next(inbox: &Inbox) -> Option<Box<dyn StoreJob>> {
    match inbox
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
    if !db.is_autocommit() {
        db.prepare_cached("COMMIT")?.execute([])?;
    }
    read
}
