//! From what is open to a commit, and from its answer to what waited for it.

use lope_flow::law::{Effect, Settled, Status};
use lope_model::{RunId, Span, Timestamp};
use lope_store::runs::{Blob, CommitReply, Finish, LiveStatus, Release, RunCommit, Snapshot, Then, Wake};

use super::flight::Flight;
use super::resident::{Open, Resident};
use super::{Left, Output, Shard};
use crate::client::STOPPED;
use crate::codec;

/// First pause before a commit that was not answered is sent again; it doubles.
const RESEND: Span = Span::from_millis(100);
const RESEND_MAX: Span = Span::from_secs(2);

impl Shard {
    /// What a change of a run leads to: a commit if one is due, what may be done without one, a place on the wheel.
    pub(super) fn after(&mut self, now: Timestamp, run: RunId, out: &mut Vec<Output>) {
        let Some(resident) = self.runs.get_mut(&run) else { return };
        if resident.stopped {
            resident.put_down(out);
        }
        if resident.flight.is_none() {
            // What waits for nothing unwritten, or for what need not be written yet, is done at once.
            if (resident.open.is_empty() || resident.may_wait()) && !self.draining {
                let effects = std::mem::take(&mut resident.open.effects);
                resident.act(effects, out);
            }
            self.write(now, run, out);
        }
        self.rest(run, out);
        self.place(now, run);
    }

    /// An open run that has nothing more to do says so, once, when all of it is durable.
    fn rest(&mut self, run: RunId, out: &mut Vec<Output>) {
        let Some(resident) = self.runs.get_mut(&run) else { return };
        let done = resident.flight.is_none() && resident.open.is_empty() && resident.state.status() == Status::Idle;
        if done && std::mem::take(&mut resident.worked) {
            out.push(Output::Rested(run));
        }
    }

    /// Send what is open, if there is anything and it may not wait.
    fn write(&mut self, now: Timestamp, run: RunId, out: &mut Vec<Output>) {
        if !self.place_children(now, run, out) {
            return;
        }
        let Some(resident) = self.runs.get_mut(&run) else { return };
        let rests = resident.rests_from(now, self.settings.evict_after).is_some_and(|from| from <= now);
        let leaving = rests || (self.draining && resident.in_flight.is_empty());
        let idle = resident.open.is_empty();
        if !leaving && (resident.may_wait() || idle) {
            if std::mem::take(&mut resident.asked) {
                out.push(Output::Checkpointed(run));
            }
            return;
        }
        if let Some(why) = resident.open.spoilt.take() {
            return self.forget(run, Left::Broken(why), out);
        }
        let mut open = std::mem::take(&mut resident.open);
        let snapshot = resident.snapshot_due(self.settings.snapshot_min, &mut open.blobs);
        let (then, end) = resident.then(now, &open, leaving);
        let Open { rows, blobs, taken, children, begun, deliveries, posts, effects, .. } = open;
        let (owner, epoch) = (self.owner, resident.epoch);
        let commit = RunCommit { run, owner, epoch, rows, blobs, snapshot, taken, children, deliveries, posts, then };
        let upto = resident.head;
        resident.written = resident.settled;
        let commit = Box::new(commit);
        let flight = Flight { commit: commit.clone(), upto, effects, begun, end, unanswered: 0, resend_at: None };
        resident.flight = Some(Box::new(flight));
        out.push(Output::Commit(commit));
    }

