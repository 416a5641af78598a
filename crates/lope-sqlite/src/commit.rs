//! `commit`: judge a run's commit against its queue row, then write all of it: journal, values, snapshot, mail taken, children,
//! where the run goes, mail to others.
//!
//! Whatever could stop a commit is found before anything is written, so one that is lost leaves the others of its
//! transaction alone.

use lope_model::{Epoch, RunId, RunnerId, Timestamp};
use lope_store::runs::{
    Admit, CommitReply, Deliver, Delivered, Finish, JournalRow, LiveStatus, Release, RunCommit, Then, Wake,
};
use rusqlite::params;

use crate::desk::Desk;
use crate::failure::Worked;
use crate::{admit, columns, deliver, tables};

const PLACE: &str = "SELECT owner, epoch, head, mail, taken, law, status FROM queue WHERE run_id = ?1";
const TAKE_MAIL: &str = "UPDATE mail SET taken = 1, body = x'' WHERE run_id = ?1 AND number = ?2 AND taken = 0";
const DROP_MAIL: &str = "UPDATE mail SET taken = 1, body = x'' WHERE run_id = ?1 AND taken = 0";
const HOLD: &str = "UPDATE queue SET head = ?2 WHERE run_id = ?1";
const HOLD_ALL: &str = "UPDATE queue SET head = ?2, taken = ?3, law = ?4, status = ?5 WHERE run_id = ?1";
const RELEASE: &str =
    "UPDATE queue SET owner = NULL, head = ?2, taken = ?3, law = ?4, status = ?5, due = ?6, parked = ?7
     WHERE run_id = ?1";
const LEAVE: &str = "DELETE FROM queue WHERE run_id = ?1";
const END: &str =
    "UPDATE runs SET status = ?2, finished_at = ?3, epoch = ?4, head = ?5, mail = ?6, law = ?7, result = ?8, error = ?9
     WHERE run_id = ?1";

/// A run's row in the queue, as far as commits care.
struct Place {
    owner: Option<RunnerId>,
    epoch: Epoch,
    head: u64,
    mail: u64,
    taken: u64,
    law: u32,
    status: LiveStatus,
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
    2 + commit.posts.len()
        + commit.rows.len()
        + commit.blobs.len()
        + commit.taken.len()
        + 2 * commit.deliveries.len()
        + children
}

pub(crate) fn commit(desk: &Desk<'_>, commits: &[RunCommit]) -> Worked<Vec<CommitReply>> {
    commits.iter().map(|commit| one(desk, commit)).collect()
}

fn one(desk: &Desk<'_>, commit: &RunCommit) -> Worked<CommitReply> {
    let Some(place) = find(desk, commit.run)? else { return Ok(CommitReply::Missing) };
    if let Some(refusal) = judge(desk, commit, &place)? {
        return Ok(refusal);
    }
    for child in &commit.children {
        admit::one(desk, child)?;
    }
    admit::append(desk, commit.run, &commit.rows)?;
    admit::keep_blobs(desk, commit.run, &commit.blobs)?;
    commit.snapshot.iter().try_for_each(|snapshot| admit::put_snapshot(desk, commit.run, snapshot))?;
    let after = After {
        head: commit.rows.last().map_or(place.head, |row| row.seq),
        taken: place.taken + take_mail(desk, commit)?,
        law: commit.snapshot.as_ref().map_or(place.law, |snapshot| snapshot.law),
    };
    go_on(desk, commit, &place, &after)?;
    commit.posts.iter().try_for_each(|post| tables::post(desk, post))?;
    let undelivered = deliver_all(desk, &commit.deliveries)?;
    let own = commit.deliveries.iter().any(|delivery| delivery.run == commit.run);
    let mail = if own { find(desk, commit.run)?.map_or(place.mail, |place| place.mail) } else { place.mail };
    Ok(CommitReply::Done { mail, undelivered })
}

