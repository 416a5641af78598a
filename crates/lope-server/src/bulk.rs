//! Bulk actions: one thing that is asked of many runs, as an object that lasts. It is written down
//! which runs fitted when it was asked for; each is asked once, and what became of it is written
//! down too. A server that ends in the middle leaves the rest to the next one.
//!
//! In: a search and an operation; out: documents of the store, one for the action and one for each page of
//! its runs. Whoever works on an action holds a lease on it, renewed with every page.

mod action_loop;

use lope::runs::Steering;
use lope::stores::{StoreError, StoreResult};
use lope::{Client, RunId};
use lope_model::{Span, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

pub(crate) use action_loop::work;

/// Runs of a page: asked, and written down, together.
const PAGE: usize = 100;
/// Most runs of an action.
pub(crate) const RUNS_MAX: u64 = 100_000;
/// Actions that are remembered.
const KEPT: usize = 100;
const LEASE: Span = Span::from_secs(15);

/// What is asked of every run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum BulkOperation {
    Cancel,
    Pause,
    Resume,
    Retry,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum BulkPhase {
    /// It is being written down which runs fit.
    Collecting,
    Acting,
    Done,
    /// Somebody stopped it; what was not asked yet never is.
    Stopped,
}

/// A bulk action as the store keeps it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct BulkAction {
    pub(crate) id: String,
    pub(crate) operation: BulkOperation,
    /// What the runs were searched by, as parameters with absolute times.
    pub(crate) query: Vec<(String, String)>,
    /// The token of whoever asked.
    pub(crate) by: Option<String>,
    pub(crate) created_at: i64,
    pub(crate) finished_at: Option<i64>,
    pub(crate) phase: BulkPhase,
    /// Where collecting goes on.
    cursor: Option<String>,
    pub(crate) found: u64,
    /// More fitted than an action may have.
    pub(crate) more: bool,
    pub(crate) done: u64,
    pub(crate) skipped: u64,
    pub(crate) failed: u64,
    pages: u32,
    acted: u32,
    /// Somebody began to ask the runs of the next page.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    begun: bool,
    owner: Option<String>,
    lease_until: i64,
}

/// What became of one run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ItemOutcome {
    Pending,
    Done,
    /// It was in no state to be asked.
    Skipped,
    Failed,
}

/// One run of an action.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct BulkItem {
    pub(crate) run: RunId,
    pub(crate) outcome: ItemOutcome,
    pub(crate) message: Option<String>,
}

impl BulkOperation {
    pub(crate) const ALL: [Self; 4] = [Self::Cancel, Self::Pause, Self::Resume, Self::Retry];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Retry => "retry",
        }
    }

    const fn steering(self) -> Steering {
        match self {
            Self::Cancel => Steering::Cancel,
            Self::Pause => Steering::Pause,
            Self::Resume => Steering::Resume,
            Self::Retry => Steering::Retry,
        }
    }
}

impl BulkPhase {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Collecting => "collecting",
            Self::Acting => "acting",
            Self::Done => "done",
            Self::Stopped => "stopped",
        }
    }
}

impl ItemOutcome {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Done => "done",
            Self::Skipped => "skipped",
            Self::Failed => "failed",
        }
    }
}

impl BulkAction {
    /// Ask for an action; whoever works on them sees it.
    pub(crate) async fn begin(
        client: &Client,
        operation: BulkOperation,
        query: Vec<(String, String)>,
        by: Option<String>,
    ) -> StoreResult<Self> {
        let action = Self {
            id: uuid::Uuid::now_v7().to_string(),
            operation,
            query,
            by,
            created_at: client.now().await?.millis(),
            finished_at: None,
            phase: BulkPhase::Collecting,
            cursor: None,
            found: 0,
            more: false,
            done: 0,
            skipped: 0,
            failed: 0,
            pages: 0,
            acted: 0,
            begun: false,
            owner: None,
            lease_until: 0,
        };
        client
            .put_document(&name(&action.id), bytes(&action)?)
            .await?;
        forget_oldest(client).await?;
        Ok(action)
    }

