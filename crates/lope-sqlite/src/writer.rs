//! The writer: everything that waits becomes one transaction, and callers are answered after the
//! flush. One thread at a time works with it.
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

use crate::announce::Announcer;
use crate::checkpoint::{self, Checkpointer};
use crate::failure::{self, Worked};
use crate::holder;
use crate::inner::SqliteInner;
use crate::listener;
use crate::locks::WriterLock;
use crate::open_file::OpenFile;
use crate::options::SqliteOptions;
use crate::tx::{Notices, StoreJob, Tx};
use crate::writer_inbox::{Durability, WriterInbox};

/// How long the writer waits for readers to leave the old log before it goes on writing behind it.
const RESTART_PATIENCE: Duration = Duration::from_millis(5);
/// The same, when the log is so long that waiting is better than writing on.
const PRESSURE_PATIENCE: Duration = Duration::from_millis(250);
/// How long a writer waits for SQLite's lock before it says whom it waits for.
const TELL_AFTER: Duration = Duration::from_secs(3);
/// Until we ask again whether another one has copied its pages back.
const COPYING_PAUSE: Duration = Duration::from_millis(1);
/// Commits that are quicker than this are made on the spot. A slow disk would hold up what else the
/// caller's thread has to do, and gains nothing.
const QUICK_COMMIT: Duration = Duration::from_micros(500);

/// The writer itself.
#[derive(Debug)]
pub(crate) struct Writer {
    db: Connection,
    /// The file that `db` has open.
    file: OpenFile,
    inner: Arc<SqliteInner>,
    writers: Arc<WriterLock>,
    checkpointer: Checkpointer,
    announcer: Announcer,
    seen: i64,
    /// What transactions are at the moment.
    durability: Durability,
    /// How long commits take that are flushed; `None`: there was none yet.
    commit_time: Option<Duration>,
}

impl Writer {
    /// On a connection that is ready.
    pub(crate) fn new(db: Connection, inner: Arc<SqliteInner>) -> StoreResult<Self> {
        let writers = Arc::new(WriterLock::open(&inner.files, inner.options.patience)?);
        let checkpointer = Checkpointer::start(&inner)?;
        db.busy_timeout(lock_patience(&inner.options))
            .map_err(failure::sqlite)?;
        let announcer = Announcer::new(&inner.files);
        let mut writer = Self {
            file: OpenFile::of(&db, &inner.files),
            db,
            inner,
            writers,
            checkpointer,
            announcer,
            seen: 0,
            durability: Durability::Flushed,
            commit_time: None,
        };
        writer.watch_log()?;
        writer.poll();
        Ok(writer)
    }

    /// Nothing more will be written; a writer that was asked to stop leaves everything in the
    /// database file.
    pub(crate) fn end(mut self, finish: Finish) {
        self.checkpointer.stop();
        if finish == Finish::CopyLogBack {
            checkpoint::finish(&self.db, &self.inner);
        }
    }

    /// The job and whatever else waits, as one transaction.
    pub(crate) fn serve(
        &mut self,
        first: Box<dyn StoreJob>,
        durability: Durability,
        inbox: &mut WriterInbox,
    ) {
        let mut group = vec![first];
        if let Err(error) = self.promise(durability) {
            return refuse(group, &error);
        }
        match self.transact(&mut group, Some(inbox)) {
            Ok(notices) => self.settle(group, notices),
            Err(error) if group.len() == 1 || matches!(error, StoreError::Unknown { .. }) => {
                refuse(group, &error);
            }
            Err(_) => group.into_iter().for_each(|job| self.serve_alone(job)),
        }
    }

