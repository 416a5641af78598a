//! Opening a store, and its doors: each verb is checked, then handed to the writer or to a reader.

use std::sync::Arc;

use async_trait::async_trait;
use lope_model::{Digest, Revision, RunId, RunnerId, VersionId};
use lope_store::runs::{
    Admit, Admitted, Beat, Claim, Claimed, ClaimedRun, CommitReply, Counts, Deliver, Delivered, Deploy, DueSchedules,
    FoundSchedule, Held, JournalRow, Loaded, Mail, Prune, Pruned, Register, RunCommit, RunFilter, RunRecord,
    RunnerRecord, ScheduleWrite, Scheduled, Serves, StoredDefinition, TakenOver, Takeover, check,
};
use lope_store::tables::{At, Batch, BatchReply, Manifest, Range, Row};
use lope_store::{Runs, Store, StoreError, StoreResult, Tables, Watch};
use rusqlite::Connection;

use crate::desk::Desk;
use crate::failure::Worked;
use crate::house::House;
use crate::locks::Turnstile;
use crate::options::{Access, Create, Options};
use crate::place::Place;
use crate::readers::{self, ReadersDoor};
use crate::wake::{Listener, Looked};
use crate::writer::{self, WriterDoor};
use crate::{
    admit, claim, commit, connection, definition, deliver, list, migrate, prune, query, schedule, session, tables,
};

/// As how many rows a claim counts in its group at most: most claims take less than they may.
const CLAIM_ROWS: usize = 200;

/// A store in one file.
#[derive(Debug)]
pub struct SqliteStore;

/// The doors of one open store, and the threads behind them.
#[derive(Debug)]
pub(crate) struct Doors {
    pub(crate) house: Arc<House>,
    pub(crate) writer: Option<WriterDoor>,
    pub(crate) readers: ReadersDoor,
    pub(crate) listener: Listener,
}

impl SqliteStore {
    /// Open the store, creating it where that is allowed. A store of another version is refused. Blocks for the few
    /// milliseconds that it takes; the threads it starts end with `Upkeep::close` or with the last clone of the store.
    pub fn open(options: Options) -> StoreResult<Store> {
        connection::check_library()?;
        let place = Place::find(&options.path)?;
        let doors = Arc::new(match options.access {
            Access::ReadWrite => open_to_write(place, options)?,
            Access::ReadOnly => open_to_read(place, options)?,
        });
        Ok(Store { tables: doors.clone(), runs: doors.clone(), upkeep: doors })
    }
}

fn open_to_write(place: Place, options: Options) -> StoreResult<Doors> {
    if place.is_empty() {
        match options.create {
            Create::Never => return Err(migrate::missing(&place)),
            Create::IfMissing => place.create()?,
        }
    }
    let patience = options.patience;
    let mut db = connection::writer(&place, patience)?;
    connection::bound(&db, options.pages_max)?;
    if migrate::check_version(&db)?.is_none() {
        match options.create {
            Create::Never => return Err(migrate::missing(&place)),
            Create::IfMissing => migrate::bring_up(&mut db, &Turnstile::open(&place, patience)?)?,
        }
    }
    let readers = (0..options.readers.max(1)).map(|_| connection::reader(&place, patience));
    let readers = readers.collect::<StoreResult<Vec<Connection>>>()?;
    let house = Arc::new(House::new(place, options));
    let readers = readers::start(readers, &house)?;
    let writer = Some(writer::start(db, Arc::clone(&house))?);
    Ok(Doors { house, writer, readers, listener: Listener::new() })
}

fn open_to_read(place: Place, options: Options) -> StoreResult<Doors> {
    if place.is_empty() {
        return Err(migrate::missing(&place));
    }
    let readers = (0..options.readers.max(1)).map(|_| connection::looker(&place, options.patience));
    let readers = readers.collect::<StoreResult<Vec<Connection>>>()?;
    if migrate::check_version(&readers[0])?.is_none() {
        return Err(migrate::missing(&place));
    }
    let house = Arc::new(House::new(place, options));
    let readers = readers::start(readers, &house)?;
    Ok(Doors { house, writer: None, readers, listener: Listener::new() })
}

