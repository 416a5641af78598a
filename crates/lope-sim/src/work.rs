//! What a process does with what its machines decide: the work of the engine's threads and tasks,
//! message by message.

use std::sync::Arc;

use lope_engine::codec;
use lope_engine::session::{SessionCall, SessionCommand, SessionEvent};
use lope_engine::shard::{Adoption, Home, Past, ShardInput};
use lope_model::{Moment, RunId, RunnerId};
use lope_store::runs::{ClaimedRun, Loaded};

use crate::mutant::Mutant;
use crate::process::BORN;
use crate::trace::short;
use crate::wire::{LoadAnswer, ProcessMessage, ProcessPart, Request, Told, shard_of};
use crate::world::SimWorld;

impl SimWorld {
    /// A message reaches a part of a process that is up.
    pub(crate) fn receive(&mut self, slot: usize, part: ProcessPart, message: ProcessMessage) {
        match message {
            ProcessMessage::SessionEvent(event) => self.handle_event(slot, event),
            ProcessMessage::Answer(session, event) if session == self.processes[slot].session() => {
                self.handle_event(slot, event);
            }
            // Of a session that has ended.
            ProcessMessage::Answer(..) => {}
            ProcessMessage::Loaded(session, claimed, loaded) => {
                self.loaded(slot, session, claimed, loaded);
            }
            ProcessMessage::Newborn(adoption) => {
                let process = &self.processes[slot];
                let is_expected = process.held.get(&adoption.run) == Some(&BORN);
                if is_expected && process.session() == adoption.owner {
                    let event = SessionEvent::Took {
                        owner: adoption.owner,
                        runs: 1,
                    };
                    self.to(
                        slot,
                        0,
                        ProcessPart::Session,
                        ProcessMessage::SessionEvent(event),
                    );
                    self.tell_shard(slot, adoption.run, ShardInput::Adopt(adoption));
                }
            }
            ProcessMessage::Unborn(owner, run) => {
                if self.processes[slot].session() == owner {
                    self.processes[slot].lets_go(run, BORN);
                }
            }
            ProcessMessage::GivenBack(owner, lost) => {
                let process = &mut self.processes[slot];
                let held: Vec<RunId> = lost
                    .into_iter()
                    .filter(|(run, epoch)| process.lets_go(*run, *epoch))
                    .map(|(run, _)| run)
                    .collect();
                self.give_back(slot, owner, held.len());
                self.gone(slot, held);
            }
            ProcessMessage::Input(input) => self.shard(slot, part, Some(input)),
            ProcessMessage::Tell(Told::Latest(name, latest)) => {
                for number in 0..self.processes[slot].shards.len() {
                    let input = ShardInput::Latest(Arc::clone(&name), latest.clone());
                    self.to(
                        slot,
                        0,
                        ProcessPart::Shard(number),
                        ProcessMessage::Input(input),
                    );
                }
            }
            ProcessMessage::Done(outcome) => self.settle(slot, outcome),
            ProcessMessage::Verdict(token, verdict) => self.answered(slot, &token, verdict),
            ProcessMessage::AskAgain => self.ask_again(slot),
        }
    }

    /// A part looks at the clock.
    pub(crate) fn tick(&mut self, slot: usize, part: ProcessPart) {
        let at = self.at;
        match part {
            ProcessPart::Session => {
                let process = &mut self.processes[slot];
                let mut asks = Vec::new();
                process.session_machine.tick(process.now(at), &mut asks);
                self.ask(slot, asks);
                self.renew_lease(slot);
                self.check_session(slot);
            }
            ProcessPart::Dispatcher => {
                let process = &mut self.processes[slot];
                let mut commands = Vec::new();
                process.dispatcher.tick(process.moment(at), &mut commands);
                self.act(slot, commands);
            }
            ProcessPart::Shard(_) => self.shard(slot, part, None),
            ProcessPart::Adopter => {}
        }
    }

    pub(crate) fn handle_event(&mut self, slot: usize, event: SessionEvent) {
        let at = self.at;
        if says_something(&event) {
            self.trace
                .note(at, || format!("p{slot} session hears {}", short(&event)));
        }
        let process = &mut self.processes[slot];
        let mut asks = Vec::new();
        process
            .session_machine
            .handle(process.now(at), event, &mut asks);
        self.ask(slot, asks);
        self.renew_lease(slot);
        self.check_session(slot);
    }

    /// The dispatcher learns until when the session is known to be held.
    fn renew_lease(&mut self, slot: usize) {
        let at = self.at;
        let process = &mut self.processes[slot];
        let until = match self.setup.mutant {
            Some(Mutant::StartAfterLease) => Moment(i64::MAX),
            _ => process.session_machine.lease_until(),
        };
        let session = process.session();
        let mut commands = Vec::new();
        process
            .dispatcher
            .begin_session(process.moment(at), session, &mut commands);
        process
            .dispatcher
            .renew_lease(process.moment(at), until, &mut commands);
        self.act(slot, commands);
    }

