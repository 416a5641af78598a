//! The ground of one promise: an empty store, and short words for what most promises begin with.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use lope_model::{
    Clock, Digest, Priority, QueueName, Realm, RunId, RunnerId, Span, Timestamp, VersionId,
};

use super::site::StoreSite;
use lope_store::clock::SystemClock;
use lope_store::error::{StoreError, StoreResult};
use lope_store::runs::{
    Admit, Admitted, Claim, Claimed, ClaimedRun, CommitReply, Deliver, Delivered, Deploy,
    FinalStatus, Finish, JournalRow, LiveStatus, Reach, Register, Release, RunCommit, RunRecord,
    Runs, Then, Wake,
};
use lope_store::store::Store;
use lope_store::tables::{At, Tables};

/// Longer than any promise takes.
const LONG_LEASE: Span = Span::from_secs(3_600);
/// Sessions that are meant to expire: the first that a store can register and claim in.
const SHORT_LEASES: [Span; 5] = [
    Span::from_millis(60),
    Span::from_millis(250),
    Span::from_millis(1_000),
    Span::from_millis(4_000),
    Span::from_millis(16_000),
];
/// How the store's clock is moved while waiting for something.
const TICK: Span = Span::from_millis(10);
const TICKS_MAX: usize = 3_000;

static COUNTER: AtomicU64 = AtomicU64::new(0);

/// A place that is one open store.
struct Opened(Store);

#[async_trait]
impl StoreSite for Opened {
    async fn open(&self) -> Store {
        self.0.clone()
    }
}

/// Cheap to clone, for tasks.
#[derive(Clone)]
pub(crate) struct Ground {
    site: Arc<dyn StoreSite>,
    pub(crate) store: Store,
    pub(crate) version: VersionId,
}

impl Ground {
    pub(super) async fn new(site: Arc<dyn StoreSite>) -> Self {
        let store = site.open().await;
        let version = version_of("conformance");
        Self {
            site,
            store,
            version,
        }
    }

    /// The ground of a store that is open already.
    pub(super) async fn on(store: Store) -> Self {
        Self::new(Arc::new(Opened(store))).await
    }

    pub(crate) fn runs(&self) -> &dyn Runs {
        &*self.store.runs
    }

    pub(crate) fn tables(&self) -> &dyn Tables {
        &*self.store.tables
    }

    /// The same place opened once more, as by another process.
    pub(crate) async fn again(&self) -> Ground {
        Ground {
            site: Arc::clone(&self.site),
            store: self.site.open().await,
            version: self.version,
        }
    }

    /// Every eighth time through another handle: opening one is dear.
    pub(crate) async fn again_sometimes(&self, round: usize) -> Ground {
        if round.is_multiple_of(8) {
            self.again().await
        } else {
            self.clone()
        }
    }

    /// Where the store is, for what is done behind its back.
    pub(crate) fn site(&self) -> &dyn StoreSite {
        &*self.site
    }

    pub(crate) async fn pass(&self, span: Span) {
        self.site.pass(span).await;
    }

    /// Let time pass until `done` answers.
    pub(crate) async fn until<T, F: Future<Output = StoreResult<Option<T>>>>(
        &self,
        done: impl Fn() -> F,
    ) -> StoreResult<T> {
        for _ in 0..TICKS_MAX {
            if let Some(answer) = done().await? {
                return Ok(answer);
            }
            self.pass(TICK).await;
        }
        panic!("waited {TICKS_MAX} ticks of {TICK} for something that did not come");
    }

    pub(crate) async fn deploy(&self) -> StoreResult<()> {
        let deploy = Deploy {
            version: self.version,
            name: "conformance".to_owned(),
            body: b"{}".to_vec(),
        };
        self.runs().deploy(deploy).await
    }

    /// An admission to the default queue, due now.
    pub(crate) fn admission(&self) -> Admit {
        Admit {
            run: run_id(),
            workflow: "conformance".to_owned(),
            version: self.version,
            key: None,
            queue: QueueName::default(),
            priority: Priority::NORMAL,
            realm: Realm::default(),
            due: Timestamp::EPOCH,
            law: 1,
            weight: 100,
            tags: BTreeMap::new(),
            parent: None,
            rows: vec![row(1)],
            snapshot: None,
            blobs: Vec::new(),
            claimed_by: None,
        }
    }