impl Doors {
    pub(crate) async fn write<T, F>(&self, rows: usize, verb: F) -> StoreResult<T>
    where
        T: Send + 'static,
        F: FnMut(&Desk<'_>) -> Worked<T> + Send + 'static,
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
        F: FnMut(&Desk<'_>) -> Worked<T> + Send + 'static,
    {
        self.readers.call(verb).await
    }

    /// Somebody watches: have changes by other processes looked for. A failure to do so costs only promptness.
    fn listen(&self) {
        let started = match &self.writer {
            Some(writer) => {
                let writer = writer.downgrade();
                self.listener.watch(&self.house, move || match writer.upgrade().filter(|door| !door.is_closed()) {
                    Some(door) => {
                        door.look();
                        Looked::Open
                    }
                    None => Looked::Gone,
                })
            }
            None => self.listener.watch(&self.house, look_from_outside(Arc::clone(&self.house))),
        };
        if let Err(error) = started {
            tracing::warn!(%error, "changes by other processes are not noticed");
        }
    }
}

/// How a process that never writes looks for changes: on a connection of its own.
fn look_from_outside(house: Arc<House>) -> impl FnMut() -> Looked {
    let db = connection::looker(&house.place, house.options.patience).ok();
    let mut seen = 0;
    move || {
        let version = db.as_ref().and_then(|db| db.pragma_query_value(None, "data_version", |row| row.get(0)).ok());
        if let Some(version) = version
            && version != std::mem::replace(&mut seen, version)
        {
            house.bells.ring_all();
        }
        Looked::Open
    }
}

#[async_trait]
impl Runs for Doors {
    async fn deploy(&self, deploy: Deploy) -> StoreResult<()> {
        check::deploy(&deploy)?;
        self.write(1, move |desk| definition::deploy(desk, &deploy)).await
    }

    async fn definition(&self, version: VersionId) -> StoreResult<Option<StoredDefinition>> {
        self.read(move |desk| definition::definition(desk, version)).await
    }

    async fn latest(&self, name: &str) -> StoreResult<Option<StoredDefinition>> {
        let name = name.to_owned();
        self.read(move |desk| definition::latest(desk, &name)).await
    }

    async fn definitions(&self, after: Option<&str>, limit: usize) -> StoreResult<Vec<StoredDefinition>> {
        let after = after.map(str::to_owned);
        self.read(move |desk| definition::definitions(desk, after.as_deref(), limit)).await
    }

    async fn admit(&self, admits: Vec<Admit>) -> StoreResult<Vec<Admitted>> {
        check::admits(&admits)?;
        let rows = admits.iter().map(admit::rows).sum();
        self.write(rows, move |desk| admit::admit(desk, &admits)).await
    }

    async fn claim(&self, claim: Claim) -> StoreResult<Held<Claimed>> {
        self.write(claim.limit.min(CLAIM_ROWS), move |desk| claim::claim(desk, &claim)).await
    }

    async fn load(&self, runs: &[RunId]) -> StoreResult<Vec<Option<Loaded>>> {
        let runs = runs.to_vec();
        self.read(move |desk| query::load(desk, &runs)).await
    }

    async fn blobs(&self, run: RunId, digests: &[Digest]) -> StoreResult<Vec<Option<Vec<u8>>>> {
        let digests = digests.to_vec();
        self.read(move |desk| query::blobs(desk, run, &digests)).await
    }

    async fn commit(&self, commits: Vec<RunCommit>) -> StoreResult<Vec<CommitReply>> {
        check::commits(&commits)?;
        let rows = commits.iter().map(commit::rows).sum();
        self.write(rows, move |desk| commit::commit(desk, &commits)).await
    }

    async fn deliver(&self, mail: Vec<Deliver>) -> StoreResult<Vec<Delivered>> {
        check::deliveries(&mail)?;
        self.write(2 * mail.len(), move |desk| deliver::deliver(desk, &mail)).await
    }

    async fn register(&self, register: Register) -> StoreResult<Beat> {
        check::register(&register)?;
        self.write(1, move |desk| session::register(desk, &register)).await
    }

    async fn heartbeat(&self, runner: RunnerId) -> StoreResult<Held<Beat>> {
        self.write(1, move |desk| session::heartbeat(desk, runner)).await
    }

    async fn announce(&self, runner: RunnerId, serves: Serves) -> StoreResult<Held<()>> {
        check::serves(&serves)?;
        self.write(1, move |desk| session::announce(desk, runner, &serves)).await
    }

    async fn takeover(&self, takeover: Takeover) -> StoreResult<TakenOver> {
        let taken = self.write(takeover.limit, move |desk| session::takeover(desk, takeover)).await?;
        taken.ended.iter().for_each(|runner| self.house.seats.clear(*runner));
        Ok(taken)
    }

    async fn release(&self, runner: RunnerId) -> StoreResult<u64> {
        let released = self.write(1, move |desk| session::release(desk, runner)).await?;
        self.house.seats.leave(runner);
        Ok(released)
    }

    async fn owned(&self, runner: RunnerId, after: Option<RunId>, limit: usize) -> StoreResult<Vec<ClaimedRun>> {
        self.read(move |desk| session::owned(desk, runner, after, limit)).await
    }

    async fn waiting(&self, runner: RunnerId, limit: usize) -> StoreResult<Vec<(RunId, Vec<Mail>)>> {
        self.read(move |desk| session::waiting(desk, runner, limit)).await
    }

    async fn runners(&self, limit: usize) -> StoreResult<Vec<RunnerRecord>> {
        self.read(move |desk| session::runners(desk, limit)).await
    }

    async fn run(&self, run: RunId) -> StoreResult<Option<RunRecord>> {
        self.read(move |desk| query::run(desk, run)).await
    }

    async fn find_key(&self, key: &str) -> StoreResult<Option<RunId>> {
        let key = key.to_owned();
        self.read(move |desk| admit::find_key(desk, &key)).await
    }

    async fn list(&self, filter: RunFilter) -> StoreResult<Vec<RunRecord>> {
        self.read(move |desk| list::list(desk, &filter)).await
    }

    async fn journal(&self, run: RunId, after: u64, limit: usize) -> StoreResult<Vec<JournalRow>> {
        self.read(move |desk| query::journal(desk, run, after, limit)).await
    }

    async fn counts(&self) -> StoreResult<Counts> {
        self.read(list::counts).await
    }

    async fn prune(&self, prune: Prune) -> StoreResult<Pruned> {
        self.write(prune.limit, move |desk| prune::prune(desk, &prune)).await
    }

    async fn schedule(&self, write: ScheduleWrite) -> StoreResult<Scheduled> {
        check::schedule(&write)?;
        self.write(schedule::rows(&write), move |desk| schedule::schedule(desk, &write)).await
    }

    async fn unschedule(&self, name: &str, over: Option<Revision>) -> StoreResult<bool> {
        let name = name.to_owned();
        self.write(1, move |desk| schedule::unschedule(desk, &name, over)).await
    }

    async fn find_schedule(&self, name: &str) -> StoreResult<Option<FoundSchedule>> {
        let name = name.to_owned();
        self.read(move |desk| schedule::find(desk, &name)).await
    }

    async fn schedules(&self, after: Option<&str>, limit: usize) -> StoreResult<Vec<FoundSchedule>> {
        let after = after.map(str::to_owned);
        self.read(move |desk| schedule::list(desk, after.as_deref(), limit)).await
    }

    async fn due_schedules(&self, limit: usize) -> StoreResult<DueSchedules> {
        self.read(move |desk| schedule::due(desk, limit)).await
    }

    fn watch(&self) -> Watch {
        let watch = self.house.bells.runs.watch();
        self.listen();
        watch
    }
}

#[async_trait]
impl Tables for Doors {
    async fn open(&self, manifest: &Manifest) -> StoreResult<()> {
        let stored = self.read(tables::read_manifest).await?;
        if stored.missing_from(manifest)?.is_empty() {
            return Ok(());
        }
        let manifest = manifest.clone();
        self.write(1, move |desk| tables::open(desk, &manifest)).await
    }

    async fn manifest(&self) -> StoreResult<Manifest> {
        self.read(tables::read_manifest).await
    }

    async fn get(&self, keys: &[At]) -> StoreResult<Vec<Option<Vec<u8>>>> {
        let keys = keys.to_vec();
        self.read(move |desk| tables::get(desk, &keys)).await
    }

    async fn range(&self, range: Range) -> StoreResult<Vec<Row>> {
        self.read(move |desk| tables::range(desk, &range)).await
    }

    async fn count(&self, range: Range) -> StoreResult<u64> {
        self.read(move |desk| tables::count(desk, &range)).await
    }

    async fn scope_version(&self, scope: &At) -> StoreResult<u64> {
        let scope = scope.clone();
        self.read(move |desk| tables::scope_version(desk, &scope)).await
    }

    async fn commit(&self, batches: Vec<Batch>) -> StoreResult<Vec<BatchReply>> {
        let rows = batches.iter().map(tables::rows).sum();
        self.write(rows, move |desk| tables::commit(desk, &batches)).await
    }

    async fn commit_unflushed(&self, batches: Vec<Batch>) -> StoreResult<Vec<BatchReply>> {
        let rows = batches.iter().map(tables::rows).sum();
        self.writer()?.call_unflushed(rows, move |desk| tables::commit(desk, &batches)).await
    }

    fn watch(&self) -> Watch {
        let watch = self.house.bells.tables.watch();
        self.listen();
        watch
    }
}