    /// A session that has just looked at its clock is never taken for held when it has ended in the
    /// store.
    fn check_session(&mut self, slot: usize) {
        let process = &self.processes[slot];
        if process.up && process.session_machine.is_registered() && !self.is_held(process.session())
        {
            self.checker.blame(format!(
                "p{slot} takes its session for held, and it has ended"
            ));
        }
    }

    pub(crate) fn ask(&mut self, slot: usize, asks: Vec<SessionCommand>) {
        let mut found = 0;
        for ask in asks {
            if self.crashes(slot) {
                return;
            }
            match ask {
                SessionCommand::Call(SessionCall::Register) => self.send(slot, Request::Register),
                SessionCommand::Call(SessionCall::Heartbeat) => self.send(slot, Request::Heartbeat),
                SessionCommand::Call(SessionCall::Claim(claim)) => {
                    self.check_claim(slot, claim.limit, found);
                    self.send(slot, Request::Claim(claim));
                }
                SessionCommand::Call(SessionCall::Takeover) => self.send(slot, Request::Takeover),
                SessionCommand::Call(SessionCall::Reconcile) => self.send(slot, Request::Reconcile),
                SessionCommand::Call(SessionCall::Mail) => self.send(slot, Request::Mail),
                SessionCommand::Adopt(runs) => self.adopt(slot, runs),
                SessionCommand::Compare(owned) => {
                    let process = &mut self.processes[slot];
                    let forgotten: Vec<_> = owned
                        .into_iter()
                        .filter(|run| process.held.get(&run.run) != Some(&run.epoch))
                        .collect();
                    process.session_machine.found(&forgotten);
                    found += forgotten.len();
                    self.adopt(slot, forgotten);
                }
                SessionCommand::SetClock(ahead) => self.processes[slot].set_clock(ahead),
                SessionCommand::Fence(why) => self.fence(slot, why),
                // Nothing is old enough in a world of an hour.
                SessionCommand::Call(SessionCall::Announce(_)) => {
                    self.handle_event(slot, SessionEvent::Announced(Ok(())));
                }
                SessionCommand::Call(SessionCall::Prune) => {
                    self.handle_event(slot, SessionEvent::Pruned { more: false });
                }
            }
        }
    }

    /// A process never asks for more runs than it has room for. Of those that are born claimed, and
    /// of those that it finds by comparing in the same breath, it learns a little later.
    fn check_claim(&mut self, slot: usize, limit: usize, found: usize) {
        let born = self.jobs.iter().filter(|job| job.born_claimed).count();
        let held = self.processes[slot].held.len();
        let room = self.settings.max_runs;
        if held + limit > room + born + found {
            self.checker.blame(format!(
                "p{slot} has {held} runs, room for {room}, and asks for {limit} more"
            ));
        }
    }

    pub(crate) fn adopt(&mut self, slot: usize, runs: Vec<ClaimedRun>) {
        let (mut fresh, mut dropped) = (Vec::new(), 0);
        for run in runs {
            let before = self.processes[slot].held.insert(run.run, run.epoch);
            dropped += usize::from(before.is_some());
            if before != Some(run.epoch) {
                fresh.push(run);
            }
        }
        let owner = self.processes[slot].session();
        self.give_back(slot, owner, dropped);
        if !fresh.is_empty() {
            self.send(slot, Request::Load(fresh));
        }
    }

    /// So many runs that the session task counts are not in memory after all.
    pub(crate) fn give_back(&mut self, slot: usize, owner: RunnerId, runs: usize) {
        if runs > 0 {
            self.to(
                slot,
                0,
                ProcessPart::Session,
                ProcessMessage::SessionEvent(SessionEvent::Left { owner, runs }),
            );
        }
    }

    /// These runs have left: their places in a queue with a bound are free.
    pub(crate) fn gone(&mut self, slot: usize, runs: Vec<RunId>) {
        let is_bounded = !self.settings.queue_limits.is_empty();
        if is_bounded && !runs.is_empty() && self.setup.mutant != Some(Mutant::KeepPlaces) {
            self.to(
                slot,
                0,
                ProcessPart::Session,
                ProcessMessage::SessionEvent(SessionEvent::Gone(runs)),
            );
        }
    }

