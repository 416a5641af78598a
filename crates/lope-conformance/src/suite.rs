//! Which promises there are, and how they are run: a few at a time, each on its own ground, to the
//! end of the list.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::ground::Ground;
use super::promise::{Promise, SuiteReport};
use super::site::Harness;
use super::{
    admit, batch, board, claim, commit, concurrency, damage, definitions, deliver, heartbeat,
    mailbox_send, marker, prune, query, release, schedule, tables, takeover, timers, upkeep, watch,
};

/// Promises run at once: most wait for their store, two cores have room.
const AT_ONCE: usize = 4;
/// A promise that takes longer hangs.
const PATIENCE: Duration = Duration::from_mins(2);

pub(super) fn all() -> impl Iterator<Item = &'static Promise> {
    let groups = [
        tables::PROMISES,
        batch::PROMISES,
        timers::PROMISES,
        marker::PROMISES,
        definitions::PROMISES,
        admit::PROMISES,
        claim::PROMISES,
        commit::PROMISES,
        commit::children::PROMISES,
        commit::finish::PROMISES,
        mailbox_send::PROMISES,
        deliver::PROMISES,
        release::PROMISES,
        takeover::PROMISES,
        heartbeat::PROMISES,
        query::PROMISES,
        prune::PROMISES,
        schedule::PROMISES,
        watch::PROMISES,
        upkeep::PROMISES,
        board::PROMISES,
        damage::PROMISES,
        concurrency::PROMISES,
        concurrency::tables::PROMISES,
    ];
    groups.into_iter().flatten()
}

/// Run every promise whose name contains `part`.
pub(super) fn report(harness: Arc<dyn Harness>, part: &str) -> SuiteReport {
    let asked = all()
        .filter(|promise| promise.name().contains(part))
        .copied();
    let can_be_damaged = harness.can_be_damaged();
    let (wanted, left_out): (Vec<Promise>, Vec<Promise>) =
        asked.partition(|promise| can_be_damaged || promise.module != damage::MODULE);
    let runtime = Runtime::new().expect("a runtime starts");
    let mut report = runtime.block_on(run_all(harness, wanted));
    report.left_out = left_out.iter().map(Promise::name).collect();
    report
        .broken
        .sort_by(|one, other| one.promise.cmp(&other.promise));
    report
}

async fn run_all(harness: Arc<dyn Harness>, wanted: Vec<Promise>) -> SuiteReport {
    let mut report = SuiteReport::default();
    let mut running = JoinSet::new();
    let mut waiting = wanted.into_iter();
    loop {
        while running.len() < AT_ONCE
            && let Some(promise) = waiting.next()
        {
            running.spawn(check(promise, Arc::clone(&harness)));
        }
        match running.join_next().await {
            Some(checked) => {
                let (promise, verdict) = checked.expect("judging catches what a promise does");
                report.enter(promise, verdict);
            }
            None => return report,
        }
    }
}

async fn check(promise: Promise, harness: Arc<dyn Harness>) -> (Promise, Result<(), String>) {
    let task = tokio::spawn(async move {
        let ground = Ground::new(harness.fresh().await).await;
        (promise.keep)(ground).await
    });
    let stop = task.abort_handle();
    let verdict = match tokio::time::timeout(PATIENCE, task).await {
        Ok(Ok(Ok(()))) => Ok(()),
        Ok(Ok(Err(error))) => Err(format!("the store answered: {error}")),
        Ok(Err(panic)) => Err(told(panic)),
        Err(_) => Err(format!("still not done after {PATIENCE:?}")),
    };
    stop.abort();
    (promise, verdict)
}

fn told(error: tokio::task::JoinError) -> String {
    match error.try_into_panic() {
        Ok(panic) => match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
            (Some(text), _) => (*text).to_owned(),
            (_, Some(text)) => text.clone(),
            (None, None) => "it panicked".to_owned(),
        },
        Err(error) => error.to_string(),
    }
}
