//! For benchmarks: what a store can do at best, beside which the engine's figures stand, and
//! readings of clocks and servers. Nothing of this is needed to work.

use std::sync::Arc;

use lope_engine::QueueLimits;
use lope_engine::client::{self, RunStartOptions};
use lope_flow::law::Plan;
use lope_mailbox::time::TimeHooks;
use lope_model::{Epoch, RunnerId, Span, Value};
use lope_store::runs::{
    Admit, FinalStatus, Finish, JournalRow, LiveStatus, Register, RunCommit, Serves, Then,
};
use lope_store::{StoreError, StoreResult};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::client::Client;
use crate::clock;
use crate::stores::StoreUrl;

pub use lope_mailbox::bench::{MeasuredMailbox, idle_handler};
pub use lope_postgres::ServerMeter;
pub use lope_store::bench::{cpu_time, fsync_probe, fsync_times};

/// Most ends in one call.
const BATCH: usize = 1_000;
/// Bytes of the outcome of a step that does nothing.
const OUTCOME: usize = 120;

/// Messages and timers to measure on the mailboxes of a store.
pub async fn measured_mailbox(client: &Client) -> StoreResult<MeasuredMailbox> {
    Ok(MeasuredMailbox {
        tables: Arc::clone(&client.store().tables),
        time: TimeHooks::on(Arc::new(client.clock().await?)),
    })
}

/// What a Postgres server spends, if a URL names one.
pub async fn server_meter(url: &StoreUrl) -> StoreResult<Option<ServerMeter>> {
    match url {
        StoreUrl::Postgres(url) => {
            let options = lope_postgres::PostgresOptions::new(url)?;
            Ok(Some(ServerMeter::open(&options).await?))
        }
        StoreUrl::Memory | StoreUrl::Sqlite(_) => Ok(None),
    }
}

/// A store without an engine: it admits runs, writes a row for a step and finishes them, as the
/// engine would have it do, and nothing else happens.
#[derive(Debug)]
pub struct RawStore {
    client: Client,
    plan: Arc<Plan>,
    owner: RunnerId,
}

/// A run that was admitted and waits for its rows.
#[derive(Clone, Debug)]
pub struct RawRun(Admit);

impl RawStore {
    pub async fn begin(client: &Client, plan: Arc<Plan>) -> StoreResult<Self> {
        client.deploy(&plan).await?;
        let owner = RunnerId::from_uuid(uuid::Uuid::now_v7());
        let word = || "bench".to_owned();
        let register = Register {
            runner: owner,
            name: word(),
            host: word(),
            pid: std::process::id(),
            process: String::new(),
            program: word(),
            serves: Serves::default(),
            lease: Span::from_secs(3_600),
        };
        client.store().runs.register(register).await?;
        let client = client.clone();
        Ok(Self {
            client,
            plan,
            owner,
        })
    }

    /// So many callers, each with one run at a time; ends are written together, as they come.
    pub async fn finish_all(&self, runs: u64, callers: u64) -> StoreResult<()> {
        let (born, mut ends) = mpsc::channel(BATCH);
        let callers = runs.min(callers);
        let mut working = JoinSet::new();
        for caller in 0..callers {
            let store = self.client.store().clone();
            let born = born.clone();
            let plan = Arc::clone(&self.plan);
            let owner = self.owner;
            let mine = runs / callers + u64::from(caller < runs % callers);
            working.spawn(async move {
                for _ in 0..mine {
                    let admit = birth(&plan, owner);
                    let end = finish(&admit, owner);
                    store.runs.admit(vec![admit]).await?;
                    // The other side ends only with an error of its own.
                    let _ = born.send(end).await;
                }
                StoreResult::Ok(())
            });
        }
        drop(born);
        let store = self.client.store().clone();
        working.spawn(async move {
            let mut group = Vec::new();
            while ends.recv_many(&mut group, BATCH).await > 0 {
                store.runs.commit(std::mem::take(&mut group)).await?;
            }
            Ok(())
        });
        all(working).await
    }

    /// Runs to write rows of.
    pub async fn admit(&self, runs: u64) -> StoreResult<Vec<RawRun>> {
        let born: Vec<Admit> = (0..runs).map(|_| birth(&self.plan, self.owner)).collect();
        self.client.store().runs.admit(born.clone()).await?;
        Ok(born.into_iter().map(RawRun).collect())
    }

    /// Each of these writes one row after the other, as steps in sequence do.
    pub async fn write_rows(&self, born: Vec<RawRun>, steps: u64) -> StoreResult<()> {
        let mut working = JoinSet::new();
        for RawRun(admit) in born {
            let store = self.client.store().clone();
            let owner = self.owner;
            working.spawn(async move {
                for step in 0..steps {
                    let mut commit = finish(&admit, owner);
                    commit.rows[0].seq = step + 2;
                    commit.then = Then::Hold(LiveStatus::Running);
                    store.runs.commit(vec![commit]).await?;
                }
                StoreResult::Ok(())
            });
        }
        all(working).await
    }

    /// One run, admitted and finished: two commits, and nothing else.
    pub async fn finish_one(&self) -> StoreResult<()> {
        let admit = birth(&self.plan, self.owner);
        let end = finish(&admit, self.owner);
        self.client.store().runs.admit(vec![admit]).await?;
        self.client.store().runs.commit(vec![end]).await?;
        Ok(())
    }

    /// Give everything back.
    pub async fn end(self) -> StoreResult<()> {
        self.client.store().runs.release(self.owner).await?;
        Ok(())
    }
}

async fn all(mut working: JoinSet<StoreResult<()>>) -> StoreResult<()> {
    while let Some(ended) = working.join_next().await {
        ended.map_err(StoreError::unavailable)??;
    }
    Ok(())
}

fn birth(plan: &Plan, owner: RunnerId) -> Admit {
    let options = RunStartOptions {
        input: Some(Value::Int(1)),
        ..RunStartOptions::default()
    };
    Admit {
        claimed_by: Some(owner),
        ..client::new_run(plan, options, &QueueLimits::new(), clock::now()).admit
    }
}

fn finish(admit: &Admit, owner: RunnerId) -> RunCommit {
    let row = JournalRow {
        seq: 2,
        at: clock::now(),
        event: "outcome".into(),
        body: vec![0; OUTCOME],
    };
    let finish = Finish {
        status: FinalStatus::Completed,
        result: Some(vec![0xc0]),
        error: None,
        seen: None,
    };
    RunCommit {
        rows: vec![row],
        ..RunCommit::new(admit.run, owner, Epoch(1), Then::Finish(finish))
    }
}
