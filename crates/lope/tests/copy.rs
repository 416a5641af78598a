//! A whole store copied into another one: live runs go on there, nothing differs, an interrupted
//! copy goes on.
//!
//! "`lope store copy FROM TO` moves everything, live runs included, from one store to another".

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use lope::copy::{CopyError, copy};
use lope::stores::{self, CreateStore, StoreUrl};
use lope_engine::client::{self, RunStartOptions};
use lope_engine::{Engine, Executors, Settings, codec};
use lope_flow::law::{EventKind, Plan};
use lope_model::{RunId, RunnerId, Span, Timestamp, Value};
use lope_schedule::timing::Timing;
use lope_schedule::{Schedule, store};
use lope_store::door::DoorCall;
use lope_store::runs::{FinalStatus, Register, RunFilter, RunStatus};
use lope_store::store::{Finding, Upkeep, UpkeepAnswer, UpkeepRequest};
use lope_store::tables::{At, Batch, Range, TableId, Write};
use lope_store::transfer::{Transfer, TransferRow, TransferTable, TransferValue};
use lope_store::{Store, StoreError, StoreResult};

const FLOW: &str = "
name: flow
steps:
  big: { let: \"${{ range(2000).map(n, 'value ' + string(n)) }}\" }
  ask: { wait: answer }
  done: { return: '${{ [size(big), ask] }}' }
";
const BAD: &str = "{ name: bad, steps: { no: { raise: { type: Boom, message: told to } } } }";

static PLACES: AtomicU64 = AtomicU64::new(0);

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap())
}

fn plan(yaml: &str) -> Arc<Plan> {
    Arc::new(Plan::new(&lope_definition::yaml::read(yaml, "test.yaml").unwrap()).unwrap())
}

fn sqlite(folder: &tempfile::TempDir, name: &str) -> StoreUrl {
    StoreUrl::Sqlite(folder.path().join(name))
}

/// A place of its own on the server for tests; nothing if whoever runs the tests goes without.
fn postgres() -> Option<StoreUrl> {
    if std::env::var_os("LOPE_TEST_NO_POSTGRES").is_some() {
        return None;
    }
    let url = std::env::var("LOPE_TEST_POSTGRES");
    let url =
        url.expect("LOPE_TEST_POSTGRES names a server for tests: `cargo xtask test`, or `cargo xtask with COMMAND`");
    let mark = if url.contains('?') { '&' } else { '?' };
    let place = PLACES.fetch_add(1, Ordering::Relaxed);
    Some(
        format!("{url}{mark}schema=copy_{}_{place}", std::process::id())
            .parse()
            .unwrap(),
    )
}

async fn open(url: &StoreUrl) -> Store {
    stores::open(url, CreateStore::IfMissing).await.unwrap()
}

fn engine(store: &Store) -> Engine {
    Engine::begin(store.clone(), Executors::new(), Settings::default()).unwrap()
}

async fn until(store: &Store, run: RunId, status: &str) {
    let reached = async {
        while store.runs.run(run).await.unwrap().unwrap().status.as_str() != status {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), reached)
        .await
        .expect("it gets there in time");
}

fn append(value: &[u8]) -> Write {
    let (table, prefix, sequence) = (TableId::INBOX, b"w".to_vec(), b"w".to_vec());
    Write::Append {
        table,
        prefix,
        sequence,
        value: value.to_vec(),
    }
}

/// A store with a run that waits (one answer was delivered and nobody took it), one that failed,
/// and byte tables.
async fn filled(store: &Store) -> (RunId, RunId) {
    let (flow, bad) = (plan(FLOW), plan(BAD));
    client::deploy(store, &flow).await.unwrap();
    client::deploy(store, &bad).await.unwrap();
    let tags = [
        ("colour".to_owned(), "red".to_owned()),
        ("a b".to_owned(), "c\"d".to_owned()),
    ]
    .into();
    let limits = lope::QueueLimits::new();
    let key = Some("live".to_owned());
    let big = Value::str("x".repeat(10_000));
    let options = RunStartOptions {
        input: Some(big),
        key,
        tags,
        ..RunStartOptions::default()
    };
    let (live, _) = client::start(store, &flow, options, &limits, now())
        .await
        .unwrap();
    let options = RunStartOptions {
        input: Some(Value::Null),
        ..RunStartOptions::default()
    };
    let (failed, _) = client::start(store, &bad, options, &limits, now())
        .await
        .unwrap();
    let working = engine(store);
    until(store, live, "waiting").await;
    until(store, failed, "failed").await;
    working.shutdown(Duration::from_secs(5)).await.unwrap();
    let answer = EventKind::Signal {
        name: "answer".into(),
        value: Value::Int(42),
    };
    client::tell(store, live, &answer, Some("once".to_owned()))
        .await
        .unwrap();
    let put = Write::Put(At::new(TableId::APP_STATE, *b"k"), vec![0, 255, 7]);
    let batch = Batch {
        guards: vec![],
        writes: vec![append(b"one"), append(b"two"), put],
    };
    store.tables.commit(vec![batch]).await.unwrap()[0]
        .as_ref()
        .unwrap();
    let long_ago = now().minus(Span::from_secs(3_600));
    let timing = Timing::cron("*/5 * * * *", "Europe/Berlin").unwrap();
    store::add(
        store,
        Schedule::new("often", "flow", timing, long_ago),
        long_ago,
    )
    .await
    .unwrap()
    .unwrap();
    (live, failed)
}

