//! Opening a store, and its doors: each verb is checked, then handed to the writer or to a reader.

use std::collections::BTreeSet;
use std::sync::Arc;

use lope_model::{Digest, Revision, RunId, RunnerId, VersionId};
use lope_store::runs::{
    Admit, Admitted, Beat, Claim, Claimed, ClaimedRun, CommitReply, Deliver, Delivered, Deploy,
    DueSchedules, FoundSchedule, JournalRow, Loaded, Mail, Prune, Pruned, QueueCount, Register,
    ResultHead, RunCommit, RunCounts, RunFilter, RunRecord, RunnerRecord, ScheduleWrite, Scheduled,
    Serves, SessionResult, StoredDefinition, TakenOver, Takeover, validate,
};
use lope_store::tables::{At, Batch, BatchReply, Manifest, Range, Row};
use lope_store::{RunsVerbs, Store, StoreError, StoreResult, TablesVerbs, Watch};
use rusqlite::Connection;

use crate::failure::Worked;
use crate::files::StoreFiles;
use crate::inner::SqliteInner;
use crate::listener::{Listener, PollOutcome};
use crate::locks::WriterLock;
use crate::options::{Access, CreateFile, SqliteOptions};
use crate::readers::{self, ReadersDoor};
use crate::tx::Tx;
use crate::writer::{self, WriterDoor};
use crate::{
    admit, claim, commit, connection, damaged_run, definition, deliver, list, migrate, prune,
    query, schedule, session, tables,
};

/// As how many rows a claim counts in its group at most: most claims take less than they may.
const CLAIM_ROWS: usize = 200;

/// A store in one file.
#[derive(Debug)]
pub struct SqliteStore;

/// The doors of one open store, and the threads behind them.
#[derive(Debug)]
pub(crate) struct Doors {
    pub(crate) inner: Arc<SqliteInner>,
    pub(crate) writer: Option<WriterDoor>,
    pub(crate) readers: ReadersDoor,
    pub(crate) listener: Listener,
}

impl SqliteStore {
    /// Open the store, creating it where that is allowed. A store of another version is refused.
    /// Blocks for the few milliseconds that it takes; the threads it starts end with
    /// `Upkeep::close` or with the last clone of the store.
    pub fn open(options: SqliteOptions) -> StoreResult<Store> {
        connection::check_library()?;
        let files = StoreFiles::find(&options.path)?;
        let doors = Arc::new(match options.access {
            Access::ReadWrite => open_to_write(files, options)?,
            Access::ReadOnly => open_to_read(files, options)?,
        });
        Ok(Store {
            tables: doors.clone(),
            runs: doors.clone(),
            board: doors.clone(),
            upkeep: doors,
        })
    }
}

fn open_to_write(files: StoreFiles, options: SqliteOptions) -> StoreResult<Doors> {
    if files.is_empty() {
        match options.create {
            CreateFile::Never => return Err(migrate::missing(&files)),
            CreateFile::IfMissing => files.create()?,
        }
    }
    let patience = options.patience;
    let mut db = connection::writer(&files, patience)?;
    connection::bound(&db, options.pages_max)?;
    if migrate::check_version(&db)?.is_none() {
        match options.create {
            CreateFile::Never => return Err(migrate::missing(&files)),
            CreateFile::IfMissing => {
                migrate::bring_up(&mut db, &WriterLock::open(&files, patience)?)?;
            }
        }
    }
    let readers = (0..options.readers.max(1)).map(|_| connection::reader(&files, patience));
    let readers = readers.collect::<StoreResult<Vec<Connection>>>()?;
    let inner = Arc::new(SqliteInner::new(files, options));
    let readers = readers::start(readers, &inner)?;
    let writer = Some(writer::start(db, Arc::clone(&inner))?);
    Ok(Doors {
        inner,
        writer,
        readers,
        listener: Listener::new(),
    })
}

fn open_to_read(files: StoreFiles, options: SqliteOptions) -> StoreResult<Doors> {
    if files.is_empty() {
        return Err(migrate::missing(&files));
    }
    let readers =
        (0..options.readers.max(1)).map(|_| connection::read_only(&files, options.patience));
    let readers = readers.collect::<StoreResult<Vec<Connection>>>()?;
    if migrate::check_version(&readers[0])?.is_none() {
        return Err(migrate::missing(&files));
    }
    let inner = Arc::new(SqliteInner::new(files, options));
    let readers = readers::start(readers, &inner)?;
    Ok(Doors {
        inner,
        writer: None,
        readers,
        listener: Listener::new(),
    })
}

