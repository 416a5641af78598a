//! What the tests of this crate build on: a store in a folder of its own, and commands with
//! everything filled in.
#![allow(dead_code, reason = "each test binary uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test whose ground gives way fails")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use lope_model::{Digest, Priority, QueueName, Realm, RunId, RunnerId, Span, Timestamp, VersionId};
use lope_sqlite::{SqliteOptions, SqliteStore};
use lope_store::Store;
use lope_store::runs::{
    Admit, Admitted, Claim, ClaimedRun, CommitReply, Deploy, FinalStatus, Finish, JournalRow,
    LiveStatus, Register, RunCommit, Then,
};
use tempfile::TempDir;

/// A store in a folder of its own.
pub(crate) struct Ground {
    pub(crate) folder: TempDir,
    pub(crate) store: Store,
}

impl Ground {
    pub(crate) async fn new() -> Self {
        Self::with(|options| options).await
    }

    pub(crate) async fn with(change: impl FnOnce(SqliteOptions) -> SqliteOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store =
            SqliteStore::open(change(SqliteOptions::new(folder.path().join("lope.db")))).unwrap();
        deploy(&store).await;
        Self { folder, store }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("lope.db")
    }
}

pub(crate) async fn deploy(store: &Store) {
    let deploy = Deploy {
        version: version(),
        name: "flow".to_owned(),
        body: vec![1],
    };
    store.runs.deploy(deploy).await.unwrap();
}

pub(crate) fn version() -> VersionId {
    VersionId(Digest::of(b"flow"))
}

/// An id that no other call gives, in this process or another.
pub(crate) fn run_id() -> RunId {
    RunId::from_parts(Timestamp::from_millis(1_800_000_000_000), unique())
}

fn unique() -> [u8; 10] {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let mut bytes = [0; 10];
    bytes[..4].copy_from_slice(&std::process::id().to_be_bytes());
    bytes[4..].copy_from_slice(&NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes()[2..]);
    bytes
}

pub(crate) fn admission() -> Admit {
    Admit {
        run: run_id(),
        workflow: "flow".to_owned(),
        version: version(),
        key: None,
        queue: QueueName::default(),
        priority: Priority::NORMAL,
        realm: Realm::default(),
        due: Timestamp::EPOCH,
        law: 1,
        weight: 1,
        tags: BTreeMap::new(),
        parent: None,
        rows: rows(1, 1, 10),
        snapshot: None,
        blobs: Vec::new(),
        claimed_by: None,
    }
}

pub(crate) fn rows(from: u64, to: u64, bytes: usize) -> Vec<JournalRow> {
    let row = |seq| JournalRow {
        seq,
        at: Timestamp::EPOCH,
        event: "settled".into(),
        body: vec![7; bytes],
    };
    (from..=to).map(row).collect()
}

pub(crate) async fn admit(store: &Store, number: usize) -> Vec<RunId> {
    let admits: Vec<Admit> = (0..number).map(|_| admission()).collect();
    let runs = admits.iter().map(|admit| admit.run).collect();
    let admitted = store.runs.admit(admits).await.unwrap();
    assert!(
        admitted
            .iter()
            .all(|admitted| matches!(admitted, Admitted::Created { .. })),
        "{admitted:?}"
    );
    runs
}

pub(crate) async fn register(store: &Store, lease: Span) -> RunnerId {
    let runner = RunnerId::from_parts(Timestamp::from_millis(1_800_000_000_000), unique());
    let pid = std::process::id();
    let (name, host, program) = ("test".to_owned(), "here".to_owned(), "test".to_owned());
    store
        .runs
        .register(Register {
            runner,
            name,
            host,
            pid,
            process: String::new(),
            program,
            serves: lope_store::runs::Serves::default(),
            lease,
        })
        .await
        .unwrap();
    runner
}

pub(crate) fn claim_of(runner: RunnerId) -> Claim {
    let (queues, realms) = (vec![QueueName::default()], vec![Realm::default()]);
    Claim {
        runner,
        queues,
        realms,
        law: 1,
        limit: 1_000,
        weight: u64::MAX,
        most: None,
        only: Vec::new(),
    }
}

pub(crate) async fn claim(store: &Store, runner: RunnerId) -> Vec<ClaimedRun> {
    store
        .runs
        .claim(claim_of(runner))
        .await
        .unwrap()
        .unwrap()
        .runs
}

pub(crate) fn hold(owner: RunnerId, run: &ClaimedRun, rows: Vec<JournalRow>) -> RunCommit {
    RunCommit {
        rows,
        ..RunCommit::new(run.run, owner, run.epoch, Then::Hold(LiveStatus::Running))
    }
}

pub(crate) fn finish(owner: RunnerId, run: &ClaimedRun) -> RunCommit {
    let end = Finish {
        status: FinalStatus::Completed,
        result: None,
        error: None,
        seen: None,
    };
    RunCommit {
        then: Then::Finish(end),
        ..hold(owner, run, Vec::new())
    }
}

pub(crate) async fn commit(store: &Store, commit: RunCommit) {
    let replies = store.runs.commit(vec![commit]).await.unwrap();
    assert!(
        matches!(replies[..], [CommitReply::Done { .. }]),
        "{replies:?}"
    );
}
