//! Is everything readable that work needs? A store checks its own rows without reading their bodies;
//! here definitions, journals and snapshots are read as a runner would.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use lope_definition::Definition;
use lope_engine::codec;
use lope_model::VersionId;
use lope_store::runs::{Cursor, Loaded, RunFilter, RunRecord, RunStatus};
use lope_store::store::Finding;
use lope_store::{Store, StoreError, StoreResult};

/// Runs and definitions read at a time.
const PAGE: usize = 200;
/// Most findings that are told.
const TOLD: usize = 100;
const REMOVE: &str = "restore a backup, or take it away: `lope store remove-run ID`";
const RESTORE: &str = "restore a backup";
const UNSCHEDULE: &str = "take it away and add it again: `lope schedules remove NAME`";
const DEPLOY: &str = "deploy the workflow again: `lope workflows deploy FILE`";

/// What the store finds wrong, and then what cannot be read of definitions, schedules and unfinished
/// runs. A damaged file may break any reading: what can be read is read, so that what cannot is named.
pub(super) async fn check(store: &Store) -> StoreResult<Vec<Finding>> {
    let mut findings = store.upkeep.check().await?;
    let read = definitions(store, &mut findings).await;
    note_damage(read, &mut findings)?;
    let read = schedules(store, &mut findings).await;
    note_damage(read, &mut findings)?;
    let read = runs(store, &mut findings).await;
    note_damage(read, &mut findings)?;
    Ok(findings)
}

/// A listing that meets damage is a finding of its own.
fn note_damage(read: StoreResult<()>, findings: &mut Vec<Finding>) -> StoreResult<()> {
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
    let first = findings.len();
    loop {
        let page = store.runs.definitions(after.as_deref(), PAGE).await?;
        for stored in &page {
            let told = findings.len() - first;
            if told < TOLD
                && let Err(error) = Definition::decode(&stored.body)
            {
                findings.push(Finding {
                    rule: "definitions",
                    message: format!(
                        "the definition of workflow '{}' cannot be read: {error}",
                        stored.name
                    ),
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
    findings.extend(damaged.into_iter().take(TOLD).map(|schedule| Finding {
        rule: "schedules",
        message: schedule.why,
        hint: UNSCHEDULE.to_owned(),
    }));
    Ok(())
}

async fn runs(store: &Store, findings: &mut Vec<Finding>) -> StoreResult<()> {
    let mut versions = BTreeMap::new();
    let mut after = None;
    let first = findings.len();
    loop {
        let filter = RunFilter {
            statuses: live(),
            after,
            limit: PAGE,
            ..RunFilter::default()
        };
        let page = store.runs.list(filter).await?;
        for record in &page {
            if findings.len() - first >= TOLD {
                return Ok(());
            }
            if let Some(message) = unreadable(store, record, &mut versions).await? {
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
        after = Some(Cursor {
            created_at: last.created_at,
            run: last.run,
        });
    }
}

fn live() -> Vec<RunStatus> {
    let is_live = |status: &RunStatus| matches!(status, RunStatus::Live(_));
    RunStatus::ALL.into_iter().filter(is_live).collect()
}

/// What of an unfinished run cannot be read.
async fn unreadable(
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
    let why = match store.runs.load(&[run]).await {
        Ok(loaded) => loaded.into_iter().flatten().find_map(|it| unfolded(&it)),
        Err(StoreError::Corrupt { message }) => Some(message),
        Err(error) => return Err(error),
    };
    Ok(why
        .map(|why| format!("run {run} is damaged: {why}"))
        .or_else(|| set_aside(record)))
}

/// It can be read, and waits for somebody to look at it: it was damaged, or a commit of it was refused.
fn set_aside(record: &RunRecord) -> Option<String> {
    let parked = record.parked.as_deref()?;
    Some(format!("run {} was set aside: {parked}", record.run))
}

fn unfolded(loaded: &Loaded) -> Option<String> {
    let needs = codec::needs(loaded.snapshot.as_ref(), &loaded.rows);
    needs.err().map(|error| error.to_string())
}
