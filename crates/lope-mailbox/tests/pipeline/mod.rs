//! A pipeline of three workers for the long runs: orders are taken, packed and entered into a
//! ledger, and each order has a timer. Every arrival is counted in the state, in the same commit as
//! everything else, so that what happened twice or never shows. Also where its stores come from.
#![allow(dead_code, reason = "each test binary uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

pub(crate) mod child;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use lope_mailbox::frame::{Message, MessageKind};
use lope_mailbox::key::WorkerId;
use lope_mailbox::record::{Lease, Owner};
use lope_mailbox::time::TimeHooks;
use lope_mailbox::{
    ConsumerConfig, ConsumerLoop, Context, Handled, Handler, HandlerError, Mailbox,
};
use lope_model::{Span, Timestamp};
use lope_postgres::PostgresStore;
use lope_sqlite::SqliteStore;
use lope_store::tables::{At, Range, TableId};
use lope_store::{Store, Tables, Watch};

/// How long after an order its timer is due.
const TIMER: Span = Span::from_millis(10);

/// How long a change of the store is waited for before one looks all the same: hints may be lost.
const HINT_LOST: std::time::Duration = std::time::Duration::from_millis(500);
/// Longest wait for a connection.
const CONNECTS_WITHIN: std::time::Duration = std::time::Duration::from_mins(1);

/// Printed when the first message of this process has been handled.
pub(crate) const AT_WORK: &str = "a message was handled";
static HANDLED: std::sync::Once = std::sync::Once::new();

/// One pipeline on a store that may have others beside it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pipeline {
    pub(crate) number: i64,
    pub(crate) orders: usize,
    pub(crate) batch: usize,
}

/// What a worker of the pipeline does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    Orders,
    Packing,
    Ledger,
}

pub(crate) const STAGES: [Stage; 3] = [Stage::Orders, Stage::Packing, Stage::Ledger];

struct Work {
    pipeline: Pipeline,
    stage: Stage,
}

impl Pipeline {
    pub(crate) fn worker_id(&self, stage: Stage) -> WorkerId {
        WorkerId::new(self.number * 10 + stage as i64).unwrap()
    }

    /// Orders from one number up to another, into the first inbox.
    pub(crate) async fn order(&self, mailbox: &Mailbox, numbers: std::ops::Range<usize>) {
        let to = self.worker_id(Stage::Orders).number();
        let frames = numbers.map(|number| {
            Message::new(
                MessageKind::Command,
                to,
                number.to_string().as_bytes(),
                b"an order",
            )
            .encode()
            .unwrap()
        });
        mailbox.send_frames(frames.collect()).await.unwrap();
    }

    pub(crate) async fn worker(
        &self,
        tables: Arc<dyn Tables>,
        stage: Stage,
        time: TimeHooks,
    ) -> Option<ConsumerLoop> {
        let owner = Owner::new(format!("{stage:?}")).unwrap();
        let config = ConsumerConfig {
            max_batch: self.batch,
            max_idle: Span::from_millis(50),
            ..ConsumerConfig::new(self.worker_id(stage), owner)
        };
        ConsumerLoop::init(
            tables,
            Arc::new(Work {
                pipeline: *self,
                stage,
            }),
            config,
            time,
        )
        .await
        .ok()
    }

    fn key(&self, what: &str, number: &[u8]) -> Vec<u8> {
        [format!("{}/{what}/", self.number).as_bytes(), number].concat()
    }

    async fn count(&self, tables: &dyn Tables, what: &str, number: &str) -> usize {
        let at = At::new(TableId::APP_STATE, self.key(what, number.as_bytes()));
        let value = tables
            .get(&[at])
            .await
            .unwrap()
            .remove(0)
            .unwrap_or_default();
        String::from_utf8(value).unwrap().parse().unwrap_or(0)
    }

