//! Copying the write-ahead log back into the database, beside the writers: one process at a time,
//! elected by a lock file.
//!
//! A process without runners leaves it to those that have some, unless the log has grown long. The
//! writer itself starts the log over when this thread says that it is spent.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lope_store::{StoreError, StoreResult};
use rusqlite::Connection;

use crate::connection;
use crate::failure;
use crate::inner::SqliteInner;
use crate::locks;

/// So few pages may be left to copy when the writer starts the log over.
const SPENT_REST: i64 = 1_024;
/// How long a store that is closed waits for readers of other processes.
const FINISH_PATIENCE: Duration = Duration::from_millis(250);

/// The door to the checkpointing thread.
#[derive(Debug)]
pub(crate) struct Checkpointer {
    inner: Arc<SqliteInner>,
    notifier: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
    /// At this length of the log the next pass is due.
    due: u32,
}

impl Checkpointer {
    /// Start the thread; it sleeps until the log is long, and ends in `stop`.
    pub(crate) fn start(inner: &Arc<SqliteInner>) -> StoreResult<Self> {
        let (notifier, requested) = sync_channel(1);
        let theirs = Arc::clone(inner);
        let named = thread::Builder::new().name("lope-sqlite-checkpoint".to_owned());
        let thread = named
            .spawn(move || run(&theirs, &requested))
            .map_err(StoreError::unavailable)?;
        Ok(Self {
            inner: Arc::clone(inner),
            notifier: Some(notifier),
            thread: Some(thread),
            due: 0,
        })
    }

    /// Wake the thread if the log has grown enough since its last pass.
    pub(crate) fn consider(&mut self) {
        let limits = self.inner.options.wal;
        let step = if self.inner.runner_locks.any() {
            limits.checkpoint
        } else {
            limits.pressure
        };
        let pages = self.inner.log.pages.load(Ordering::Relaxed);
        if pages < step {
            self.due = step;
        } else if pages >= self.due {
            self.due = pages.saturating_add(step);
            // A full channel means that a pass is due already.
            let _ = self.notifier.as_ref().map(|notifier| notifier.try_send(()));
        }
    }

    /// Let the pass under way finish, and end the thread.
    pub(crate) fn stop(&mut self) {
        self.notifier = None;
        if let Some(thread) = self.thread.take() {
            // A panic there was reported there.
            let _ = thread.join();
        }
    }
}

/// Bring the whole log into the database before it is closed, so that a copy of the one file is the
/// store. Where a runner of another process is at work, or somebody still reads, it is left to
/// them.
pub(crate) fn finish(db: &Connection, inner: &SqliteInner) {
    if let Err(error) = try_finish(db, inner) {
        tracing::debug!(%error, "the write-ahead log was not copied back at the end");
    }
}

fn try_finish(db: &Connection, inner: &SqliteInner) -> StoreResult<()> {
    let elected = locks::try_hold(&inner.files.beside("-checkpoint.lock"))?;
    if elected.is_none() || inner.runner_locks.any_elsewhere() {
        return Ok(());
    }
    db.busy_timeout(FINISH_PATIENCE).map_err(failure::sqlite)?;
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        .map_err(failure::sqlite)
}

fn run(inner: &SqliteInner, requested: &Receiver<()>) {
    let mut db = None;
    while requested.recv().is_ok() {
        match pass(inner, &mut db) {
            Ok(()) => {}
            Err(error) => tracing::warn!(%error, "the write-ahead log could not be copied back"),
        }
    }
}

/// One pass, if no other process is at it.
fn pass(inner: &SqliteInner, db: &mut Option<Connection>) -> StoreResult<()> {
    let Some(_elected) = locks::try_hold(&inner.files.beside("-checkpoint.lock"))? else {
        return Ok(());
    };
    let db = match db {
        Some(db) => db,
        None => db.insert(connection::writer(&inner.files, inner.options.patience)?),
    };
    let passed = db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| {
        Ok((row.get(1)?, row.get(2)?))
    });
    let (pages, copied): (i64, i64) = passed.map_err(failure::sqlite)?;
    if pages > 0 && pages - copied <= SPENT_REST {
        inner.log.spent.store(true, Ordering::Relaxed);
    }
    Ok(())
}
