//! One process at work: it admits, then claims whatever is due (its own runs or others') until
//! every run has ended.
//!
//! A run's life: each visit of an owner journals one `visit`; after the first it waits for mail
//! only; its `signal` is sent twice by the process that admitted it; it ends when the signal is in
//! its journal and it was visited often enough. A wake-up that is lost leaves it unfinished for
//! ever, and the worker's patience ends.

use std::time::{Duration, Instant};

use lope_model::{RunId, RunnerId, Span, Timestamp};

use super::super::ground::{
    Ground, claim_of, finish, hold, registration, release, row, run_id, version_of,
};
use super::work::{PROCESSES, Workload};
use lope_store::error::StoreResult;
use lope_store::runs::{
    Admit, Admitted, Claim, ClaimedRun, CommitReply, Delivered, Deploy, JournalRow, Reach,
    RunCommit, Takeover, Wake,
};
use lope_store::store::Store;
use lope_store::tables::{At, Batch, Guard, TableId, Write};

const VISITS: usize = 3;
/// How long a worker that finds nothing waits for a hint.
const NAP: Duration = Duration::from_millis(20);
/// The lease of the runner that claims and is never heard of again; longer if it cannot even claim
/// in it.
const SHORT: Span = Span::from_millis(100);

pub(super) const COUNTER: &[u8] = b"counter";
const INSIDE: &[u8] = b"inside";

/// A process (or a task that stands for one).
pub(super) struct Worker<S> {
    ground: Ground,
    index: usize,
    work: Workload,
    say: S,
}

/// What all workers find when they begin.
pub(super) async fn prepare(store: &Store) -> StoreResult<()> {
    let deploy = Deploy {
        version: version_of("conformance"),
        name: "conformance".to_owned(),
        body: vec![],
    };
    store.runs.deploy(deploy).await
}

pub(super) fn counter(name: &[u8]) -> At {
    At::new(TableId::APP_STATE, name)
}

impl<S: Fn(String)> Worker<S> {
    pub(super) fn new(ground: Ground, index: usize, work: Workload, say: S) -> Self {
        Self {
            ground,
            index,
            work,
            say,
        }
    }

    pub(super) async fn run(&self) -> StoreResult<()> {
        self.count_in(1).await?;
        let runs = self.admit().await?;
        self.abandon().await?;
        let runner = self.ground.runner().await?;
        let began = Instant::now();
        for round in 0.. {
            if let Some(run) = runs.get(round) {
                self.signal(*run).await?;
            }
            if round < self.work.increments {
                self.increment().await?;
                self.append().await?;
            }
            let idle = self.serve(runner).await? == 0;
            if idle && round >= runs.len() && self.is_all_done().await? {
                break;
            }
            assert!(
                began.elapsed() < self.work.patience,
                "runs are not finished: {:?}",
                self.ground.runs().counts().await?
            );
        }
        self.ground.runs().release(runner).await?;
        self.count_in(-1).await
    }

    /// The processes at work, counted in the store itself; the highest count is the proof that they
    /// overlap.
    async fn count_in(&self, step: i64) -> StoreResult<()> {
        let count = self.add(INSIDE, step).await?;
        (self.say)(format!("inside {count}"));
        Ok(())
    }

    async fn increment(&self) -> StoreResult<()> {
        self.add(COUNTER, 1).await?;
        (self.say)("incremented".to_owned());
        Ok(())
    }

    /// Read, add, write if nobody wrote meanwhile; again until it holds.
    async fn add(&self, name: &[u8], step: i64) -> StoreResult<u64> {
        loop {
            let value = self.ground.get(&counter(name)).await?;
            let before = value.as_ref().map_or(0, |bytes| {
                u64::from_be_bytes(bytes[..8].try_into().expect("eight"))
            });
            let after = before.saturating_add_signed(step);
            let guard = match value {
                Some(value) => Guard::Equals(counter(name), value),
                None => Guard::Absent(counter(name)),
            };
            let write = Write::Put(counter(name), after.to_be_bytes().to_vec());
            let batch = Batch {
                guards: vec![guard],
                writes: vec![write],
            };
            if self
                .ground
                .tables()
                .commit(vec![batch])
                .await?
                .remove(0)
                .is_ok()
            {
                return Ok(after);
            }
        }
    }