    /// Do it here and now; given back, if something would have to be waited for.
    pub(crate) fn serve_on_the_spot(
        &mut self,
        job: Box<dyn StoreJob>,
        durability: Durability,
    ) -> Option<Box<dyn StoreJob>> {
        let is_quick = self.commit_time.is_some_and(|time| time < QUICK_COMMIT);
        if !is_quick || self.is_log_due() || self.promise(durability).is_err() {
            return Some(job);
        }
        let mut group = vec![job];
        match self.transact_at_once(&mut group) {
            Some(Ok(notices)) => self.settle(group, notices),
            Some(Err(error)) => refuse(group, &error),
            None => return group.pop(),
        }
        None
    }

    /// From now on transactions are flushed before they are answered, or not. If one cannot go
    /// without a flush, it goes with one.
    fn promise(&mut self, durability: Durability) -> StoreResult<()> {
        if self.durability == durability {
            return Ok(());
        }
        let level = match durability {
            Durability::Flushed => "FULL",
            Durability::Unflushed => "NORMAL",
        };
        match self.db.pragma_update(None, "synchronous", level) {
            Ok(()) => self.durability = durability,
            Err(error) if durability == Durability::Flushed => return Err(failure::sqlite(error)),
            Err(_) => {}
        }
        Ok(())
    }

    fn serve_alone(&mut self, job: Box<dyn StoreJob>) {
        let mut group = vec![job];
        match self.transact(&mut group, None) {
            Ok(notices) => self.settle(group, notices),
            Err(error) => refuse(group, &error),
        }
    }