/// What was copied is the same to whoever looks, and goes on as if it had always been there.
async fn check(from: &Store, to: &Store, live: RunId, failed: RunId) {
    assert_eq!(to.upkeep.check().await.unwrap(), []);
    for run in [live, failed] {
        let (mut one, mut other) = (
            from.runs.load(&[run]).await.unwrap(),
            to.runs.load(&[run]).await.unwrap(),
        );
        assert_eq!(one.pop().unwrap(), other.pop().unwrap());
    }
    let listed = async |filter: RunFilter| {
        let found = to
            .runs
            .list(RunFilter { limit: 9, ..filter })
            .await
            .unwrap();
        found.iter().map(|record| record.run).collect::<Vec<_>>()
    };
    let tags = [("colour".to_owned(), "red".to_owned())].into();
    assert_eq!(
        listed(RunFilter {
            tags,
            ..RunFilter::default()
        })
        .await,
        [live]
    );
    let statuses = vec![RunStatus::Final(FinalStatus::Failed)];
    assert_eq!(
        listed(RunFilter {
            statuses,
            ..RunFilter::default()
        })
        .await,
        [failed]
    );
    let inbox = Range::prefix(TableId::INBOX, b"w", 9);
    assert_eq!(
        to.tables.range(inbox.clone()).await.unwrap(),
        from.tables.range(inbox).await.unwrap()
    );
    let reply = to
        .tables
        .commit(vec![Batch {
            guards: vec![],
            writes: vec![append(b"three")],
        }])
        .await
        .unwrap();
    assert!(
        reply[0].as_ref().unwrap().appended[0] > 2,
        "numbers go on: {reply:?}"
    );
    let schedules = async |store: &Store| store.runs.schedules(None, 9).await.unwrap();
    assert_eq!(
        (schedules(to).await.len(), schedules(to).await),
        (1, schedules(from).await)
    );
    assert_eq!(
        to.runs.due_schedules(9).await.unwrap().due,
        schedules(to).await
    );
    let working = engine(to);
    let ended = tokio::time::timeout(Duration::from_secs(120), client::wait(to, live))
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    working.shutdown(Duration::from_secs(5)).await.unwrap();
    let result = codec::read_result(&ended.result.unwrap()).unwrap();
    assert_eq!(
        result,
        Value::list(vec![Value::Int(2_000), Value::Int(42)]),
        "the answer that waited was moved too"
    );
    assert_eq!(
        from.runs.run(live).await.unwrap().unwrap().status.as_str(),
        "waiting",
        "the source is as it was"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_moves_and_goes_on_there() {
    let folder = tempfile::tempdir().unwrap();
    let mut ways = vec![(sqlite(&folder, "a.db"), sqlite(&folder, "b.db"))];
    if let (Some(one), Some(two), Some(three)) = (postgres(), postgres(), postgres()) {
        ways.push((sqlite(&folder, "c.db"), one));
        ways.push((two.clone(), sqlite(&folder, "d.db")));
        ways.push((two, three));
    }
    for (number, (from, to)) in ways.iter().enumerate() {
        let (source, target) = (open(from).await, open(to).await);
        // The third way's source is the fourth's too.
        let (live, failed) = match source.runs.find_key("live").await.unwrap() {
            None => filled(&source).await,
            Some(live) => {
                let all = source
                    .runs
                    .list(RunFilter {
                        limit: 9,
                        ..RunFilter::default()
                    })
                    .await
                    .unwrap();
                (
                    live,
                    all.iter().find(|record| record.run != live).unwrap().run,
                )
            }
        };
        let copied = copy(&source, &target, |_, _| ()).await.unwrap();
        assert!(
            !copied.resumed && copied.rows["runs"] == 2 && copied.rows["queue"] == 1,
            "{number}: {copied:?}"
        );
        assert!(
            copied.rows["blobs"] > 0 && copied.rows["mail"] == 1 && copied.rows["table_rows"] == 3,
            "{copied:?}"
        );
        let again = copy(&source, &target, |_, _| ()).await;
        assert!(
            matches!(again, Err(CopyError::NotEmpty { .. })),
            "{again:?}"
        );
        check(&source, &target, live, failed).await;
        source.upkeep.close().await.unwrap();
        target.upkeep.close().await.unwrap();
    }
}

/// A store that is cut off after so many pages were filled in.
struct Cut {
    store: Store,
    left: AtomicUsize,
}

impl Upkeep for Cut {
    fn call(&self, request: UpkeepRequest) -> DoorCall<'_, UpkeepAnswer> {
        self.store.upkeep.call(request)
    }
    fn describe(&self) -> String {
        self.store.upkeep.describe()
    }
    fn stopped_writer(&self) -> Option<Finding> {
        self.store.upkeep.stopped_writer()
    }
    fn transfer(&self) -> Option<&dyn Transfer> {
        Some(self)
    }
}

impl Cut {
    fn door(&self) -> &dyn Transfer {
        self.store.upkeep.transfer().unwrap()
    }
}

#[async_trait]
impl Transfer for Cut {
    async fn rows(
        &self,
        table: TransferTable,
        after: Option<Vec<TransferValue>>,
        limit: usize,
    ) -> StoreResult<Vec<TransferRow>> {
        self.door().rows(table, after, limit).await
    }
    async fn last(&self, table: TransferTable) -> StoreResult<Option<Vec<TransferValue>>> {
        self.door().last(table).await
    }
    async fn fill(&self, table: TransferTable, rows: Vec<TransferRow>) -> StoreResult<()> {
        let left = self
            .left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
                left.checked_sub(1)
            });
        left.map_err(|_| StoreError::unavailable("cut"))?;
        self.door().fill(table, rows).await
    }
    async fn settle(&self) -> StoreResult<()> {
        self.door().settle().await
    }
    async fn note(&self, name: &str) -> StoreResult<Option<String>> {
        self.door().note(name).await
    }
    async fn set_note(&self, name: &str, text: Option<String>) -> StoreResult<()> {
        self.door().set_note(name, text).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_was_interrupted_anywhere_goes_on_and_nobody_claims_from_a_part() {
    let folder = tempfile::tempdir().unwrap();
    let source = open(&sqlite(&folder, "from.db")).await;
    let (live, failed) = filled(&source).await;
    let other = open(&sqlite(&folder, "other.db")).await;
    for pages in 0.. {
        let target = open(&sqlite(&folder, &format!("to{pages}.db"))).await;
        let cut = Arc::new(Cut {
            store: target.clone(),
            left: AtomicUsize::new(pages),
        });
        let cut = Store {
            tables: target.tables.clone(),
            runs: target.runs.clone(),
            board: target.board.clone(),
            upkeep: cut,
        };
        if copy(&source, &cut, |_, _| ()).await.is_ok() {
            assert!(pages >= 9, "there are pages to be cut between: {pages}");
            break;
        }
        assert_eq!(
            target.runs.counts().await.unwrap().queues,
            [],
            "the queue comes last"
        );
        assert_eq!(
            target.runs.due_schedules(9).await.unwrap().due,
            [],
            "a part starts nothing"
        );
        assert!(matches!(
            copy(&other, &target, |_, _| ()).await,
            Err(CopyError::Another { .. })
        ));
        assert!(copy(&source, &target, |_, _| ()).await.unwrap().resumed);
        check(&source, &target, live, failed).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_somebody_works_on_or_that_changes_meanwhile_is_not_copied() {
    let folder = tempfile::tempdir().unwrap();
    let (source, target) = (
        open(&sqlite(&folder, "from.db")).await,
        open(&sqlite(&folder, "to.db")).await,
    );
    let (live, _) = filled(&source).await;
    let runner = RunnerId::from_bytes([9; 16]);
    let (name, host, program) = ("n".to_owned(), "h".to_owned(), "p".to_owned());
    let register = Register {
        runner,
        name,
        host,
        pid: std::process::id(),
        process: String::new(),
        program,
        serves: lope_store::runs::Serves::default(),
        lease: Span::from_secs(60),
    };
    source.runs.register(register).await.unwrap();
    assert!(matches!(
        copy(&source, &target, |_, _| ()).await,
        Err(CopyError::Busy { count: 1, .. })
    ));
    source.runs.release(runner).await.unwrap();
    let (mut meddled, runtime) = (false, tokio::runtime::Handle::current());
    let changed = copy(&source, &target, |table, _| {
        if table == "table_rows" && !std::mem::replace(&mut meddled, true) {
            let (source, kind) = (
                source.clone(),
                EventKind::Signal {
                    name: "x".into(),
                    value: Value::Null,
                },
            );
            let told = async move { client::tell(&source, live, &kind, None).await };
            tokio::task::block_in_place(|| runtime.block_on(told)).unwrap();
        }
    });
    let changed = changed.await;
    assert!(
        matches!(
            changed,
            Err(CopyError::Changed {
                table: "mail",
                from: 2,
                to: 1
            })
        ),
        "{changed:?}"
    );
    let memory = open(&StoreUrl::Memory).await;
    assert!(matches!(
        copy(&memory, &target, |_, _| ()).await,
        Err(CopyError::NotMoving(_))
    ));
}
