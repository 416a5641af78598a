//! The one thread that writes: everything that waits becomes one transaction, and callers are
//! answered after the flush.
//!
//! A job that fails takes its group back; each of the group's jobs is then done alone, so that one
//! failure leaves the others be. Between groups other processes get their turn. Jobs that need no
//! flush make groups of their own.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use lope_store::{StoreError, StoreResult};
use rusqlite::Connection;
use rusqlite::hooks::Wal;
use tokio::sync::{mpsc, oneshot};

use crate::announce::Announcer;
use crate::checkpoint::{self, Checkpointer};
use crate::failure::{self, Worked};
use crate::holder;
use crate::inner::SqliteInner;
use crate::listener;
use crate::locks::WriterLock;
use crate::open_file::OpenFile;
use crate::options::{SqliteOptions, WRITER_QUEUE_MAX};
use crate::tx::{Notices, StoreJob, Tx, job};

/// How long the writer waits for readers to leave the old log before it goes on writing behind it.
const RESTART_PATIENCE: Duration = Duration::from_millis(5);
/// The same, when the log is so long that waiting is better than writing on.
const PRESSURE_PATIENCE: Duration = Duration::from_millis(250);
/// How long a writer waits for SQLite's lock before it says whom it waits for.
const TELL_AFTER: Duration = Duration::from_secs(3);
/// Until we ask again whether another one has copied its pages back.
const COPYING_PAUSE: Duration = Duration::from_millis(1);

/// What the writer is asked to do.
enum WriterMessage {
    Do(Box<dyn StoreJob>),
    /// The same, but it need not outlive the machine.
    DoUnflushed(Box<dyn StoreJob>),
    /// Has another process written?
    Poll,
    Stop(oneshot::Sender<()>),
}

/// The door to the writer's thread. When the last one is dropped, the thread ends.
#[derive(Debug, Clone)]
pub(crate) struct WriterDoor(mpsc::Sender<WriterMessage>);

/// The writer itself.
struct Writer {
    db: Connection,
    /// The file that `db` has open.
    file: OpenFile,
    inner: Arc<SqliteInner>,
    queue: mpsc::Receiver<WriterMessage>,
    writers: Arc<WriterLock>,
    checkpointer: Checkpointer,
    announcer: Announcer,
    seen: i64,
    /// Was anything written here? What only looks leaves the file as it is.
    has_written: bool,
    /// Is every transaction flushed before it is answered?
    flushes: bool,
    /// A message that was taken out of the queue while a group was being filled.
    held_back: Option<WriterMessage>,
}

