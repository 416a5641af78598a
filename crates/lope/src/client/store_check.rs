//! Is everything readable that work needs? A store checks its own rows without reading their bodies;
//! here definitions, journals, snapshots, large values and results are read as a runner would.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use lope_definition::Definition;
use lope_engine::codec::{self, Unreadable};
use lope_engine::query;
use lope_model::{RunId, VersionId};
use lope_store::runs::{JournalRow, RunFilter, RunRecord, RunStatus, Snapshot};
use lope_store::store::Finding;
use lope_store::{Store, StoreError, StoreResult};
use lope_why::is_set_aside;

/// Runs and definitions read at a time.
const PAGE: usize = 200;
/// Most limits that are counted.
const COUNTED: usize = 100_000;
const REMOVE: &str = "restore a backup, or take it away: `lope store remove-run ID`";
const RESTORE: &str = "restore a backup";
const UNSCHEDULE: &str = "take it away and add it again: `lope schedules remove NAME`";
const DEPLOY: &str = "deploy the workflow again: `lope workflows deploy FILE`";

/// What the store finds wrong, and then what cannot be read of definitions, schedules,
/// limits and runs. A damaged file may break any reading: what can be read is read, so that what cannot is named.
pub(super) async fn check(store: &Store) -> StoreResult<Vec<Finding>> {
    let mut findings = store.upkeep.check().await?;
    let mut found = Vec::new();
    let read = definitions(store, &mut found).await;
    note(read, &mut found, &mut findings)?;
    let read = schedules(store, &mut found).await;
    note(read, &mut found, &mut findings)?;
    let read = limits(store, &mut found).await;
    note(read, &mut found, &mut findings)?;
    let read = runs(store, &mut found).await;
    note(read, &mut found, &mut findings)?;
    Ok(findings)
}

/// What a listing found; that it met damage is a finding of its own.
fn note(
    read: StoreResult<()>,
    found: &mut Vec<Finding>,
    findings: &mut Vec<Finding>,
) -> StoreResult<()> {
    findings.extend(Finding::told(std::mem::take(found)));
    match read {
        Err(StoreError::Corrupt { message }) => {
            if findings.iter().all(|finding| finding.message != message) {
                findings.push(Finding {
                    rule: "file",
                    message,
                    hint: RESTORE.to_owned(),
                });
            }
            Ok(())
        }
        read => read,
    }
}

async fn definitions(store: &Store, findings: &mut Vec<Finding>) -> StoreResult<()> {
    let mut after: Option<String> = None;
    loop {
        let page = store.runs.definitions(after.as_deref(), PAGE).await?;
        for stored in &page {
            if let Err(error) = Definition::decode(&stored.body) {
                let name = &stored.name;
                findings.push(Finding {
                    rule: "definitions",
                    message: format!("the definition of workflow '{name}' cannot be read: {error}"),
                    hint: DEPLOY.to_owned(),
                });
            }
        }
        let Some(last) = page.last().filter(|_| page.len() == PAGE) else {
            return Ok(());
        };
        after = Some(last.name.clone());
    }
}

async fn schedules(store: &Store, findings: &mut Vec<Finding>) -> StoreResult<()> {
    let damaged = lope_schedule::store::all(store).await?.damaged;
    findings.extend(damaged.into_iter().map(|schedule| Finding {
        rule: "schedules",
        message: schedule.why,
        hint: UNSCHEDULE.to_owned(),
    }));
    Ok(())
}

async fn limits(store: &Store, findings: &mut Vec<Finding>) -> StoreResult<()> {
    let faults = lope_limits::check(store, COUNTED).await?;
    findings.extend(faults.into_iter().map(|message| Finding {
        rule: "limits",
        message: format!("{message}; steps that need it wait"),
        hint: RESTORE.to_owned(),
    }));
    Ok(())
}

/// Ended runs are looked at too: their results stay.
async fn runs(store: &Store, findings: &mut Vec<Finding>) -> StoreResult<()> {
    let mut versions = BTreeMap::new();
    let mut after = None;
    loop {
        let filter = RunFilter {
            after,
            limit: PAGE,
            ..RunFilter::default()
        };
        let page = store.runs.list(filter).await?;
        for record in &page {
            let message = match record.status {
                RunStatus::Live(_) => unreadable(store, record, &mut versions).await?,
                RunStatus::Final(_) => unreadable_end(store, record.run).await?,
            };
            if let Some(message) = message {
                findings.push(Finding {
                    rule: "runs",
                    message,
                    hint: REMOVE.to_owned(),
                });
            }
        }
        let Some(last) = page.last().filter(|_| page.len() == PAGE) else {
            return Ok(());
        };
        after = Some(last.cursor());
    }
}

