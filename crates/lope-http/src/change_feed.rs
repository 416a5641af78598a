//! A feed of small things that are known by name: what changed of them, as events with numbers, for
//! whoever watches.
//!
//! One task looks for everybody, and only while somebody watches. What differs from the last look is
//! an event, also if nobody watched between the two. A watcher that comes back with the id of its
//! last event is given what came after it, each once; if that is not known any more, it is told
//! `reset`: read the list anew.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use lope::mailbox::Counting;
use lope::{Client, describe};
use serde_json::{Value as Json, json};
use tokio::sync::watch;

use crate::api_error::ApiError;
use crate::clock;

/// Events kept for those who come back.
const KEPT: usize = 4_096;
/// How often the task looks when nobody says that anything happened.
const IDLE: Duration = Duration::from_secs(1);
/// Least time between two looks, and how many times as long as a look it is at least.
const SPACING: Duration = Duration::from_millis(100);
const SPACING_TIMES: u32 = 10;

/// Workers that are looked at, those with most dead letters and messages first.
const WORKERS: usize = 1_000;

/// All that is to be watched, by name.
pub type SeenThings = BTreeMap<String, Json>;
pub type Look = fn(Client) -> BoxFuture<'static, Result<SeenThings, ApiError>>;

/// What changed, for whoever watches.
#[derive(Debug)]
pub struct ChangeFeed {
    /// What an event about one of the things is called.
    event: &'static str,
    /// The field by which something that is gone is named.
    named: &'static str,
    look: Look,
    state: Mutex<ChangeState>,
    /// The number of the last event.
    bell: watch::Sender<u64>,
}

#[derive(Debug)]
struct ChangeState {
    /// Tells the numbers of this process from those of another.
    origin: String,
    events: VecDeque<FedChange>,
    known: Option<SeenThings>,
    looking: bool,
}

/// Something that changed.
#[derive(Clone, Debug)]
pub struct FedChange {
    pub number: u64,
    pub event: &'static str,
    pub value: Arc<Json>,
}

impl ChangeFeed {
    /// The schedules.
    pub fn of_schedules() -> Self {
        Self::new("schedule", "name", |client| {
            Box::pin(async move {
                let all = client.schedules().await?;
                let described = all.iter().map(|it| {
                    let name = it.entry.schedule.name.clone();
                    (name, describe::schedule(it))
                });
                Ok(described.collect())
            })
        })
    }

    /// How much waits for which worker, and the sum of it under the empty name.
    pub fn of_mailboxes() -> Self {
        Self::new("mailbox", "worker", |client| {
            Box::pin(async move {
                let mailbox = client.mailbox().await?;
                let stats = mailbox.stats(WORKERS, Counting::Quick).await?;
                let mut sum = describe::mailbox_stats(&stats);
                let workers = sum["workers"].take();
                sum["worker"] = Json::Null;
                if let Some(fields) = sum.as_object_mut() {
                    fields.remove("workers");
                }
                let workers = workers.as_array().cloned().unwrap_or_default();
                let named = workers.into_iter().map(|it| (it["worker"].to_string(), it));
                Ok(named.chain([(String::new(), sum)]).collect())
            })
        })
    }

    fn new(event: &'static str, named: &'static str, look: Look) -> Self {
        Self {
            event,
            named,
            look,
            state: Mutex::new(ChangeState {
                origin: format!("{:x}", clock::now().millis()),
                events: VecDeque::new(),
                known: None,
                looking: false,
            }),
            bell: watch::Sender::new(0),
        }
    }

    /// Where a page that is made after this call goes on: it shows everything up to there.
    pub async fn cursor(&self, client: &Client) -> Result<String, ApiError> {
        self.refresh(client).await?;
        Ok(self.text(*self.bell.borrow()))
    }

    /// The id of an event.
    pub fn text(&self, number: u64) -> String {
        format!("{}-{number}", self.state().origin)
    }

    /// What came after a cursor. Nothing: that is not known.
    pub fn since(&self, cursor: &str) -> Option<Vec<FedChange>> {
        let last = *self.bell.borrow();
        let state = self.state();
        let (origin, number) = cursor.split_once('-')?;
        let number: u64 = number.parse().ok()?;
        let oldest = state.events.front().map_or(last + 1, |it| it.number);
        if origin != state.origin || number > last || number + 1 < oldest {
            return None;
        }
        let after = state.events.iter().filter(|it| it.number > number);
        Some(after.cloned().collect())
    }

