//! From what is open to a commit, and from its answer to what waited for it.

use std::sync::Arc;

use lope_flow::law::{Settled, Status};
use lope_model::{RunId, Span, Timestamp};
use lope_store::runs::{
    Blob, CommitReply, Finish, LiveStatus, Release, RunCommit, Snapshot, Then, Wake,
};

use super::after_commit::{AfterCommit, AttemptId};
use super::pending_commit::PendingCommit;
use super::resident::{Resident, Uncommitted};
use super::{Shard, ShardOutput, UnloadReason};
use crate::client::STOPPED;
use crate::codec;
use crate::executor::Token;

/// First pause before a commit that was not answered is sent again; it doubles.
const RESEND: Span = Span::from_millis(100);
const RESEND_MAX: Span = Span::from_secs(2);

impl Shard {
    /// What a change of a run leads to: a commit if one is due, what may be done without one, a
    /// place on the wheel.
    pub(super) fn after(&mut self, now: Timestamp, run: RunId, out: &mut Vec<ShardOutput>) {
        let Some(resident) = self.runs.get_mut(&run) else {
            return;
        };
        if let Some(bytes) = resident.weigh() {
            out.push(ShardOutput::Weighs { run, bytes });
        }
        if resident.stopped {
            resident.put_down(out);
        }
        if resident.pending_commit.is_none() {
            resident.read_mail(now);
            // What waits for nothing unwritten, or for what need not be written yet, is done at
            // once.
            if (resident.uncommitted.is_empty() || resident.may_wait()) && !self.draining {
                let effects = std::mem::take(&mut resident.uncommitted.effects);
                resident.act(effects, out);
            }
            self.write(now, run, out);
        }
        self.rest(run, out);
        self.set_deadline(now, run);
    }

    /// An open run that has nothing more to do says so, once, when all of it is durable.
    fn rest(&mut self, run: RunId, out: &mut Vec<ShardOutput>) {
        let Some(resident) = self.runs.get_mut(&run) else {
            return;
        };
        let done = resident.pending_commit.is_none()
            && resident.uncommitted.is_empty()
            && resident.state.status() == Status::Idle;
        if done && std::mem::take(&mut resident.worked) {
            out.push(ShardOutput::Rested(run));
        }
    }

    /// Send what is open, if there is anything and it may not wait.
    fn write(&mut self, now: Timestamp, run: RunId, out: &mut Vec<ShardOutput>) {
        if !self.place_children(now, run, out) {
            return;
        }
        let Some(resident) = self.runs.get_mut(&run) else {
            return;
        };
        let rests = resident
            .rests_from(now, self.settings.evict_after)
            .is_some_and(|from| from <= now);
        let leaving = rests || (self.draining && resident.attempts.is_empty());
        let idle = resident.uncommitted.is_empty();
        if !leaving && (resident.may_wait() || idle) {
            if std::mem::take(&mut resident.asked) {
                out.push(ShardOutput::Checkpointed(run));
            }
            return;
        }
        if let Some(why) = resident.uncommitted.spoilt.take() {
            return self.forget(run, UnloadReason::Broken(why), out);
        }
        if leaving && !resident.stopped {
            resident.give_back_starts(now);
        }
        let mut open = std::mem::take(&mut resident.uncommitted);
        // With a snapshot behind the first row, whoever takes the run up next knows that what the
        // row led to was done.
        let must = open.repeats_sends();
        let snapshot = resident.snapshot_due(self.settings.snapshot_min, must, &mut open.blobs);
        let (then, end) = resident.then(now, &open, leaving);
        let Uncommitted {
            rows,
            blobs,
            taken,
            children,
            begun,
            deliveries,
            mailbox_sends,
            effects,
            ..
        } = open;
        let owner = self.owner;
        let epoch = resident.epoch;
        let commit = RunCommit {
            run,
            owner,
            epoch,
            rows,
            blobs,
            snapshot,
            taken,
            children,
            deliveries,
            mailbox_sends,
            then,
        };
        let upto = resident.head;
        resident.written = resident.settled;
        let commit = Box::new(commit);
        let pending = PendingCommit {
            commit: commit.clone(),
            upto,
            effects,
            begun,
            end,
            unanswered: 0,
            resend_at: None,
        };
        resident.pending_commit = Some(Box::new(pending));
        out.push(ShardOutput::Commit(commit));
    }

