//! What a store can do at best: it admits runs, writes a row for a step and finishes them, as the engine would have it do, and
//! nothing else happens. The engine's figures stand beside these.

use std::sync::Arc;
use std::time::Instant;

use lope_engine::client::{self, StartOptions};
use lope_flow::law::Plan;
use lope_model::{Epoch, RunnerId, Span, Value};
use lope_store::runs::{Admit, FinalStatus, Finish, JournalRow, LiveStatus, Register, RunCommit, Then};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::figure::Figure;
use super::place::Place;
use super::shapes;
use super::work::CALLERS;
use crate::clock::wall;
use crate::error::{CliError, CliResult, Exit};

/// Most ends in one call.
const BATCH: usize = 1_000;
/// Bytes of the outcome of a step that does nothing.
const OUTCOME: usize = 120;

/// As many callers as the engine's, each with one run at a time; ends are written together, as they come.
pub(crate) async fn one_step(runs: u64, place: &Place) -> CliResult<Figure> {
    let (plan, owner) = begin(place).await?;
    let before = place.read().await?;
    let (born, mut ends) = mpsc::channel(BATCH);
    let callers = runs.min(CALLERS);
    let mut working = JoinSet::new();
    for caller in 0..callers {
        let (store, plan, born) = (place.store.clone(), Arc::clone(&plan), born.clone());
        let mine = runs / callers + u64::from(caller < runs % callers);
        working.spawn(async move {
            for _ in 0..mine {
                let admit = birth(&plan, owner);
                let end = finish(&admit, owner);
                store.runs.admit(vec![admit]).await?;
                // The other side ends only with an error of its own.
                let _ = born.send(end).await;
            }
            CliResult::Ok(())
        });
    }
    drop(born);
    let store = place.store.clone();
    working.spawn(async move {
        let mut group = Vec::new();
        while ends.recv_many(&mut group, BATCH).await > 0 {
            store.runs.commit(std::mem::take(&mut group)).await?;
        }
        Ok(())
    });
    all(working).await?;
    let cost = before.until(place.read().await?);
    place.store.runs.release(owner).await?;
    Ok(Figure { bench: "raw", place: place.kind.name(), unit: "runs", units: runs, cost, notes: Vec::new() })
}

async fn all(mut working: JoinSet<CliResult<()>>) -> CliResult<()> {
    while let Some(ended) = working.join_next().await {
        ended.map_err(|error| CliError::new(Exit::Bug, error.to_string()))??;
    }
    Ok(())
}

/// Runs that each write one row after the other, as steps in sequence do.
pub(crate) async fn sequences(runs: u64, steps: u64, place: &Place) -> CliResult<Figure> {
    let (plan, owner) = begin(place).await?;
    let born: Vec<Admit> = (0..runs).map(|_| birth(&plan, owner)).collect();
    place.store.runs.admit(born.clone()).await?;
    let before = place.read().await?;
    let mut working = JoinSet::new();
    for admit in born {
        let store = place.store.clone();
        working.spawn(async move {
            for step in 0..steps {
                let mut commit = finish(&admit, owner);
                commit.rows[0].seq = step + 2;
                commit.then = Then::Hold(LiveStatus::Running);
                store.runs.commit(vec![commit]).await?;
            }
            CliResult::Ok(())
        });
    }
    all(working).await?;
    let cost = before.until(place.read().await?);
    place.store.runs.release(owner).await?;
    let units = runs * steps;
    Ok(Figure { bench: "raw", place: place.kind.name(), unit: "steps", units, cost, notes: Vec::new() })
}

/// One run after the other, admitted and finished: two commits, and nothing else.
pub(crate) async fn one_by_one(runs: u64, place: &Place) -> CliResult<Figure> {
    let (plan, owner) = begin(place).await?;
    let (before, mut times) = (place.read().await?, Vec::new());
    for _ in 0..runs {
        let began = Instant::now();
        let admit = birth(&plan, owner);
        let end = finish(&admit, owner);
        place.store.runs.admit(vec![admit]).await?;
        place.store.runs.commit(vec![end]).await?;
        times.push(began.elapsed().as_secs_f64() * 1e3);
    }
    let cost = before.until(place.read().await?);
    place.store.runs.release(owner).await?;
    let figure = Figure { bench: "raw", place: place.kind.name(), unit: "runs", units: runs, cost, notes: Vec::new() };
    Ok(figure.times(times).0)
}

async fn begin(place: &Place) -> CliResult<(Arc<Plan>, RunnerId)> {
    let plan = shapes::plan(shapes::ONE);
    client::deploy(&place.store, &plan).await?;
    Ok((plan, register(place).await?))
}

fn birth(plan: &Plan, owner: RunnerId) -> Admit {
    let options = StartOptions { input: Some(Value::Int(1)), ..StartOptions::default() };
    Admit { claimed_by: Some(owner), ..client::admission(plan, options, wall()) }
}

async fn register(place: &Place) -> CliResult<RunnerId> {
    let runner = RunnerId::from_uuid(uuid::Uuid::now_v7());
    let word = || "bench".to_owned();
    let (pid, lease) = (std::process::id(), Span::from_secs(3_600));
    place
        .store
        .runs
        .register(Register {
            runner,
            name: word(),
            host: word(),
            pid,
            program: word(),
            serves: lope_store::runs::Serves::default(),
            lease,
        })
        .await?;
    Ok(runner)
}

fn finish(admit: &Admit, owner: RunnerId) -> RunCommit {
    let row = JournalRow { seq: 2, at: wall(), event: "outcome".into(), body: vec![0; OUTCOME] };
    let result = Some(vec![0xc0]);
    RunCommit {
        rows: vec![row],
        ..RunCommit::new(
            admit.run,
            owner,
            Epoch(1),
            Then::Finish(Finish { status: FinalStatus::Completed, result, error: None, seen: None }),
        )
    }
}