    /// The answer to a commit.
    pub(super) fn committed(&mut self, now: Timestamp, run: RunId, reply: CommitReply, out: &mut Vec<Output>) {
        let Some(resident) = self.runs.get_mut(&run) else { return };
        let Some(flight) = resident.flight.take() else { return };
        match reply {
            CommitReply::Done { mail, undelivered } => {
                flight.tell_undelivered(&undelivered);
                if mail > resident.seen && flight.end.is_none() {
                    out.push(Output::MoreMail);
                }
                self.done(now, run, *flight, out);
            }
            // It was sent again after its first answer was lost, and had happened.
            CommitReply::Gap { head } if head >= flight.upto => self.done(now, run, *flight, out),
            CommitReply::Missing if flight.unanswered > 0 && flight.end.is_some() => self.done(now, run, *flight, out),
            CommitReply::Lost { .. } if flight.unanswered > 0 && flight.end == Some(Left::Released) => {
                self.done(now, run, *flight, out);
            }
            CommitReply::Lost { .. } | CommitReply::Missing => self.forget(run, Left::Lost, out),
            CommitReply::Gap { head } => self.forget(run, Left::Broken(format!("its journal ends at {head}")), out),
            CommitReply::Mail { .. } | CommitReply::UnknownVersion => {
                self.forget(run, Left::Broken(format!("the store answered {reply:?}")), out);
            }
        }
    }

    fn done(&mut self, now: Timestamp, run: RunId, flight: Flight, out: &mut Vec<Output>) {
        let Some(resident) = self.runs.get_mut(&run) else { return };
        let Flight { commit, effects, begun, end, .. } = flight;
        if let Some(snapshot) = &commit.snapshot {
            resident.snapshot_size = snapshot.body.len();
            resident.tail = 0;
        }
        let stays = end.is_none() && !self.draining;
        if !commit.children.is_empty() {
            out.push(Output::Born(commit.children.iter().map(|child| child.run).collect()));
        }
        let (starts, others): (Vec<_>, Vec<_>) = effects.into_iter().partition(is_start);
        resident.act(others, out);
        if end.is_none() {
            resident.have_begun(now, begun);
        }
        match end {
            Some(why) => self.forget(run, why, out),
            None if stays => resident.act(starts, out),
            None => resident.open.wait_again(starts),
        }
        self.after(now, run, out);
    }

    /// Send it again, later. Until it is answered the run does not go on.
    pub(super) fn unanswered(&mut self, now: Timestamp, run: RunId) {
        let Some(resident) = self.runs.get_mut(&run) else { return };
        let Some(flight) = &mut resident.flight else { return };
        flight.unanswered += 1;
        let pause = RESEND.times(1 << flight.unanswered.min(6)).min(RESEND_MAX);
        flight.resend_at = Some(now.plus(pause));
        self.place(now, run);
    }

    /// Look at a run when its timers are due, when it has rested long enough, or when its commit must be sent again.
    fn place(&mut self, now: Timestamp, run: RunId) {
        let Some(resident) = self.runs.get_mut(&run) else { return };
        let again = resident.flight.as_ref().and_then(|flight| flight.resend_at);
        let free = resident.flight.is_none() && resident.open.wanted.is_empty();
        let rest = resident.rests_from(now, self.settings.evict_after).filter(|_| free);
        let due = [again, rest, resident.state.next_wake()].into_iter().flatten().min().unwrap_or(Timestamp::NEVER);
        if due != resident.look_at {
            if resident.look_at < Timestamp::NEVER {
                self.wheel.remove(&(resident.look_at, run));
            }
            resident.look_at = due;
            if due < Timestamp::NEVER {
                self.wheel.insert((due, run));
            }
        }
    }

    /// Send a commit that was not answered again, if it is time.
    pub(super) fn resend(&mut self, now: Timestamp, run: RunId, out: &mut Vec<Output>) {
        let flight = self.runs.get_mut(&run).and_then(|resident| resident.flight.as_mut());
        if let Some(flight) = flight.filter(|flight| flight.resend_at.is_some_and(|at| at <= now)) {
            flight.resend_at = None;
            out.push(Output::Commit(flight.commit.clone()));
        }
    }
}

fn is_start(effect: &Effect) -> bool {
    matches!(effect, Effect::Dispatch(_))
}

impl Resident {
    /// Stop what is in flight and start nothing more: whoever takes the run up next makes new attempts of it.
    fn put_down(&mut self, out: &mut Vec<Output>) {
        self.cancel_all(out);
        self.open.effects.retain(|effect| !is_start(effect));
        if let Some(flight) = &mut self.flight {
            flight.effects.retain(|effect| !is_start(effect));
        }
    }