    /// The answer to a commit.
    pub(super) fn committed(
        &mut self,
        now: Timestamp,
        run: RunId,
        reply: CommitReply,
        out: &mut Vec<ShardOutput>,
    ) {
        let Some(resident) = self.runs.get_mut(&run) else {
            return;
        };
        let Some(pending) = resident.pending_commit.take() else {
            return;
        };
        match reply {
            CommitReply::Done { mail, undelivered } => {
                pending.tell_undelivered(&undelivered);
                if mail > resident.seen && pending.end.is_none() {
                    out.push(ShardOutput::MoreMail);
                }
                self.done(now, run, *pending, out);
            }
            // It was sent again after its first answer was lost, and had happened.
            CommitReply::Gap { head } if head >= pending.upto => self.done(now, run, *pending, out),
            CommitReply::Missing if pending.unanswered > 0 && pending.end.is_some() => {
                self.done(now, run, *pending, out);
            }
            CommitReply::Lost { .. }
                if pending.unanswered > 0 && pending.end == Some(UnloadReason::Released) =>
            {
                self.done(now, run, *pending, out);
            }
            CommitReply::Lost { .. } | CommitReply::Missing => {
                self.forget(run, UnloadReason::Lost, out);
            }
            CommitReply::Gap { head } => self.forget(
                run,
                UnloadReason::Broken(format!("its journal ends at {head}")),
                out,
            ),
            CommitReply::Mail { .. } | CommitReply::UnknownVersion => {
                self.forget(
                    run,
                    UnloadReason::Broken(format!("the store answered {reply:?}")),
                    out,
                );
            }
        }
    }

    fn done(
        &mut self,
        now: Timestamp,
        run: RunId,
        pending: PendingCommit,
        out: &mut Vec<ShardOutput>,
    ) {
        let Some(resident) = self.runs.get_mut(&run) else {
            return;
        };
        let PendingCommit {
            commit,
            effects,
            begun,
            end,
            ..
        } = pending;
        if let Some(snapshot) = &commit.snapshot {
            resident.snapshot_size = snapshot.body.len();
            resident.tail = 0;
        }
        let stays = end.is_none() && !self.draining;
        if !commit.children.is_empty() {
            out.push(ShardOutput::Born(
                commit.children.iter().map(|child| child.run).collect(),
            ));
        }
        let (starts, others): (Vec<_>, Vec<_>) =
            effects.into_iter().partition(AfterCommit::is_start);
        resident.act(others, out);
        if end.is_none() {
            resident.have_begun(now, begun);
        }
        match end {
            Some(why) => self.forget(run, why, out),
            None if stays => resident.act(starts, out),
            None => resident.uncommitted.wait_again(starts),
        }
        self.after(now, run, out);
    }

    /// Send it again, later. Until it is answered the run does not go on.
    pub(super) fn unanswered(&mut self, now: Timestamp, run: RunId) {
        let Some(resident) = self.runs.get_mut(&run) else {
            return;
        };
        let Some(pending) = &mut resident.pending_commit else {
            return;
        };
        pending.unanswered += 1;
        let pause = RESEND.times(1 << pending.unanswered.min(6)).min(RESEND_MAX);
        pending.resend_at = Some(now.plus(pause));
        self.set_deadline(now, run);
    }

    /// Look at a run when its timers are due, when it has rested long enough, or when its commit
    /// must be sent again.
    fn set_deadline(&mut self, now: Timestamp, run: RunId) {
        let Some(resident) = self.runs.get_mut(&run) else {
            return;
        };
        let again = resident
            .pending_commit
            .as_ref()
            .and_then(|pending| pending.resend_at);
        let free = resident.pending_commit.is_none() && resident.uncommitted.wanted.is_empty();
        let rest = resident
            .rests_from(now, self.settings.evict_after)
            .filter(|_| free);
        let timer = resident.state.next_wake().filter(|_| !resident.discarded);
        let due = [again, rest, timer]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(Timestamp::NEVER);
        if due != resident.check_at {
            if resident.check_at < Timestamp::NEVER {
                self.wheel.remove(&(resident.check_at, run));
            }
            resident.check_at = due;
            if due < Timestamp::NEVER {
                self.wheel.insert((due, run));
            }
        }
    }

    /// Send a commit that was not answered again, if it is time.
    pub(super) fn resend(&mut self, now: Timestamp, run: RunId, out: &mut Vec<ShardOutput>) {
        let pending = self
            .runs
            .get_mut(&run)
            .and_then(|resident| resident.pending_commit.as_mut());
        if let Some(pending) =
            pending.filter(|pending| pending.resend_at.is_some_and(|at| at <= now))
        {
            pending.resend_at = None;
            out.push(ShardOutput::Commit(pending.commit.clone()));
        }
    }
}

impl Resident {
    /// Stop what is in flight and start nothing more: whoever takes the run up next makes new
    /// attempts of it.
    fn put_down(&mut self, out: &mut Vec<ShardOutput>) {
        self.cancel_all(out);
        self.uncommitted.effects.retain(|effect| !effect.is_start());
        if let Some(pending) = &mut self.pending_commit {
            pending.effects.retain(|effect| !effect.is_start());
        }
    }

