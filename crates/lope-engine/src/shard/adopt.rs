//! Adoption: a run's state is folded from snapshot and journal, mail is taken in, and what must be
//! done now is found.

use lope_definition::policy::LOSS_BUDGET;
use lope_flow::law::{self, Effect, Event, EventKind, Plan, State, Status};
use lope_model::Timestamp;
use lope_store::runs::{JournalRow, Snapshot};

use super::resident::Resident;
use super::{Adoption, Past, Shard, ShardOutput, ShardSettings, UnloadReason};
use crate::client::STOPPED;
use crate::codec::{self, Blobs, Unreadable};

/// A journal, folded.
struct Folded {
    state: State,
    /// The number of the last row.
    head: u64,
    /// Bytes of journal behind the last snapshot, and of that snapshot.
    tail: usize,
    snapshot_size: usize,
    /// Bytes of the large values that both refer to.
    large: usize,
    /// What the last row led to, if no owner can have acted on it: it was written when the run was
    /// admitted.
    undone: Option<Vec<Effect>>,
    /// Is that all there is to do?
    is_all: bool,
    /// How the run ended, if it has: told to the store again, unless mail opens it.
    end: Option<Effect>,
}

impl Shard {
    pub(super) fn adopt(
        &mut self,
        now: Timestamp,
        mut adoption: Adoption,
        out: &mut Vec<ShardOutput>,
    ) {
        let (run, epoch) = (adoption.run, adoption.epoch);
        self.at_work = Some((run, epoch));
        let known = self.runs.get(&run).map(|resident| resident.epoch);
        if known == Some(epoch) {
            return;
        }
        // It is being given back. It stays held until the store knows, so that comparing does not
        // find it and take it on again.
        if self.given_up.remove(&(run, epoch)) {
            return;
        }
        // It was loaded for a session that has ended meanwhile, or is known here under a later
        // claim.
        if adoption.owner != self.owner || known > Some(epoch) {
            return out.push(ShardOutput::Left {
                run,
                epoch,
                why: UnloadReason::Lost,
            });
        }
        // It was let go and claimed again before the answer to that came.
        self.forget(run, UnloadReason::Released, out);
        match fold(&mut adoption) {
            Ok(folded) => {
                let waits_for_children =
                    folded.state.status() == Status::Waiting || folded.head > 1;
                let mut resident =
                    Resident::adopted(now, adoption, folded, self.settings, self.listened);
                resident.tell_pause(out);
                self.runs.insert(run, Box::new(resident));
                let children = if waits_for_children {
                    self.children_of(run)
                } else {
                    Vec::new()
                };
                if !children.is_empty() {
                    out.push(ShardOutput::Born(children));
                }
                self.after(now, run, out);
            }
            Err(error) => out.push(ShardOutput::Left {
                run,
                epoch,
                why: UnloadReason::Broken(error.to_string()),
            }),
        }
    }
}

impl Resident {
    fn adopted(
        now: Timestamp,
        mut adoption: Adoption,
        folded: Folded,
        settings: ShardSettings,
        listened: bool,
    ) -> Self {
        let mail = std::mem::take(&mut adoption.mail);
        let seen = adoption.seen;
        let mut resident = Resident::new(adoption, folded.state, folded.head);
        resident.listened = listened;
        resident.announces = settings.loss_budget != LOSS_BUDGET;
        (resident.payload_max, resident.encode) = (settings.payload_max, settings.mailbox_send);
        (resident.tail, resident.snapshot_size) = (folded.tail, folded.snapshot_size);
        resident.grown = folded.tail + folded.snapshot_size + folded.large;
        // An open run that nobody had yet is idle, and says so.
        resident.uncommitted.untold =
            folded.undone.is_some() && resident.state.status() == Status::Idle;
        resident.stopped = resident
            .state
            .paused()
            .is_some_and(|reason| &**reason == STOPPED);
        resident.uncommitted.repeats = folded.undone.is_some();
        match folded.undone {
            Some(effects) if folded.is_all && resident.state.epoch() == resident.epoch => {
                resident.follow(effects);
            }
            undone => resident.go_on(now, undone, settings.loss_budget),
        }
        resident.take_mail(now, mail);
        resident.seen = resident.seen.max(seen);
        if let Some(end) = folded.end
            && has_ended(&resident.state)
            && resident.uncommitted.end.is_none()
        {
            resident.sort(end);
        }
        resident
    }

    /// Take up what is outstanding. Attempts that another owner may have started are lost: the law
    /// opens new ones.
    fn go_on(&mut self, now: Timestamp, undone: Option<Vec<Effect>>, loss_budget: u32) {
        let is_attempt = |effect: &Effect| matches!(effect, Effect::Dispatch(_));
        let attempts = self
            .state
            .outstanding(&self.plan)
            .into_iter()
            .filter(is_attempt)
            .collect::<Vec<_>>();
        let pending = self.state.unconfirmed(&self.plan);
        let again = |it: &Effect| matches!(it, Effect::StartChild(it) if pending.iter().any(|child| child.child == it.child));
        let others = undone
            .into_iter()
            .flatten()
            .filter(|effect| !is_attempt(effect) && !again(effect));
        let others: Vec<Effect> = others.collect();
        let pending = pending
            .into_iter()
            .map(|child| Effect::StartChild(Box::new(child)));
        others
            .into_iter()
            .chain(pending)
            .for_each(|effect| self.sort(effect));
        if self.state.epoch() != self.epoch && !attempts.is_empty() {
            let budget = (loss_budget != LOSS_BUDGET).then_some(loss_budget);
            self.fold(
                now,
                EventKind::Adopted {
                    epoch: self.epoch,
                    budget,
                },
            );
        } else {
            attempts.into_iter().for_each(|effect| self.sort(effect));
        }
    }
}

