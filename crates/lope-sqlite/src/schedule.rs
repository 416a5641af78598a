//! `schedule`: a schedule's row is written together with the run that it starts and the mail that
//! it sends.

use std::collections::BTreeSet;

use lope_model::{Revision, RunId, Timestamp, limit};
use lope_store::runs::{
    Admitted, DueSchedules, FoundSchedule, ScheduleWrite, Scheduled, StoredSchedule,
};
use lope_store::verdict;
use rusqlite::{OptionalExtension, Params, Row, params};

use crate::failure::Worked;
use crate::named_page::NamedPage;
use crate::tx::Tx;
use crate::{admit, columns, deliver};

const REVISION: &str = "SELECT revision FROM schedules WHERE name = ?1";
const PUT: &str = "INSERT INTO schedules (name, revision, due, last_run, waits, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
     ON CONFLICT (name) DO UPDATE SET revision = excluded.revision, due = excluded.due, last_run = excluded.last_run,
         waits = excluded.waits, body = excluded.body";
const REMOVE: &str =
    "DELETE FROM schedules WHERE name = CAST(?1 AS TEXT) AND (?2 IS NULL OR revision = ?2)";
const BY_NAME: &str = "SELECT name, revision, due, last_run, waits, body,
       EXISTS (SELECT 1 FROM queue WHERE run_id = last_run) FROM schedules WHERE name = CAST(?1 AS TEXT)";
const NAMES: &str = "SELECT name FROM schedules";
const LISTED: &str = "SELECT name, revision, due, last_run, waits, body,
       EXISTS (SELECT 1 FROM queue WHERE run_id = last_run) FROM schedules WHERE name > ?1 ORDER BY name";
const DUE: &str = "SELECT name, revision, due, last_run, waits, body,
       EXISTS (SELECT 1 FROM queue WHERE run_id = last_run) FROM schedules
     WHERE (due <= ?1 OR (waits = 1 AND NOT EXISTS (SELECT 1 FROM queue WHERE run_id = last_run)))
       AND NOT EXISTS (SELECT 1 FROM meta WHERE key = 'copy_from')
     ORDER BY due IS NULL, due, name LIMIT ?2";
const NEXT_DUE: &str = "SELECT min(due) FROM schedules INDEXED BY schedules_due WHERE due > ?1";
const WAITS: &str = "SELECT 1 FROM schedules INDEXED BY schedules_waits WHERE waits = 1 LIMIT 1";

/// About how many rows a writing writes.
pub(crate) fn rows(write: &ScheduleWrite) -> usize {
    1 + write.admit.as_ref().map_or(0, admit::rows) + 2 * usize::from(write.mail.is_some())
}

/// Whatever stands against the writing is found before anything is written.
pub(crate) fn schedule(tx: &Tx<'_>, write: &ScheduleWrite) -> Worked<Scheduled> {
    let found = revision(tx, &write.schedule.name)?;
    if let Err(answer) = verdict::schedule(write, found) {
        return Ok(answer);
    }
    if let Some(admit) = &write.admit {
        match admit::one(tx, admit)? {
            Admitted::Created { .. } => {}
            refused @ (Admitted::Exists { .. } | Admitted::UnknownVersion) => {
                return Ok(Scheduled::NotAdmitted(refused));
            }
        }
    }
    if let Some(mail) = &write.mail {
        deliver::one(tx, mail)?;
    }
    put(tx, &write.schedule)?;
    tx.made_work();
    Ok(Scheduled::Done)
}

/// One that cannot be read is none that anybody has seen.
fn revision(tx: &Tx<'_>, name: &str) -> Worked<Option<Revision>> {
    let found: Option<Vec<u8>> = tx
        .statement(REVISION)?
        .query_row([name], |row| row.get(0))
        .optional()?;
    Ok(found.map(|found| Revision::from_bytes(found.try_into().unwrap_or_default())))
}

fn put(tx: &Tx<'_>, schedule: &StoredSchedule) -> Worked<()> {
    let StoredSchedule {
        name,
        revision,
        due,
        last_run,
        waits,
        body,
    } = schedule;
    tx.statement(PUT)?.execute(params![
        name,
        revision.as_bytes(),
        due.map(Timestamp::millis),
        last_run.as_ref().map(RunId::as_bytes),
        i64::from(*waits),
        body,
    ])?;
    Ok(())
}

pub(crate) fn unschedule(tx: &Tx<'_>, name: &str, over: Option<Revision>) -> Worked<bool> {
    let over = over.as_ref().map(Revision::as_bytes);
    let mut remove = tx.statement(REMOVE)?;
    let mut removed = remove.execute(params![name.as_bytes(), over])?;
    if removed == 0 {
        for name in damaged_names(tx, name)? {
            removed += remove.execute(params![name, over])?;
        }
    }
    Ok(removed > 0)
}

