//! `deliver`: mail waits beside the run until its owner takes it into the journal; the run is due at once.
//!
//! Delivering always raises the counter and lowers the due time, whoever owns the run; `commit` looks at the counter when
//! it releases. So no wake-up is lost in either order.

use lope_model::{RunId, Timestamp, limit};
use lope_store::runs::{Deliver, Delivered, LiveStatus, Reach};
use rusqlite::{OptionalExtension, params};

use crate::columns;
use crate::desk::Desk;
use crate::failure::Worked;

const LIVE: &str = "SELECT mail, taken FROM queue WHERE run_id = ?1";
const ENDED: &str = "SELECT mail FROM runs WHERE run_id = ?1";
const SEEN: &str = "SELECT 1 FROM mail WHERE run_id = ?1 AND id = ?2";
const INSERT: &str = "INSERT INTO mail (run_id, number, id, kind, body, at, taken) VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0)";
const WAKE: &str = "UPDATE queue SET mail = mail + 1, due = min(due, ?2) WHERE run_id = ?1";
const WAKE_PARKED: &str = "UPDATE queue SET mail = mail + 1, due = min(due, ?2), parked = NULL WHERE run_id = ?1";
const QUEUE_AGAIN: &str =
    "INSERT INTO queue (run_id, queue, realm, priority, due, owner, epoch, head, mail, taken, law, weight,
     status, created_at)
     SELECT run_id, queue, realm, priority, ?2, NULL, epoch, head, mail, mail, law, weight, ?3, created_at
     FROM runs WHERE run_id = ?1";
const LIVE_AGAIN: &str =
    "UPDATE runs SET status = 'live', finished_at = NULL, result = NULL, error = NULL WHERE run_id = ?1";

/// A run as mail finds it: how much it ever got, and how much of that waits.
enum Found {
    Live { mail: u64, waiting: u64 },
    Ended { mail: u64 },
}

pub(crate) fn deliver(desk: &Desk<'_>, mail: &[Deliver]) -> Worked<Vec<Delivered>> {
    mail.iter().map(|delivery| one(desk, delivery)).collect()
}

pub(crate) fn one(desk: &Desk<'_>, delivery: &Deliver) -> Worked<Delivered> {
    let Some(found) = find(desk, delivery.run)? else { return Ok(Delivered::Missing) };
    if desk.statement(SEEN)?.exists(params![delivery.run.as_bytes(), delivery.id])? {
        return Ok(Delivered::Duplicate);
    }
    let mail = match found {
        Found::Live { waiting, .. } if waiting >= limit::MAIL_MAX => return Ok(Delivered::Full),
        Found::Live { mail, .. } => mail,
        Found::Ended { mail } if delivery.reach == Reach::Reopen => {
            reopen(desk, delivery.run)?;
            mail
        }
        Found::Ended { .. } => return Ok(Delivered::Finished),
    };
    keep(desk, delivery, mail + 1)?;
    desk.made_work();
    Ok(Delivered::Accepted)
}

fn find(desk: &Desk<'_>, run: RunId) -> Worked<Option<Found>> {
    let mut live = desk.statement(LIVE)?;
    let mut rows = live.query([run.as_bytes()])?;
    if let Some(row) = rows.next()? {
        let (mail, taken) = (columns::count(row, 0)?, columns::count(row, 1)?);
        return Ok(Some(Found::Live { mail, waiting: mail.saturating_sub(taken) }));
    }
    let mail: Option<i64> = desk.statement(ENDED)?.query_row([run.as_bytes()], |row| row.get(0)).optional()?;
    Ok(mail.map(|mail| Found::Ended { mail: mail.cast_unsigned() }))
}

/// The run goes back into the queue, with its journal, its key and its epoch.
fn reopen(desk: &Desk<'_>, run: RunId) -> Worked<()> {
    let status = LiveStatus::Queued.as_str();
    desk.statement(QUEUE_AGAIN)?.execute(params![run.as_bytes(), desk.now.millis(), status])?;
    desk.statement(LIVE_AGAIN)?.execute([run.as_bytes()])?;
    Ok(())
}

fn keep(desk: &Desk<'_>, delivery: &Deliver, number: u64) -> Worked<()> {
    let Deliver { run, id, kind, body, reach } = delivery;
    let at = desk.now.millis();
    desk.statement(INSERT)?.execute(params![run.as_bytes(), number.cast_signed(), id, kind, body, at])?;
    let wake = match reach {
        Reach::Live => WAKE,
        Reach::Unpark | Reach::Reopen => WAKE_PARKED,
    };
    desk.statement(wake)?.execute(params![run.as_bytes(), Timestamp::millis(desk.now)])?;
    Ok(())
}
