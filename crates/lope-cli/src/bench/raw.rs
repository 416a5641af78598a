//! What a store can do at best with one-step runs: it admits them and finishes them, in batches as large as the engine's, and
//! nothing else happens. The engine's figure stands beside this one.

use lope_engine::client::{self, StartOptions};
use lope_model::{Epoch, RunnerId, Span, Value};
use lope_store::runs::{Admit, FinalStatus, Finish, JournalRow, Register, RunCommit, Then};

use super::figure::Figure;
use super::place::Place;
use super::shapes;
use crate::clock::wall;
use crate::error::CliResult;

/// Runs of one call.
const BATCH: u64 = 256;
/// Bytes of the outcome of a step that does nothing.
const OUTCOME: usize = 120;

pub(crate) async fn one_step(runs: u64, place: &Place) -> CliResult<Figure> {
    let plan = shapes::plan(shapes::ONE);
    client::deploy(&place.store, &plan).await?;
    let owner = register(place).await?;
    let before = place.read().await?;
    let mut left = runs;
    while left > 0 {
        let some = left.min(BATCH);
        let born = (0..some).map(|_| {
            let options = StartOptions { input: Some(Value::Int(1)), ..StartOptions::default() };
            Admit { claimed_by: Some(owner), ..client::admission(&plan, options, wall()) }
        });
        let born: Vec<Admit> = born.collect();
        let ends = born.iter().map(|admit| finish(admit, owner)).collect();
        place.store.runs.admit(born).await?;
        place.store.runs.commit(ends).await?;
        left -= some;
    }
    let cost = before.until(place.read().await?);
    place.store.runs.release(owner).await?;
    Ok(Figure { bench: "raw", place: place.kind.name(), unit: "runs", units: runs, cost, notes: Vec::new() })
}

async fn register(place: &Place) -> CliResult<RunnerId> {
    let runner = RunnerId::from_uuid(uuid::Uuid::now_v7());
    let word = || "bench".to_owned();
    let (pid, lease) = (std::process::id(), Span::from_secs(3_600));
    place.store.runs.register(Register { runner, name: word(), host: word(), pid, program: word(), lease }).await?;
    Ok(runner)
}

fn finish(admit: &Admit, owner: RunnerId) -> RunCommit {
    let row = JournalRow { seq: 2, at: wall(), event: "outcome".into(), body: vec![0; OUTCOME] };
    let result = Some(vec![0xc0]);
    RunCommit {
        run: admit.run,
        owner,
        epoch: Epoch(1),
        rows: vec![row],
        blobs: Vec::new(),
        snapshot: None,
        taken: Vec::new(),
        children: Vec::new(),
        deliveries: Vec::new(),
        posts: Vec::new(),
        then: Then::Finish(Finish { status: FinalStatus::Completed, result, error: None, seen: None }),
    }
}