    /// Stop what is in flight.
    fn cancel_all(&mut self, out: &mut Vec<Output>) {
        let mut tokens: Vec<_> = self.in_flight.drain().map(|(token, _)| token).collect();
        tokens.sort_unstable();
        out.extend(tokens.into_iter().map(Output::Cancel));
    }

    /// The run is no longer held: stop what it has in flight, and say why.
    pub(super) fn leave(mut self: Box<Self>, why: Left, out: &mut Vec<Output>) {
        self.cancel_all(out);
        out.push(Output::Left { run: self.run, epoch: self.epoch, weight: self.weight, why });
    }

    /// Do what waited.
    fn act(&mut self, effects: Vec<Effect>, out: &mut Vec<Output>) {
        for effect in effects {
            match effect {
                Effect::Dispatch(dispatch) => {
                    let epoch = dispatch.epoch;
                    let task = self.task(*dispatch);
                    self.in_flight.insert(task.token.clone(), epoch);
                    out.push(Output::Start(Box::new(task)));
                }
                Effect::CancelAttempt { execution, attempt, epoch } => {
                    let token = crate::executor::Token { run: self.run, execution, attempt, epoch: self.epoch };
                    if self.in_flight.get(&token) == Some(&epoch) {
                        self.in_flight.remove(&token);
                        out.push(Output::Cancel(token));
                    }
                }
                Effect::InputSettled { input, result } => {
                    out.push(Output::InputSettled { run: self.run, input, result });
                }
                Effect::Telemetry(notice) => {
                    out.push(Output::Notice { run: self.run, plan: self.plan.clone(), notice });
                }
                Effect::StartChild(_)
                | Effect::Send(_)
                | Effect::CancelChild { .. }
                | Effect::Complete { .. }
                | Effect::Fail { .. }
                | Effect::Cancelled => unreachable!("these are in the commit itself"),
            }
        }
    }

    /// Who has the run after this commit.
    fn then(&self, now: Timestamp, open: &Open, leaving: bool) -> (Then, Option<Left>) {
        if let Some((status, result)) = open.end.clone() {
            let (value, error) = match &result {
                Settled::Done(value) => (Some(codec::result_bytes(value)), None),
                Settled::Failed(failure) => (None, Some(codec::error_bytes(failure))),
                Settled::Cancelled => (None, None),
            };
            let finish = Finish { status, result: value, error, seen: None };
            return (Then::Finish(finish), Some(Left::Ended { status, result }));
        }
        let status = live_status(self.state.status());
        if !leaving {
            return (Then::Hold(status), None);
        }
        let runnable = open.effects.iter().any(is_start) || !open.begun.is_empty();
        let wake = match (self.state.status(), self.state.next_wake()) {
            _ if self.stopped => Wake::Parked(STOPPED.to_owned()),
            (Status::Paused, _) => Wake::Parked("paused".to_owned()),
            _ if runnable => Wake::At(now),
            (_, Some(due)) => Wake::At(due),
            (_, None) => Wake::OnMail,
        };
        (Then::Release(Release { status, wake, seen: self.seen }), Some(Left::Released))
    }

    fn snapshot_due(&mut self, min: usize, blobs: &mut Vec<Blob>) -> Option<Snapshot> {
        (self.tail > self.snapshot_size.max(min)).then(|| codec::snapshot(self.head, &mut self.state, blobs))
    }
}

fn live_status(status: Status) -> LiveStatus {
    match status {
        Status::Queued => LiveStatus::Queued,
        Status::Idle => LiveStatus::Idle,
        Status::Sleeping => LiveStatus::Sleeping,
        Status::Waiting => LiveStatus::Waiting,
        Status::Paused => LiveStatus::Paused,
        Status::Running | Status::Completed | Status::Failed | Status::Cancelled => LiveStatus::Running,
    }
}
