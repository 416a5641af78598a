//! Runs: the youngest and those that live, when the store or the runner says that something may have
//! happened; else, every other second, those that live.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lope::runs::{FinalStatus, RunFilter, RunRecord, RunStatus};
use lope::{Client, RunId, describe};
use serde_json::Value as Json;

use super::{FeedKind, Look};
use crate::api_error::ApiError;
use crate::redactions::Redactions;

/// Youngest runs looked at.
const YOUNGEST: usize = 200;
/// Live runs looked at.
const LIVE: usize = 2_000;
/// Runs that left both lists since the last look, asked for together.
const LEFT: usize = 1_000;

/// Changes of runs.
#[derive(Debug)]
pub struct RunChanges {
    known: Mutex<KnownRuns>,
    redactions: Arc<Redactions>,
}

#[derive(Debug, Default)]
struct KnownRuns {
    by_id: HashMap<RunId, (u64, RunStatus)>,
    filled: bool,
}

/// What a look saw of runs.
#[derive(Debug)]
pub struct SeenRuns {
    records: HashMap<RunId, RunRecord>,
    /// They are in the store no more.
    gone: HashSet<RunId>,
    look: Look,
}

impl RunChanges {
    pub fn new(redactions: Arc<Redactions>) -> Self {
        Self {
            known: Mutex::default(),
            redactions,
        }
    }

    fn known(&self) -> MutexGuard<'_, KnownRuns> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those that lived at the last look and are not among these.
    fn left(&self, seen: &HashMap<RunId, RunRecord>) -> Vec<RunId> {
        let known = self.known();
        let lived = known.by_id.iter().filter(|(run, (_, status))| {
            matches!(status, RunStatus::Live(_)) && !seen.contains_key(run)
        });
        lived.map(|(run, _)| *run).take(LEFT).collect()
    }
}

impl FeedKind for RunChanges {
    type Seen = SeenRuns;

    const IDLE: Duration = Duration::from_secs(2);
    const SPACING: Duration = Duration::from_millis(50);
    const HEARS_RUNNER: bool = true;

    /// A new run is told of by whoever starts it, how far it is not always: the youngest are asked for
    /// when something was told.
    async fn query(&self, client: &Client, look: Look) -> Result<SeenRuns, ApiError> {
        let youngest = match look {
            Look::Told => client.list(filter(Vec::new(), YOUNGEST)).await?,
            Look::Idle => Vec::new(),
        };
        let live = client.list(filter(live_statuses(), LIVE)).await?;
        let seen = live.into_iter().chain(youngest);
        let mut records: HashMap<RunId, RunRecord> =
            seen.map(|record| (record.run, record)).collect();
        let left = self.left(&records);
        let mut gone: HashSet<RunId> = left.iter().copied().collect();
        if !left.is_empty() {
            let there = client.listed(&left).await?;
            for record in there {
                gone.remove(&record.run);
                records.insert(record.run, record);
            }
        }
        for record in records.values_mut() {
            self.redactions.listed(client, record).await;
        }
        Ok(SeenRuns {
            records,
            gone,
            look,
        })
    }

    fn changes(&self, seen: SeenRuns) -> Vec<(&'static str, Json)> {
        let SeenRuns {
            records,
            gone,
            look,
        } = seen;
        let mut known = self.known();
        let first = !known.filled;
        known.filled = true;
        let mut changed: Vec<&RunRecord> = records
            .values()
            .filter(|record| known.by_id.get(&record.run) != Some(&(record.head, record.status)))
            .collect();
        changed.sort_by_key(|record| (record.created_at, record.run));
        let told = changed.into_iter().filter(|_| !first);
        let told = told.map(|record| ("run", describe::run(record))).collect();
        // What lives and was not looked at is still to be told of when it ends, and what has ended
        // is not told of again.
        known.by_id.retain(|run, (_, status)| {
            let is_kept = match status {
                RunStatus::Live(_) => true,
                RunStatus::Final(_) => look == Look::Idle,
            };
            is_kept && !gone.contains(run) && !records.contains_key(run)
        });
        let now = records.into_values();
        known
            .by_id
            .extend(now.map(|it| (it.run, (it.head, it.status))));
        told
    }

    /// The first time: later a watcher may be told what its page shows, which costs less than a look
    /// at thousands of runs for every page.
    fn is_due(&self) -> bool {
        !self.known().filled
    }
}

fn filter(statuses: Vec<RunStatus>, limit: usize) -> RunFilter {
    RunFilter {
        statuses,
        limit,
        ..RunFilter::default()
    }
}

fn live_statuses() -> Vec<RunStatus> {
    let all = RunStatus::ALL.into_iter();
    all.filter(|status| {
        !matches!(
            status,
            RunStatus::Final(FinalStatus::Completed | FinalStatus::Failed | FinalStatus::Cancelled)
        )
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use lope::runs::RunStartOptions;
    use lope::{PreparedRun, Runner, Settings, workflows};
    use lope_model::Value;

    use super::*;

    /// The runs that a look tells of.
    async fn told(changes: &RunChanges, client: &Client, look: Look) -> Vec<String> {
        let seen = changes.query(client, look).await;
        let seen = seen.map_err(|error| error.message).unwrap();
        let told = changes.changes(seen).into_iter();
        told.map(|(_, run)| run["run_id"].as_str().unwrap().to_owned())
            .collect()
    }

    async fn ended(runner: &Runner) -> String {
        let plan = workflows::read("name: quick\nsteps: { a: { let: 1 } }\n", "test").unwrap();
        let options = RunStartOptions {
            input: Some(Value::Null),
            ..RunStartOptions::default()
        };
        runner.client().deploy(&plan).await.unwrap();
        let limits = runner.client().queue_limits();
        let prepared = PreparedRun::new(&plan, options, limits).unwrap();
        let (run, _) = runner.start(prepared).await.unwrap();
        runner.client().wait(run).await.unwrap();
        run.to_string()
    }

    /// An idle look asks for what lives alone, and forgets nothing of what was told.
    #[tokio::test(flavor = "multi_thread")]
    async fn what_was_told_before_an_idle_look_is_not_told_again_behind_it() {
        let builder = Runner::builder().url("memory:");
        let builder = builder.shared_settings(Settings::default());
        let runner = builder.build().await.unwrap();
        let client = runner.client();
        let changes = RunChanges::new(Arc::default());
        ended(&runner).await;
        for look in [Look::Told, Look::Idle, Look::Told] {
            assert!(told(&changes, client, look).await.is_empty(), "{look:?}");
        }
        let second = ended(&runner).await;
        assert!(told(&changes, client, Look::Idle).await.is_empty());
        assert_eq!(told(&changes, client, Look::Told).await, [second]);
        for look in [Look::Idle, Look::Idle, Look::Told] {
            assert!(told(&changes, client, look).await.is_empty(), "{look:?}");
        }
    }
}
