//! Looking at runs from outside: which run a text names, and what its journal says happened, row by
//! row.
//!
//! Everything here reads. A journal is folded by the law and watched by a `Historian`; nothing is
//! decided.

use std::sync::Arc;

use lope_flow::history::Historian;
use lope_flow::law::{Event, Plan, State};
use lope_model::{Digest, RunId, Span, Timestamp, limit};
use lope_store::runs::{Cursor, JournalRow, RunFilter, RunRecord};
use lope_store::{Store, StoreError, StoreResult};

use crate::codec::{self, Blobs, Unreadable};
use crate::plans;

/// Journal rows read at a time.
const PAGE: usize = 1_000;
/// Most runs looked at for one whose id begins as the user says.
const PREFIX_SCAN_MAX: usize = 100_000;
/// Shortest beginning of an id that is looked for.
const PREFIX_MIN: usize = 4;
/// How far the clock of whoever gave out an id may be ahead of the store's.
const SKEW: Span = Span::from_secs(3_600);

/// What a text names.
#[derive(Debug)]
pub enum FoundRun {
    Run(RunId),
    Nothing,
    /// The ids of several runs begin so; the youngest two.
    Several(RunId, RunId),
}

/// The run that a text names: its id, its key, or the beginning of its id if no other id begins so.
pub async fn find(store: &Store, text: &str) -> StoreResult<FoundRun> {
    if let Ok(run) = text.parse::<RunId>()
        && record(store, run).await?.is_some()
    {
        return Ok(FoundRun::Run(run));
    }
    let fits = !text.is_empty() && text.len() <= limit::NAME_MAX && !text.contains('\0');
    if fits && let Some(run) = store.runs.find_key(text).await? {
        return Ok(FoundRun::Run(run));
    }
    match earliest(text) {
        Some(since) => find_prefix(store, &text.to_ascii_lowercase(), since).await,
        None => Ok(FoundRun::Nothing),
    }
}

/// When a run whose id begins so was created at the earliest: ids begin with their time. `None`: no
/// id begins so.
fn earliest(prefix: &str) -> Option<Timestamp> {
    let shaped = prefix.char_indices().all(|(index, c)| match index {
        8 | 13 | 18 | 23 => c == '-',
        _ => c.is_ascii_hexdigit(),
    });
    if !shaped || !(PREFIX_MIN..36).contains(&prefix.len()) {
        return None;
    }
    let digits: String = prefix.chars().filter(|c| *c != '-').take(12).collect();
    let millis = i64::from_str_radix(&format!("{digits:0<12}"), 16).ok()?;
    Some(Timestamp::from_millis(millis).minus(SKEW))
}

async fn find_prefix(store: &Store, prefix: &str, since: Timestamp) -> StoreResult<FoundRun> {
    let (mut found, mut after, mut seen): (Option<RunId>, Option<Cursor>, usize) = (None, None, 0);
    while seen < PREFIX_SCAN_MAX {
        let filter = RunFilter {
            since: Some(since),
            after,
            limit: limit::PAGE_MAX,
            ..RunFilter::default()
        };
        let page = store.runs.list(filter).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.cursor());
        seen += page.len();
        for record in page
            .iter()
            .filter(|record| record.run.to_string().starts_with(prefix))
        {
            match found {
                Some(first) => return Ok(FoundRun::Several(first, record.run)),
                None => found = Some(record.run),
            }
        }
    }
    Ok(found.map_or(FoundRun::Nothing, FoundRun::Run))
}

/// A run by its id. One that is damaged is named with what takes it away.
pub async fn record(store: &Store, run: RunId) -> StoreResult<Option<RunRecord>> {
    let found = store.runs.run(run).await;
    found.map_err(|error| error.in_run(run))
}

/// Follows a run's journal: each row that is there goes to a historian.
#[derive(Debug)]
pub struct Follower<'a> {
    store: &'a Store,
    run: RunId,
    historian: Historian<'a>,
}

impl<'a> Follower<'a> {
    /// At the beginning of what the store has of a run: its first row, or the state that a fork
    /// began with.
    pub async fn begin(store: &'a Store, run: RunId, plan: &'a Plan) -> StoreResult<Self> {
        let first = store.runs.journal(run, 0, 1).await?;
        let historian = match first.first() {
            Some(row) if row.seq == 1 => Historian::new(plan),
            _ => from_snapshot(store, run, plan).await?,
        };
        Ok(Self {
            store,
            run,
            historian,
        })
    }

    /// At the newest snapshot of a run: what was over before it stays unknown. At its beginning if
    /// it has none.
    pub async fn recent(store: &'a Store, run: RunId, plan: &'a Plan) -> StoreResult<Self> {
        let historian = from_snapshot(store, run, plan).await?;
        Ok(Self {
            store,
            run,
            historian,
        })
    }

    /// Where another follower of the same run stood.
    pub const fn resume(store: &'a Store, run: RunId, historian: Historian<'a>) -> Self {
        Self {
            store,
            run,
            historian,
        }
    }

    /// Keeps the executions with these numbers.
    #[must_use]
    pub fn pinning(self, numbers: std::ops::Range<u64>) -> Self {
        Self {
            historian: self.historian.pinning(numbers),
            ..self
        }
    }

