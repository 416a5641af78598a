//! Small things that are known by name, all of them at each read: schedules, and how much waits for
//! which worker.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use lope::mailbox::Counting;
use lope::{Client, describe};
use serde_json::{Value as Json, json};

use super::{FeedKind, Look};
use crate::api_error::ApiError;

/// Workers that are looked at, those with most dead letters and messages first.
const WORKERS: usize = 1_000;

/// All that is to be watched, by name.
pub type SeenThings = BTreeMap<String, Json>;
type ReadThings = fn(Client) -> BoxFuture<'static, Result<SeenThings, ApiError>>;

/// Changes of things by their name.
#[derive(Debug)]
pub struct NamedChanges {
    /// What an event about one of the things is called.
    event: &'static str,
    /// The field by which something that is gone is named.
    named: &'static str,
    read: ReadThings,
    known: Mutex<Option<SeenThings>>,
}

impl NamedChanges {
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

    pub(super) fn new(event: &'static str, named: &'static str, read: ReadThings) -> Self {
        Self {
            event,
            named,
            read,
            known: Mutex::new(None),
        }
    }

    /// That something is there no more. A number is named by one.
    fn removed(&self, name: &str) -> Json {
        let id = name
            .parse::<i64>()
            .map_or(json!(name), |number| json!(number));
        json!({ self.named: id })
    }
}

impl FeedKind for NamedChanges {
    type Seen = SeenThings;

    const IDLE: Duration = Duration::from_secs(1);
    const SPACING: Duration = Duration::from_millis(100);
    const HEARS_RUNNER: bool = false;

    async fn query(&self, client: &Client, _: Look) -> Result<SeenThings, ApiError> {
        (self.read)(client.clone()).await
    }

    fn changes(&self, seen: SeenThings) -> Vec<(&'static str, Json)> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changes = Vec::new();
        if let Some(known) = &*known {
            let differs = seen
                .iter()
                .filter(|(name, it)| known.get(*name) != Some(it));
            changes.extend(differs.map(|(_, it)| (self.event, it.clone())));
            let gone = known.keys().filter(|name| !seen.contains_key(*name));
            changes.extend(gone.map(|name| ("removed", self.removed(name))));
        }
        *known = Some(seen);
        changes
    }

    /// All of it is looked at in no time, so that a page is told nothing that it shows.
    fn is_due(&self) -> bool {
        true
    }
}
