//! Sixteen workers in four processes on one inbox, under faults: slow handlers that outlive their
//! leases, poison, a disk that is full once. No message is handled to a commit by two holders, none
//! is lost, and the dead letters are the poisoned ones.
//!
//! Three seconds in the normal tests, a minute when `LOPE_CHAOS` is `full`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::pipeline;

use std::collections::BTreeSet;
use std::io::BufRead;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use lope_mailbox::frame::{Message, MessageKind};
use lope_mailbox::key::WorkerId;
use lope_mailbox::record::Owner;
use lope_mailbox::time::TimeHooks;
use lope_mailbox::{
    ConsumerConfig, ConsumerLoop, ConsumerPool, Context, Counting, Handled, Handler, HandlerError,
    Mailbox,
};
use lope_model::Span;
use lope_sqlite::BootClock;
use lope_store::door::DoorCall;
use lope_store::tables::{At, Direction, Range, TableId, Tables, TablesAnswer, TablesRequest};
use lope_store::{StoreError, Watch};

const CHILD: [&str; 3] = ["chaos_crowd::child", "--exact", "--nocapture"];
const PLACE: &str = "LOPE_MAILBOX_CROWD";
const NAME: &str = "LOPE_MAILBOX_CROWD_NAME";
const READY: &str = "the workers run";
const PROCESSES: usize = 4;
const WORKERS: usize = 4;
const WORKER: i64 = 7;
const LEASE: Span = Span::from_millis(250);
/// Messages that are sent at a time while fewer than this wait.
const WAVE: usize = 500;
/// The commit of each process that finds the disk full.
const FULL_AT: u64 = 20;
const PATIENCE: Duration = Duration::from_mins(5);

/// MailboxCounts each message in the state; some are slow, some are poison.
struct Faulty {
    owner: String,
}

#[async_trait]
impl Handler for Faulty {
    async fn handle(&self, context: &mut Context, message: &Message<'_>) -> Handled {
        let key = [b"by/", message.id].concat();
        let mut by = context.state(&key).await?.unwrap_or_default();
        by.extend_from_slice(format!("{} ", self.owner).as_bytes());
        context.put_state(&key, by)?;
        match message.payload {
            b"poison" => return Err(HandlerError::Failed("poison".into())),
            // It blocks its thread on the first attempt, so its lease is not renewed and goes to
            // another.
            b"slow" if context.about().attempt == 1 => {
                std::thread::sleep(LEASE.to_duration() * 3 / 2);
            }
            b"busy" if context.about().attempt == 1 => {
                return Err(HandlerError::Busy("not yet".into()));
            }
            _ => {}
        }
        Ok(())
    }
}

/// A disk that is full at one commit.
struct FullOnce {
    inner: Arc<dyn Tables>,
    commits: AtomicU64,
}

impl Tables for FullOnce {
    fn call(&self, request: TablesRequest) -> DoorCall<'_, TablesAnswer> {
        let commits = request.verb().starts_with("commit");
        if commits && self.commits.fetch_add(1, Ordering::SeqCst) == FULL_AT {
            let message = "once".into();
            return Box::pin(async { Err(StoreError::Full { message }) });
        }
        self.inner.call(request)
    }
    fn watch(&self) -> Watch {
        self.inner.watch()
    }
}

fn worker_id() -> WorkerId {
    WorkerId::new(WORKER).unwrap()
}

async fn worker(tables: Arc<dyn Tables>, name: String) -> ConsumerLoop {
    let mut config = ConsumerConfig::new(worker_id(), Owner::new(name.clone()).unwrap());
    (config.lease, config.max_batch, config.max_idle) = (LEASE, 8, Span::from_millis(50));
    let time = TimeHooks::on(Arc::new(BootClock));
    ConsumerLoop::init(tables, Arc::new(Faulty { owner: name }), config, time)
        .await
        .unwrap()
}

/// Where copies of this program begin; in the parent there is nothing to do.
#[test]
fn child() {
    let (Ok(place), Ok(name)) = (std::env::var(PLACE), std::env::var(NAME)) else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let store = pipeline::open(&place).await;
        let tables = Arc::new(FullOnce {
            inner: Arc::clone(&store.tables),
            commits: AtomicU64::new(0),
        });
        let mut pool = ConsumerPool::default();
        for number in 0..WORKERS {
            pool.add(worker(tables.clone(), format!("{name}.{number}")).await);
        }
        pool.start().unwrap();
        println!("{READY}");
        let _ = std::io::stdin().lock().read_line(&mut String::new());
        pool.request_stop();
        pool.join().unwrap();
        println!("{:?}", pool.counts());
        assert!(
            tables.commits.load(Ordering::SeqCst) > FULL_AT,
            "the disk was never full"
        );
        store.upkeep.close().await.unwrap();
    });
}

