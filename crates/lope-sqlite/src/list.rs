//! Listings and counts: which runs, youngest first.
//!
//! A listing is one or more walks over an index, each of which gives (created, run) in order; the
//! walks are merged, and only the runs that are shown are read. Which index is walked follows from
//! the filter: parent, tag, workflow, or status.

use std::cmp::Reverse;

use lope_model::{QueueName, RunId, Timestamp, limit};
use lope_store::StoreError;
use lope_store::runs::{
    FinalStatus, LiveStatus, QueueCount, RunCounts, RunFilter, RunRecord, RunStatus,
};
use rusqlite::types::Value;
use rusqlite::{Row, params_from_iter};

use crate::columns;
use crate::failure::Worked;
use crate::query;
use crate::tx::Tx;

/// A run's status as users see it, in SQL.
const SHOWN: &str = "CASE WHEN r.status <> 'live' THEN r.status
       WHEN q.status = 'queued' AND q.owner IS NOT NULL THEN 'running'
       WHEN q.status = 'running' AND q.owner IS NULL THEN 'queued'
       ELSE q.status END";
const ENDED: &str =
    "SELECT count(*) FROM (SELECT 1 FROM runs WHERE status = ?1 AND status <> 'live' LIMIT ?2)";
const QUEUED: &str =
    "SELECT queue, status, owner IS NOT NULL, parked IS NOT NULL, due <= ?1, count(*),
            min(max(due, created_at))
     FROM queue GROUP BY 1, 2, 3, 4, 5";

const QUEUE_OF_RUN: &str = " LEFT JOIN queue AS q ON q.run_id = r.run_id";

/// One walk over an index: a statement and what is given to it.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct ListBranch {
    pub(crate) sql: String,
    pub(crate) given: Vec<Value>,
}

/// The table whose index is walked, and the condition that picks a part of it, for which the index
/// is enough.
struct ListScan {
    from: &'static str,
    /// What else is known of a run.
    joins: &'static str,
    /// Where `created_at` and `run_id` are read, so that the walk is in their order.
    alias: &'static str,
    condition: String,
    given: Vec<Value>,
    /// Does the walk already keep to the wanted statuses?
    by_status: bool,
}

pub(crate) fn list(tx: &Tx<'_>, filter: &RunFilter) -> Worked<Vec<RunRecord>> {
    match found(tx, filter).map_err(StoreError::from) {
        Ok(found) => {
            let page = found.len();
            let records = records(tx, found)?;
            // A page that is not full would be the last.
            if records.len() < page {
                return list_around_damage(tx, filter);
            }
            Ok(records)
        }
        Err(StoreError::Corrupt { .. }) => list_around_damage(tx, filter),
        Err(error) => Err(error.into()),
    }
}

fn found(tx: &Tx<'_>, filter: &RunFilter) -> Worked<Vec<RunId>> {
    let wanted = filter.limit.min(limit::PAGE_MAX);
    let mut found: Vec<(Timestamp, RunId)> = Vec::new();
    for arm in arms(filter) {
        let mut statement = tx.statement(&arm.sql)?;
        let mut rows = statement.query(params_from_iter(arm.given))?;
        while let Some(row) = rows.next()? {
            found.push((columns::time(row, 0)?, columns::run(row, 1)?));
        }
    }
    found.sort_unstable_by(|a, b| b.cmp(a));
    found.truncate(wanted);
    Ok(found.into_iter().map(|(_, run)| run).collect())
}

/// A page of records cannot be read: indexes alone are walked, and each run is read by itself.
fn list_around_damage(tx: &Tx<'_>, filter: &RunFilter) -> Worked<Vec<RunRecord>> {
    let wanted = filter.limit.min(limit::PAGE_MAX);
    let mut found: Vec<RunRecord> = Vec::new();
    for walk in walks(filter) {
        let most = found.len() + wanted;
        let mut arm = range(&walk, "", filter);
        arm.push(&youngest_first(walk.alias), []);
        let mut statement = tx.statement(&arm.sql)?;
        let mut rows = statement.query(params_from_iter(arm.given))?;
        while found.len() < most
            && let Some(row) = rows.next()?
        {
            let mut read = records(tx, [columns::run(row, 1)?])?;
            read.retain(|record| filter.describes(record, record.status));
            found.append(&mut read);
        }
    }
    found.sort_unstable_by_key(|record| Reverse((record.created_at, record.run)));
    found.truncate(wanted);
    Ok(found)
}

