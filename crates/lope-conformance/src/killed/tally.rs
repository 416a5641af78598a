//! What a killed process had been told is done, and whether the store agrees.

use lope_model::{RunId, limit};

use super::super::ground::{Ground, rows};
use super::writer::{PARTS, WRITERS, blob_of, child_of, key};
use lope_store::error::StoreResult;

/// The acknowledgements of one process.
#[derive(Debug)]
pub(super) struct WriterTally {
    round: usize,
    writers: [WriterProgress; WRITERS],
}

/// How far one writer came: its run, its last batch, its last commit.
#[derive(Debug, Clone, Copy, Default)]
struct WriterProgress {
    run: Option<RunId>,
    batch: u64,
    commit: u64,
}

impl WriterTally {
    pub(super) fn new(round: usize) -> Self {
        Self {
            round,
            writers: [WriterProgress::default(); WRITERS],
        }
    }

    /// A line cut off by the kill is an acknowledgement that nobody heard.
    pub(super) fn enter(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let [what, writer, value] = words[..] else {
            return;
        };
        let Some(done) = writer
            .parse()
            .ok()
            .and_then(|writer: usize| self.writers.get_mut(writer))
        else {
            return;
        };
        match what {
            "run" => done.run = value.parse().ok(),
            "batch" => done.batch = value.parse().unwrap_or(done.batch),
            "commit" => done.commit = value.parse().unwrap_or(done.commit),
            _ => {}
        }
    }

    pub(super) fn acknowledged(&self) -> usize {
        self.writers
            .iter()
            .map(|done| (done.batch + done.commit) as usize)
            .sum()
    }

    pub(super) async fn compare(&self, ground: &Ground) -> StoreResult<()> {
        for (writer, done) in self.writers.iter().enumerate() {
            self.compare_batches(ground, writer, done.batch).await?;
            if let Some(run) = done.run {
                compare_run(ground, run, done.commit).await?;
            }
        }
        Ok(())
    }

    /// Every acknowledged batch is there, the one behind it whole or not at all, nothing further.
    async fn compare_batches(
        &self,
        ground: &Ground,
        writer: usize,
        acknowledged: u64,
    ) -> StoreResult<()> {
        for batch in 1..=acknowledged + 2 {
            let keys: Vec<_> = (0..PARTS)
                .map(|part| key(self.round, writer, batch, part))
                .collect();
            let there = ground.tables().get(&keys).await?.iter().flatten().count() as u64;
            let which = format!(
                "round {}, writer {writer}, batch {batch} of {acknowledged}",
                self.round
            );
            assert!(
                there == 0 || there == PARTS,
                "half a batch: {there} keys of {which}"
            );
            assert!(
                there == PARTS || batch > acknowledged,
                "an acknowledged batch is gone: {which}"
            );
            assert!(
                there == 0 || batch <= acknowledged + 1,
                "a batch that was not written yet: {which}"
            );
        }
        Ok(())
    }
}

async fn compare_run(ground: &Ground, run: RunId, acknowledged: u64) -> StoreResult<()> {
    let head = ground.record(run).await?.head;
    let commits = (head - 1) / PARTS;
    assert_eq!(
        (head - 1) % PARTS,
        0,
        "half a commit: {run} has {head} rows"
    );
    assert!(
        commits >= acknowledged,
        "an acknowledged commit is gone: {run} has {commits} of {acknowledged}"
    );
    assert!(
        commits <= acknowledged + 1,
        "a commit that was not written yet: {run} has {commits}"
    );
    let journal = ground.runs().journal(run, 0, limit::PAGE_MAX).await?;
    assert!(
        journal.starts_with(&rows(1, head.min(limit::PAGE_MAX as u64))),
        "the journal of {run} differs"
    );
    for number in 1..=commits {
        assert!(
            is_whole(ground, run, number).await?,
            "half a commit: {number} of {run}"
        );
    }
    // A server may finish what the killed process had sent after we read the head: then the head
    // has moved too.
    if is_begun(ground, run, commits + 1).await? {
        assert!(
            (ground.record(run).await?.head - 1) / PARTS > commits,
            "half a commit: {} of {run}",
            commits + 1
        );
    }
    Ok(())
}

async fn is_whole(ground: &Ground, run: RunId, number: u64) -> StoreResult<bool> {
    let child = ground.runs().run(child_of(run, number)).await?;
    let blob = blob_of(run, number);
    let value = ground.runs().blobs(run, &[blob.digest]).await?.remove(0);
    Ok(child.is_some_and(|child| child.mail == 1) && value == Some(blob.bytes))
}

async fn is_begun(ground: &Ground, run: RunId, number: u64) -> StoreResult<bool> {
    let child = ground.runs().run(child_of(run, number)).await?;
    let value = ground
        .runs()
        .blobs(run, &[blob_of(run, number).digest])
        .await?
        .remove(0);
    Ok(child.is_some() || value.is_some())
}