    /// Keeps at most so many executions that are over; for whoever looks on as long as a run lasts.
    #[must_use]
    pub fn with_limit(self, limit: usize) -> Self {
        Self {
            historian: self.historian.with_limit(limit),
            ..self
        }
    }

    /// Fold the rows that came since; `each` sees every row with the history right behind it. How
    /// many rows there were.
    pub async fn catch_up(
        &mut self,
        mut each: impl FnMut(&JournalRow, &Event, &Historian<'a>),
    ) -> StoreResult<u64> {
        self.fold_to(u64::MAX, &mut each).await
    }

    /// The same for one page of rows, so that whoever passes them on need not hold them all.
    pub async fn catch_up_page(
        &mut self,
        mut each: impl FnMut(&JournalRow, &Event, &Historian<'a>),
    ) -> StoreResult<u64> {
        self.fold_page(u64::MAX, &mut each).await
    }

    async fn fold_to(
        &mut self,
        last: u64,
        each: &mut impl FnMut(&JournalRow, &Event, &Historian<'a>),
    ) -> StoreResult<u64> {
        let mut folded = 0;
        loop {
            match self.fold_page(last, each).await? {
                0 => return Ok(folded),
                rows => folded += rows,
            }
        }
    }

    async fn fold_page(
        &mut self,
        last: u64,
        each: &mut impl FnMut(&JournalRow, &Event, &Historian<'a>),
    ) -> StoreResult<u64> {
        let mut rows = self
            .store
            .runs
            .journal(self.run, self.historian.seq(), PAGE)
            .await?;
        rows.retain(|row| row.seq <= last);
        let blobs = blobs(self.store, self.run, &rows).await?;
        if !rows.is_empty() && !self.historian.has_begun() {
            let record = self.store.runs.listed(&[self.run]).await?.pop();
            let begun = record.and_then(|record| record.started_at);
            self.historian.begin_at(begun);
        }
        for row in &rows {
            let event = codec::event(row, &blobs).map_err(|error| damaged(self.run, &error))?;
            self.historian.push(row.seq, &event);
            each(row, &event, &self.historian);
        }
        Ok(rows.len() as u64)
    }

    pub const fn historian(&self) -> &Historian<'a> {
        &self.historian
    }

    pub fn into_historian(self) -> Historian<'a> {
        self.historian
    }
}

/// The history of a run up to a row, or to its end.
pub async fn history<'a>(
    store: &'a Store,
    run: RunId,
    plan: &'a Plan,
    upto: Option<u64>,
) -> StoreResult<Historian<'a>> {
    let mut follower = Follower::begin(store, run, plan).await?;
    follower
        .fold_to(upto.unwrap_or(u64::MAX), &mut |_, _, _| ())
        .await?;
    Ok(follower.historian)
}

/// The plan that a version of a workflow is run by.
pub async fn plan(store: &Store, record: &RunRecord) -> StoreResult<Arc<Plan>> {
    plans::load(store, record.version).await
}

async fn from_snapshot<'a>(
    store: &Store,
    run: RunId,
    plan: &'a Plan,
) -> StoreResult<Historian<'a>> {
    let loaded = store.runs.load(&[run]).await?.into_iter().next().flatten();
    let Some(snapshot) = loaded.and_then(|loaded| loaded.snapshot) else {
        return Ok(Historian::new(plan));
    };
    let needs = codec::needs(Some(&snapshot), &[]).map_err(|error| damaged(run, &error))?;
    let blobs = fetch(store, run, needs).await?;
    let state: State = codec::state(&snapshot, &blobs).map_err(|error| damaged(run, &error))?;
    Ok(Historian::from_state(plan, state, snapshot.seq))
}

/// The large values that rows refer to.
pub async fn blobs(store: &Store, run: RunId, rows: &[JournalRow]) -> StoreResult<Blobs> {
    let needs = codec::needs(None, rows).map_err(|error| damaged(run, &error))?;
    fetch(store, run, needs).await
}

/// Large values of a run; those that are missing or damaged are left out.
pub async fn fetch(store: &Store, run: RunId, digests: Vec<Digest>) -> StoreResult<Blobs> {
    if digests.is_empty() {
        return Ok(Blobs::new());
    }
    let bytes = store.runs.blobs(run, &digests).await?;
    Ok(codec::found(digests, bytes))
}

fn damaged(run: RunId, error: &Unreadable) -> StoreError {
    StoreError::corrupt(format!("run {run}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_an_id_tells_the_earliest_time_and_other_texts_name_no_id() {
        let run = RunId::from_parts(Timestamp::from_millis(1_700_000_000_123), [7; 10]);
        let text = run.to_string();
        for length in [4, 8, 9, 13, 14, 20, 35] {
            let since = earliest(&text[..length]).unwrap();
            assert!(
                since <= Timestamp::from_millis(1_700_000_000_123),
                "{}",
                &text[..length]
            );
        }
        assert_eq!(
            earliest(&text[..14]).unwrap(),
            Timestamp::from_millis(1_700_000_000_123).minus(SKEW)
        );
        for text in ["", "abc", "zebra", "0193abcd0", "order-17", text.as_str()] {
            assert_eq!(earliest(text), None, "{text}");
        }
    }
}