impl WriterDoor {
    /// Do something in a transaction; the answer comes when it is durable.
    pub(crate) async fn call<T, F>(&self, rows: usize, verb: F) -> StoreResult<T>
    where
        T: Send + 'static,
        F: FnMut(&Tx<'_>) -> Worked<T> + Send + 'static,
    {
        self.ask(rows, verb, WriterMessage::Do).await
    }

    /// Do something in a transaction that a power failure may take back.
    pub(crate) async fn call_unflushed<T, F>(&self, rows: usize, verb: F) -> StoreResult<T>
    where
        T: Send + 'static,
        F: FnMut(&Tx<'_>) -> Worked<T> + Send + 'static,
    {
        self.ask(rows, verb, WriterMessage::DoUnflushed).await
    }

    async fn ask<T, F>(
        &self,
        rows: usize,
        verb: F,
        how: fn(Box<dyn StoreJob>) -> WriterMessage,
    ) -> StoreResult<T>
    where
        T: Send + 'static,
        F: FnMut(&Tx<'_>) -> Worked<T> + Send + 'static,
    {
        let (job, reply) = job(rows, verb);
        self.0
            .send(how(job))
            .await
            .map_err(|_| StoreError::Closed)?;
        reply.await.unwrap_or(Err(StoreError::Closed))
    }

    /// Have the writer look for changes by other processes, unless it is busy: then it sees them
    /// anyway.
    pub(crate) fn poll(&self) {
        let _ = self.0.try_send(WriterMessage::Poll);
    }

    /// Is the writer gone?
    pub(crate) fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    pub(crate) fn downgrade(&self) -> WeakWriterDoor {
        WeakWriterDoor(self.0.downgrade())
    }

    /// Finish what was asked for so far, and end.
    pub(crate) async fn stop(&self) {
        let (done, ended) = oneshot::channel();
        if self.0.send(WriterMessage::Stop(done)).await.is_ok() {
            let _ = ended.await;
        }
    }
}

/// A door that does not keep the writer alive.
#[derive(Debug, Clone)]
pub(crate) struct WeakWriterDoor(mpsc::WeakSender<WriterMessage>);

impl WeakWriterDoor {
    pub(crate) fn upgrade(&self) -> Option<WriterDoor> {
        self.0.upgrade().map(WriterDoor)
    }
}

/// Start the writer's thread on a connection that is ready. It ends when it is stopped or its last
/// door is dropped.
pub(crate) fn start(db: Connection, inner: Arc<SqliteInner>) -> StoreResult<WriterDoor> {
    let (door, queue) = mpsc::channel(WRITER_QUEUE_MAX);
    let writers = Arc::new(WriterLock::open(&inner.files, inner.options.patience)?);
    let checkpointer = Checkpointer::start(&inner)?;
    db.busy_timeout(lock_patience(&inner.options))
        .map_err(failure::sqlite)?;
    let announcer = Announcer::new(&inner.files);
    let mut writer = Writer {
        file: OpenFile::of(&db, &inner.files),
        db,
        inner,
        queue,
        writers,
        checkpointer,
        announcer,
        seen: 0,
        has_written: false,
        flushes: true,
        held_back: None,
    };
    writer.watch_log()?;
    writer.poll();
    let named = thread::Builder::new().name("lope-sqlite-writer".to_owned());
    named
        .spawn(move || writer.run())
        .map_err(StoreError::unavailable)?;
    Ok(WriterDoor(door))
}

impl Writer {
    fn run(mut self) {
        while let Some(message) = self.held_back.take().or_else(|| self.queue.blocking_recv()) {
            match message {
                WriterMessage::Do(job) => match self.flush(true) {
                    Ok(()) => self.serve(job),
                    Err(error) => refuse(vec![job], &error),
                },
                WriterMessage::DoUnflushed(job) => {
                    // If it cannot go without a flush, it goes with one.
                    let _ = self.flush(false);
                    self.serve(job);
                }
                WriterMessage::Poll => self.poll(),
                WriterMessage::Stop(done) => {
                    self.checkpointer.stop();
                    // What others have meanwhile is not overwritten.
                    let is_ours = self.file.check(&self.db, &self.inner.files).is_ok();
                    if self.has_written && is_ours {
                        checkpoint::finish(&self.db, &self.inner);
                    }
                    drop((self.db, self.queue));
                    let _ = done.send(());
                    return;
                }
            }
        }
        self.checkpointer.stop();
    }

    /// The job and whatever else waits, as one transaction.
    fn serve(&mut self, first: Box<dyn StoreJob>) {
        let mut group = vec![first];
        match self.transact(&mut group, Fill::WithWhatWaits) {
            Ok(notices) => self.settle(group, notices),
            Err(error) if group.len() == 1 || matches!(error, StoreError::Unknown { .. }) => {
                refuse(group, &error);
            }
            Err(_) => group.into_iter().for_each(|job| self.serve_alone(job)),
        }
    }

    /// From now on transactions are flushed before they are answered, or not.
    fn flush(&mut self, flushes: bool) -> StoreResult<()> {
        if self.flushes != flushes {
            let level = if flushes { "FULL" } else { "NORMAL" };
            self.db
                .pragma_update(None, "synchronous", level)
                .map_err(failure::sqlite)?;
            self.flushes = flushes;
        }
        Ok(())
    }

    fn serve_alone(&mut self, job: Box<dyn StoreJob>) {
        let mut group = vec![job];
        match self.transact(&mut group, Fill::No) {
            Ok(notices) => self.settle(group, notices),
            Err(error) => refuse(group, &error),
        }
    }

    fn settle(&mut self, group: Vec<Box<dyn StoreJob>>, notices: Notices) {
        self.has_written = true;
        for job in group {
            job.settle(Ok(()));
        }
        listener::notify(notices, &self.inner);
        if notices.any() {
            let own = self.inner.runner_locks.socket();
            self.announcer
                .announce(notices, own.as_ref().map(|socket| socket.path.as_path()));
        }
        self.checkpointer.consider();
    }

    fn transact(&mut self, group: &mut Vec<Box<dyn StoreJob>>, fill: Fill) -> StoreResult<Notices> {
        let inner = Arc::clone(&self.inner);
        let writers = Arc::clone(&self.writers);
        let asked = Instant::now();
        let _turn = writers.enter()?;
        self.file.check(&self.db, &inner.files)?;
        self.relieve_log()?;
        self.begin(asked)?;
        self.poll();
        let worked = self.work(&inner, group, fill).map_err(StoreError::from);
        let done = worked.and_then(|notices| {
            self.execute("COMMIT")
                .map(|()| notices)
                .map_err(failure::commit)
        });
        if !inner.options.slower_flush.is_zero() {
            thread::sleep(inner.options.slower_flush);
        }
        if done.is_err() && !self.db.is_autocommit() {
            self.execute("ROLLBACK").map_err(failure::sqlite)?;
        }
        done
    }

    /// Wait for SQLite's write lock as long as patience lasts. Whoever stands in the way for a while
    /// is named meanwhile.
    fn begin(&self, asked: Instant) -> StoreResult<()> {
        let SqliteInner { files, options, .. } = &*self.inner;
        let mut is_told = false;
        loop {
            match self.execute("BEGIN IMMEDIATE") {
                Err(error) if !failure::is_busy(&error) => return Err(failure::sqlite(error)),
                Err(_) if asked.elapsed() >= options.patience => {
                    return Err(holder::kept_out(files, asked.elapsed()));
                }
                Err(_) if !is_told => {
                    tracing::warn!("{}", holder::waited_for(files, asked.elapsed()));
                    is_told = true;
                }
                Err(_) => {}
                Ok(()) => return Ok(()),
            }
        }
    }

    fn work(
        &mut self,
        inner: &SqliteInner,
        group: &mut Vec<Box<dyn StoreJob>>,
        fill: Fill,
    ) -> Worked<Notices> {
        let limits = inner.options.group;
        let began = Instant::now();
        let mut notices = Notices::default();
        let (mut rows, mut next) = (0, 0);
        while let Some(job) = group.get_mut(next) {
            let tx = Tx::new(&self.db, inner);
            job.work(&tx)?;
            notices = notices.and(tx.notices());
            rows += job.rows();
            next += 1;
            let room = rows < limits.rows && began.elapsed() < limits.time;
            if fill == Fill::WithWhatWaits && room && next == group.len() {
                group.extend(self.next_waiting());
            }
        }
        Ok(notices)
    }

    /// The next job that waits; anything else is held back until the group is done.
    fn next_waiting(&mut self) -> Option<Box<dyn StoreJob>> {
        loop {
            if self.held_back.is_some() {
                return None;
            }
            match self.queue.try_recv().ok()? {
                // What may go without a flush may also go with one.
                WriterMessage::DoUnflushed(job) => return Some(job),
                WriterMessage::Do(job) if self.flushes => return Some(job),
                WriterMessage::Poll => {}
                other @ (WriterMessage::Do(_) | WriterMessage::Stop(_)) => {
                    self.held_back = Some(other);
                }
            }
        }
    }

    fn execute(&self, sql: &str) -> rusqlite::Result<()> {
        self.db.prepare_cached(sql)?.execute([]).map(|_| ())
    }

    /// Notify the watchers if another process has written since we last looked.
    fn poll(&mut self) {
        let read = self
            .db
            .prepare_cached("PRAGMA data_version")
            .and_then(|mut version| version.query_row([], |row| row.get::<_, i64>(0)));
        if let Ok(version) = read
            && version != std::mem::replace(&mut self.seen, version)
        {
            self.inner.notifiers.notify_all_doors();
        }
    }

    fn watch_log(&mut self) -> StoreResult<()> {
        let inner = Arc::clone(&self.inner);
        let hook = move |_: &mut Wal, pages: i32| {
            inner
                .log
                .pages
                .store(pages.cast_unsigned(), Ordering::Relaxed);
            Ok(())
        };
        self.db.wal_hook(Some(hook)).map_err(failure::sqlite)
    }

    /// Start the log over when that is cheap, wait when it has grown long, refuse when it must not
    /// grow further.
    fn relieve_log(&mut self) -> StoreResult<()> {
        let pages = self.inner.log.pages.load(Ordering::Relaxed);
        let limits = self.inner.options.wal;
        let spent = self.inner.log.spent.swap(false, Ordering::Relaxed);
        if pages < limits.pressure && !spent {
            return Ok(());
        }
        let patience = if pages < limits.pressure {
            RESTART_PATIENCE
        } else {
            PRESSURE_PATIENCE
        };
        let left = self.restart_log(patience, pages).map_err(failure::sqlite)?;
        self.inner.log.pages.store(left, Ordering::Relaxed);
        if left >= limits.stop {
            let message = format!(
                "the write-ahead log has {left} pages and cannot start over: a reader keeps an old snapshot"
            );
            return Err(StoreError::Unavailable { message });
        }
        Ok(())
    }

    /// The pages of the log that are still needed: none, if it will start over. While another one
    /// copies pages back, SQLite neither waits nor tells how many there are: we ask again, and in
    /// the end believe that there are as many as we `know` of.
    fn restart_log(&self, patience: Duration, known: u32) -> rusqlite::Result<u32> {
        self.db.busy_timeout(patience)?;
        let started = Instant::now();
        let tried = loop {
            let tried = self.try_restart();
            let copying = matches!(&tried, Ok(LogRestart::AnotherCopies));
            if !copying || started.elapsed() >= patience {
                break tried;
            }
            thread::sleep(COPYING_PAUSE);
        };
        self.db.busy_timeout(lock_patience(&self.inner.options))?;
        Ok(match tried? {
            LogRestart::StartsOver => 0,
            LogRestart::StillNeeded(pages) => pages,
            LogRestart::AnotherCopies => known,
        })
    }

    fn try_restart(&self) -> rusqlite::Result<LogRestart> {
        self.db
            .query_row("PRAGMA wal_checkpoint(RESTART)", [], |row| {
                let busy: i64 = row.get(0)?;
                let pages: i64 = row.get(1)?;
                Ok(match u32::try_from(pages) {
                    _ if busy == 0 => LogRestart::StartsOver,
                    Ok(pages) => LogRestart::StillNeeded(pages),
                    Err(_) => LogRestart::AnotherCopies,
                })
            })
    }
}

/// How long SQLite waits for its lock before we look who has it.
fn lock_patience(options: &SqliteOptions) -> Duration {
    options.patience.min(TELL_AFTER)
}

/// What became of an attempt to start the log over.
enum LogRestart {
    StartsOver,
    StillNeeded(u32),
    AnotherCopies,
}

/// May other jobs join a transaction?
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fill {
    WithWhatWaits,
    No,
}

fn refuse(group: Vec<Box<dyn StoreJob>>, error: &StoreError) {
    for job in group {
        job.settle(Err(error.clone()));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use tempfile::TempDir;

    use super::*;
    use crate::files::StoreFiles;
    use crate::{connection, migrate};

    fn writer() -> (TempDir, WriterDoor) {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteOptions::new(folder.path().join("lope.db"));
        let files = StoreFiles::find(&options.path).unwrap();
        files.create().unwrap();
        let mut db = connection::writer(&files, options.patience).unwrap();
        migrate::bring_up(
            &mut db,
            &WriterLock::open(&files, options.patience).unwrap(),
        )
        .unwrap();
        (
            folder,
            start(db, Arc::new(SqliteInner::new(files, options))).unwrap(),
        )
    }

    fn put(tx: &Tx<'_>, key: &str) -> Worked<()> {
        tx.statement("INSERT INTO meta (key, value) VALUES (?1, '')")?
            .execute([key])?;
        Ok(())
    }

    async fn keys(door: &WriterDoor) -> Vec<String> {
        let read = |tx: &Tx<'_>| {
            let mut keys =
                tx.statement("SELECT key FROM meta WHERE key <> 'schema_version' ORDER BY key")?;
            let found = keys
                .query_map([], |row| row.get(0))?
                .collect::<rusqlite::Result<Vec<String>>>()?;
            Ok(found)
        };
        door.call(0, read).await.unwrap()
    }

    /// The first job waits inside the transaction until the others are in the queue, so all of them
    /// are one group.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_job_that_fails_takes_only_itself_back() {
        let (_folder, door) = writer();
        let (go, gate) = mpsc::channel::<()>();
        let first = door.call(1, move |tx| {
            // Done again alone, it need not wait: the sender is gone.
            let _ = gate.recv();
            put(tx, "first")
        });
        let refused = door.call(1, |tx| {
            put(tx, "refused")?;
            Err::<(), _>(StoreError::refused("no").into())
        });
        let panicked = door.call(1, |tx| -> Worked<()> {
            put(tx, "panicked")?;
            panic!("on purpose")
        });
        let doubled = door.call(1, |tx| put(tx, "first"));
        let last = door.call(1, |tx| put(tx, "last"));
        let all = async { tokio::join!(first, refused, panicked, doubled, last) };
        let queue = door.0.clone();
        let opener = async move {
            while queue.capacity() + 4 > queue.max_capacity() {
                tokio::task::yield_now().await;
            }
            drop(go);
        };
        let ((first, refused, panicked, doubled, last), ()) = tokio::join!(all, opener);
        assert_eq!((first, last), (Ok(()), Ok(())));
        assert!(
            matches!(refused, Err(StoreError::Refused { .. })),
            "{refused:?}"
        );
        assert!(
            matches!(panicked, Err(StoreError::Refused { .. })),
            "{panicked:?}"
        );
        assert!(
            matches!(doubled, Err(StoreError::Corrupt { .. })),
            "{doubled:?}"
        );
        assert_eq!(keys(&door).await, ["first", "last"]);
    }

    /// What a power failure may take back never carries along what it may not.
    #[tokio::test(flavor = "multi_thread")]
    async fn what_needs_a_flush_gets_one_whatever_waits_beside_it() {
        const NORMAL: i64 = 1;
        const FULL: i64 = 2;
        let (_folder, door) = writer();
        let level = |tx: &Tx<'_>| {
            Ok(tx
                .db
                .query_row("PRAGMA synchronous", [], |row| row.get::<_, i64>(0))?)
        };
        let (go, gate) = mpsc::channel::<()>();
        let first = door.call_unflushed(1, move |tx| {
            let _ = gate.recv();
            level(tx)
        });
        let behind = async {
            tokio::join!(
                door.call_unflushed(1, level),
                door.call(1, level),
                door.call_unflushed(1, level)
            )
        };
        let queue = door.0.clone();
        let opener = async move {
            while queue.capacity() + 3 > queue.max_capacity() {
                tokio::task::yield_now().await;
            }
            drop(go);
        };
        let (first, (second, flushed, last), ()) = tokio::join!(first, behind, opener);
        assert_eq!((first, second, flushed), (Ok(NORMAL), Ok(NORMAL), Ok(FULL)));
        assert_eq!(last, Ok(FULL), "it joined a group that is flushed");
    }

    #[tokio::test]
    async fn a_stopped_writer_finishes_what_came_before() {
        let (_folder, door) = writer();
        let before = door.call(1, |tx| put(tx, "before"));
        let (before, ()) = tokio::join!(before, door.stop());
        assert_eq!(before, Ok(()));
        assert_eq!(
            door.call(1, |tx| put(tx, "after")).await,
            Err(StoreError::Closed)
        );
    }
}
