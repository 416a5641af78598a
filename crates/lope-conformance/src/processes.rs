//! Eight processes on one store: they admit, claim, commit, deliver, release and guard-commit at
//! once, and afterwards the parent looks whether anything was done twice, lost, or done by one who
//! had no right to.
//!
//! What each process did it reports in lines; the evidence of the lines and of the store must
//! agree.

mod evidence;
mod verdict;
mod work;
mod worker;

use tokio::runtime::Runtime;

pub use self::work::{PROCESSES, Workload};

use self::evidence::Evidence;
use self::worker::Worker;
use super::child::{Child, ChildOrder, ChildRole, OpenStore, say, wait_for_parent};
use super::ground::Ground;
use lope_store::store::Store;

/// Start `PROCESSES` copies of this program on the (empty) store at `url`, and judge what they did.
/// `args` are what the copies need on their command line to come to `child_entry`. Panics with what
/// was broken.
pub fn run(open: OpenStore, url: &str, args: &[&str]) {
    let runtime = Runtime::new().expect("a runtime starts");
    let store = runtime.block_on(open(url.to_owned()));
    runtime
        .block_on(worker::prepare(&store))
        .expect("an empty store can be prepared");
    let order = |index| ChildOrder {
        role: ChildRole::Worker,
        url: url.to_owned(),
        index,
    };
    let mut children: Vec<Child> = (0..PROCESSES)
        .map(|index| Child::start(&order(index), args))
        .collect();
    for child in &children {
        assert_eq!(child.hear().as_deref(), Some("ready"));
    }
    children.iter_mut().for_each(Child::go);
    let mut evidence = Evidence::default();
    for (index, child) in children.into_iter().enumerate() {
        child
            .hear_out()
            .iter()
            .for_each(|line| evidence.enter(index, line));
    }
    println!("{PROCESSES} processes: {evidence}");
    runtime.block_on(check_evidence(store, &evidence, Workload::chosen()));
}

async fn check_evidence(store: Store, evidence: &Evidence, work: Workload) {
    let ground = Ground::on(store).await;
    verdict::check_evidence(&ground, evidence, work)
        .await
        .expect("the store answers");
    ground.store.upkeep.close().await.expect("the store closes");
}

/// What a child does.
pub(super) fn child(open: OpenStore, order: &ChildOrder) {
    let runtime = Runtime::new().expect("a runtime starts");
    let store = runtime.block_on(open(order.url.clone()));
    say("ready");
    wait_for_parent();
    let work = Workload::chosen();
    runtime.block_on(async {
        let ground = Ground::on(store).await;
        Worker::new(ground.clone(), order.index, work, say_line)
            .run()
            .await
            .expect("the store answers");
        ground.store.upkeep.close().await.expect("the store closes");
    });
}

fn say_line(line: String) {
    say(line);
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use lope_store::memory::MemoryStore;

    static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());

    /// The same work and the same verdict, with tasks in place of processes.
    #[test]
    fn tasks_on_the_memory_pass_the_verdict() {
        let runtime = Runtime::new().expect("a runtime starts");
        let work = Workload {
            runs: 10,
            shared_keys: 6,
            increments: 10,
            ..Workload::chosen()
        };
        let store = MemoryStore::open();
        runtime.block_on(worker::prepare(&store)).unwrap();
        let workers: Vec<_> = (0..PROCESSES)
            .map(|index| {
                let store = store.clone();
                runtime.spawn(async move {
                    let ground = Ground::on(store).await;
                    let say = |line| SAID.lock().unwrap().push(line);
                    Worker::new(ground, index, work, say).run().await.unwrap();
                })
            })
            .collect();
        for worker in workers {
            runtime.block_on(worker).unwrap();
        }
        let mut evidence = Evidence::default();
        SAID.lock()
            .unwrap()
            .iter()
            .for_each(|line| evidence.enter(0, line));
        runtime.block_on(check_evidence(store, &evidence, work));
    }
}
