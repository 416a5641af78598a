//! A writing process is killed at random points, again and again: what it was told is done is
//! there, and no batch is half.
//!
//! Each writer of the child works on a run and on keys of its own, one batch after the other, and
//! says every batch that was acknowledged; so beside those at most one batch of each may be there,
//! whole.

mod tally;
mod writer;

use std::thread;
use std::time::Duration;

use tokio::runtime::Runtime;

use self::tally::WriterTally;
use super::child::{Child, ChildOrder, ChildRole, OpenStore, say};
use super::ground::Ground;
use lope_store::error::StoreResult;

/// Kills of an ordinary test run, and of `LOPE_CHAOS=full`.
const SAMPLE: usize = 6;
const FULL: usize = 200;
/// The child is killed after this many acknowledgements and a moment that is no multiple of
/// anything.
const LINES_MAX: u64 = 60;
const MOMENT_MAX: u64 = 4_000;

/// Start copies of this program that write to the store at `url`, kill each with SIGKILL, open the
/// store again and compare it with what was acknowledged. `args` are what the copies need to come
/// to `child_entry`.
pub fn run(open: OpenStore, url: &str, args: &[&str]) {
    let full = std::env::var("LOPE_CHAOS").is_ok_and(|chaos| chaos == "full");
    let runtime = Runtime::new().expect("a runtime starts");
    let mut tallies = Vec::new();
    for round in 0..if full { FULL } else { SAMPLE } {
        let order = ChildOrder {
            role: ChildRole::Writer,
            url: url.to_owned(),
            index: round,
        };
        let tally = kill_one(&order, args);
        runtime
            .block_on(compare(open, url, std::slice::from_ref(&tally)))
            .expect("the store answers");
        tallies.push(tally);
    }
    let acknowledged: usize = tallies.iter().map(WriterTally::acknowledged).sum();
    assert!(
        acknowledged > tallies.len(),
        "the writers were killed before they wrote anything"
    );
    println!(
        "{} kills, {acknowledged} acknowledged batches and commits",
        tallies.len()
    );
    runtime
        .block_on(compare(open, url, &tallies))
        .expect("the store answers");
}

fn kill_one(order: &ChildOrder, args: &[&str]) -> WriterTally {
    let child = Child::start(order, args);
    let mut tally = WriterTally::new(order.index);
    let mut chance = Chance(order.index as u64 + 1);
    for _ in 0..=chance.below(LINES_MAX) {
        tally.enter(&child.hear().expect("a writer writes until it is killed"));
    }
    thread::sleep(Duration::from_micros(chance.below(MOMENT_MAX)));
    child.kill().iter().for_each(|line| tally.enter(line));
    tally
}

async fn compare(open: OpenStore, url: &str, tallies: &[WriterTally]) -> StoreResult<()> {
    let ground = Ground::on(open(url.to_owned()).await).await;
    for tally in tallies {
        tally.compare(&ground).await?;
    }
    assert_eq!(ground.store.upkeep.check().await?, vec![]);
    ground.store.upkeep.close().await
}

/// What the child does: writes until it is killed.
pub(super) fn child(open: OpenStore, order: &ChildOrder) {
    let runtime = Runtime::new().expect("a runtime starts");
    runtime.block_on(async {
        let ground = Ground::on(open(order.url.clone()).await).await;
        writer::write_for_ever(&ground, order.index, say)
            .await
            .expect("the store answers");
    });
}

/// A small generator, so that a round can be repeated by its number.
#[derive(Debug)]
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use lope_store::clock::SystemClock;
    use lope_store::error::StoreError;
    use lope_store::memory::MemoryStore;

    /// The same writers and the same comparison, with a handle that is closed in place of a process
    /// that is killed.
    #[test]
    fn a_handle_that_is_closed_leaves_no_half_batch() {
        let runtime = Runtime::new().expect("a runtime starts");
        let memory = MemoryStore::new(Arc::new(SystemClock::default()));
        let (ground, writers) =
            runtime.block_on(async { (Ground::on(memory.handle()).await, memory.handle()) });
        let said: Arc<Mutex<Vec<String>>> = Arc::default();
        let (log, store) = (Arc::clone(&said), writers.clone());
        let say = move |line: String| log.lock().unwrap().push(line);
        let task = runtime
            .spawn(async move { writer::write_for_ever(&Ground::on(writers).await, 3, say).await });
        runtime.block_on(async {
            while said.lock().unwrap().len() < 200 {
                tokio::task::yield_now().await;
            }
            store.upkeep.close().await.unwrap();
            assert!(matches!(task.await.unwrap(), Err(StoreError::Closed)));
        });
        let mut tally = WriterTally::new(3);
        said.lock()
            .unwrap()
            .iter()
            .for_each(|line| tally.enter(line));
        runtime.block_on(tally.compare(&ground)).unwrap();
        assert!(tally.acknowledged() > 100);
    }

    #[test]
    #[should_panic(expected = "an acknowledged batch is gone")]
    fn a_lost_batch_is_noticed() {
        let runtime = Runtime::new().expect("a runtime starts");
        let ground = runtime.block_on(Ground::on(MemoryStore::open()));
        let mut tally = WriterTally::new(0);
        tally.enter("batch 2 7");
        runtime.block_on(tally.compare(&ground)).unwrap();
    }
}
