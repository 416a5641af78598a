//! Copying the write-ahead log back into the database, beside the writers: one process at a time, elected by a lock file.
//!
//! A process without runners leaves it to those that have some, unless the log has grown long. The writer itself starts the
//! log over when this thread says that it is spent.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use lope_store::{StoreError, StoreResult};
use rusqlite::Connection;

use crate::connection;
use crate::failure;
use crate::house::House;
use crate::locks;

/// So few pages may be left to copy when the writer starts the log over.
const SPENT_REST: i64 = 1_024;

/// The door to the checkpointing thread.
#[derive(Debug)]
pub(crate) struct Checkpointer {
    house: Arc<House>,
    bell: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
    /// At this length of the log the next pass is due.
    due: u32,
}

impl Checkpointer {
    /// Start the thread; it sleeps until the log is long, and ends in `stop`.
    pub(crate) fn start(house: &Arc<House>) -> StoreResult<Self> {
        let (bell, rung) = sync_channel(1);
        let theirs = Arc::clone(house);
        let named = thread::Builder::new().name("lope-sqlite-checkpoint".to_owned());
        let thread = named.spawn(move || run(&theirs, &rung)).map_err(StoreError::unavailable)?;
        Ok(Self { house: Arc::clone(house), bell: Some(bell), thread: Some(thread), due: 0 })
    }

    /// Wake the thread if the log has grown enough since its last pass.
    pub(crate) fn consider(&mut self) {
        let limits = self.house.options.wal;
        let step = if self.house.seats.any() { limits.checkpoint } else { limits.pressure };
        let pages = self.house.log.pages.load(Ordering::Relaxed);
        if pages < step {
            self.due = step;
        } else if pages >= self.due {
            self.due = pages.saturating_add(step);
            // A full channel means that a pass is due already.
            let _ = self.bell.as_ref().map(|bell| bell.try_send(()));
        }
    }

    /// Let the pass under way finish, and end the thread.
    pub(crate) fn stop(&mut self) {
        self.bell = None;
        if let Some(thread) = self.thread.take() {
            // A panic there was reported there.
            let _ = thread.join();
        }
    }
}

fn run(house: &House, rung: &Receiver<()>) {
    let mut db = None;
    while rung.recv().is_ok() {
        match pass(house, &mut db) {
            Ok(()) => {}
            Err(error) => tracing::warn!(%error, "the write-ahead log could not be copied back"),
        }
    }
}

/// One pass, if no other process is at it.
fn pass(house: &House, db: &mut Option<Connection>) -> StoreResult<()> {
    let Some(_elected) = locks::try_hold(&house.place.beside("-checkpoint.lock"))? else { return Ok(()) };
    let db = match db {
        Some(db) => db,
        None => db.insert(connection::writer(&house.place, house.options.patience)?),
    };
    let passed = db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| Ok((row.get(1)?, row.get(2)?)));
    let (pages, copied): (i64, i64) = passed.map_err(failure::sqlite)?;
    if pages > 0 && pages - copied <= SPENT_REST {
        house.log.spent.store(true, Ordering::Relaxed);
    }
    Ok(())
}
