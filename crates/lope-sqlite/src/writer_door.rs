//! The door to the writer: jobs go to its thread, which puts whatever waits into one transaction. A
//! job that finds nobody before it is done on the spot where flushes are quick: waking a thread
//! would cost more than the flush.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;

use lope_store::{StoreError, StoreResult};
use tokio::sync::{mpsc, oneshot};

use crate::failure::Worked;
use crate::options::WRITER_QUEUE_MAX;
use crate::tx::{StoreJob, Tx, job};
use crate::writer::{Finish, Writer};
use crate::writer_inbox::{Durability, WriterInbox, WriterMessage};

/// Rows that a job may write on the spot: more than one run's step, less than a group.
const SPOT_ROWS: usize = 16;

/// The writer, for its thread or for whoever finds it free. `None`: it has ended.
type WriterCell = Arc<Mutex<Option<Writer>>>;

/// The door to the writer. When the last one is dropped, its thread ends.
#[derive(Debug, Clone)]
pub(crate) struct WriterDoor {
    inbox: mpsc::Sender<WriterMessage>,
    writer: WriterCell,
}

/// A door that does not keep the writer alive.
#[derive(Debug, Clone)]
pub(crate) struct WeakWriterDoor(mpsc::WeakSender<WriterMessage>, Weak<Mutex<Option<Writer>>>);

/// Start the writer's thread. It ends when it is stopped or its last door is dropped.
pub(crate) fn start(writer: Writer) -> StoreResult<WriterDoor> {
    let (inbox, rx) = mpsc::channel(WRITER_QUEUE_MAX);
    let writer = Arc::new(Mutex::new(Some(writer)));
    let cell = Arc::clone(&writer);
    let waiting = WriterInbox::new(rx);
    let named = thread::Builder::new().name("lope-sqlite-writer".to_owned());
    named
        .spawn(move || run(&cell, waiting))
        .map_err(StoreError::unavailable)?;
    Ok(WriterDoor { inbox, writer })
}