/// What of an ended run cannot be read.
async fn unreadable_end(store: &Store, run: RunId) -> StoreResult<Option<String>> {
    let record = match store.runs.run(run).await {
        Err(StoreError::Corrupt { message }) => return Ok(Some(message)),
        read => read?,
    };
    let fault = record.and_then(|record| codec::read_end(&record).err());
    let why = match fault {
        Some(fault) => Some(fault.to_string()),
        None => unreadable_past(store, run).await?,
    };
    Ok(why.map(|why| format!("run {run} is damaged: {why}")))
}

/// What of an unfinished run cannot be read.
pub(super) async fn unreadable(
    store: &Store,
    record: &RunRecord,
    versions: &mut BTreeMap<VersionId, Option<String>>,
) -> StoreResult<Option<String>> {
    let run = record.run;
    if let Entry::Vacant(unknown) = versions.entry(record.version) {
        let found = store.runs.definition(record.version).await?;
        let decoded = found.map(|stored| Definition::decode(&stored.body));
        let why = match decoded {
            Some(Ok(_)) => None,
            Some(Err(error)) => Some(error.to_string()),
            None => Some("it was never deployed".to_owned()),
        };
        unknown.insert(why);
    }
    if let Some(why) = versions.get(&record.version).cloned().flatten() {
        let workflow = &record.workflow;
        return Ok(Some(format!(
            "run {run} is damaged: its definition of '{workflow}' cannot be read: {why}"
        )));
    }
    let why = unreadable_past(store, run).await?;
    Ok(why
        .map(|why| format!("run {run} is damaged: {why}"))
        .or_else(|| set_aside(record)))
}

/// It can be read, and waits for somebody to look at it: it was damaged, or a commit of it was
/// refused. Who is paused is as sound as any other.
fn set_aside(record: &RunRecord) -> Option<String> {
    let parked = record.parked.as_deref().filter(|why| is_set_aside(why))?;
    Some(format!("run {} was set aside: {parked}", record.run))
}

/// What of a run's mail, snapshot, journal and large values cannot be read.
async fn unreadable_past(store: &Store, run: RunId) -> StoreResult<Option<String>> {
    match read_past(store, run).await {
        Ok(read) => Ok(read.err().map(|unreadable| unreadable.to_string())),
        Err(StoreError::Corrupt { message }) => Ok(Some(message)),
        Err(error) => Err(error),
    }
}

async fn read_past(store: &Store, run: RunId) -> StoreResult<Result<(), Unreadable>> {
    let Some(loaded) = store.runs.load(&[run]).await?.into_iter().flatten().next() else {
        return Ok(Ok(()));
    };
    if let Some(error) = loaded
        .mail
        .iter()
        .find_map(|mail| codec::mail_event(mail).err())
    {
        return Ok(Err(error));
    }
    let mut read = read_rows(store, run, loaded.snapshot.as_ref(), &loaded.rows).await?;
    // Nobody goes on from what is before the snapshot, but people look at it.
    let newest = loaded.snapshot.map_or(0, |snapshot| snapshot.seq);
    let mut after = 0;
    while after < newest && read.is_ok() {
        let rows = store.runs.journal(run, after, PAGE).await?;
        let Some(last) = rows.last() else {
            break;
        };
        after = last.seq;
        read = read_rows(store, run, None, &rows).await?;
    }
    Ok(read)
}

async fn read_rows(
    store: &Store,
    run: RunId,
    snapshot: Option<&Snapshot>,
    rows: &[JournalRow],
) -> StoreResult<Result<(), Unreadable>> {
    let digests = match codec::needs(snapshot, rows) {
        Ok(digests) => digests,
        Err(error) => return Ok(Err(error)),
    };
    let found = query::fetch(store, run, digests).await?;
    let read = snapshot.map(|snapshot| codec::state(snapshot, &found).map(drop));
    let mut read = read
        .into_iter()
        .chain(rows.iter().map(|row| codec::event(row, &found).map(drop)));
    Ok(read.find(Result::is_err).unwrap_or(Ok(())))
}