/// The records of these runs, as a listing shows them.
pub(crate) fn records(
    tx: &Tx<'_>,
    runs: impl IntoIterator<Item = RunId>,
) -> Worked<Vec<RunRecord>> {
    let mut records = Vec::new();
    for run in runs {
        match query::listed(tx, run).map_err(StoreError::from) {
            Ok(record) => records.extend(record),
            // One that cannot be read does not hide the others.
            Err(error @ StoreError::Corrupt { .. }) => {
                tracing::warn!(%run, %error, "a damaged run is left out of the list");
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(records)
}

/// The walks that together give every run of the filter.
pub(crate) fn arms(filter: &RunFilter) -> Vec<ListBranch> {
    walks(filter)
        .into_iter()
        .map(|walk| arm(walk, filter))
        .collect()
}

fn walks(filter: &RunFilter) -> Vec<ListScan> {
    if let Some(parent) = filter.parent {
        return vec![ListScan {
            from: "runs AS r INDEXED BY runs_parent",
            joins: QUEUE_OF_RUN,
            alias: "r",
            condition: "r.parent_run = ? AND r.parent_run IS NOT NULL".to_owned(),
            given: vec![Value::Blob(parent.as_bytes().to_vec())],
            by_status: false,
        }];
    }
    if let Some((tag, value)) = filter.tags.iter().next() {
        return vec![ListScan {
            from: "run_tags AS t",
            joins: " JOIN runs AS r ON r.run_id = t.run_id LEFT JOIN queue AS q ON q.run_id = t.run_id",
            alias: "t",
            condition: "t.tag = ? AND t.value = ?".to_owned(),
            given: vec![text(tag), text(value)],
            by_status: false,
        }];
    }
    match &filter.workflow {
        Some(workflow) if !asks_for_few(filter) => vec![ListScan {
            from: "runs AS r INDEXED BY runs_workflow",
            joins: QUEUE_OF_RUN,
            alias: "r",
            condition: "r.workflow = ?".to_owned(),
            given: vec![text(workflow)],
            by_status: false,
        }],
        Some(_) | None => by_status(filter),
    }
}

/// Statuses that few runs have: walking those is better than walking a workflow's runs.
fn asks_for_few(filter: &RunFilter) -> bool {
    let many = [
        RunStatus::Final(FinalStatus::Completed),
        RunStatus::Live(LiveStatus::Queued),
    ];
    !filter.statuses.is_empty() && !filter.statuses.iter().any(|status| many.contains(status))
}

fn by_status(filter: &RunFilter) -> Vec<ListScan> {
    let all = RunStatus::ALL;
    let asked = if filter.statuses.is_empty() {
        &all[..]
    } else {
        &filter.statuses
    };
    let mut walks: Vec<ListScan> = Vec::new();
    for status in RunStatus::ALL
        .into_iter()
        .filter(|status| asked.contains(status))
    {
        match status {
            RunStatus::Final(status) => walks.push(ended(status)),
            RunStatus::Live(LiveStatus::Running) => walks.push(running()),
            RunStatus::Live(LiveStatus::Queued) => {
                walks.push(live(LiveStatus::Queued, " AND q.owner IS NULL"));
                walks.push(live(LiveStatus::Running, " AND q.owner IS NULL"));
            }
            RunStatus::Live(status) => walks.push(live(status, "")),
        }
    }
    if filter.statuses.is_empty() {
        walks.extend(of_no_status());
    }
    walks
}

/// Runs whose status is none that there is, so that whoever lists all of them is told.
fn of_no_status() -> Vec<ListScan> {
    let [ended_words, live_words] = [false, true].map(|is_live| {
        let wanted = |status: &RunStatus| matches!(status, RunStatus::Live(_)) == is_live;
        let statuses = RunStatus::ALL.into_iter().filter(wanted);
        statuses.map(RunStatus::as_str).collect()
    });
    let runs = others("r.status", ended_words).map(|(other, given)| ListScan {
        condition: format!("{other} AND r.status <> 'live'"),
        given,
        ..ended(FinalStatus::Failed)
    });
    let queue = others("q.status", live_words).map(|(other, given)| ListScan {
        condition: other,
        given,
        ..live(LiveStatus::Queued, "")
    });
    runs.chain(queue).collect()
}

/// Conditions for what lies before, between and behind these words in an index.
fn others(
    column: &'static str,
    mut words: Vec<&'static str>,
) -> impl Iterator<Item = (String, Vec<Value>)> {
    words.sort_unstable();
    let ends = words.into_iter().map(Some).chain([None]);
    ends.scan(None, move |last, word| {
        let behind = last.map(|last| (format!("{column} > ?"), text(last)));
        let before = word.map(|word| (format!("{column} < ?"), text(word)));
        *last = word;
        let (conditions, given): (Vec<String>, Vec<Value>) =
            [behind, before].into_iter().flatten().unzip();
        Some((conditions.join(" AND "), given))
    })
}

fn ended(status: FinalStatus) -> ListScan {
    ListScan {
        from: "runs AS r INDEXED BY runs_status",
        joins: QUEUE_OF_RUN,
        alias: "r",
        condition: "r.status = ? AND r.status <> 'live'".to_owned(),
        given: vec![text(status.as_str())],
        by_status: true,
    }
}

fn live(status: LiveStatus, owned: &str) -> ListScan {
    ListScan {
        from: "queue AS q INDEXED BY queue_status",
        joins: " LEFT JOIN runs AS r ON r.run_id = q.run_id",
        alias: "q",
        condition: format!("q.status = ?{owned}"),
        given: vec![text(status.as_str())],
        by_status: true,
    }
}

/// What runners hold is what fits into their memory: read it all and sort.
fn running() -> ListScan {
    ListScan {
        from: "queue AS q INDEXED BY queue_owner",
        joins: " LEFT JOIN runs AS r ON r.run_id = q.run_id",
        alias: "q",
        condition: "q.owner IS NOT NULL AND q.status IN ('queued', 'running')".to_owned(),
        given: Vec::new(),
        by_status: true,
    }
}

fn arm(walk: ListScan, filter: &RunFilter) -> ListBranch {
    let mut arm = range(&walk, walk.joins, filter);
    arm.narrow(filter);
    if !walk.by_status && !filter.statuses.is_empty() {
        let marks = vec!["?"; filter.statuses.len()].join(", ");
        arm.push(
            &format!(" AND {SHOWN} IN ({marks})"),
            filter.statuses.iter().map(|status| text(status.as_str())),
        );
    }
    let limit = filter.limit.min(limit::PAGE_MAX) as i64;
    let order = youngest_first(walk.alias);
    arm.push(&format!("{order} LIMIT ?"), [limit.into()]);
    arm
}

/// What the walk gives within the times of the filter.
fn range(walk: &ListScan, joins: &str, filter: &RunFilter) -> ListBranch {
    let ListScan {
        from,
        alias,
        condition,
        given,
        ..
    } = walk;
    let mut arm = ListBranch {
        sql: format!(
            "SELECT {alias}.created_at, {alias}.run_id FROM {from}{joins} WHERE {condition}"
        ),
        given: given.clone(),
    };
    let (until, before) = behind(filter);
    arm.push(
        &format!(" AND ({alias}.created_at, {alias}.run_id) < (?, ?)"),
        [until.millis().into()],
    );
    arm.given.push(Value::Blob(before.as_bytes().to_vec()));
    if let Some(since) = filter.since {
        arm.push(
            &format!(" AND {alias}.created_at >= ?"),
            [since.millis().into()],
        );
    }
    arm
}

fn youngest_first(alias: &str) -> String {
    format!(" ORDER BY {alias}.created_at DESC, {alias}.run_id DESC")
}

impl ListBranch {
    fn push(&mut self, sql: &str, given: impl IntoIterator<Item = Value>) {
        self.sql.push_str(sql);
        self.given.extend(given);
    }

    /// What the filter says beside status and time.
    fn narrow(&mut self, filter: &RunFilter) {
        if let Some(workflow) = &filter.workflow {
            self.push(" AND r.workflow = ?", [text(workflow)]);
        }
        if let Some(realm) = &filter.realm {
            self.push(" AND r.realm = ?", [text(realm.as_str())]);
        }
        if let Some(queue) = &filter.queue {
            self.push(" AND r.queue = ?", [text(queue.as_str())]);
        }
        for (tag, value) in &filter.tags {
            self.push(
                " AND EXISTS (SELECT 1 FROM run_tags WHERE tag = ? AND value = ? AND created_at = r.created_at
                     AND run_id = r.run_id)",
                [text(tag), text(value)],
            );
        }
    }
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

/// The end of the listing's range: the earlier of `until` and the cursor.
fn behind(filter: &RunFilter) -> (Timestamp, RunId) {
    let end = (Timestamp::NEVER, RunId::from_bytes([u8::MAX; 16]));
    let until = filter
        .until
        .map_or(end, |until| (until, RunId::from_bytes([0; 16])));
    filter
        .after
        .map_or(until, |cursor| until.min((cursor.created_at, cursor.run)))
}

pub(crate) fn counts(tx: &Tx<'_>) -> Worked<RunCounts> {
    let mut counts = RunCounts::default();
    let mut ended = tx.statement(ENDED)?;
    for status in FinalStatus::ALL.map(FinalStatus::as_str) {
        let most = limit::ENDED_COUNTED_MAX.cast_signed();
        let number = ended.query_row((status, most), |row| row.get::<_, i64>(0))?;
        if number > 0 {
            counts.by_status.insert(status, number.cast_unsigned());
        }
    }
    queued(tx, &mut counts)?;
    Ok(counts)
}

pub(crate) fn queues(tx: &Tx<'_>) -> Worked<Vec<QueueCount>> {
    let mut counts = RunCounts::default();
    queued(tx, &mut counts)?;
    Ok(counts.queues)
}

fn queued(tx: &Tx<'_>, counts: &mut RunCounts) -> Worked<()> {
    let mut queued = tx.statement(QUEUED)?;
    let mut rows = queued.query([tx.now.millis()])?;
    while let Some(row) = rows.next()? {
        count_queued(row, counts)?;
    }
    Ok(())
}

/// Groups come sorted by queue.
fn count_queued(row: &Row<'_>, counts: &mut RunCounts) -> Worked<()> {
    let (Ok(queue), Ok(live)) = (columns::queue(row, 0), columns::live_status(row, 1)) else {
        return Ok(());
    };
    let queue: QueueName = queue;
    let (owned, parked, due): (bool, bool, bool) = (row.get(2)?, row.get(3)?, row.get(4)?);
    let number = columns::count(row, 5)?;
    let status = RunStatus::of_live(live, owned);
    *counts.by_status.entry(status.as_str()).or_default() += number;
    if counts.queues.last().is_none_or(|last| last.queue != queue) {
        counts.queues.push(QueueCount {
            queue,
            due: 0,
            later: 0,
            owned: 0,
            parked: 0,
            oldest: None,
        });
    }
    let count = counts
        .queues
        .last_mut()
        .expect("one was pushed if there was none");
    match (owned, parked, due) {
        (true, _, _) => count.owned += number,
        (false, true, _) => count.parked += number,
        (false, false, true) => {
            count.due += number;
            let since = Timestamp::from_millis(row.get(6)?);
            count.oldest = Some(count.oldest.map_or(since, |oldest| oldest.min(since)));
        }
        (false, false, false) => count.later += number,
    }
    Ok(())
}
