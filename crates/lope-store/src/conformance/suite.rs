//! Which promises there are, and how they are run: a few at a time, each on its own ground, to the end of the list.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::ground::Ground;
use super::place::Harness;
use super::promise::{Promise, Report};
use super::{
    admit, batch, claim, commit, concurrency, definitions, deliver, heartbeat, marker, post, prune, query, release,
    schedule, tables, takeover, upkeep, watch,
};

/// Promises run at once: most wait for their store, two cores have room.
const AT_ONCE: usize = 4;
/// A promise that takes longer hangs.
const PATIENCE: Duration = Duration::from_mins(2);

pub(super) fn all() -> impl Iterator<Item = &'static Promise> {
    let groups = [
        tables::PROMISES,
        batch::PROMISES,
        marker::PROMISES,
        definitions::PROMISES,
        admit::PROMISES,
        claim::PROMISES,
        commit::PROMISES,
        post::PROMISES,
        deliver::PROMISES,
        release::PROMISES,
        takeover::PROMISES,
        heartbeat::PROMISES,
        query::PROMISES,
        prune::PROMISES,
        schedule::PROMISES,
        watch::PROMISES,
        upkeep::PROMISES,
        concurrency::PROMISES,
    ];
    groups.into_iter().flatten()
}

/// Run every promise whose name contains `part`.
pub(super) fn report(harness: Arc<dyn Harness>, part: &str) -> Report {
    let wanted: Vec<Promise> = all().filter(|promise| promise.name().contains(part)).copied().collect();
    let runtime = Runtime::new().expect("a runtime starts");
    let mut report = runtime.block_on(run_all(harness, wanted));
    report.broken.sort_by(|one, other| one.promise.cmp(&other.promise));
    report
}

async fn run_all(harness: Arc<dyn Harness>, wanted: Vec<Promise>) -> Report {
    let mut report = Report::default();
    let mut running = JoinSet::new();
    let mut waiting = wanted.into_iter();
    loop {
        while running.len() < AT_ONCE
            && let Some(promise) = waiting.next()
        {
            running.spawn(judge(promise, Arc::clone(&harness)));
        }
        match running.join_next().await {
            Some(judged) => report.enter(judged.expect("judging catches what a promise does")),
            None => return report,
        }
    }
}

async fn judge(promise: Promise, harness: Arc<dyn Harness>) -> (Promise, Result<(), String>) {
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