    /// Admit, and expect each to be created.
    pub(crate) async fn admit(&self, admits: Vec<Admit>) -> StoreResult<Vec<RunId>> {
        self.deploy().await?;
        let runs = admits.iter().map(|admit| admit.run).collect();
        for admitted in self.runs().admit(admits).await? {
            assert!(matches!(admitted, Admitted::Created { .. }), "{admitted:?}");
        }
        Ok(runs)
    }

    pub(crate) async fn admit_many(&self, number: usize) -> StoreResult<Vec<RunId>> {
        self.admit((0..number).map(|_| self.admission()).collect())
            .await
    }

    /// A registered runner whose session does not expire.
    pub(crate) async fn runner(&self) -> StoreResult<RunnerId> {
        self.runner_for(LONG_LEASE).await
    }

    pub(crate) async fn runner_for(&self, lease: Span) -> StoreResult<RunnerId> {
        let register = registration(lease);
        self.runs().register(register.clone()).await?;
        Ok(register.runner)
    }

    /// One run, owned by a runner.
    pub(crate) async fn owned_run(&self) -> StoreResult<(RunnerId, ClaimedRun)> {
        self.admit_many(1).await?;
        let runner = self.runner().await?;
        let claimed = self.claim(runner).await?;
        let [run]: [ClaimedRun; 1] = claimed
            .runs
            .try_into()
            .expect("one run is due, one is claimed");
        Ok((runner, run))
    }

    /// Claim all that is due in the default queue.
    pub(crate) async fn claim(&self, runner: RunnerId) -> StoreResult<Claimed> {
        Ok(self
            .runs()
            .claim(claim_of(runner))
            .await?
            .expect("the session is held"))
    }

    /// A runner that has claimed all that is due and whose session has then expired.
    pub(crate) async fn expired_owner(&self) -> StoreResult<(RunnerId, Vec<ClaimedRun>)> {
        let claim = |runner| async move { Ok(self.runs().claim(claim_of(runner)).await?.ok()) };
        let (runner, claimed) = self.expired_after(claim).await?;
        Ok((runner, claimed.runs))
    }

    /// A runner that has done something in its session, which has then expired. On a slow day the
    /// session may be lost before it is done; then another runner tries in a longer one.
    pub(crate) async fn expired_after<T, F: Future<Output = StoreResult<Option<T>>>>(
        &self,
        work: impl Fn(RunnerId) -> F,
    ) -> StoreResult<(RunnerId, T)> {
        for lease in SHORT_LEASES {
            let runner = self.runner_for(lease).await?;
            if let Some(done) = work(runner).await? {
                self.pass(lease).await;
                self.until(|| self.is_over(runner)).await?;
                return Ok((runner, done));
            }
            self.runs().release(runner).await?;
        }
        panic!("no session of {SHORT_LEASES:?} lasts long enough to do anything in");
    }

    async fn is_over(&self, runner: RunnerId) -> StoreResult<Option<()>> {
        let runners = self.runs().runners(1_000).await?;
        let record = runners.into_iter().find(|record| record.runner == runner);
        Ok((!record.expect("a registered runner is listed").live).then_some(()))
    }

    /// Commit one run, and expect it done.
    pub(crate) async fn commit(&self, commit: RunCommit) -> StoreResult<u64> {
        match self.reply(commit).await? {
            CommitReply::Done { mail, undelivered } if undelivered.is_empty() => Ok(mail),
            other => panic!("the commit was answered with {other:?}"),
        }
    }

    pub(crate) async fn reply(&self, commit: RunCommit) -> StoreResult<CommitReply> {
        let replies = self.runs().commit(vec![commit]).await?;
        let [reply]: [CommitReply; 1] = replies.try_into().expect("one commit, one reply");
        Ok(reply)
    }

    pub(crate) async fn deliver(&self, run: RunId, id: &str) -> StoreResult<Delivered> {
        self.deliver_reaching(run, id, Reach::Live).await
    }

    pub(crate) async fn deliver_reaching(
        &self,
        run: RunId,
        id: &str,
        reach: Reach,
    ) -> StoreResult<Delivered> {
        let delivered = self.runs().deliver(vec![mail_to(run, id, reach)]).await?;
        let [delivered]: [Delivered; 1] = delivered.try_into().expect("one delivery, one answer");
        Ok(delivered)
    }

    pub(crate) async fn record(&self, run: RunId) -> StoreResult<RunRecord> {
        Ok(self.runs().run(run).await?.expect("the run is there"))
    }

    pub(crate) async fn get(&self, at: &At) -> StoreResult<Option<Vec<u8>>> {
        Ok(self.tables().get(std::slice::from_ref(at)).await?.remove(0))
    }
}