    /// Stop what is in flight.
    pub(super) fn cancel_all(&mut self, out: &mut Vec<ShardOutput>) {
        let mut tokens: Vec<_> = self.attempts.drain().map(|(token, _)| token).collect();
        tokens.sort_unstable();
        out.extend(tokens.into_iter().map(ShardOutput::Cancel));
    }

    /// The run is no longer held: stop what it has in flight, and say why.
    pub(super) fn leave(mut self: Box<Self>, why: UnloadReason, out: &mut Vec<ShardOutput>) {
        self.cancel_all(out);
        self.tell_going_on(out);
        out.push(ShardOutput::Left {
            run: self.run,
            epoch: self.epoch,
            why,
        });
    }

    /// Do what waited.
    fn act(&mut self, effects: Vec<AfterCommit>, out: &mut Vec<ShardOutput>) {
        let run = self.run;
        for effect in effects {
            match effect {
                AfterCommit::Start(dispatch) => {
                    let epoch = dispatch.epoch;
                    let task = self.task(*dispatch);
                    self.attempts.insert(task.token.clone(), epoch);
                    out.push(ShardOutput::Start(Box::new(task)));
                }
                AfterCommit::GoOn if self.was_paused => {}
                AfterCommit::GoOn => self.tell_going_on(out),
                AfterCommit::Begin(token) => out.push(ShardOutput::Begin(token)),
                AfterCommit::Cancel(attempt) => self.stop(attempt, out),
                AfterCommit::InputSettled { input, result } => {
                    out.push(ShardOutput::InputSettled { run, input, result });
                }
                AfterCommit::Notice(notice) => {
                    let plan = Arc::clone(&self.plan);
                    out.push(ShardOutput::Notice { run, plan, notice });
                }
            }
        }
    }

    fn stop(&mut self, attempt: AttemptId, out: &mut Vec<ShardOutput>) {
        let token = Token {
            run: self.run,
            execution: attempt.execution,
            attempt: attempt.attempt,
            epoch: self.epoch,
        };
        if self.attempts.get(&token) == Some(&attempt.epoch) {
            self.attempts.remove(&token);
            out.push(ShardOutput::Cancel(token));
        }
    }

    /// Who has the run after this commit.
    fn then(
        &self,
        now: Timestamp,
        open: &Uncommitted,
        leaving: bool,
    ) -> (Then, Option<UnloadReason>) {
        if let Some((status, result)) = open.end.clone() {
            let (value, error) = match &result {
                Settled::Done(value) => (Some(codec::result_bytes(value)), None),
                Settled::Failed(failure) => (None, Some(codec::error_bytes(failure))),
                Settled::Cancelled => (None, None),
            };
            let finish = Finish {
                status,
                result: value,
                error,
                seen: None,
            };
            return (
                Then::Finish(finish),
                Some(UnloadReason::Ended { status, result }),
            );
        }
        let status = live_status(self.state.status());
        if !leaving {
            return (Then::Hold(status), None);
        }
        let runnable = open.effects.iter().any(AfterCommit::is_start)
            || !open.begun.is_empty()
            || !self.given_back.is_empty();
        // Nobody works on what whoever comes next begins.
        let status = if runnable && status == LiveStatus::Running {
            LiveStatus::Queued
        } else {
            status
        };
        let wake = if self.stopped {
            Wake::Parked(STOPPED.to_owned())
        } else if self.state.status() == Status::Paused {
            Wake::Parked("paused".to_owned())
        } else if runnable {
            Wake::At(now)
        } else {
            self.state.next_wake().map_or(Wake::OnMail, Wake::At)
        };
        (
            Then::Release(Release {
                status,
                wake,
                seen: self.seen_mail(),
            }),
            Some(UnloadReason::Released),
        )
    }

    /// A snapshot, if one must be or the journal behind the last one has grown. What was discarded
    /// is in no snapshot.
    fn snapshot_due(&mut self, min: usize, must: bool, blobs: &mut Vec<Blob>) -> Option<Snapshot> {
        let is_due = must || self.tail > self.snapshot_size.max(min);
        (is_due && !self.discarded).then(|| codec::snapshot(self.head, &mut self.state, blobs))
    }
}

fn live_status(status: Status) -> LiveStatus {
    match status {
        Status::Queued => LiveStatus::Queued,
        Status::Idle => LiveStatus::Idle,
        Status::Sleeping => LiveStatus::Sleeping,
        Status::Waiting => LiveStatus::Waiting,
        Status::Paused => LiveStatus::Paused,
        Status::Running | Status::Completed | Status::Failed | Status::Cancelled => {
            LiveStatus::Running
        }
    }
}