    /// Is nothing of this pipeline left to do?
    pub(crate) async fn is_done(&self, tables: &Arc<dyn Tables>) -> bool {
        self.count(&**tables, "ledger", "total").await >= self.orders
            && self.count(&**tables, "timer", "total").await >= self.orders
    }

    /// What stands in the way of an end: totals, dead letters with their reasons, messages, timers
    /// and leases.
    pub(crate) async fn describe(&self, tables: &Arc<dyn Tables>) -> String {
        let mailbox = Mailbox::new(Arc::clone(tables));
        let mut lines = Vec::new();
        for what in ["ledger", "timer"] {
            let total = self.count(&**tables, what, "total").await;
            lines.push(format!("{what}s in all: {total} of {}", self.orders));
        }
        lines.push(format!(
            "outbox: {} rows",
            tables.count(Range::whole(TableId::OUTBOX)).await.unwrap()
        ));
        for stage in STAGES {
            let worker = self.worker_id(stage);
            let (inbox, dead) = (
                mailbox.list(worker, None, 1_000).await.unwrap(),
                mailbox.dead(worker, None, 1_000).await.unwrap(),
            );
            let timers = mailbox.timers(worker, 1_000).await.unwrap();
            let counts = [inbox.len(), timers.len(), dead.len()];
            lines.push(format!(
                "{stage:?}: messages, timers, dead letters {counts:?} (at most 1,000 are counted)"
            ));
            lines.extend(
                dead.iter()
                    .take(5)
                    .map(|dead| format!("  dead {}: {}", dead.seq, dead.reason)),
            );
            let range = Range::prefix(TableId::LEASES, &worker.to_bytes(), 1_000);
            let leases = tables.range(range).await.unwrap();
            let leases: Vec<Lease> = leases
                .iter()
                .filter_map(|row| Lease::decode(&row.value).ok())
                .collect();
            let lost = leases.iter().map(|lease| lease.lost).max().unwrap_or(0);
            lines.push(format!(
                "  {} leases, lost {lost} times at most",
                leases.len()
            ));
        }
        lines.join("\n")
    }

    /// Everything happened, and happened once.
    pub(crate) async fn check(&self, tables: &Arc<dyn Tables>) {
        let mailbox = Mailbox::new(Arc::clone(tables));
        for number in 0..self.orders {
            for what in ["order", "packed", "ledger", "timer"] {
                let count = self.count(&**tables, what, &number.to_string()).await;
                assert_eq!(count, 1, "{what} {number} of pipeline {}", self.number);
            }
        }
        for what in ["ledger", "timer"] {
            assert_eq!(
                self.count(&**tables, what, "total").await,
                self.orders,
                "{what}s in all"
            );
        }
        for stage in STAGES {
            let worker = self.worker_id(stage);
            assert_eq!(
                mailbox.dead(worker, None, 1).await.unwrap(),
                [],
                "dead letters of {stage:?}"
            );
            assert_eq!(
                mailbox.list(worker, None, 1).await.unwrap(),
                [],
                "messages left for {stage:?}"
            );
            assert_eq!(
                mailbox.timers(worker, 1).await.unwrap(),
                [],
                "timers left for {stage:?}"
            );
        }
        assert_eq!(
            tables.count(Range::whole(TableId::OUTBOX)).await.unwrap(),
            0
        );
    }
}