    /// Be told of the numbers of new events from now on.
    pub fn subscribe(self: &Arc<Self>, client: &Client) -> watch::Receiver<u64> {
        let receiver = self.bell.subscribe();
        let mut state = self.state();
        if !state.looking {
            state.looking = true;
            tokio::spawn(look_while_watched(Arc::clone(self), client.clone()));
        }
        receiver
    }

    async fn refresh(&self, client: &Client) -> Result<(), ApiError> {
        let seen = (self.look)(client.clone()).await?;
        self.note(seen);
        Ok(())
    }

    /// What differs from the last look becomes events.
    fn note(&self, seen: SeenThings) {
        let mut state = self.state();
        let mut number = *self.bell.borrow();
        let mut changes = Vec::new();
        if let Some(known) = &state.known {
            let differs = seen
                .iter()
                .filter(|(name, it)| known.get(*name) != Some(it));
            changes.extend(differs.map(|(_, it)| (self.event, Arc::new(it.clone()))));
            let gone = known.keys().filter(|name| !seen.contains_key(*name));
            // A number is named by one.
            let id = |name: &str| {
                name.parse::<i64>()
                    .map_or(json!(name), |number| json!(number))
            };
            let gone = gone.map(|name| json!({ self.named: id(name) }));
            changes.extend(gone.map(|it| ("removed", Arc::new(it))));
        }
        for (event, value) in changes {
            number += 1;
            state.events.push_back(FedChange {
                number,
                event,
                value,
            });
        }
        let surplus = state.events.len().saturating_sub(KEPT);
        state.events.drain(..surplus);
        state.known = Some(seen);
        // Two looks may end at once: the number moves with what it counts.
        self.bell.send_if_modified(|last| {
            let more = *last != number;
            *last = number;
            more
        });
        drop(state);
    }

    fn state(&self) -> MutexGuard<'_, ChangeState> {
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

async fn look_while_watched(feed: Arc<ChangeFeed>, client: Client) {
    let mut watch = client.watch();
    while !feed.ends() {
        let began = Instant::now();
        if let Err(error) = feed.refresh(&client).await {
            tracing::debug!(error = error.message, "a feed cannot look");
        }
        let took = began.elapsed();
        tokio::time::sleep(SPACING.max(took * SPACING_TIMES)).await;
        tokio::select! {
            () = watch.changed() => {}
            () = tokio::time::sleep(IDLE) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed() -> ChangeFeed {
        ChangeFeed::new("thing", "name", |_| {
            Box::pin(async { Ok(SeenThings::new()) })
        })
    }

    fn seen(things: &[(&str, u32)]) -> SeenThings {
        let things = things.iter();
        things
            .map(|(name, value)| ((*name).to_owned(), json!(value)))
            .collect()
    }

    #[test]
    fn whoever_comes_back_is_told_each_change_once() {
        let feed = feed();
        feed.note(seen(&[("a", 1), ("b", 1)]));
        let cursor = feed.text(0);
        assert!(feed.since(&cursor).unwrap().is_empty(), "it begins now");
        feed.note(seen(&[("a", 2), ("b", 1)]));
        feed.note(seen(&[("a", 2), ("b", 1)]));
        feed.note(seen(&[("a", 2), ("c", 3)]));
        let told = feed.since(&cursor).unwrap();
        let words: Vec<(&str, Json)> = told
            .iter()
            .map(|it| (it.event, Json::clone(&it.value)))
            .collect();
        let expected = [
            ("thing", json!(2)),
            ("thing", json!(3)),
            ("removed", json!({ "name": "b" })),
        ];
        assert_eq!(words, expected);
        assert_eq!(feed.since(&feed.text(2)).unwrap().len(), 1);
        assert!(feed.since(&feed.text(3)).unwrap().is_empty());
        for strange in ["", "0", "other-1", "x", &feed.text(4)] {
            assert!(feed.since(strange).is_none(), "{strange}");
        }
    }

    #[test]
    fn what_is_too_long_ago_is_not_known() {
        let feed = feed();
        for value in 0..5_000 {
            feed.note(seen(&[("a", value)]));
        }
        assert!(feed.since(&feed.text(1)).is_none());
        assert_eq!(feed.since(&feed.text(4_990)).unwrap().len(), 9);
    }
}
