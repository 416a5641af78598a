//! Adoption: a run's state is folded from snapshot and journal, mail is taken in, and what must be done now is found.

use lope_flow::law::{self, Effect, EventKind, State, Status};
use lope_flow::policy::LOSS_BUDGET;
use lope_model::Timestamp;

use super::resident::{Resident, announced};
use super::{Adoption, Left, Output, Shard, ShardSettings};
use crate::client::STOPPED;
use crate::codec::{self, Unreadable};

/// A journal, folded.
struct Folded {
    state: State,
    /// The number of the last row.
    head: u64,
    /// What the last row led to, if no owner can have acted on it: it was written when the run was admitted.
    undone: Option<Vec<Effect>>,
}

impl Shard {
    pub(super) fn adopt(&mut self, now: Timestamp, adoption: Adoption, out: &mut Vec<Output>) {
        let (run, epoch, weight) = (adoption.run, adoption.epoch, adoption.weight);
        self.at_work = Some((run, epoch));
        let known = self.runs.get(&run).map(|resident| resident.epoch);
        if known == Some(epoch) {
            return;
        }
        // It was loaded for a session that has ended meanwhile, is known here under a later claim, or was given back.
        if adoption.owner != self.owner || known > Some(epoch) || self.given_up.remove(&(run, epoch)) {
            return out.push(Output::Left { run, epoch, weight, why: Left::Lost });
        }
        // It was let go and claimed again before the answer to that came.
        self.forget(run, Left::Released, out);
        match fold(&adoption) {
            Ok(folded) => {
                let waits_for_children = folded.state.status() == Status::Waiting || folded.head > 1;
                let resident = Resident::adopted(now, adoption, folded, self.settings, self.heard);
                self.runs.insert(run, Box::new(resident));
                let children = if waits_for_children { self.children_of(run) } else { Vec::new() };
                if !children.is_empty() {
                    out.push(Output::Born(children));
                }
                self.after(now, run, out);
            }
            Err(error) => out.push(Output::Left { run, epoch, weight, why: Left::Broken(error.to_string()) }),
        }
    }
}

impl Resident {
    fn adopted(now: Timestamp, adoption: Adoption, folded: Folded, settings: ShardSettings, heard: bool) -> Self {
        let mut resident = Resident::new(&adoption, folded.state, folded.head);
        resident.heard = heard;
        (resident.payload_max, resident.encode) = (settings.payload_max, settings.post);
        resident.tail = adoption.rows.iter().map(|row| row.body.len()).sum();
        resident.snapshot_size = adoption.snapshot.map_or(0, |snapshot| snapshot.body.len());
        // An open run that nobody had yet is idle, and says so.
        resident.open.untold = folded.undone.is_some() && resident.state.status() == Status::Idle;
        resident.stopped = resident.state.paused().is_some_and(|reason| &**reason == STOPPED);
        resident.go_on(now, folded.undone, settings.loss_budget);
        resident.take_mail(now, &adoption.mail);
        resident.seen = resident.seen.max(adoption.seen);
        resident
    }

    /// Take up what is outstanding. Attempts that another owner may have started are lost: the law opens new ones.
    fn go_on(&mut self, now: Timestamp, undone: Option<Vec<Effect>>, loss_budget: u32) {
        let is_attempt = |effect: &Effect| matches!(effect, Effect::Dispatch(_));
        let attempts = self.state.outstanding(&self.plan).into_iter().filter(is_attempt).collect::<Vec<_>>();
        let pending = self.state.unconfirmed(&self.plan);
        let again =
            |it: &Effect| matches!(it, Effect::StartChild(it) if pending.iter().any(|child| child.child == it.child));
        let others = undone.into_iter().flatten().filter(|effect| !is_attempt(effect) && !again(effect));
        let others: Vec<Effect> = others.collect();
        let pending = pending.into_iter().map(|child| Effect::StartChild(Box::new(child)));
        others.into_iter().chain(pending).for_each(|effect| self.sort(effect));
        if self.state.epoch() != self.epoch && !attempts.is_empty() {
            let budget = (loss_budget != LOSS_BUDGET).then_some(loss_budget);
            self.fold(now, EventKind::Adopted { epoch: self.epoch, budget });
        } else {
            let durable: Vec<EventKind> = attempts.iter().filter_map(announced).collect();
            attempts.into_iter().for_each(|effect| self.sort(effect));
            durable.into_iter().for_each(|kind| self.fold(now, kind));
        }
    }
}

fn fold(adoption: &Adoption) -> Result<Folded, Unreadable> {
    let (mut state, mut head) = match &adoption.snapshot {
        Some(snapshot) => (codec::state(snapshot, &adoption.blobs)?, snapshot.seq),
        None => (State::new(&adoption.plan), 0),
    };
    let (mut effects, mut undone) = (Vec::new(), None::<Vec<Effect>>);
    for row in &adoption.rows {
        let event = codec::event(row, &adoption.blobs)?;
        if event.met.is_some_and(|met| met != state.short_digest()) {
            return Err(Unreadable::diverged(row.seq));
        }
        let at_admission = is_at_admission(&event.kind, undone.is_some());
        law::fold(&adoption.plan, &mut state, event, &mut effects);
        undone = at_admission.then(|| undone.unwrap_or_default().into_iter().chain(effects.drain(..)).collect());
        effects.clear();
        head = row.seq;
    }
    Ok(Folded { state, head, undone })
}

/// Was this row written when the run was admitted? The copy of a failed run is admitted with its retry.
fn is_at_admission(kind: &EventKind, follows: bool) -> bool {
    match kind {
        EventKind::Start(_) | EventKind::Forked { .. } => true,
        EventKind::Retry { .. } => follows,
        EventKind::Input(_) | EventKind::Outcome(_) | EventKind::Timer | EventKind::Signal { .. } => false,
        EventKind::Child { .. } | EventKind::Cancel { .. } | EventKind::Pause { .. } | EventKind::Resume => false,
        EventKind::Adopted { .. } | EventKind::Refused { .. } | EventKind::Dispatched { .. } => false,
        EventKind::Close => false,
    }
}