impl WriterDoor {
    /// Do something in a transaction; the answer comes when it is as durable as was asked for.
    pub(crate) async fn call<T, F>(
        &self,
        rows: usize,
        durability: Durability,
        verb: F,
    ) -> StoreResult<T>
    where
        T: Send + 'static,
        F: FnMut(&Tx<'_>) -> Worked<T> + Send + 'static,
    {
        let (job, reply) = job(rows, verb);
        self.hand_over(job, durability).await?;
        reply.await.unwrap_or(Err(StoreError::Closed))
    }

    /// The same for what takes no longer than its rows say: on the spot, if nobody is before it.
    pub(crate) async fn call_here<T, F>(
        &self,
        rows: usize,
        durability: Durability,
        verb: F,
    ) -> StoreResult<T>
    where
        T: Send + 'static,
        F: FnMut(&Tx<'_>) -> Worked<T> + Send + 'static,
    {
        let (job, reply) = job(rows, verb);
        if let Some(job) = self.do_on_the_spot(job, durability) {
            self.hand_over(job, durability).await?;
        }
        reply.await.unwrap_or(Err(StoreError::Closed))
    }

    async fn hand_over(&self, job: Box<dyn StoreJob>, durability: Durability) -> StoreResult<()> {
        let message = WriterMessage::Do(job, durability);
        let sent = self.inbox.send(message).await;
        sent.map_err(|_| StoreError::Closed)
    }

    /// How many messages wait for the thread.
    pub(crate) fn waiting(&self) -> usize {
        self.inbox.max_capacity() - self.inbox.capacity()
    }

    /// Given back: it would have to wait for something.
    fn do_on_the_spot(
        &self,
        job: Box<dyn StoreJob>,
        durability: Durability,
    ) -> Option<Box<dyn StoreJob>> {
        if self.waiting() > 0 || job.rows() > SPOT_ROWS {
            return Some(job);
        }
        match self.writer.try_lock() {
            Ok(mut writer) => match &mut *writer {
                Some(writer) => writer.serve_on_the_spot(job, durability),
                None => Some(job),
            },
            Err(_) => Some(job),
        }
    }

    /// Have the writer look for changes by other processes, unless it is busy: then it sees them
    /// anyway.
    pub(crate) fn poll(&self) {
        let _ = self.inbox.try_send(WriterMessage::Poll);
    }

    /// Is the writer gone?
    pub(crate) fn is_closed(&self) -> bool {
        self.inbox.is_closed()
    }

    pub(crate) fn downgrade(&self) -> WeakWriterDoor {
        WeakWriterDoor(self.inbox.downgrade(), Arc::downgrade(&self.writer))
    }

    /// Finish what was asked for so far, and end.
    pub(crate) async fn stop(&self) {
        let (done, ended) = oneshot::channel();
        if self.inbox.send(WriterMessage::Stop(done)).await.is_ok() {
            let _ = ended.await;
        }
    }
}

impl WeakWriterDoor {
    pub(crate) fn upgrade(&self) -> Option<WriterDoor> {
        let (inbox, writer) = (self.0.upgrade()?, self.1.upgrade()?);
        Some(WriterDoor { inbox, writer })
    }
}

fn run(cell: &WriterCell, mut inbox: WriterInbox) {
    let mut stopped = None;
    while let Some(message) = inbox.next() {
        // A verb's panic is caught where it happens, and a transaction that was left is rolled back.
        let mut guard = cell.lock().unwrap_or_else(PoisonError::into_inner);
        let writer = guard.as_mut().expect("this thread alone ends the writer");
        match message {
            WriterMessage::Do(job, durability) => writer.serve(job, durability, &mut inbox),
            WriterMessage::Poll => writer.poll(),
            WriterMessage::Stop(done) => {
                stopped = Some(done);
                break;
            }
        }
    }
    let writer = cell.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(writer) = writer {
        writer.end(if stopped.is_some() {
            Finish::CopyLogBack
        } else {
            Finish::LeaveLog
        });
    }
    drop(inbox);
    if let Some(done) = stopped {
        let _ = done.send(());
    }
}

#[cfg(test)]
mod tests {
    use std::thread::ThreadId;
    use std::time::Duration;

    use tempfile::TempDir;

    use super::*;
    use crate::files::StoreFiles;
    use crate::inner::SqliteInner;
    use crate::locks::WriterLock;
    use crate::options::SqliteOptions;
    use crate::{connection, migrate};

    /// A writer whose commits seem to take this long, and the files it writes.
    fn writer(slower_flush: Duration) -> (TempDir, Arc<SqliteInner>, WriterDoor) {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteOptions {
            slower_flush,
            ..SqliteOptions::new(folder.path().join("lope.db"))
        };
        let files = StoreFiles::find(&options.path).unwrap();
        files.create().unwrap();
        let mut db = connection::writer(&files, options.patience).unwrap();
        let lock = WriterLock::open(&files, options.patience).unwrap();
        migrate::bring_up(&mut db, &lock).unwrap();
        let inner = Arc::new(SqliteInner::new(files, options));
        let mut writer = Writer::new(db, Arc::clone(&inner)).unwrap();
        writer.know_commit_time(slower_flush);
        (folder, inner, start(writer).unwrap())
    }

    async fn worked_by(door: &WriterDoor, rows: usize) -> ThreadId {
        let verb = |_: &Tx<'_>| Ok(thread::current().id());
        door.call_here(rows, Durability::Flushed, verb)
            .await
            .unwrap()
    }

    #[tokio::test]
    async fn a_lone_job_is_done_on_the_spot_where_flushes_are_quick() {
        let own = thread::current().id();
        let (_folder, _inner, door) = writer(Duration::ZERO);
        assert_eq!(worked_by(&door, 1).await, own);
        assert_ne!(worked_by(&door, SPOT_ROWS + 1).await, own, "a long one");
        let verb = |_: &Tx<'_>| Ok(thread::current().id());
        let asked = door.call(1, Durability::Flushed, verb).await.unwrap();
        assert_ne!(asked, own, "one that nobody knows the length of");
        let (_folder, _inner, slow) = writer(Duration::from_millis(2));
        assert_ne!(worked_by(&slow, 1).await, own, "a slow disk");
    }

    /// Another process that writes, or waits for its turn, is not waited for on the caller's thread.
    #[tokio::test]
    async fn a_job_that_would_have_to_wait_is_handed_over() {
        let own = thread::current().id();
        let (_folder, inner, door) = writer(Duration::ZERO);
        let other = WriterLock::open(&inner.files, Duration::from_millis(20)).unwrap();
        let turn = other.enter().unwrap();
        assert_ne!(worked_by(&door, 1).await, own, "its turn");
        drop(turn);
        let foreign = connection::writer(&inner.files, Duration::from_secs(5)).unwrap();
        foreign.execute_batch("BEGIN IMMEDIATE").unwrap();
        let (asked, ()) = tokio::join!(worked_by(&door, 1), async {
            tokio::task::yield_now().await;
            foreign.execute_batch("COMMIT").unwrap();
        });
        assert_ne!(asked, own, "the lock of SQLite");
    }

    #[tokio::test]
    async fn what_fails_on_the_spot_is_told_and_taken_back() {
        let (_folder, _inner, door) = writer(Duration::ZERO);
        let put = |tx: &Tx<'_>| {
            tx.statement("INSERT INTO meta (key, value) VALUES ('once', '')")?
                .execute([])?;
            Ok(())
        };
        let refused = door
            .call_here(1, Durability::Flushed, move |tx| {
                put(tx)?;
                Err::<(), _>(StoreError::refused("no").into())
            })
            .await;
        assert!(
            matches!(refused, Err(StoreError::Refused { .. })),
            "{refused:?}"
        );
        let panicked = door
            .call_here(1, Durability::Flushed, move |tx| -> Worked<()> {
                put(tx)?;
                panic!("on purpose")
            })
            .await;
        assert!(
            matches!(panicked, Err(StoreError::Refused { .. })),
            "{panicked:?}"
        );
        assert_eq!(door.call_here(1, Durability::Flushed, put).await, Ok(()));
        door.stop().await;
        let late = door.call_here(1, Durability::Flushed, put).await;
        assert_eq!(late, Err(StoreError::Closed));
    }
}