pub(crate) fn version_of(name: &str) -> VersionId {
    VersionId(Digest::of(name.as_bytes()))
}

/// Ten bytes that no other id of this machine has.
fn unique() -> [u8; 10] {
    let count = COUNTER.fetch_add(1, Ordering::Relaxed);
    let now = SystemClock::default().now().millis();
    let parts = [
        count.to_le_bytes(),
        now.to_le_bytes(),
        u64::from(std::process::id()).to_le_bytes(),
    ];
    let digest = Digest::of(&parts.concat());
    let mut bytes = [0; 10];
    bytes.copy_from_slice(&digest.as_bytes()[..10]);
    bytes
}

pub(crate) fn run_id() -> RunId {
    RunId::from_parts(SystemClock::default().now(), unique())
}

pub(crate) fn runner_id() -> RunnerId {
    RunnerId::from_parts(SystemClock::default().now(), unique())
}

pub(crate) fn registration(lease: Span) -> Register {
    Register {
        runner: runner_id(),
        name: "conformance".to_owned(),
        host: "here".to_owned(),
        pid: std::process::id(),
        process: String::new(),
        program: "lope 0".to_owned(),
        serves: lope_store::runs::Serves::default(),
        lease,
    }
}

pub(crate) fn claim_of(runner: RunnerId) -> Claim {
    Claim {
        runner,
        queues: vec![QueueName::default()],
        realms: vec![Realm::default()],
        law: 1,
        limit: 1_000,
        weight: u64::MAX,
        most: None,
        only: Vec::new(),
    }
}

pub(crate) fn row(seq: u64) -> JournalRow {
    let at = Timestamp::from_millis(1_700_000_000_000 + seq as i64);
    JournalRow {
        seq,
        at,
        event: "tested".into(),
        body: format!("row {seq}").into_bytes(),
    }
}

pub(crate) fn rows(from: u64, to: u64) -> Vec<JournalRow> {
    (from..=to).map(row).collect()
}

/// A commit that writes nothing and goes on.
pub(crate) fn hold(owner: RunnerId, run: &ClaimedRun) -> RunCommit {
    RunCommit::new(run.run, owner, run.epoch, Then::Hold(LiveStatus::Running))
}

pub(crate) fn release(owner: RunnerId, run: &ClaimedRun, wake: Wake, seen: u64) -> RunCommit {
    RunCommit {
        then: Then::Release(Release {
            status: LiveStatus::Waiting,
            wake,
            seen,
        }),
        ..hold(owner, run)
    }
}

pub(crate) fn finish(owner: RunnerId, run: &ClaimedRun, seen: Option<u64>) -> RunCommit {
    let finish = Finish {
        status: FinalStatus::Completed,
        result: Some(b"done".to_vec()),
        error: None,
        seen,
    };
    RunCommit {
        then: Then::Finish(finish),
        ..hold(owner, run)
    }
}

/// Only a run that failed can be reopened.
pub(crate) fn fail(owner: RunnerId, run: &ClaimedRun) -> RunCommit {
    let finish = Finish {
        status: FinalStatus::Failed,
        result: None,
        error: Some(b"failed".to_vec()),
        seen: None,
    };
    RunCommit {
        then: Then::Finish(finish),
        ..hold(owner, run)
    }
}

pub(crate) fn mail_to(run: RunId, id: &str, reach: Reach) -> Deliver {
    Deliver {
        run,
        id: id.to_owned(),
        kind: "signal".to_owned(),
        body: id.as_bytes().to_vec(),
        reach,
        reserved: false,
    }
}

pub(crate) fn sorted<T: Ord>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut items: Vec<T> = items.into_iter().collect();
    items.sort_unstable();
    items
}

pub(crate) fn runs_of(claimed: &[ClaimedRun]) -> Vec<RunId> {
    claimed.iter().map(|run| run.run).collect()
}

/// The store refused the command as such.
pub(crate) fn assert_refused<T: std::fmt::Debug>(answer: StoreResult<T>) {
    assert!(
        matches!(answer, Err(StoreError::Refused { .. })),
        "expected a refusal, got {answer:?}"
    );
}

/// Every byte value, in both directions.
pub(crate) fn all_bytes() -> Vec<u8> {
    (0..=u8::MAX).chain((0..=u8::MAX).rev()).collect()
}

/// The answer that names a run of the ground's workflow.
pub(crate) fn exists(run: RunId) -> Admitted {
    Admitted::Exists {
        run,
        workflow: "conformance".to_owned(),
    }
}