impl Doors {
    pub(crate) async fn write<T, F>(&self, rows: usize, verb: F) -> StoreResult<T>
    where
        T: Send + 'static,
        F: FnMut(&Tx<'_>) -> Worked<T> + Send + 'static,
    {
        self.writer()?.call(rows, verb).await
    }

    fn writer(&self) -> StoreResult<&WriterDoor> {
        let message = "it was opened for looking only".to_owned();
        self.writer.as_ref().ok_or(StoreError::ReadOnly { message })
    }

    pub(crate) async fn read<T, F>(&self, verb: F) -> StoreResult<T>
    where
        T: Send + 'static,
        F: FnMut(&Tx<'_>) -> Worked<T> + Send + 'static,
    {
        self.readers.call(verb).await
    }

    /// A claim met a page that cannot be read: the runs whose records are on such a page are set aside,
    /// and the next claim, at once, does not meet them. A transaction that met the page writes nothing
    /// any more, so they are looked for in another one.
    async fn sift(&self, claim: Claim, damage: StoreError) -> StoreResult<SessionResult<Claimed>> {
        let found = self.read(move |tx| Ok((tx.now, claim::on_damaged_pages(tx, &claim)?)));
        let (now, damaged) = found.await?;
        if damaged.is_empty() {
            return Err(damage);
        }
        self.write(damaged.len(), move |tx| {
            damaged_run::set_aside(tx, &damaged)
        })
        .await?;
        Ok(Ok(Claimed {
            now,
            runs: Vec::new(),
            next_due: Some(now),
        }))
    }

    /// Somebody watches: have changes by other processes looked for. A failure to do so costs only
    /// promptness.
    pub(crate) fn listen(&self) {
        let started = match &self.writer {
            Some(writer) => {
                let writer = writer.downgrade();
                self.listener.watch(&self.inner, move || {
                    match writer.upgrade().filter(|door| !door.is_closed()) {
                        Some(door) => {
                            door.poll();
                            PollOutcome::Open
                        }
                        None => PollOutcome::Gone,
                    }
                })
            }
            None => self
                .listener
                .watch(&self.inner, poll_from_outside(Arc::clone(&self.inner))),
        };
        if let Err(error) = started {
            tracing::warn!(%error, "changes by other processes are not noticed");
        }
    }
}

/// How a process that never writes looks for changes: on a connection of its own.
fn poll_from_outside(inner: Arc<SqliteInner>) -> impl FnMut() -> PollOutcome {
    let db = connection::read_only(&inner.files, inner.options.patience).ok();
    let mut seen = 0;
    move || {
        let version = db.as_ref().and_then(|db| {
            db.pragma_query_value(None, "data_version", |row| row.get(0))
                .ok()
        });
        if let Some(version) = version
            && version != std::mem::replace(&mut seen, version)
        {
            inner.notifiers.notify_all_doors();
        }
        PollOutcome::Open
    }
}

impl RunsVerbs for Doors {
    async fn deploy(&self, deploy: Deploy) -> StoreResult<()> {
        validate::deploy(&deploy)?;
        self.write(1, move |tx| definition::deploy(tx, &deploy))
            .await
    }

    async fn definition(&self, version: VersionId) -> StoreResult<Option<StoredDefinition>> {
        self.read(move |tx| definition::definition(tx, version))
            .await
    }

    async fn latest(&self, name: String) -> StoreResult<Option<StoredDefinition>> {
        self.read(move |tx| definition::latest(tx, &name)).await
    }

    async fn definitions(
        &self,
        after: Option<String>,
        limit: usize,
    ) -> StoreResult<Vec<StoredDefinition>> {
        self.read(move |tx| definition::definitions(tx, after.as_deref(), limit))
            .await
    }

    async fn admit(&self, admits: Vec<Admit>) -> StoreResult<Vec<Admitted>> {
        validate::admits(&admits)?;
        let rows = admits.iter().map(admit::rows).sum();
        self.write(rows, move |tx| admit::admit(tx, &admits)).await
    }

    async fn claim(&self, claim: Claim) -> StoreResult<SessionResult<Claimed>> {
        let asked = claim.clone();
        let claimed = self.write(claim.limit.min(CLAIM_ROWS), move |tx| {
            claim::claim(tx, &asked)
        });
        match claimed.await {
            Err(damage @ StoreError::Corrupt { .. }) => self.sift(claim, damage).await,
            claimed => claimed,
        }
    }

    async fn load(&self, runs: Vec<RunId>) -> StoreResult<Vec<Option<Loaded>>> {
        self.read(move |tx| query::load(tx, &runs)).await
    }

    async fn blobs(&self, run: RunId, digests: Vec<Digest>) -> StoreResult<Vec<Option<Vec<u8>>>> {
        self.read(move |tx| query::blobs(tx, run, &digests)).await
    }

    async fn commit(&self, commits: Vec<RunCommit>) -> StoreResult<Vec<CommitReply>> {
        validate::commits(&commits)?;
        let rows = commits.iter().map(commit::rows).sum();
        self.write(rows, move |tx| commit::commit(tx, &commits))
            .await
    }

    async fn deliver(&self, mail: Vec<Deliver>) -> StoreResult<Vec<Delivered>> {
        validate::deliveries(&mail)?;
        self.write(2 * mail.len(), move |tx| deliver::deliver(tx, &mail))
            .await
    }

    async fn register(&self, register: Register) -> StoreResult<Beat> {
        validate::register(&register)?;
        self.write(1, move |tx| session::register(tx, &register))
            .await
    }

    async fn heartbeat(&self, runner: RunnerId) -> StoreResult<SessionResult<Beat>> {
        self.write(1, move |tx| session::heartbeat(tx, runner))
            .await
    }

    async fn announce(&self, runner: RunnerId, serves: Serves) -> StoreResult<SessionResult<()>> {
        validate::serves(&serves)?;
        self.write(1, move |tx| session::announce(tx, runner, &serves))
            .await
    }

    async fn takeover(&self, takeover: Takeover) -> StoreResult<TakenOver> {
        let taken = self
            .write(takeover.limit, move |tx| session::takeover(tx, takeover))
            .await?;
        taken
            .ended
            .iter()
            .for_each(|runner| self.inner.runner_locks.clear(*runner));
        Ok(taken)
    }

    async fn release(&self, runner: RunnerId) -> StoreResult<u64> {
        let released = self
            .write(1, move |tx| session::release(tx, runner))
            .await?;
        self.inner.runner_locks.leave(runner);
        Ok(released)
    }

    async fn owned(
        &self,
        runner: RunnerId,
        after: Option<RunId>,
        limit: usize,
    ) -> StoreResult<Vec<ClaimedRun>> {
        let (runs, damaged) = self
            .read(move |tx| session::owned(tx, runner, after, limit))
            .await?;
        if !damaged.is_empty() {
            self.write(damaged.len(), move |tx| {
                damaged_run::set_aside(tx, &damaged)
            })
            .await?;
        }
        Ok(runs)
    }

    async fn waiting(
        &self,
        runner: RunnerId,
        limit: usize,
    ) -> StoreResult<Vec<(RunId, Vec<Mail>)>> {
        self.read(move |tx| session::waiting(tx, runner, limit))
            .await
    }

    async fn runners(&self, limit: usize) -> StoreResult<Vec<RunnerRecord>> {
        self.read(move |tx| session::runners(tx, limit)).await
    }

    async fn live(&self, runners: Vec<RunnerId>) -> StoreResult<Vec<bool>> {
        self.read(move |tx| session::live(tx, &runners)).await
    }

    async fn run(&self, run: RunId) -> StoreResult<Option<RunRecord>> {
        self.read(move |tx| query::run(tx, run)).await
    }

    async fn listed(&self, runs: Vec<RunId>) -> StoreResult<Vec<RunRecord>> {
        let runs: BTreeSet<RunId> = runs.into_iter().collect();
        self.read(move |tx| list::records(tx, runs.iter().copied()))
            .await
    }

    async fn result(&self, run: RunId, most: usize) -> StoreResult<Option<ResultHead>> {
        self.read(move |tx| query::result(tx, run, most)).await
    }

    async fn find_key(&self, key: String) -> StoreResult<Option<RunId>> {
        self.read(move |tx| admit::find_key(tx, &key)).await
    }

    async fn list(&self, filter: RunFilter) -> StoreResult<Vec<RunRecord>> {
        self.read(move |tx| list::list(tx, &filter)).await
    }

    async fn journal(&self, run: RunId, after: u64, limit: usize) -> StoreResult<Vec<JournalRow>> {
        self.read(move |tx| query::journal(tx, run, after, limit))
            .await
    }

    async fn counts(&self) -> StoreResult<RunCounts> {
        self.read(list::counts).await
    }

    async fn queues(&self) -> StoreResult<Vec<QueueCount>> {
        self.read(list::queues).await
    }

    async fn prune(&self, prune: Prune) -> StoreResult<Pruned> {
        let meant = prune.clone();
        let found = self.read(move |tx| prune::ended(tx, &meant)).await?;
        self.write(prune.limit, move |tx| prune::prune(tx, &prune, &found))
            .await
    }

    async fn schedule(&self, write: Box<ScheduleWrite>) -> StoreResult<Scheduled> {
        validate::schedule(&write)?;
        self.write(schedule::rows(&write), move |tx| {
            schedule::schedule(tx, &write)
        })
        .await
    }

    async fn unschedule(&self, name: String, over: Option<Revision>) -> StoreResult<bool> {
        self.write(1, move |tx| schedule::unschedule(tx, &name, over))
            .await
    }

    async fn find_schedule(&self, name: String) -> StoreResult<Option<FoundSchedule>> {
        self.read(move |tx| schedule::find(tx, &name)).await
    }

    async fn schedules(
        &self,
        after: Option<String>,
        limit: usize,
    ) -> StoreResult<Vec<FoundSchedule>> {
        self.read(move |tx| schedule::list(tx, after.as_deref(), limit))
            .await
    }

    async fn due_schedules(&self, limit: usize) -> StoreResult<DueSchedules> {
        self.read(move |tx| schedule::due(tx, limit)).await
    }

    fn watch(&self) -> Watch {
        let watch = self.inner.notifiers.runs.watch();
        self.listen();
        watch
    }
}

impl TablesVerbs for Doors {
    async fn open(&self, manifest: Manifest) -> StoreResult<()> {
        let stored = self.read(tables::read_manifest).await?;
        if stored.missing_from(&manifest)?.is_empty() {
            return Ok(());
        }
        self.write(1, move |tx| tables::open(tx, &manifest)).await
    }

    async fn manifest(&self) -> StoreResult<Manifest> {
        self.read(tables::read_manifest).await
    }

    async fn get(&self, keys: Vec<At>) -> StoreResult<Vec<Option<Vec<u8>>>> {
        self.read(move |tx| tables::get(tx, &keys)).await
    }

    async fn range(&self, range: Range) -> StoreResult<Vec<Row>> {
        self.read(move |tx| tables::range(tx, &range)).await
    }

    async fn timers_of(&self, worker: Vec<u8>, range: Range) -> StoreResult<Vec<Row>> {
        range.of_timers()?;
        self.read(move |tx| tables::timers_of(tx, &worker, &range))
            .await
    }

    async fn count(&self, range: Range) -> StoreResult<u64> {
        self.read(move |tx| tables::count(tx, &range)).await
    }

    async fn scope_version(&self, scope: At) -> StoreResult<u64> {
        self.read(move |tx| tables::scope_version(tx, &scope)).await
    }

    async fn commit(&self, batches: Vec<Batch>) -> StoreResult<Vec<BatchReply>> {
        let rows = batches.iter().map(tables::rows).sum();
        self.write(rows, move |tx| tables::commit(tx, &batches))
            .await
    }

    async fn commit_unflushed(&self, batches: Vec<Batch>) -> StoreResult<Vec<BatchReply>> {
        let rows = batches.iter().map(tables::rows).sum();
        self.writer()?
            .call_unflushed(rows, move |tx| tables::commit(tx, &batches))
            .await
    }

    fn watch(&self) -> Watch {
        let watch = self.inner.notifiers.tables.watch();
        self.listen();
        watch
    }
}