    pub(crate) async fn find(client: &Client, id: &str) -> StoreResult<Option<Self>> {
        let found = client.document(&name(id)).await?;
        found.as_deref().map(read).transpose()
    }

    /// Those that are remembered, youngest first.
    pub(crate) async fn all(client: &Client) -> StoreResult<Vec<Self>> {
        let all = client.documents("bulk/", KEPT * 2).await?;
        let all = all.iter().rev().map(|(_, value)| read(value));
        all.collect()
    }

    /// Ask no further run. False: it is over already.
    pub(crate) async fn stop(client: &Client, id: &str) -> StoreResult<bool> {
        loop {
            let Some(was) = client.document(&name(id)).await? else {
                return Ok(false);
            };
            let mut action: Self = read(&was)?;
            if action.is_over() {
                return Ok(false);
            }
            action.phase = BulkPhase::Stopped;
            action.finished_at = Some(client.now().await?.millis());
            let stopped = bytes(&action)?;
            if client
                .replace_document(&name(id), Some(was), stopped)
                .await?
            {
                return Ok(true);
            }
        }
    }

    /// What became of each run, from one of them on, and whether there are more.
    pub(crate) async fn items(
        &self,
        client: &Client,
        after: usize,
        limit: usize,
    ) -> StoreResult<(Vec<BulkItem>, bool)> {
        let mut items = Vec::new();
        let mut page = u32::try_from(after / PAGE).unwrap_or(u32::MAX);
        let mut pass = after % PAGE;
        while page < self.pages && items.len() <= limit {
            let found = page_of(client, &self.id, page).await?;
            items.extend(found.into_iter().skip(pass));
            (page, pass) = (page + 1, 0);
        }
        let more = items.len() > limit;
        items.truncate(limit);
        Ok((items, more))
    }

    pub(crate) const fn is_over(&self) -> bool {
        matches!(self.phase, BulkPhase::Done | BulkPhase::Stopped)
    }

    pub(crate) fn json(&self) -> Json {
        let time = |at: i64| Timestamp::from_millis(at).to_string();
        json!({
            "id": self.id,
            "action": self.operation.as_str(),
            "filter": self.query.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>(),
            "by": self.by,
            "status": self.phase.as_str(),
            "created_at": time(self.created_at),
            "finished_at": self.finished_at.map(time),
            "found": self.found,
            "more": self.more,
            "done": self.done,
            "skipped": self.skipped,
            "failed": self.failed,
        })
    }
}

impl BulkItem {
    pub(crate) fn json(&self) -> Json {
        json!({ "run_id": self.run, "status": self.outcome.as_str(), "message": self.message })
    }
}

fn name(id: &str) -> String {
    format!("bulk/{id}")
}

fn page_name(id: &str, page: u32) -> String {
    format!("bulk.runs/{id}/{page:06}")
}

async fn page_of(client: &Client, id: &str, page: u32) -> StoreResult<Vec<BulkItem>> {
    match client.document(&page_name(id, page)).await? {
        Some(found) => read(&found),
        None => Ok(Vec::new()),
    }
}

/// Actions that are over and not among the youngest.
async fn forget_oldest(client: &Client) -> StoreResult<()> {
    let all = BulkAction::all(client).await?;
    for action in all.iter().skip(KEPT).filter(|it| it.is_over()) {
        for page in 0..action.pages {
            client.remove_document(&page_name(&action.id, page)).await?;
        }
        client.remove_document(&name(&action.id)).await?;
    }
    Ok(())
}

fn bytes<T: Serialize>(value: &T) -> StoreResult<Vec<u8>> {
    serde_json::to_vec(value).map_err(StoreError::corrupt)
}

fn read<T: for<'de> Deserialize<'de>>(bytes: &[u8]) -> StoreResult<T> {
    serde_json::from_slice(bytes)
        .map_err(|error| StoreError::corrupt(format!("a bulk action cannot be read: {error}")))
}
