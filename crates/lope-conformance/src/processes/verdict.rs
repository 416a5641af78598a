//! Did the processes do everything once, in order, and only with the right to? The store and what
//! they said must agree.

use std::collections::{BTreeMap, BTreeSet};

use lope_model::{RunId, limit};

use super::super::ground::{Ground, sorted};
use super::evidence::Evidence;
use super::work::{PROCESSES, Workload};
use super::worker::{COUNTER, counter};
use lope_store::error::StoreResult;
use lope_store::runs::{FinalStatus, JournalRow, RunStatus};
use lope_store::tables::{Range, TableId};

pub(super) async fn check_evidence(
    ground: &Ground,
    evidence: &Evidence,
    work: Workload,
) -> StoreResult<()> {
    assert!(evidence.inside >= 2, "the processes did not overlap");
    assert!(
        evidence.stale > 0 && evidence.taken_over > 0,
        "too little was tried"
    );
    claims(evidence);
    admissions(ground, evidence, work).await?;
    for run in &evidence.admitted {
        life(ground, *run).await?;
    }
    tables(ground, evidence, work).await?;
    assert_eq!(ground.store.upkeep.check().await?, vec![]);
    Ok(())
}

/// No run was given to two for an epoch; each ended once.
fn claims(evidence: &Evidence) {
    let doubled: Vec<_> = evidence
        .claims
        .iter()
        .filter(|(_, count)| **count > 1)
        .collect();
    assert!(
        doubled.is_empty(),
        "claimed twice in one epoch: {doubled:?}"
    );
    assert!(
        evidence.finishes.values().all(|count| *count == 1),
        "finished twice: {:?}",
        evidence.finishes
    );
    assert_eq!(
        sorted(evidence.finishes.keys().copied()),
        sorted(evidence.admitted.iter().copied())
    );
}

async fn admissions(ground: &Ground, evidence: &Evidence, work: Workload) -> StoreResult<()> {
    assert_eq!(
        evidence.admitted.len(),
        work.runs * PROCESSES + work.shared_keys
    );
    assert_eq!(evidence.created.len(), work.shared_keys);
    assert!(
        evidence.created.values().all(|count| *count == 1),
        "a key admitted twice: {:?}",
        evidence.created
    );
    for key in evidence.created.keys() {
        let run = ground
            .runs()
            .find_key(key)
            .await?
            .expect("the key is there");
        assert!(evidence.admitted.contains(&run));
    }
    Ok(())
}

/// A run's journal has no gap and no doubled number, epochs only grow in it, each belongs to one
/// process, and the signal that was sent twice is in it once.
async fn life(ground: &Ground, run: RunId) -> StoreResult<()> {
    let record = ground.record(run).await?;
    assert_eq!(
        record.status,
        RunStatus::Final(FinalStatus::Completed),
        "{run}"
    );
    assert_eq!(record.mail, 1, "{run}");
    let journal = ground.runs().journal(run, 0, limit::PAGE_MAX).await?;
    let numbers: Vec<u64> = journal.iter().map(|row| row.seq).collect();
    assert_eq!(numbers, (1..=record.head).collect::<Vec<_>>(), "{run}");
    let signals = journal.iter().filter(|row| &*row.event == "signal").count();
    assert_eq!(
        (
            signals,
            journal.iter().filter(|row| &*row.event == "stale").count()
        ),
        (1, 0),
        "{run}"
    );
    let mut writers: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    let mut before = 0;
    for (epoch, process) in journal.iter().skip(1).map(written_by) {
        assert!(
            epoch >= before && epoch <= record.epoch.0,
            "{run}: epoch {epoch} after {before}"
        );
        before = epoch;
        writers.entry(epoch).or_default().insert(process);
    }
    assert!(
        writers.values().all(|processes| processes.len() == 1),
        "{run}: {writers:?}"
    );
    Ok(())
}

fn written_by(row: &JournalRow) -> (u64, u64) {
    let text = std::str::from_utf8(&row.body).expect("a worker wrote it");
    let (epoch, process) = text.split_once(' ').expect("epoch and process");
    (
        epoch.parse().expect("an epoch"),
        process.parse().expect("a process"),
    )
}

/// Guarded counters are exact, appended numbers unique and all there.
async fn tables(ground: &Ground, evidence: &Evidence, work: Workload) -> StoreResult<()> {
    let expected = (work.increments * PROCESSES) as u64;
    assert_eq!(evidence.increments, expected);
    let value = ground
        .get(&counter(COUNTER))
        .await?
        .expect("it was counted");
    assert_eq!(value, expected.to_be_bytes());
    let rows = ground
        .tables()
        .range(Range::prefix(TableId::OUTBOX, b"", limit::PAGE_MAX))
        .await?;
    let stored: Vec<u64> = rows
        .iter()
        .map(|row| u64::from_be_bytes(row.key[..].try_into().expect("eight bytes")))
        .collect();
    assert_eq!(stored, sorted(evidence.appended.iter().copied()));
    assert_eq!(stored.len() as u64, expected);
    Ok(())
}