    /// Runs that were claimed are not taken up.
    pub(crate) fn drop_claimed(&mut self, slot: usize, owner: RunnerId, claimed: &[ClaimedRun]) {
        let process = &mut self.processes[slot];
        let dropped: Vec<RunId> = claimed
            .iter()
            .filter(|claimed| process.lets_go(claimed.run, claimed.epoch))
            .map(|claimed| claimed.run)
            .collect();
        self.give_back(slot, owner, dropped.len());
        self.gone(slot, dropped);
    }

    fn fence(&mut self, slot: usize, why: &str) {
        let at = self.at;
        self.trace
            .note(at, || format!("p{slot} fences itself: {why}"));
        self.fences += 1;
        let runner = self.runner_id();
        for number in 0..self.processes[slot].shards.len() {
            self.to(
                slot,
                0,
                ProcessPart::Shard(number),
                ProcessMessage::Input(ShardInput::Abandon),
            );
            self.to(
                slot,
                0,
                ProcessPart::Shard(number),
                ProcessMessage::Input(ShardInput::Owner(runner)),
            );
        }
        let process = &mut self.processes[slot];
        process.held.clear();
        process.session_machine.reborn(runner);
        self.to(
            slot,
            0,
            ProcessPart::Session,
            ProcessMessage::SessionEvent(SessionEvent::Notified),
        );
    }

    fn loaded(
        &mut self,
        slot: usize,
        owner: RunnerId,
        claimed: Vec<ClaimedRun>,
        answer: LoadAnswer,
    ) {
        let loaded = match answer {
            LoadAnswer::Runs(loaded) => loaded,
            LoadAnswer::Damaged => return self.load_around_damage(slot, owner, claimed),
            LoadAnswer::Unanswered => return self.drop_claimed(slot, owner, &claimed),
        };
        let mut dropped = Vec::new();
        for (claimed, loaded) in claimed.into_iter().zip(loaded) {
            let Some(loaded) = loaded else {
                return self
                    .checker
                    .blame(format!("{}: claimed, and has no record", claimed.run));
            };
            if loaded.record.owner != Some(owner) || loaded.record.epoch != claimed.epoch {
                dropped.push(claimed);
                continue;
            }
            let adoption = self.adoption(owner, &claimed, loaded);
            self.tell_shard(slot, claimed.run, ShardInput::Adopt(Box::new(adoption)));
        }
        self.drop_claimed(slot, owner, &dropped);
    }

    fn adoption(&mut self, owner: RunnerId, claimed: &ClaimedRun, loaded: Loaded) -> Adoption {
        let needs = codec::needs(loaded.snapshot.as_ref(), &loaded.rows)
            .expect("what was written can be read");
        let blobs = crate::world::at_once(self.store.runs.blobs(claimed.run, &needs))
            .expect("the memory answers");
        let blobs = needs
            .into_iter()
            .zip(blobs)
            .filter_map(|(digest, bytes)| Some((digest, bytes?)))
            .collect();
        Adoption {
            run: claimed.run,
            epoch: claimed.epoch,
            owner,
            plan: Arc::clone(&self.plans[&claimed.version]),
            home: Home {
                queue: claimed.queue.clone(),
                realm: claimed.realm.clone(),
                priority: claimed.priority,
            },
            parent: loaded.record.parent,
            past: Past::Stored {
                snapshot: loaded.snapshot,
                rows: loaded.rows,
                blobs,
            },
            mail: loaded.mail,
            seen: loaded.record.mail,
        }
    }

    pub(crate) fn tell_shard(&mut self, slot: usize, run: RunId, input: ShardInput) {
        let number = shard_of(run, self.processes[slot].shards.len());
        self.to(
            slot,
            0,
            ProcessPart::Shard(number),
            ProcessMessage::Input(input),
        );
    }
}

/// The rest is heard every second, and would fill the trace.
pub(crate) fn says_something(event: &SessionEvent) -> bool {
    match event {
        SessionEvent::Claimed(Ok(claimed)) => !claimed.runs.is_empty(),
        SessionEvent::TookOver(taken) => !taken.ended.is_empty() || taken.runs > 0,
        SessionEvent::Owned(owned) => !owned.is_empty(),
        SessionEvent::Beaten(held) => held.is_err(),
        SessionEvent::Mailed
        | SessionEvent::Notified
        | SessionEvent::Pruned { .. }
        | SessionEvent::Announced(_) => false,
        SessionEvent::Registered(_) | SessionEvent::Claimed(Err(_)) | SessionEvent::Failed(_) => {
            true
        }
        SessionEvent::Took { .. }
        | SessionEvent::Left { .. }
        | SessionEvent::Serve(_)
        | SessionEvent::Unserve(_)
        | SessionEvent::Drain => true,
        SessionEvent::Gone(_) | SessionEvent::Own(_) | SessionEvent::Disown(_) => true,
    }
}
