//! `commit`: gather what stands in the queue, ask for the verdict, then write all of it: journal, values,
//! snapshot, mail taken, children, where the run goes, mail to others.
//!
//! Whatever could stop a commit is found before anything is written, so one that is lost leaves the
//! others of its transaction alone.

use lope_model::RunId;
use lope_store::runs::{
    Admit, CommitReply, Deliver, Delivered, Finish, LiveStatus, Release, RunCommit, Then,
};
use lope_store::verdict::{self, ChildFacts, CommitFacts, Granted};
use rusqlite::params;

use crate::failure::Worked;
use crate::tx::Tx;
use crate::{admit, columns, deliver, tables};

const QUEUE_ROW: &str =
    "SELECT owner, epoch, head, mail, taken, law, status FROM queue WHERE run_id = ?1";
const TAKE_MAIL: &str =
    "UPDATE mail SET taken = 1, body = x'' WHERE run_id = ?1 AND number = ?2 AND taken = 0";
const DROP_MAIL: &str = "UPDATE mail SET taken = 1, body = x'' WHERE run_id = ?1 AND taken = 0";
const HOLD: &str = "UPDATE queue SET head = ?2 WHERE run_id = ?1";
const HOLD_ALL: &str =
    "UPDATE queue SET head = ?2, taken = ?3, law = ?4, status = ?5 WHERE run_id = ?1";
const RELEASE: &str =
    "UPDATE queue SET owner = NULL, head = ?2, taken = ?3, law = ?4, status = ?5, due = ?6, parked = ?7
     WHERE run_id = ?1";
const LEAVE: &str = "DELETE FROM queue WHERE run_id = ?1";
const END: &str =
    "UPDATE runs SET status = ?2, finished_at = ?3, epoch = ?4, head = ?5, mail = ?6, law = ?7, result = ?8, error = ?9,
     started_at = (SELECT started_at FROM queue WHERE run_id = ?1) WHERE run_id = ?1";

/// A run's row in the queue, as far as commits care.
struct QueueRow {
    facts: CommitFacts,
    taken: u64,
    law: u32,
    /// Absent: nobody can read it.
    status: Option<LiveStatus>,
}

/// What the row will be.
struct After {
    head: u64,
    taken: u64,
    law: u32,
}

/// About how many rows a commit writes.
pub(crate) fn rows(commit: &RunCommit) -> usize {
    let children: usize = commit.children.iter().map(admit::rows).sum();
    2 + commit.mailbox_sends.len()
        + commit.rows.len()
        + commit.blobs.len()
        + commit.taken.len()
        + 2 * commit.deliveries.len()
        + children
}

pub(crate) fn commit(tx: &Tx<'_>, commits: &[RunCommit]) -> Worked<Vec<CommitReply>> {
    commits.iter().map(|commit| one(tx, commit)).collect()
}

fn one(tx: &Tx<'_>, commit: &RunCommit) -> Worked<CommitReply> {
    let found = find(tx, commit.run)?;
    let granted = match decide(tx, commit, found.as_ref())? {
        Ok(granted) => granted,
        Err(refusal) => return Ok(refusal),
    };
    let found = found.expect("a commit is granted to a run that is there");
    for child in &commit.children {
        admit::one(tx, child)?;
    }
    admit::append(tx, commit.run, &commit.rows)?;
    admit::keep_blobs(tx, commit.run, &commit.blobs)?;
    commit
        .snapshot
        .iter()
        .try_for_each(|snapshot| admit::put_snapshot(tx, commit.run, snapshot))?;
    let after = After {
        head: granted.head,
        taken: found.taken + take_mail(tx, commit)?,
        law: commit
            .snapshot
            .as_ref()
            .map_or(found.law, |snapshot| snapshot.law),
    };
    go_on(tx, commit, &found, &after)?;
    commit
        .mailbox_sends
        .iter()
        .try_for_each(|send| tables::send(tx, send))?;
    let undelivered = deliver_all(tx, &commit.deliveries)?;
    let own = commit
        .deliveries
        .iter()
        .any(|delivery| delivery.run == commit.run);
    let mail = if own {
        find(tx, commit.run)?.map_or(found.facts.mail, |found| found.facts.mail)
    } else {
        found.facts.mail
    };
    Ok(CommitReply::Done { mail, undelivered })
}

fn find(tx: &Tx<'_>, run: RunId) -> Worked<Option<QueueRow>> {
    let mut statement = tx.statement(QUEUE_ROW)?;
    let mut rows = statement.query([run.as_bytes()])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    Ok(Some(QueueRow {
        facts: CommitFacts {
            owner: columns::owner(row, 0)?,
            epoch: columns::epoch(row, 1)?,
            head: columns::count(row, 2)?,
            mail: columns::count(row, 3)?,
        },
        taken: columns::count(row, 4)?,
        law: row.get(5)?,
        status: columns::live_status(row, 6).ok(),
    }))
}

