//! The feed of all runs: what changed, as events with numbers, for whoever watches a list.
//!
//! One task looks for everybody, and only while somebody watches: at the youngest runs and at those
//! that live, when the store or the runner says that something may have happened, else every other
//! second. What differs from the last look is an event. A watcher that comes back with the number of
//! its last event is given what came after it; if that is not known any more, it is told to read
//! its list anew.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lope::runs::{FinalStatus, RunFilter, RunRecord, RunStatus};
use lope::stores::StoreResult;
use lope::{Client, RunId, Runner, describe};
use serde_json::Value as Json;
use tokio::sync::watch;

use crate::clock;
use crate::redactions::Redactions;

/// Youngest runs looked at.
const YOUNGEST: usize = 200;
/// Live runs looked at.
const LIVE: usize = 2_000;
/// Runs that left both lists since the last look, asked for one by one.
const LEFT: usize = 200;
/// Events kept for those who come back.
const KEPT: usize = 4_096;
/// How often the task looks when nobody says that anything happened.
const IDLE: Duration = Duration::from_secs(2);
/// Least time between two looks, and how many times as long as a look it is at least.
const SPACING: Duration = Duration::from_millis(50);
const SPACING_TIMES: u32 = 10;

/// What changed, for whoever watches.
#[derive(Debug)]
pub struct RunFeed {
    state: Mutex<FeedState>,
    /// The number of the last event.
    bell: watch::Sender<u64>,
    pub redactions: Redactions,
}

#[derive(Debug)]
struct FeedState {
    /// Tells the numbers of this process from those of another.
    origin: String,
    events: VecDeque<(u64, Arc<Json>)>,
    known: HashMap<RunId, (u64, RunStatus)>,
    filled: bool,
    looking: bool,
}

/// What came after a number.
#[derive(Debug, Default)]
pub struct Missed {
    pub events: Vec<(u64, Arc<Json>)>,
    /// The number is too old or another process's: what came after it is not known.
    pub unknown: bool,
}

impl Default for RunFeed {
    fn default() -> Self {
        let state = FeedState {
            origin: format!("{:x}", clock::now().millis()),
            events: VecDeque::new(),
            known: HashMap::new(),
            filled: false,
            looking: false,
        };
        Self {
            state: Mutex::new(state),
            bell: watch::Sender::new(0),
            redactions: Redactions::default(),
        }
    }
}

impl RunFeed {
    /// The number of the last event, as text that names this process too. A page that is made after
    /// this call shows everything up to it.
    pub async fn cursor(&self, client: &Client) -> StoreResult<String> {
        if !self.state().filled {
            self.look(client).await?;
        }
        Ok(self.text(*self.bell.borrow()))
    }

    pub fn text(&self, number: u64) -> String {
        format!("{}-{number}", self.state().origin)
    }

    /// Be told of new events from now on.
    pub fn subscribe(
        self: &Arc<Self>,
        client: &Client,
        runner: Option<&Runner>,
    ) -> watch::Receiver<u64> {
        let receiver = self.bell.subscribe();
        let mut state = self.state();
        if !state.looking {
            state.looking = true;
            tokio::spawn(look_while_watched(
                Arc::clone(self),
                client.clone(),
                runner.cloned(),
            ));
        }
        receiver
    }

    /// What came after a cursor. No cursor: nothing, from now on.
    pub fn since(&self, cursor: Option<&str>) -> (u64, Missed) {
        let last = *self.bell.borrow();
        let Some(cursor) = cursor else {
            return (last, Missed::default());
        };
        let state = self.state();
        let number = cursor
            .split_once('-')
            .filter(|(origin, _)| *origin == state.origin)
            .and_then(|(_, number)| number.parse::<u64>().ok());
        let oldest = state.events.front().map_or(last + 1, |(number, _)| *number);
        match number.filter(|number| number + 1 >= oldest && *number <= last) {
            None => {
                let unknown = true;
                let events = Vec::new();
                (last, Missed { events, unknown })
            }
            Some(number) => {
                let after = state.events.iter().filter(|(at, _)| *at > number);
                let events: Vec<_> = after.cloned().collect();
                let last = events.last().map_or(number, |(at, _)| *at);
                let unknown = false;
                (last, Missed { events, unknown })
            }
        }
    }

    /// Look at the store, and tell what changed.
    async fn look(&self, client: &Client) -> StoreResult<()> {
        let youngest = client.list(filter(Vec::new(), YOUNGEST)).await?;
        let live = client.list(filter(live_statuses(), LIVE)).await?;
        let mut seen: HashMap<RunId, RunRecord> = HashMap::new();
        for record in live.into_iter().chain(youngest) {
            seen.insert(record.run, record);
        }
        let left: Vec<RunId> = {
            let state = self.state();
            let lived = state.known.iter().filter(|(run, (_, status))| {
                matches!(status, RunStatus::Live(_)) && !seen.contains_key(run)
            });
            lived.map(|(run, _)| *run).take(LEFT).collect()
        };
        let mut gone = HashSet::new();
        for run in left {
            match client.run(run).await? {
                Some(record) => drop(seen.insert(run, record)),
                None => drop(gone.insert(run)),
            }
        }
        for record in seen.values_mut() {
            self.redactions.listed(client, record).await;
        }
        self.tell(seen, &gone);
        Ok(())
    }

    fn tell(&self, seen: HashMap<RunId, RunRecord>, gone: &HashSet<RunId>) {
        let mut state = self.state();
        let first = !state.filled;
        state.filled = true;
        let mut changed: Vec<&RunRecord> = seen
            .values()
            .filter(|record| state.known.get(&record.run) != Some(&(record.head, record.status)))
            .collect();
        changed.sort_by_key(|record| (record.created_at, record.run));
        let mut number = *self.bell.borrow();
        for record in changed.into_iter().filter(|_| !first) {
            number += 1;
            state
                .events
                .push_back((number, Arc::new(describe::run(record))));
        }
        let surplus = state.events.len().saturating_sub(KEPT);
        state.events.drain(..surplus);
        // What lives and was not looked at is still to be told of when it ends.
        state.known.retain(|run, (_, status)| {
            !gone.contains(run) && matches!(status, RunStatus::Live(_)) && !seen.contains_key(run)
        });
        let now = seen.into_values().map(|it| (it.run, (it.head, it.status)));
        state.known.extend(now);
        drop(state);
        self.bell.send_if_modified(|last| {
            let more = *last != number;
            *last = number;
            more
        });
    }

    fn state(&self) -> MutexGuard<'_, FeedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// May the task end? Whoever subscribes later starts another one.
    fn ends(&self) -> bool {
        let mut state = self.state();
        let unwatched = self.bell.receiver_count() == 0;
        state.looking = !unwatched;
        unwatched
    }
}

async fn look_while_watched(feed: Arc<RunFeed>, client: Client, runner: Option<Runner>) {
    let mut watch = client.watch();
    let mut news = match &runner {
        Some(runner) => runner.news().await.ok(),
        None => None,
    };
    while !feed.ends() {
        let began = Instant::now();
        if let Err(error) = feed.look(&client).await {
            tracing::debug!(%error, "the feed of runs cannot look");
        }
        let took = began.elapsed();
        tokio::time::sleep(SPACING.max(took * SPACING_TIMES)).await;
        let heard = async {
            match &mut news {
                Some(news) => drop(news.recv().await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = heard => {}
            () = watch.changed() => {}
            () = tokio::time::sleep(IDLE) => {}
        }
        // What was told while it slept is looked at once.
        while news.as_mut().is_some_and(|news| news.try_recv().is_ok()) {}
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
