//! Clients: they send mail, retry what has failed, have progress thrown away and resume it. Each
//! goes on until it is sure, and some do later what they decided on long before.

use lope_engine::client::STOPPED;
use lope_engine::codec;
use lope_engine::shard::ShardInput;
use lope_flow::law::EventKind;
use lope_model::{Epoch, RunId, Timestamp};
use lope_store::runs::{Delivered, FinalStatus, RunStatus};

use crate::client_act::ClientAct;
use crate::mutant;
use crate::process::MORNING;
use crate::serve::{AGAIN, fine};
use crate::world::{Happening, SimWorld, at_once};

/// How late a retry comes, at most, that was decided on when the run had failed.
const LATE: i64 = 12_000;

impl SimWorld {
    pub(crate) fn client(&mut self, job: usize, act: ClientAct) {
        match act {
            ClientAct::Send(number) => self.send_mail(job, number),
            ClientAct::SendAgain(number) => self.send_again(job, number),
            ClientAct::Retry(number) => self.retry(job, number),
            ClientAct::RetryLate(number) => {
                self.deliver(job, format!("late/{number}"), &again());
            }
            ClientAct::Discard(number) => self.discard(job, number),
            ClientAct::Resume(number) => self.resume(job, number),
        }
    }

    fn then(&mut self, delay: i64, job: usize, act: ClientAct) {
        self.at_time(delay, Happening::Client { job, act });
    }

    /// A client has nothing more to do.
    fn client_ends(&mut self) {
        self.clients -= 1;
    }

    /// Mail to the run of a job. Nothing: it was lost on its way, or its answer was.
    fn deliver(&mut self, job: usize, id: String, kind: &EventKind) -> Option<Delivered> {
        if self.dice.chance(self.faults().lose_request) {
            return None;
        }
        let at = self.at;
        let run = self.ids[job];
        let before = self.record(run).map(|record| record.status);
        let is_awaited = id.starts_with("mail/") && !(is_signal(kind) && self.jobs[job].pauses());
        let mail = mutant::deliver(self.setup.mutant, codec::mail(run, id, kind));
        let delivered = fine(at_once(self.store.runs.deliver(vec![mail])))[0];
        self.trace.note(at, || {
            format!("client sends {} to job {job}: {delivered:?}", kind.word())
        });
        self.notify_all();
        self.counts.full += u32::from(delivered == Delivered::Full);
        if delivered != Delivered::Accepted {
            return Some(delivered);
        }
        self.watch_reopened(job, before);
        if is_awaited {
            let at = Timestamp::from_millis(MORNING + at);
            self.checker.expect_mail(run, kind.word(), at);
        }
        (!self.dice.chance(self.faults().lose_answer)).then_some(delivered)
    }

    /// Mail was accepted. Of what has ended, only what failed is opened again.
    fn watch_reopened(&mut self, job: usize, before: Option<RunStatus>) {
        match before {
            Some(RunStatus::Final(FinalStatus::Failed)) => self.counts.reopened += 1,
            Some(RunStatus::Final(ended)) => self.checker.blame(format!(
                "{}: had ended as {}, and is opened again",
                self.ids[job],
                ended.as_str()
            )),
            Some(RunStatus::Live(_)) | None => {}
        }
    }

    fn send_mail(&mut self, job: usize, number: usize) {
        let Some((due, kind)) = self.jobs[job].mail.get(number).cloned() else {
            return self.client_ends();
        };
        if self.at < due {
            return self.then(due - self.at, job, ClientAct::Send(number));
        }
        match self.deliver(job, format!("mail/{number}"), &kind) {
            None | Some(Delivered::Missing) => self.then(AGAIN, job, ClientAct::Send(number)),
            Some(Delivered::Full) if self.jobs[job].pauses() => {
                // Others do not wait for this one.
                self.then(AGAIN, job, ClientAct::SendAgain(number));
                self.then(0, job, ClientAct::Send(number + 1));
            }
            // Nobody reads it any more.
            Some(Delivered::Full) if self.is_damaged(self.ids[job]) => self.client_ends(),
            Some(Delivered::Full) => self.then(AGAIN, job, ClientAct::Send(number)),
            Some(Delivered::Accepted | Delivered::Duplicate | Delivered::Finished) => {
                self.then(0, job, ClientAct::Send(number + 1));
            }
        }
    }

    /// What was refused is lost unless its sender sends it again.
    fn send_again(&mut self, job: usize, number: usize) {
        let Some((_, kind)) = self.jobs[job].mail.get(number).cloned() else {
            return;
        };
        match self.deliver(job, format!("mail/{number}"), &kind) {
            None | Some(Delivered::Full | Delivered::Missing) => {
                self.then(AGAIN, job, ClientAct::SendAgain(number));
            }
            Some(Delivered::Accepted | Delivered::Duplicate | Delivered::Finished) => {}
        }
    }

    /// Whenever the run has failed it is retried, by one client at once and by another that is slow.
    fn retry(&mut self, job: usize, number: usize) {
        let status = self.record(self.ids[job]).map(|record| record.status);
        match status {
            Some(RunStatus::Final(FinalStatus::Failed)) => {}
            Some(RunStatus::Final(FinalStatus::Completed | FinalStatus::Cancelled)) => {
                return self.client_ends();
            }
            Some(RunStatus::Live(_)) | None => {
                return self.then(AGAIN, job, ClientAct::Retry(number));
            }
        }
        if self
            .deliver(job, format!("retry/{number}"), &again())
            .is_none()
        {
            return self.then(AGAIN, job, ClientAct::Retry(number));
        }
        let late = self.dice.between(0, LATE);
        self.then(late, job, ClientAct::RetryLate(number));
        self.then(AGAIN, job, ClientAct::Retry(number + 1));
    }

    /// Whoever has the run in memory is told to forget what it has not written.
    fn discard(&mut self, job: usize, number: usize) {
        let Some(due) = self.jobs[job].discards.get(number).copied() else {
            return self.client_ends();
        };
        if self.at < due {
            return self.then(due - self.at, job, ClientAct::Discard(number));
        }
        let run = self.ids[job];
        if self.has_ended(run) {
            return self.client_ends();
        }
        let holder = self
            .processes
            .iter()
            .find(|process| process.up && process.held.contains_key(&run));
        let Some(slot) = holder.map(|process| process.address.slot) else {
            return self.then(AGAIN, job, ClientAct::Discard(number));
        };
        self.tell_shard(slot, run, ShardInput::Discard(run));
        self.then(AGAIN, job, ClientAct::Resume(number));
    }

    /// It may have been let go, or have left before it was told.
    fn resume(&mut self, job: usize, number: usize) {
        let run = self.ids[job];
        if self.has_ended(run) {
            return self.client_ends();
        }
        let parked = self.record(run).and_then(|record| record.parked);
        let is_stopped = parked.as_deref() == Some(STOPPED);
        let id = format!("resume/{number}");
        if !is_stopped || self.deliver(job, id, &EventKind::Resume).is_none() {
            return self.then(AGAIN, job, ClientAct::Resume(number));
        }
        let now = Timestamp::from_millis(MORNING + self.at);
        self.checker.resumed(run, now);
        self.counts.discarded += 1;
        self.then(0, job, ClientAct::Discard(number + 1));
    }

    fn has_ended(&self, run: RunId) -> bool {
        let record = self.record(run);
        record.is_some_and(|record| matches!(record.status, RunStatus::Final(_)))
    }
}

fn again() -> EventKind {
    EventKind::Retry { epoch: Epoch(0) }
}

fn is_signal(kind: &EventKind) -> bool {
    matches!(kind, EventKind::Signal { .. })
}