fn fold(adoption: &mut Adoption) -> Result<Folded, Unreadable> {
    match std::mem::take(&mut adoption.past) {
        Past::Born { start, size } => Ok(born(&adoption.plan, start, size)),
        Past::Stored {
            snapshot,
            rows,
            blobs,
        } => stored(&adoption.plan, snapshot.as_ref(), &rows, &blobs),
    }
}

/// Nobody has done anything yet of what the first row led to.
fn born(plan: &Plan, start: Event, size: usize) -> Folded {
    let mut state = State::new(plan);
    let mut effects = Vec::new();
    law::fold(plan, &mut state, start, &mut effects);
    let end = take_end(&mut effects);
    Folded {
        state,
        head: 1,
        tail: size,
        snapshot_size: 0,
        large: 0,
        undone: Some(effects),
        is_all: true,
        end,
    }
}

fn stored(
    plan: &Plan,
    snapshot: Option<&Snapshot>,
    rows: &[JournalRow],
    blobs: &Blobs,
) -> Result<Folded, Unreadable> {
    let (mut state, mut head) = match snapshot {
        Some(snapshot) => (codec::state(snapshot, blobs)?, snapshot.seq),
        None => (State::new(plan), 0),
    };
    let (mut effects, mut undone) = (Vec::new(), None::<Vec<Effect>>);
    let mut end = remembered_end(&state);
    for row in rows {
        let event = codec::event(row, blobs)?;
        if event.met.is_some_and(|met| met != state.short_digest()) {
            return Err(Unreadable::diverged(row.seq));
        }
        let at_admission = is_at_admission(&event.kind, undone.is_some());
        law::fold(plan, &mut state, event, &mut effects);
        end = take_end(&mut effects).or(end.filter(|_| has_ended(&state)));
        undone = at_admission.then(|| {
            undone
                .unwrap_or_default()
                .into_iter()
                .chain(effects.drain(..))
                .collect()
        });
        effects.clear();
        head = row.seq;
    }
    if end.is_none() && has_ended(&state) {
        return Err(Unreadable::new(
            "the end of the run",
            "it has completed, and its result is in no row behind its last snapshot",
        ));
    }
    let tail = rows.iter().map(|row| row.body.len()).sum();
    let snapshot_size = snapshot.map_or(0, |snapshot| snapshot.body.len());
    Ok(Folded {
        state,
        head,
        tail,
        snapshot_size,
        large: blobs.values().map(Vec::len).sum(),
        undone,
        is_all: false,
        end,
    })
}

fn has_ended(state: &State) -> bool {
    match state.status() {
        Status::Completed | Status::Failed | Status::Cancelled => true,
        Status::Queued
        | Status::Idle
        | Status::Sleeping
        | Status::Waiting
        | Status::Paused
        | Status::Running => false,
    }
}

fn take_end(effects: &mut Vec<Effect>) -> Option<Effect> {
    let is_end = |effect: &Effect| {
        matches!(
            effect,
            Effect::Complete { .. } | Effect::Fail { .. } | Effect::Cancelled
        )
    };
    let last = effects.iter().rposition(is_end)?;
    Some(effects.remove(last))
}

/// The end that a state knows by itself: a result is in the row that led to it only.
fn remembered_end(state: &State) -> Option<Effect> {
    match state.status() {
        Status::Cancelled => Some(Effect::Cancelled),
        Status::Failed => state.failure().map(|failure| Effect::Fail {
            failure: failure.clone(),
        }),
        Status::Queued
        | Status::Running
        | Status::Idle
        | Status::Sleeping
        | Status::Waiting
        | Status::Paused
        | Status::Completed => None,
    }
}

/// Was this row written when the run was admitted? The copy of a failed run is admitted with its
/// retry.
fn is_at_admission(kind: &EventKind, follows: bool) -> bool {
    match kind {
        EventKind::Start(_) | EventKind::Forked { .. } => true,
        EventKind::Retry { .. } => follows,
        EventKind::Input(_)
        | EventKind::Outcome(_)
        | EventKind::Timer
        | EventKind::Signal { .. } => false,
        EventKind::Child { .. }
        | EventKind::Cancel { .. }
        | EventKind::Pause { .. }
        | EventKind::Resume => false,
        EventKind::Adopted { .. }
        | EventKind::Refused { .. }
        | EventKind::Dispatched { .. }
        | EventKind::Returned { .. } => false,
        EventKind::Close => false,
    }
}
