//! `commit`: ask for the verdict on a run's commit, then write all of it.

use lope_model::Timestamp;

use super::run_entry::RunEntry;
use super::state::RunState;
use crate::clock::Reading;
use crate::runs::{
    Admit, Admitted, CommitReply, Deliver, Delivered, Finish, Release, RunCommit, RunStatus, Then,
};
use crate::verdict::{self, ChildFacts, CommitFacts};

impl RunState {
    pub(super) fn commit(&mut self, commits: Vec<RunCommit>, reading: Reading) -> Vec<CommitReply> {
        commits
            .into_iter()
            .map(|commit| self.commit_one(commit, reading))
            .collect()
    }

    fn commit_one(&mut self, commit: RunCommit, reading: Reading) -> CommitReply {
        if let Some(refusal) = self.refusal(&commit) {
            return refusal;
        }
        for child in commit.children {
            let admitted = self.admit_one(child, reading);
            debug_assert!(admitted != Admitted::UnknownVersion, "judged before");
        }
        let run = commit.run;
        let then = commit.then;
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

    fn deliver_all(
        &mut self,
        deliveries: Vec<Deliver>,
        reading: Reading,
    ) -> Vec<lope_model::RunId> {
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
    fn refusal(&self, commit: &RunCommit) -> Option<CommitReply> {
        let live = self.runs.get(&commit.run).filter(|entry| entry.is_live());
        let facts = live.map(|entry| entry.commit_facts());
        let children = commit.children.iter().map(|child| self.child_facts(child));
        verdict::commit(commit, facts.as_ref())
            .and_then(|_| verdict::children(children))
            .err()
    }

    fn child_facts(&self, child: &Admit) -> ChildFacts {
        ChildFacts {
            version_known: self.definitions.contains_key(&child.version),
            exists: self.existing(child).is_some(),
        }
    }
}

impl RunEntry {
    fn go_on(&mut self, then: Then, now: Timestamp) {
        match then {
            Then::Hold(status) => self.record.status = RunStatus::Live(status),
            Then::Release(release) => self.release(&release, now),
            Then::Finish(finish) => self.finish(finish, now),
        }
    }

    fn commit_facts(&self) -> CommitFacts {
        let record = &self.record;
        CommitFacts {
            owner: record.owner,
            epoch: record.epoch,
            head: record.head,
            mail: record.mail,
        }
    }

    fn release(&mut self, release: &Release, now: Timestamp) {
        let record = &mut self.record;
        let rest = verdict::release(release, record.mail, now);
        record.status = RunStatus::Live(release.status);
        record.owner = None;
        record.due = Some(rest.due);
        record.parked = rest.parked.map(str::to_owned);
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
