//! `deliver`: mail waits beside the run until its owner takes it into the journal; the run is due
//! at once.
//!
//! Delivering always raises the counter and lowers the due time, whoever owns the run; `commit`
//! looks at the counter when it releases. So no wake-up is lost in either order.

use lope_model::{RunId, Timestamp};
use lope_store::runs::{Deliver, Delivered, FinalStatus, LiveStatus};
use lope_store::verdict::{self, Accepted, DeliverFacts};
use rusqlite::{OptionalExtension, params};

use crate::columns;
use crate::failure::Worked;
use crate::tx::Tx;

const LIVE: &str = "SELECT mail, taken FROM queue WHERE run_id = ?1";
const ENDED: &str = "SELECT mail, status FROM runs WHERE run_id = ?1";
const SEEN: &str = "SELECT 1 FROM mail WHERE run_id = ?1 AND id = ?2";
const INSERT: &str = "INSERT INTO mail (run_id, number, id, kind, body, at, taken) VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0)";
const WAKE: &str = "UPDATE queue SET mail = mail + 1, due = min(due, ?2) WHERE run_id = ?1";
const WAKE_PARKED: &str =
    "UPDATE queue SET mail = mail + 1, due = min(due, ?2), parked = NULL WHERE run_id = ?1";
const QUEUE_AGAIN: &str =
    "INSERT INTO queue (run_id, queue, realm, priority, due, owner, epoch, head, mail, taken, law, weight,
     status, created_at, started_at)
     SELECT run_id, queue, realm, priority, ?2, NULL, epoch, head, mail, mail, law, weight, ?3, created_at, started_at
     FROM runs WHERE run_id = ?1";
const LIVE_AGAIN: &str = "UPDATE runs SET status = 'live', finished_at = NULL, result = NULL, error = NULL WHERE run_id = ?1";

/// A run as mail finds it.
struct MailTarget {
    ended: Option<FinalStatus>,
    /// How much it ever got,
    mail: u64,
    /// and how much of that waits.
    waiting: u64,
}

pub(crate) fn deliver(tx: &Tx<'_>, mail: &[Deliver]) -> Worked<Vec<Delivered>> {
    mail.iter().map(|delivery| one(tx, delivery)).collect()
}

pub(crate) fn one(tx: &Tx<'_>, delivery: &Deliver) -> Worked<Delivered> {
    let Some(found) = find(tx, delivery.run)? else {
        return Ok(Delivered::Missing);
    };
    let facts = DeliverFacts {
        ended: found.ended,
        seen: tx
            .statement(SEEN)?
            .exists(params![delivery.run.as_bytes(), delivery.id])?,
        waiting: found.waiting,
    };
    let accepted = match verdict::deliver(delivery, Some(&facts)) {
        Ok(accepted) => accepted,
        Err(refused) => return Ok(refused),
    };
    if accepted.reopens {
        reopen(tx, delivery.run)?;
    }
    keep(tx, delivery, found.mail + 1, accepted)?;
    tx.made_work();
    Ok(Delivered::Accepted)
}

fn find(tx: &Tx<'_>, run: RunId) -> Worked<Option<MailTarget>> {
    let mut live = tx.statement(LIVE)?;
    let mut rows = live.query([run.as_bytes()])?;
    if let Some(row) = rows.next()? {
        let (mail, taken) = (columns::count(row, 0)?, columns::count(row, 1)?);
        return Ok(Some(MailTarget {
            ended: None,
            mail,
            waiting: mail.saturating_sub(taken),
        }));
    }
    let ended: Option<(i64, String)> = tx
        .statement(ENDED)?
        .query_row([run.as_bytes()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    Ok(ended.map(|(mail, status)| MailTarget {
        // A run whose status cannot be read is not opened again.
        ended: Some(FinalStatus::parse(&status).unwrap_or(FinalStatus::Completed)),
        mail: mail.cast_unsigned(),
        waiting: 0,
    }))
}

/// The run goes back into the queue, with its journal, its key and its epoch.
fn reopen(tx: &Tx<'_>, run: RunId) -> Worked<()> {
    let status = LiveStatus::Queued.as_str();
    tx.statement(QUEUE_AGAIN)?
        .execute(params![run.as_bytes(), tx.now.millis(), status])?;
    tx.statement(LIVE_AGAIN)?.execute([run.as_bytes()])?;
    Ok(())
}

fn keep(tx: &Tx<'_>, delivery: &Deliver, number: u64, accepted: Accepted) -> Worked<()> {
    let Deliver {
        run,
        id,
        kind,
        body,
        ..
    } = delivery;
    let at = tx.now.millis();
    tx.statement(INSERT)?.execute(params![
        run.as_bytes(),
        number.cast_signed(),
        id,
        kind,
        body,
        at
    ])?;
    let wake = if accepted.unparks { WAKE_PARKED } else { WAKE };
    tx.statement(wake)?
        .execute(params![run.as_bytes(), Timestamp::millis(tx.now)])?;
    Ok(())
}