pub(crate) fn find(tx: &Tx<'_>, name: &str) -> Worked<Option<FoundSchedule>> {
    let exact = read(tx, BY_NAME, [name.as_bytes()])?.pop();
    match damaged_names(tx, name)?.pop() {
        Some(name) if exact.is_none() => Ok(read(tx, BY_NAME, [name])?.pop()),
        Some(_) | None => Ok(exact),
    }
}

/// Names that are not UTF-8, and are shown as this one.
fn damaged_names(tx: &Tx<'_>, shown: &str) -> Worked<Vec<Vec<u8>>> {
    let mut damaged = Vec::new();
    if !shown.contains(char::REPLACEMENT_CHARACTER) {
        return Ok(damaged);
    }
    let mut names = tx.statement(NAMES)?;
    let mut rows = names.query([])?;
    while let Some(row) = rows.next()? {
        let name = columns::text_bytes(row, 0)?;
        if std::str::from_utf8(name).is_err() && String::from_utf8_lossy(name) == shown {
            damaged.push(name.to_vec());
        }
    }
    Ok(damaged)
}

pub(crate) fn list(tx: &Tx<'_>, after: Option<&str>, limit: usize) -> Worked<Vec<FoundSchedule>> {
    let mut page = NamedPage::new(after, limit.min(limit::PAGE_MAX));
    let mut listed = tx.statement(LISTED)?;
    let mut rows = listed.query([after.unwrap_or_default()])?;
    while let Some(row) = rows.next()? {
        if !page.put(columns::text_bytes(row, 0)?, found(row)?) {
            break;
        }
    }
    Ok(page.rows())
}

/// Those that are damaged are passed by, and named once.
pub(crate) fn due(tx: &Tx<'_>, limit: usize) -> Worked<DueSchedules> {
    let now = tx.now.millis();
    let most = limit.min(limit::PAGE_MAX);
    let told = tx.inner.told_schedules.lock();
    let mut told = told.expect("nobody panics while holding the names");
    let due = loop {
        let known = told.len();
        let mut due = read(tx, DUE, params![now, (most + known) as i64])?;
        due.retain(|found| is_whole(found, &mut told));
        if told.len() == known {
            due.truncate(most);
            break due;
        }
    };
    drop(told);
    let next_due: Option<i64> = tx.statement(NEXT_DUE)?.query_row([now], |row| row.get(0))?;
    let waits = tx.statement(WAITS)?.exists([])?;
    Ok(DueSchedules {
        now: tx.now,
        due,
        next_due: next_due.map(Timestamp::from_millis),
        waits,
    })
}

/// One whose row is damaged has no body.
fn is_whole(found: &FoundSchedule, told: &mut BTreeSet<String>) -> bool {
    let StoredSchedule { name, body, .. } = &found.schedule;
    if body.is_empty() && told.insert(name.clone()) {
        let mends = format!("`lope schedules remove {name}`");
        tracing::error!(
            schedule = name,
            "a damaged schedule is passed by; take it away: {mends}"
        );
    }
    !body.is_empty()
}

fn read(tx: &Tx<'_>, sql: &str, given: impl Params) -> Worked<Vec<FoundSchedule>> {
    let mut statement = tx.statement(sql)?;
    let mut rows = statement.query(given)?;
    let mut schedules = Vec::new();
    while let Some(row) = rows.next()? {
        schedules.push(found(row)?);
    }
    Ok(schedules)
}

/// A row that cannot be read is found without a body, which nobody can decode: so it is named.
fn found(row: &Row<'_>) -> Worked<FoundSchedule> {
    let revision: Option<[u8; 16]> = row.get::<_, Vec<u8>>(1)?.try_into().ok();
    let last_run: Option<Vec<u8>> = row.get(3)?;
    let is_whole = revision.is_some()
        && last_run.as_ref().is_none_or(|run| run.len() == 16)
        && std::str::from_utf8(columns::text_bytes(row, 0)?).is_ok();
    let last_run: Option<[u8; 16]> = last_run.and_then(|run| run.try_into().ok());
    let body: Vec<u8> = row.get(5)?;
    let schedule = StoredSchedule {
        name: columns::text_lossy(row, 0)?,
        revision: Revision::from_bytes(revision.unwrap_or_default()),
        due: columns::maybe_time(row, 2)?,
        last_run: last_run.map(RunId::from_bytes),
        waits: row.get::<_, i64>(4)? != 0,
        body: Some(body).filter(|_| is_whole).unwrap_or_default(),
    };
    Ok(FoundSchedule {
        schedule,
        running: row.get(6)?,
    })
}