    async fn append(&self) -> StoreResult<()> {
        let prefix = vec![];
        let sequence = b"processes".to_vec();
        let append = Write::Append {
            table: TableId::OUTBOX,
            prefix,
            sequence,
            value: vec![self.index as u8],
        };
        let batch = Batch {
            guards: vec![],
            writes: vec![append],
        };
        let applied = self
            .ground
            .tables()
            .commit(vec![batch])
            .await?
            .remove(0)
            .expect("nothing is guarded");
        (self.say)(format!("appended {}", applied.appended[0]));
        Ok(())
    }

    /// Runs of our own, and the shared keys that only one process may create.
    async fn admit(&self) -> StoreResult<Vec<RunId>> {
        let mut runs = Vec::new();
        let own: Vec<Admit> = (0..self.work.runs)
            .map(|_| self.ground.admission())
            .collect();
        for chunk in own.chunks(5) {
            for run in self.ground.admit(chunk.to_vec()).await? {
                (self.say)(format!("admitted {run}"));
                runs.push(run);
            }
        }
        for key in (0..self.work.shared_keys).map(|key| format!("shared-{key}")) {
            let admit = Admit {
                key: Some(key.clone()),
                run: run_id(),
                ..self.ground.admission()
            };
            let run = admit.run;
            match self.ground.runs().admit(vec![admit]).await?.remove(0) {
                Admitted::Created { .. } => {
                    (self.say)(format!("created {key} {run}"));
                    runs.push(run);
                }
                Admitted::Exists { .. } => {}
                Admitted::UnknownVersion => panic!("the version is deployed"),
            }
        }
        Ok(runs)
    }

    /// Claim as a runner that is then never heard of again: the runs come back by takeover.
    async fn abandon(&self) -> StoreResult<()> {
        for patience in 1.. {
            let register = registration(SHORT.times(patience * patience));
            self.ground.runs().register(register.clone()).await?;
            let claim = Claim {
                limit: 2,
                ..claim_of(register.runner)
            };
            if let Ok(claimed) = self.ground.runs().claim(claim).await? {
                claimed
                    .runs
                    .iter()
                    .for_each(|run| (self.say)(format!("claim {} {}", run.run, run.epoch.0)));
                break;
            }
        }
        Ok(())
    }

    /// Send the run its signal, twice: one arrives.
    async fn signal(&self, run: RunId) -> StoreResult<()> {
        let first = self
            .ground
            .deliver_reaching(run, "signal", Reach::Unpark)
            .await?;
        let second = self
            .ground
            .deliver_reaching(run, "signal", Reach::Unpark)
            .await?;
        assert_eq!((first, second), (Delivered::Accepted, Delivered::Duplicate));
        Ok(())
    }

    /// Claim a batch and take each run a step further; the number of runs claimed.
    async fn serve(&self, runner: RunnerId) -> StoreResult<usize> {
        let mut watch = self.ground.runs().watch();
        let taken = self.ground.runs().takeover(Takeover { limit: 10 }).await?;
        (self.say)(format!("taken {}", taken.runs));
        let claim = Claim {
            limit: 6,
            ..claim_of(runner)
        };
        let claimed = self
            .ground
            .runs()
            .claim(claim)
            .await?
            .expect("the lease is long");
        for run in &claimed.runs {
            (self.say)(format!("claim {} {}", run.run, run.epoch.0));
        }
        for run in &claimed.runs {
            self.visit(runner, run).await?;
        }
        if claimed.runs.is_empty() {
            // A hint or not: the next round looks for itself.
            let _hint = tokio::time::timeout(NAP, watch.changed()).await;
        }
        Ok(claimed.runs.len())
    }