#[async_trait]
impl Handler for Work {
    async fn handle(&self, context: &mut Context, message: &Message<'_>) -> Handled {
        let Pipeline { number, .. } = self.pipeline;
        HANDLED.call_once(|| println!("{AT_WORK}"));
        match (self.stage, message.kind) {
            (Stage::Orders, _) => {
                self.count(context, "order", message.id).await?;
                let pack = self.pipeline.worker_id(Stage::Packing).number();
                context.emit(&Message::new(
                    MessageKind::Command,
                    pack,
                    message.id,
                    b"to be packed",
                ))?;
                let ledger = self.pipeline.worker_id(Stage::Ledger).number();
                let due = Timestamp::from_millis(context.about().now.millis()).plus(TIMER);
                context.arm(
                    due,
                    &Message::new(MessageKind::Timer, ledger, message.id, b"overdue"),
                )?;
                Ok(())
            }
            (Stage::Packing, _) => {
                self.count(context, "packed", message.id).await?;
                let ledger = self.pipeline.worker_id(Stage::Ledger).number();
                Ok(context.emit(&Message::new(
                    MessageKind::Event,
                    ledger,
                    message.id,
                    b"packed",
                ))?)
            }
            (Stage::Ledger, MessageKind::Timer) => self.enter(context, "timer", message.id).await,
            (Stage::Ledger, MessageKind::Command | MessageKind::Event) => {
                assert!(number >= 0);
                self.enter(context, "ledger", message.id).await
            }
        }
    }
}

impl Work {
    async fn enter(&self, context: &mut Context, what: &str, id: &[u8]) -> Handled {
        self.count(context, what, id).await?;
        self.count(context, what, b"total").await
    }

    async fn count(&self, context: &mut Context, what: &str, id: &[u8]) -> Handled {
        let key = self.pipeline.key(what, id);
        let count = context
            .state(&key)
            .await?
            .map_or(Ok(0), |value| number(&value))?;
        context.put_state(&key, (count + 1).to_string().into_bytes())
    }
}

fn number(value: &[u8]) -> Result<usize, HandlerError> {
    let text =
        std::str::from_utf8(value).map_err(|error| HandlerError::Failed(error.to_string()))?;
    text.parse()
        .map_err(|error: std::num::ParseIntError| HandlerError::Failed(error.to_string()))
}

/// Is the whole of a long series wanted?
pub(crate) fn full() -> bool {
    std::env::var("LOPE_CHAOS").is_ok_and(|word| word == "full")
}

static PLACES: AtomicU64 = AtomicU64::new(0);

/// The Postgres server for tests, with a schema of the caller's own; nothing if whoever runs the
/// tests goes without.
pub(crate) fn postgres() -> Option<String> {
    if std::env::var_os("LOPE_TEST_NO_POSTGRES").is_some() {
        return None;
    }
    let url = std::env::var("LOPE_TEST_POSTGRES");
    let url =
        url.expect("LOPE_TEST_POSTGRES names a server for tests: `cargo xtask test`, or `cargo xtask with COMMAND`");
    let place = PLACES.fetch_add(1, Ordering::Relaxed);
    Some(format!("mailbox_{}_{place} {url}", std::process::id()))
}

pub(crate) fn sqlite(folder: &Path) -> String {
    folder.join("lope.db").display().to_string()
}

/// A folder for a SQLite store that many short lives are spent on: in memory where there is such a
/// place, because what is tried there is what becomes of calls, not of power.
pub(crate) fn quick_folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() {
        tempfile::tempdir_in(memory)
    } else {
        tempfile::tempdir()
    };
    made.unwrap()
}

/// Open a store: a path, or a schema and the URL of a server.
pub(crate) async fn open(place: &str) -> Store {
    match place.split_once(" postgres") {
        None => SqliteStore::open(lope_sqlite::SqliteOptions::new(place)).unwrap(),
        Some((schema, rest)) => {
            let options = lope_postgres::PostgresOptions::new(&format!("postgres{rest}")).unwrap();
            connect(options.in_schema(schema).unwrap()).await
        }
    }
}

/// A server on a busy machine may not take everybody's connection at once.
async fn connect(options: lope_postgres::PostgresOptions) -> Store {
    let began = std::time::Instant::now();
    loop {
        match PostgresStore::open(options.clone()).await {
            Ok(store) => return store,
            Err(error) if error.is_passing() && began.elapsed() < CONNECTS_WITHIN => {
                tokio::time::sleep(HINT_LOST).await;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Until something may have changed in the store.
pub(crate) async fn change(watch: &mut Watch) {
    let _ = tokio::time::timeout(HINT_LOST, watch.changed()).await;
}