fn find(desk: &Desk<'_>, run: RunId) -> Worked<Option<Place>> {
    let mut place = desk.statement(PLACE)?;
    let mut rows = place.query([run.as_bytes()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(Some(Place {
        owner: columns::maybe_runner(row, 0)?,
        epoch: columns::epoch(row, 1)?,
        head: columns::count(row, 2)?,
        mail: columns::count(row, 3)?,
        taken: columns::count(row, 4)?,
        law: row.get(5)?,
        status: columns::live_status(row, 6)?,
    }))
}

/// The answer that stands against the commit, if any does.
fn judge(desk: &Desk<'_>, commit: &RunCommit, place: &Place) -> Worked<Option<CommitReply>> {
    if place.owner != Some(commit.owner) || place.epoch != commit.epoch {
        return Ok(Some(CommitReply::Lost { owner: place.owner, epoch: place.epoch }));
    }
    let head = commit.rows.last().map_or(place.head, |row| row.seq);
    let beyond = commit.snapshot.as_ref().is_some_and(|snapshot| snapshot.seq > head);
    if beyond || !continues(&commit.rows, place.head) {
        return Ok(Some(CommitReply::Gap { head: place.head }));
    }
    if let Then::Finish(Finish { seen: Some(seen), .. }) = &commit.then
        && place.mail > *seen
    {
        return Ok(Some(CommitReply::Mail { mail: place.mail }));
    }
    for child in &commit.children {
        if !is_admissible(desk, child)? {
            return Ok(Some(CommitReply::UnknownVersion));
        }
    }
    Ok(None)
}

fn continues(rows: &[JournalRow], head: u64) -> bool {
    rows.iter().zip(head + 1..).all(|(row, seq)| row.seq == seq)
}

/// A child that is there already stays as it is; a fresh one needs its version.
fn is_admissible(desk: &Desk<'_>, child: &Admit) -> Worked<bool> {
    Ok(admit::is_deployed(desk, child.version)? || admit::existing(desk, child)?.is_some())
}

/// How much of the mail that the commit names was waiting.
fn take_mail(desk: &Desk<'_>, commit: &RunCommit) -> Worked<u64> {
    if commit.taken.is_empty() {
        return Ok(0);
    }
    let mut take = desk.statement(TAKE_MAIL)?;
    let mut taken = 0;
    for number in &commit.taken {
        taken += take.execute(params![commit.run.as_bytes(), number.cast_signed()])?;
    }
    Ok(taken as u64)
}

fn go_on(desk: &Desk<'_>, commit: &RunCommit, place: &Place, after: &After) -> Worked<()> {
    match &commit.then {
        Then::Hold(status) => hold(desk, commit.run, (place, after), *status),
        Then::Release(release) => self::release(desk, commit.run, (place, after), release),
        Then::Finish(finish) => self::finish(desk, commit.run, (place, after), finish),
    }
}

/// Columns that are in an index are written only when they change.
fn hold(desk: &Desk<'_>, run: RunId, (place, after): (&Place, &After), status: LiveStatus) -> Worked<()> {
    let rest_is_same = after.taken == place.taken && after.law == place.law && status == place.status;
    if !rest_is_same {
        let given =
            params![run.as_bytes(), after.head.cast_signed(), after.taken.cast_signed(), after.law, status.as_str()];
        desk.statement(HOLD_ALL)?.execute(given)?;
    } else if after.head != place.head {
        desk.statement(HOLD)?.execute(params![run.as_bytes(), after.head.cast_signed()])?;
    }
    Ok(())
}

/// Mail that the owner has not seen wakes the run at once, whatever it was going to wait for.
fn release(desk: &Desk<'_>, run: RunId, (place, after): (&Place, &After), release: &Release) -> Worked<()> {
    let (due, parked) = if place.mail > release.seen {
        (desk.now, None)
    } else {
        match &release.wake {
            Wake::At(due) => (*due.max(&desk.now), None),
            Wake::OnMail => (Timestamp::NEVER, None),
            Wake::Parked(reason) => (Timestamp::NEVER, Some(reason)),
        }
    };
    desk.statement(RELEASE)?.execute(params![
        run.as_bytes(),
        after.head.cast_signed(),
        after.taken.cast_signed(),
        after.law,
        release.status.as_str(),
        due.millis(),
        parked,
    ])?;
    desk.made_work();
    Ok(())
}

/// The record is kept, the queue row goes, mail that waits is dropped; what the run freed may let others start.
fn finish(desk: &Desk<'_>, run: RunId, (place, after): (&Place, &After), finish: &Finish) -> Worked<()> {
    desk.statement(END)?.execute(params![
        run.as_bytes(),
        finish.status.as_str(),
        desk.now.millis(),
        place.epoch.0.cast_signed(),
        after.head.cast_signed(),
        place.mail.cast_signed(),
        after.law,
        finish.result,
        finish.error,
    ])?;
    desk.statement(LEAVE)?.execute([run.as_bytes()])?;
    if place.mail > after.taken {
        desk.statement(DROP_MAIL)?.execute([run.as_bytes()])?;
    }
    desk.made_work();
    Ok(())
}

fn deliver_all(desk: &Desk<'_>, deliveries: &[Deliver]) -> Worked<Vec<RunId>> {
    let mut undelivered = Vec::new();
    for delivery in deliveries {
        match deliver::one(desk, delivery)? {
            Delivered::Accepted | Delivered::Duplicate => {}
            Delivered::Finished | Delivered::Missing | Delivered::Full => undelivered.push(delivery.run),
        }
    }
    Ok(undelivered)
}
