//! The writers of a process that will be killed: each its own run and its own keys, one batch after
//! the other.

use std::fmt::Display;

use lope_model::{Digest, RunId};

use super::super::ground::{Ground, hold, mail_to, rows};
use lope_store::error::StoreResult;
use lope_store::runs::{Admit, Blob, ClaimedRun, Reach, RunCommit};
use lope_store::tables::{At, Batch, TableId, Write};

pub(super) const WRITERS: usize = 4;
/// Keys of a batch, and journal rows of a commit.
pub(super) const PARTS: u64 = 3;

/// The key of a part of a batch.
pub(super) fn key(round: usize, writer: usize, batch: u64, part: u64) -> At {
    let numbers = [round as u64, writer as u64, batch, part].map(u64::to_be_bytes);
    At::new(TableId::OUTBOX, numbers.concat())
}

/// The child run that a run's commit admits.
pub(super) fn child_of(run: RunId, commit: u64) -> RunId {
    run.child(&commit.to_string())
}

/// The value that a run's commit keeps.
pub(super) fn blob_of(run: RunId, commit: u64) -> Blob {
    let bytes = format!("{run} {commit}").into_bytes();
    Blob {
        digest: Digest::of(&bytes),
        bytes,
    }
}

/// Ends only with an error.
pub(super) async fn write_for_ever(
    ground: &Ground,
    round: usize,
    say: impl Fn(String) + Clone + Send + Sync + 'static,
) -> StoreResult<()> {
    ground.deploy().await?;
    let mut tasks = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let (ground, say) = (ground.clone(), say.clone());
        tasks.spawn(async move { write(ground, round, writer, say).await });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.expect("a writer does not panic")?;
    }
    Ok(())
}

async fn write(
    ground: Ground,
    round: usize,
    writer: usize,
    say: impl Fn(String) + Sync,
) -> StoreResult<()> {
    let runner = ground.runner().await?;
    let run = ground
        .admit(vec![Admit {
            claimed_by: Some(runner),
            ..ground.admission()
        }])
        .await?[0];
    let say_done = |what: &str, number: &dyn Display| say(format!("{what} {writer} {number}"));
    say_done("run", &run);
    let owned = ground.runs().owned(runner, None, 1).await?.remove(0);
    for number in 1.. {
        let writes = (0..PARTS)
            .map(|part| Write::Put(key(round, writer, number, part), vec![writer as u8; 100]));
        let batch = Batch {
            guards: vec![],
            writes: writes.collect(),
        };
        ground
            .tables()
            .commit(vec![batch])
            .await?
            .remove(0)
            .expect("nothing is guarded");
        say_done("batch", &number);
        ground
            .commit(commit(&ground, runner, &owned, number))
            .await?;
        say_done("commit", &number);
    }
    Ok(())
}

/// Rows, a value, a child, and mail to that child: all of it or nothing.
fn commit(
    ground: &Ground,
    owner: lope_model::RunnerId,
    run: &ClaimedRun,
    number: u64,
) -> RunCommit {
    let child = child_of(run.run, number);
    let first = 2 + (number - 1) * PARTS;
    RunCommit {
        rows: rows(first, first + PARTS - 1),
        blobs: vec![blob_of(run.run, number)],
        children: vec![Admit {
            run: child,
            ..ground.admission()
        }],
        deliveries: vec![mail_to(child, "born", Reach::Live)],
        ..hold(owner, run)
    }
}