    fn settle(&mut self, group: Vec<Box<dyn StoreJob>>, notices: Notices) {
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

    fn transact(
        &mut self,
        group: &mut Vec<Box<dyn StoreJob>>,
        inbox: Option<&mut WriterInbox>,
    ) -> StoreResult<Notices> {
        let writers = Arc::clone(&self.writers);
        let asked = Instant::now();
        let _turn = writers.enter()?;
        self.file.check(&self.db, &self.inner.files)?;
        self.relieve_log()?;
        self.begin(asked)?;
        self.carry_out(group, inbox)
    }

    /// The same, without waiting for anybody. `None`: another one is writing.
    fn transact_at_once(
        &mut self,
        group: &mut Vec<Box<dyn StoreJob>>,
    ) -> Option<StoreResult<Notices>> {
        let writers = Arc::clone(&self.writers);
        let _turn = writers.try_enter()?;
        if let Err(error) = self.file.check(&self.db, &self.inner.files) {
            return Some(Err(error));
        }
        self.begin_at_once().ok()?;
        Some(self.carry_out(group, None))
    }

    fn begin_at_once(&self) -> rusqlite::Result<()> {
        self.db.busy_timeout(Duration::ZERO)?;
        let begun = self.execute("BEGIN IMMEDIATE");
        self.db.busy_timeout(lock_patience(&self.inner.options))?;
        begun
    }

    /// The transaction that was begun, to its end.
    fn carry_out(
        &mut self,
        group: &mut Vec<Box<dyn StoreJob>>,
        inbox: Option<&mut WriterInbox>,
    ) -> StoreResult<Notices> {
        self.poll();
        let worked = self.work(group, inbox).map_err(StoreError::from);
        let done = worked.and_then(|notices| {
            let asked = Instant::now();
            self.execute("COMMIT").map_err(failure::commit)?;
            self.learn(asked.elapsed());
            Ok(notices)
        });
        let slower = self.inner.options.slower_flush;
        if !slower.is_zero() {
            thread::sleep(slower);
        }
        if done.is_err() && !self.db.is_autocommit() {
            self.execute("ROLLBACK").map_err(failure::sqlite)?;
        }
        done
    }

    #[cfg(test)]
    pub(crate) fn know_commit_time(&mut self, time: Duration) {
        self.commit_time = Some(time);
    }

    /// How long commits take, the last ones more than those before.
    fn learn(&mut self, commit: Duration) {
        if self.durability == Durability::Flushed {
            let commit = commit + self.inner.options.slower_flush;
            let known = self.commit_time.unwrap_or(commit);
            self.commit_time = Some((known * 7 + commit) / 8);
        }
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
        &self,
        group: &mut Vec<Box<dyn StoreJob>>,
        mut inbox: Option<&mut WriterInbox>,
    ) -> Worked<Notices> {
        let limits = self.inner.options.group;
        let began = Instant::now();
        let mut notices = Notices::default();
        let (mut rows, mut next) = (0, 0);
        while let Some(job) = group.get_mut(next) {
            let tx = Tx::new(&self.db, &self.inner);
            job.work(&tx)?;
            notices = notices.and(tx.notices());
            rows += job.rows();
            next += 1;
            let room = rows < limits.rows && began.elapsed() < limits.time;
            if let Some(inbox) = &mut inbox
                && room
                && next == group.len()
            {
                group.extend(inbox.next_job(self.durability));
            }
        }
        Ok(notices)
    }

    fn execute(&self, sql: &str) -> rusqlite::Result<()> {
        self.db.prepare_cached(sql)?.execute([]).map(|_| ())
    }

    /// Notify the watchers if another process has written since we last looked.
    pub(crate) fn poll(&mut self) {
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

    /// Is it time to start the log over?
    fn is_log_due(&self) -> bool {
        let log = &self.inner.log;
        log.pages.load(Ordering::Relaxed) >= self.inner.options.wal.pressure
            || log.spent.load(Ordering::Relaxed)
    }

    /// Start the log over when that is cheap, wait when it has grown long, refuse when it must not
    /// grow further.
    fn relieve_log(&mut self) -> StoreResult<()> {
        if !self.is_log_due() {
            return Ok(());
        }
        let pages = self.inner.log.pages.load(Ordering::Relaxed);
        let limits = self.inner.options.wal;
        self.inner.log.spent.store(false, Ordering::Relaxed);
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

/// What becomes of the log when the writer ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Finish {
    CopyLogBack,
    LeaveLog,
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
    use crate::writer_door::{self, WriterDoor};
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
        let inner = Arc::new(SqliteInner::new(files, options));
        (
            folder,
            writer_door::start(Writer::new(db, inner).unwrap()).unwrap(),
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
        door.call(0, Durability::Flushed, read).await.unwrap()
    }

    /// The first job waits inside the transaction until the others are in the inbox, so all of them
    /// are one group.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_job_that_fails_takes_only_itself_back() {
        let (_folder, door) = writer();
        let (go, gate) = mpsc::channel::<()>();
        let first = door.call(1, Durability::Flushed, move |tx| {
            // Done again alone, it need not wait: the sender is gone.
            let _ = gate.recv();
            put(tx, "first")
        });
        let refused = door.call(1, Durability::Flushed, |tx| {
            put(tx, "refused")?;
            Err::<(), _>(StoreError::refused("no").into())
        });
        let panicked = door.call(1, Durability::Flushed, |tx| -> Worked<()> {
            put(tx, "panicked")?;
            panic!("on purpose")
        });
        let doubled = door.call(1, Durability::Flushed, |tx| put(tx, "first"));
        let last = door.call(1, Durability::Flushed, |tx| put(tx, "last"));
        let all = async { tokio::join!(first, refused, panicked, doubled, last) };
        let waits = door.clone();
        let opener = async move {
            while waits.waiting() < 4 {
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
        let first = door.call(1, Durability::Unflushed, move |tx| {
            let _ = gate.recv();
            level(tx)
        });
        let behind = async {
            tokio::join!(
                door.call(1, Durability::Unflushed, level),
                door.call(1, Durability::Flushed, level),
                door.call(1, Durability::Unflushed, level)
            )
        };
        let waits = door.clone();
        let opener = async move {
            while waits.waiting() < 3 {
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
        let before = door.call(1, Durability::Flushed, |tx| put(tx, "before"));
        let (before, ()) = tokio::join!(before, door.stop());
        assert_eq!(before, Ok(()));
        assert_eq!(
            door.call(1, Durability::Flushed, |tx| put(tx, "after"))
                .await,
            Err(StoreError::Closed)
        );
    }
}