    async fn visit(&self, runner: RunnerId, run: &ClaimedRun) -> StoreResult<()> {
        let loaded = self
            .ground
            .runs()
            .load(&[run.run])
            .await?
            .remove(0)
            .expect("a claimed run is there");
        let mut events = events(&loaded.rows);
        let head = loaded.record.head;
        let mut rows = vec![self.row(head + 1, "visit", run)];
        for (mail, seq) in loaded.mail.iter().zip(head + 2..) {
            rows.push(self.row(seq, &mail.id, run));
        }
        events.extend(rows.iter().map(|row| row.event.to_string()));
        let visits = events.iter().filter(|event| *event == "visit").count();
        let is_signalled = events.iter().any(|event| event == "signal");
        let seen = loaded.record.mail;
        let then = match is_signalled {
            true if visits >= VISITS => finish(runner, run, Some(seen)),
            true => release(runner, run, Wake::At(Timestamp::EPOCH), seen),
            false => release(runner, run, sleep_of(run.run), seen),
        };
        let taken = loaded.mail.iter().map(|mail| mail.number).collect();
        self.settle(
            RunCommit {
                rows,
                taken,
                ..then
            },
            runner,
            run,
        )
        .await
    }

    /// The journal says who wrote a row, and in which epoch.
    fn row(&self, seq: u64, event: &str, run: &ClaimedRun) -> JournalRow {
        JournalRow {
            event: event.into(),
            body: format!("{} {}", run.epoch.0, self.index).into_bytes(),
            ..row(seq)
        }
    }

    async fn settle(
        &self,
        commit: RunCommit,
        runner: RunnerId,
        run: &ClaimedRun,
    ) -> StoreResult<()> {
        let ends = matches!(commit.then, lope_store::runs::Then::Finish(_));
        let head = commit.rows.last().map_or(0, |row| row.seq);
        match self.ground.reply(commit).await? {
            CommitReply::Done { .. } if ends => (self.say)(format!("finish {}", run.run)),
            CommitReply::Done { .. } => {}
            CommitReply::Mail { mail } => {
                assert!(ends && mail > 0, "only a finish is told of mail");
                self.ground
                    .commit(release(runner, run, Wake::At(Timestamp::EPOCH), 0))
                    .await?;
            }
            other => panic!("the owner of {run:?} was answered with {other:?}"),
        }
        self.try_stale(RunCommit {
            rows: vec![self.row(head + 1, "stale", run)],
            ..hold(runner, run)
        })
        .await
    }

    /// We have released or finished the run: what we still write must be refused, whoever has it
    /// now.
    async fn try_stale(&self, commit: RunCommit) -> StoreResult<()> {
        match self.ground.reply(commit).await? {
            CommitReply::Lost { .. } | CommitReply::Missing => (self.say)("stale".to_owned()),
            other => panic!("a stale commit was answered with {other:?}"),
        }
        Ok(())
    }

    async fn is_all_done(&self) -> StoreResult<bool> {
        let counts = self.ground.runs().counts().await?;
        let done = counts.by_status.get("completed").copied().unwrap_or(0);
        Ok(done >= (self.work.runs * PROCESSES + self.work.shared_keys) as u64)
    }
}

/// How a run waits for its signal: each in one of three ways.
fn sleep_of(run: RunId) -> Wake {
    match run.as_bytes()[15] % 3 {
        0 => Wake::OnMail,
        1 => Wake::At(Timestamp::from_millis(4_000_000_000_000)),
        _ => Wake::Parked("no signal yet".to_owned()),
    }
}

fn events(rows: &[JournalRow]) -> Vec<String> {
    rows.iter().map(|row| row.event.to_string()).collect()
}