fn start(place: &str, name: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(CHILD).env(PLACE, place).env(NAME, name);
    pipeline::child::start(&mut command, READY)
}

/// What the message of this number is.
fn payload(number: usize) -> &'static [u8] {
    match number % 100 {
        13 => b"poison",
        37 => b"busy",
        71 if number % 300 == 71 => b"slow",
        _ => b"plain",
    }
}

async fn crowd(place: &str) {
    let store = pipeline::open(place).await;
    let mailbox = Mailbox::new(Arc::clone(&store.tables));
    let children: Vec<Child> = (0..PROCESSES)
        .map(|number| start(place, &format!("p{number}")))
        .collect();
    let end = Instant::now() + Duration::from_secs(if pipeline::full() { 60 } else { 3 });
    let mut watch = store.tables.watch();
    let mut sent = 0;
    while Instant::now() < end {
        if mailbox
            .stats(0, Counting::Quick)
            .await
            .unwrap()
            .inbox
            .number()
            < WAVE as u64
        {
            let frames = (sent..sent + WAVE).map(|number| {
                let id = number.to_string();
                Message::new(MessageKind::Command, WORKER, id.as_bytes(), payload(number))
                    .encode()
                    .unwrap()
            });
            mailbox.send_frames(frames.collect()).await.unwrap();
            sent += WAVE;
        }
        pipeline::change(&mut watch).await;
    }
    let began = Instant::now();
    while mailbox
        .stats(0, Counting::Quick)
        .await
        .unwrap()
        .inbox
        .number()
        > 0
    {
        assert!(began.elapsed() < PATIENCE, "messages are left");
        pipeline::change(&mut watch).await;
    }
    children.into_iter().for_each(pipeline::child::stop);
    check(&mailbox, &store.tables, sent).await;
    store.upkeep.close().await.unwrap();
}

async fn check(mailbox: &Mailbox, tables: &Arc<dyn Tables>, sent: usize) {
    let mut owners = BTreeSet::new();
    for number in 0..sent {
        let value = tables
            .get(&[At::new(TableId::APP_STATE, format!("by/{number}"))])
            .await
            .unwrap()
            .remove(0);
        let by = String::from_utf8(value.unwrap_or_default()).unwrap();
        let holders = by.split_whitespace().count();
        assert_eq!(
            holders,
            usize::from(payload(number) != b"poison"),
            "message {number} was committed by '{by}'"
        );
        owners.extend(by.split_whitespace().map(str::to_owned));
    }
    let mut dead = BTreeSet::new();
    let mut after = None;
    loop {
        let page = mailbox.dead(worker_id(), after, 1_000).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some(last.seq);
        dead.extend(
            page.iter()
                .map(|dead| String::from_utf8_lossy(dead.message().unwrap().id).into_owned()),
        );
    }
    let poisoned: BTreeSet<String> = (0..sent)
        .filter(|number| payload(*number) == b"poison")
        .map(|number| number.to_string())
        .collect();
    assert_eq!(dead, poisoned, "the dead letters are the poisoned ones");
    println!(
        "{sent} messages by {} workers, {} poisoned",
        owners.len(),
        dead.len()
    );
    assert!(owners.len() > WORKERS, "more than one process worked");
    let range = Range {
        table: TableId::LEASES,
        from: vec![],
        to: None,
        direction: Direction::Forward,
        limit: 99,
    };
    let leases = tables.range(range).await.unwrap();
    assert_eq!(
        leases.iter().filter(|row| row.key.len() > 8).count(),
        0,
        "leases are left"
    );
}

/// "16 workers in 4 processes on one store for a minute under faults (stale leases, slow handlers,
/// poison, disk full once): no message handled by two holders to a commit, none lost, dead letters
/// exactly the poisoned ones."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_sqlite_a_crowd_under_faults_handles_each_message_once() {
    let folder = tempfile::tempdir().unwrap();
    crowd(&pipeline::sqlite(folder.path())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_postgres_a_crowd_under_faults_handles_each_message_once() {
    let Some(place) = pipeline::postgres() else {
        return;
    };
    crowd(&place).await;
}
