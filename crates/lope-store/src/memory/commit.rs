//! `commit`: judge a run's commit against what is stored, then write all of it.

use lope_model::Timestamp;

use super::entry::Entry;
use super::state::RunState;
use crate::clock::Reading;
use crate::runs::{
    Admitted, CommitReply, Deliver, Delivered, Finish, JournalRow, Release, RunCommit, RunStatus, Then, Wake,
};

impl RunState {
    pub(super) fn commit(&mut self, commits: Vec<RunCommit>, reading: Reading) -> Vec<CommitReply> {
        commits.into_iter().map(|commit| self.commit_one(commit, reading)).collect()
    }

    fn commit_one(&mut self, commit: RunCommit, reading: Reading) -> CommitReply {
        if let Err(refusal) = self.judge(&commit) {
            return refusal;
        }
        for child in commit.children {
            let admitted = self.admit_one(child, reading);
            debug_assert!(admitted != Admitted::UnknownVersion, "judged before");
        }
        let (run, then) = (commit.run, commit.then);
        let written = self.change(run, |entry| {
            entry.append(commit.rows, commit.blobs, commit.snapshot);
            for number in &commit.taken {
                entry.waiting.remove(number);
            }
            entry.go_on(then, reading.now);
        });
        debug_assert!(written.is_some(), "judged before");
        let undelivered = self.deliver_all(commit.deliveries, reading);
        let mail = self.runs.get(&run).map_or(0, |entry| entry.record.mail);
        CommitReply::Done { mail, undelivered }
    }

    fn deliver_all(&mut self, deliveries: Vec<Deliver>, reading: Reading) -> Vec<lope_model::RunId> {
        let mut undelivered = Vec::new();
        for delivery in deliveries {
            let run = delivery.run;
            match self.deliver_one(delivery, reading.now) {
                Delivered::Accepted | Delivered::Duplicate => {}
                Delivered::Finished | Delivered::Missing | Delivered::Full => undelivered.push(run),
            }
        }
        undelivered
    }

    /// Whatever could stop the commit, before anything is written.
    fn judge(&self, commit: &RunCommit) -> Result<(), CommitReply> {
        let entry = self.runs.get(&commit.run).filter(|entry| entry.is_live()).ok_or(CommitReply::Missing)?;
        let record = &entry.record;
        if !entry.is_owned_by(commit.owner) || record.epoch != commit.epoch {
            return Err(CommitReply::Lost { owner: record.owner, epoch: record.epoch });
        }
        if !continues(&commit.rows, record.head) {
            return Err(CommitReply::Gap { head: record.head });
        }
        let head = commit.rows.last().map_or(record.head, |row| row.seq);
        if commit.snapshot.as_ref().is_some_and(|snapshot| snapshot.seq > head) {
            return Err(CommitReply::Gap { head: record.head });
        }
        if let Then::Finish(Finish { seen: Some(seen), .. }) = &commit.then
            && record.mail > *seen
        {
            return Err(CommitReply::Mail { mail: record.mail });
        }
        let is_admissible = commit.children.iter().all(|child| self.is_admissible(child));
        if is_admissible { Ok(()) } else { Err(CommitReply::UnknownVersion) }
    }

    /// A child that is there already stays as it is; a fresh one needs its version.
    fn is_admissible(&self, child: &crate::runs::Admit) -> bool {
        self.runs.contains_key(&child.run)
            || child.key.as_ref().is_some_and(|key| self.keys.contains_key(key))
            || self.definitions.contains_key(&child.version)
    }
}

fn continues(rows: &[JournalRow], head: u64) -> bool {
    rows.iter().zip(head + 1..).all(|(row, seq)| row.seq == seq)
}

impl Entry {
    fn go_on(&mut self, then: Then, now: Timestamp) {
        match then {
            Then::Hold(status) => self.record.status = RunStatus::Live(status),
            Then::Release(release) => self.release(release, now),
            Then::Finish(finish) => self.finish(finish, now),
        }
    }

    /// Mail that the owner has not seen wakes the run at once, whatever it was going to wait for.
    fn release(&mut self, release: Release, now: Timestamp) {
        let record = &mut self.record;
        record.status = RunStatus::Live(release.status);
        record.owner = None;
        record.parked = None;
        if record.mail > release.seen {
            record.due = Some(now);
            return;
        }
        record.due = Some(match release.wake {
            Wake::At(due) => due.max(now),
            Wake::OnMail => Timestamp::NEVER,
            Wake::Parked(reason) => {
                record.parked = Some(reason);
                Timestamp::NEVER
            }
        });
    }

    fn finish(&mut self, finish: Finish, now: Timestamp) {
        let record = &mut self.record;
        record.status = RunStatus::Final(finish.status);
        record.owner = None;
        record.finished_at = Some(now);
        record.due = None;
        record.parked = None;
        self.result = finish.result;
        self.error = finish.error;
        self.waiting.clear();
    }
}