/// What stands against the commit, if anything does; or its grant.
fn decide(
    tx: &Tx<'_>,
    commit: &RunCommit,
    found: Option<&QueueRow>,
) -> Worked<Result<Granted, CommitReply>> {
    let granted = match verdict::commit(commit, found.map(|found| &found.facts)) {
        Ok(granted) => granted,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let children: Worked<Vec<ChildFacts>> = commit
        .children
        .iter()
        .map(|child| child_facts(tx, child))
        .collect();
    Ok(verdict::children(children?).map(|()| granted))
}

/// A child whose version is known need not be looked for.
fn child_facts(tx: &Tx<'_>, child: &Admit) -> Worked<ChildFacts> {
    let version_known = admit::is_deployed(tx, child.version)?;
    Ok(ChildFacts {
        version_known,
        exists: !version_known && admit::existing(tx, child)?.is_some(),
    })
}

/// How much of the mail that the commit names was waiting.
fn take_mail(tx: &Tx<'_>, commit: &RunCommit) -> Worked<u64> {
    if commit.taken.is_empty() {
        return Ok(0);
    }
    let mut take = tx.statement(TAKE_MAIL)?;
    let mut taken = 0;
    for number in &commit.taken {
        taken += take.execute(params![commit.run.as_bytes(), number.cast_signed()])?;
    }
    Ok(taken as u64)
}

fn go_on(tx: &Tx<'_>, commit: &RunCommit, found: &QueueRow, after: &After) -> Worked<()> {
    match &commit.then {
        Then::Hold(status) => hold(tx, commit.run, found, after, *status),
        Then::Release(release) => self::release(tx, commit.run, found, after, release),
        Then::Finish(finish) => self::finish(tx, commit.run, found, after, finish),
    }
}

/// Columns that are in an index are written only when they change.
fn hold(
    tx: &Tx<'_>,
    run: RunId,
    found: &QueueRow,
    after: &After,
    status: LiveStatus,
) -> Worked<()> {
    let rest_is_same =
        after.taken == found.taken && after.law == found.law && Some(status) == found.status;
    if !rest_is_same {
        let given = params![
            run.as_bytes(),
            after.head.cast_signed(),
            after.taken.cast_signed(),
            after.law,
            status.as_str()
        ];
        tx.statement(HOLD_ALL)?.execute(given)?;
    } else if after.head != found.facts.head {
        tx.statement(HOLD)?
            .execute(params![run.as_bytes(), after.head.cast_signed()])?;
    }
    Ok(())
}

fn release(
    tx: &Tx<'_>,
    run: RunId,
    found: &QueueRow,
    after: &After,
    release: &Release,
) -> Worked<()> {
    let rest = verdict::release(release, found.facts.mail, tx.now);
    tx.statement(RELEASE)?.execute(params![
        run.as_bytes(),
        after.head.cast_signed(),
        after.taken.cast_signed(),
        after.law,
        release.status.as_str(),
        rest.due.millis(),
        rest.parked,
    ])?;
    tx.made_work();
    Ok(())
}

/// The record is kept, the queue row goes, mail that waits is dropped; what the run freed may let
/// others start.
fn finish(tx: &Tx<'_>, run: RunId, found: &QueueRow, after: &After, finish: &Finish) -> Worked<()> {
    tx.statement(END)?.execute(params![
        run.as_bytes(),
        finish.status.as_str(),
        tx.now.millis(),
        found.facts.epoch.0.cast_signed(),
        after.head.cast_signed(),
        found.facts.mail.cast_signed(),
        after.law,
        finish.result,
        finish.error,
    ])?;
    tx.statement(LEAVE)?.execute([run.as_bytes()])?;
    if found.facts.mail > after.taken {
        tx.statement(DROP_MAIL)?.execute([run.as_bytes()])?;
    }
    tx.ended_run();
    Ok(())
}

fn deliver_all(tx: &Tx<'_>, deliveries: &[Deliver]) -> Worked<Vec<RunId>> {
    let mut undelivered = Vec::new();
    for delivery in deliveries {
        match deliver::one(tx, delivery)? {
            Delivered::Accepted | Delivered::Duplicate => {}
            Delivered::Finished | Delivered::Missing | Delivered::Full => {
                undelivered.push(delivery.run);
            }
        }
    }
    Ok(undelivered)
}
