//! What a process does with what its machines decide: the work of the engine's threads and tasks, message by message.

use std::sync::Arc;

use lope_engine::codec;
use lope_engine::dispatch::Act;
use lope_engine::executor::{Outcome, Task};
use lope_engine::keeper::{Ask, Heard};
use lope_engine::shard::{Adoption, Home, Input, Left, Output, Past};
use lope_model::{Epoch, Failure, RunId, RunnerId, Value};
use lope_store::runs::{ClaimedRun, CommitReply, LiveStatus, Loaded, Release, RunCommit, Then, Wake};

use crate::judge::employer;
use crate::process::BORN;
use crate::report::End;
use crate::trace::short;
use crate::wire::{Message, Part, Request, Told, shard_of};
use crate::world::World;

impl World {
    /// A message reaches a part of a process that is up.
    pub(crate) fn receive(&mut self, slot: usize, part: Part, message: Message) {
        match message {
            Message::Heard(heard) => self.hear(slot, heard),
            Message::Answer(session, heard) if session == self.processes[slot].session() => self.hear(slot, heard),
            // Of a session that has ended.
            Message::Answer(..) => {}
            Message::Loaded(session, claimed, loaded) => self.loaded(slot, session, claimed, loaded),
            Message::Newborn(adoption) => {
                let process = &self.processes[slot];
                let is_expected = process.held.get(&adoption.run) == Some(&BORN);
                if is_expected && process.session() == adoption.owner {
                    let heard = Heard::Took { owner: adoption.owner, runs: 1 };
                    self.to(slot, 0, Part::Keeper, Message::Heard(heard));
                    self.tell_shard(slot, adoption.run, Input::Adopt(adoption));
                }
            }
            Message::Unborn(owner, run) => {
                if self.processes[slot].session() == owner {
                    self.processes[slot].lets_go(run, BORN);
                }
            }
            Message::GivenBack(owner, lost) => {
                let process = &mut self.processes[slot];
                let held = lost.iter().filter(|(run, epoch)| process.lets_go(*run, *epoch)).count();
                self.give_back(slot, owner, held);
            }
            Message::Input(input) => self.shard(slot, part, Some(input)),
            Message::Tell(Told::Latest(name, latest)) => {
                for number in 0..self.processes[slot].shards.len() {
                    let input = Input::Latest(Arc::clone(&name), latest.clone());
                    self.to(slot, 0, Part::Shard(number), Message::Input(input));
                }
            }
            Message::Done(outcome) => self.settle(slot, outcome),
        }
    }

    /// A part looks at the clock.
    pub(crate) fn tick(&mut self, slot: usize, part: Part) {
        let at = self.at;
        match part {
            Part::Keeper => {
                let (process, mut asks) = (&mut self.processes[slot], Vec::new());
                process.keeper.tick(process.now(at), &mut asks);
                self.ask(slot, asks);
                self.judge_session(slot);
            }
            Part::Desk => {
                let (process, mut acts) = (&mut self.processes[slot], Vec::new());
                process.desk.tick(process.moment(at), &mut acts);
                self.act(slot, acts);
            }
            Part::Shard(_) => self.shard(slot, part, None),
            Part::Adopter => {}
        }
    }

    fn hear(&mut self, slot: usize, heard: Heard) {
        let at = self.at;
        if says_something(&heard) {
            self.trace.note(at, || format!("p{slot} keeper hears {}", short(&heard)));
        }
        let (process, mut asks) = (&mut self.processes[slot], Vec::new());
        process.keeper.handle(process.now(at), heard, &mut asks);
        self.ask(slot, asks);
        self.judge_session(slot);
    }

    /// A keeper that has just looked at its clock never takes a session for held that has ended in the store.
    fn judge_session(&mut self, slot: usize) {
        let process = &self.processes[slot];
        if process.up && process.keeper.is_registered() && !self.is_held(process.session()) {
            self.judge.blame(format!("p{slot} takes its session for held, and it has ended"));
        }
    }

    fn ask(&mut self, slot: usize, asks: Vec<Ask>) {
        let mut found = 0;
        for ask in asks {
            if self.crashes(slot) {
                return;
            }
            match ask {
                Ask::Register => self.send(slot, Request::Register),
                Ask::Heartbeat => self.send(slot, Request::Heartbeat),
                Ask::Claim(claim) => {
                    self.judge_claim(slot, claim.limit, found);
                    self.send(slot, Request::Claim(claim));
                }
                Ask::Takeover => self.send(slot, Request::Takeover),
                Ask::Reconcile => self.send(slot, Request::Reconcile),
                Ask::Mail => self.send(slot, Request::Mail),
                Ask::Adopt(runs) => self.adopt(slot, runs),
                Ask::Compare(owned) => {
                    let process = &mut self.processes[slot];
                    let forgotten: Vec<_> =
                        owned.into_iter().filter(|run| process.held.get(&run.run) != Some(&run.epoch)).collect();
                    process.keeper.took(forgotten.len());
                    found += forgotten.len();
                    self.adopt(slot, forgotten);
                }
                Ask::SetClock(ahead) => self.processes[slot].set_clock(ahead),
                Ask::Fence(why) => self.fence(slot, why),
                // Nothing is old enough in a world of an hour.
                Ask::Announce(_) => self.hear(slot, Heard::Announced(Ok(()))),
                Ask::Prune => self.hear(slot, Heard::Pruned { more: false }),
            }
        }
    }

    /// A process never asks for more runs than it has room for. Of those that are born claimed, and
    /// of those that it finds by comparing in the same breath, it learns a little later.
    fn judge_claim(&mut self, slot: usize, limit: usize, found: usize) {
        let born = self.jobs.iter().filter(|job| job.born_claimed).count();
        let (held, room) = (self.processes[slot].held.len(), self.settings.max_runs);
        if held + limit > room + born + found {
            self.judge.blame(format!("p{slot} has {held} runs, room for {room}, and asks for {limit} more"));
        }
    }

    fn adopt(&mut self, slot: usize, runs: Vec<ClaimedRun>) {
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

    /// So many runs that the keeper counts are not in memory after all.
    fn give_back(&mut self, slot: usize, owner: RunnerId, runs: usize) {
        if runs > 0 {
            self.to(slot, 0, Part::Keeper, Message::Heard(Heard::Left { owner, runs, weight: 0 }));
        }
    }

    fn fence(&mut self, slot: usize, why: &str) {
        let at = self.at;
        self.trace.note(at, || format!("p{slot} fences itself: {why}"));
        self.fences += 1;
        let runner = self.runner_id();
        for number in 0..self.processes[slot].shards.len() {
            self.to(slot, 0, Part::Shard(number), Message::Input(Input::Fence));
            self.to(slot, 0, Part::Shard(number), Message::Input(Input::Owner(runner)));
        }
        let process = &mut self.processes[slot];
        process.held.clear();
        process.keeper.reborn(runner);
        self.to(slot, 0, Part::Keeper, Message::Heard(Heard::Rang));
    }

    fn loaded(&mut self, slot: usize, owner: RunnerId, claimed: Vec<ClaimedRun>, loaded: Option<Vec<Option<Loaded>>>) {
        let Some(loaded) = loaded else {
            let process = &mut self.processes[slot];
            let dropped = claimed.iter().filter(|claimed| process.lets_go(claimed.run, claimed.epoch)).count();
            return self.give_back(slot, owner, dropped);
        };
        let mut dropped = 0;
        for (claimed, loaded) in claimed.into_iter().zip(loaded) {
            let Some(loaded) = loaded else {
                return self.judge.blame(format!("{}: claimed, and has no record", claimed.run));
            };
            if loaded.record.owner != Some(owner) || loaded.record.epoch != claimed.epoch {
                dropped += usize::from(self.processes[slot].lets_go(claimed.run, claimed.epoch));
                continue;
            }
            let adoption = self.adoption(owner, &claimed, loaded);
            self.tell_shard(slot, claimed.run, Input::Adopt(Box::new(adoption)));
        }
        self.give_back(slot, owner, dropped);
    }

    fn adoption(&mut self, owner: RunnerId, claimed: &ClaimedRun, loaded: Loaded) -> Adoption {
        let needs = codec::needs(loaded.snapshot.as_ref(), &loaded.rows).expect("what was written can be read");
        let blobs = crate::world::at_once(self.store.runs.blobs(claimed.run, &needs)).expect("the memory answers");
        let blobs = needs.into_iter().zip(blobs).filter_map(|(digest, bytes)| Some((digest, bytes?))).collect();
        Adoption {
            run: claimed.run,
            epoch: claimed.epoch,
            owner,
            weight: claimed.weight,
            plan: Arc::clone(&self.plans[&claimed.version]),
            home: Home::default(),
            parent: loaded.record.parent,
            past: Past::Stored { snapshot: loaded.snapshot, rows: loaded.rows, blobs },
            mail: loaded.mail,
            seen: loaded.record.mail,
        }
    }

    /// A shard takes an input in, or only looks at the clock; its outputs go where they belong.
    fn shard(&mut self, slot: usize, part: Part, input: Option<Input>) {
        let (at, Part::Shard(number)) = (self.at, part) else { return };
        let process = &mut self.processes[slot];
        let (now, mut outputs) = (process.wall(at), Vec::new());
        if let Some(input) = input {
            if let Input::Owner(runner) = &input {
                process.owners[number] = *runner;
            }
            self.trace.note(at, || format!("p{slot} shard {number} takes {}", in_words(&input)));
            let at_risk = run_of(&input);
            if let Input::Committed(run, epoch, CommitReply::Lost { .. }) = &input {
                process.lost.insert((*run, *epoch));
                self.lost_heard += u32::from(process.shards[number].holds(*run));
            } else if matches!(input, Input::Drain) {
                process.drained.insert(number);
            }
            process.shards[number].handle(now, input, &mut outputs);
            if let Some(run) = at_risk
                && self.dice.chance(self.faults().fall)
                && self.falls_over(run)
            {
                return self.fall(slot, number, outputs);
            }
        }
        self.processes[slot].shards[number].tick(now, &mut outputs);
        self.carry(slot, outputs);
    }

    /// A shard panicked: what it had said so far is done, the rest is lost, and so is the run, or everything.
    fn fall(&mut self, slot: usize, number: usize, mut outputs: Vec<Output>) {
        let (at, said) = (self.at, self.dice.below(outputs.len() as u64 + 1));
        outputs.truncate(usize::try_from(said).unwrap_or_default());
        let everything = self.dice.chance(100);
        self.trace
            .note(at, || format!("p{slot} shard {number} falls{}", if everything { " with all it holds" } else { "" }));
        let process = &mut self.processes[slot];
        let shard = &mut process.shards[number];
        if !everything && shard.expel("simulated", &mut outputs) {
            return self.carry(slot, outputs);
        }
        let (shards, owner) = (process.shards.len(), process.session());
        let held = process.held.iter().filter(|(run, _)| shard_of(**run, shards) == number);
        let lost: Vec<(RunId, Epoch)> = held.map(|(run, epoch)| (*run, *epoch)).collect();
        process.shards[number] = process.shards[number].emptied(lost.iter().copied());
        self.cancel_runs(slot, |run| shard_of(run, shards) == number);
        self.send(slot, Request::GiveBack(owner, lost));
    }

    /// Everything of these runs is stopped at the desk, as whoever gives runs up does.
    fn cancel_runs(&mut self, slot: usize, is_meant: impl Fn(RunId) -> bool) {
        let (at, process, mut acts) = (self.at, &mut self.processes[slot], Vec::new());
        process.desk.cancel_runs(process.moment(at), is_meant, &mut acts);
        self.act(slot, acts);
    }

    fn carry(&mut self, slot: usize, outputs: Vec<Output>) {
        let (mut commits, mut left) = (Vec::new(), 0);
        for output in outputs {
            if self.crashes(slot) {
                return;
            }
            match output {
                Output::Commit(commit) => {
                    if self.processes[slot].lost.contains(&(commit.run, commit.epoch)) {
                        self.judge.blame(format!("{}: p{slot} goes on with what it was told is lost", commit.run));
                    }
                    commits.push(*commit);
                }
                Output::Left { run, epoch, why: Left::Fell(_), .. } => {
                    let owner = self.processes[slot].session();
                    self.cancel_runs(slot, |it| it == run);
                    self.send(slot, Request::GiveBack(owner, vec![(run, epoch)]));
                }
                Output::Left { run, epoch, why, .. } => {
                    left += usize::from(self.processes[slot].lets_go(run, epoch));
                    self.left(slot, run, epoch, why);
                }
                Output::Start(task) => self.submit(slot, task),
                Output::Cancel(token) => {
                    let (at, process, mut acts) = (self.at, &mut self.processes[slot], Vec::new());
                    process.desk.cancel(process.moment(at), &token, &mut acts);
                    self.act(slot, acts);
                }
                Output::MoreMail => self.to(slot, 0, Part::Keeper, Message::Heard(Heard::Rang)),
                Output::FindLatest(workflow) => self.send(slot, Request::Latest(workflow)),
                Output::Born(_) | Output::InputSettled { .. } | Output::Checkpointed(_) => {}
                Output::Rested(_) | Output::Notice { .. } => {}
            }
        }
        let owner = self.processes[slot].session();
        self.give_back(slot, owner, left);
        if !commits.is_empty() && !self.crashes(slot) {
            self.send_commits(slot, commits);
        }
    }

    /// Commits travel together or one by one; that has no meaning.
    fn send_commits(&mut self, slot: usize, mut commits: Vec<RunCommit>) {
        if self.dice.chance(300) {
            for commit in commits.drain(..) {
                self.send(slot, Request::Commit(vec![commit]));
            }
        } else {
            self.send(slot, Request::Commit(commits));
        }
    }

    fn left(&mut self, slot: usize, run: RunId, epoch: Epoch, why: Left) {
        let at = self.at;
        self.trace.note(at, || format!("p{slot} {run} left: {}", short(&why)));
        let owner = self.processes[slot].session();
        self.judge_end(run, &why);
        if let Left::Broken(reason) = why {
            self.judge.blame(format!("{run}: set aside: {reason}"));
            let then =
                Then::Release(Release { status: LiveStatus::Paused, wake: Wake::Parked(reason), seen: u64::MAX });
            self.send(slot, Request::Park(RunCommit::new(run, owner, epoch, then)));
        }
    }

    /// Who waits for a run is told what the store holds, and not before it does.
    fn judge_end(&mut self, run: RunId, why: &Left) {
        let Left::Ended { status, result } = why else { return };
        let stored = self.record(run).and_then(|record| End::of(&record));
        if stored.as_ref() != Some(&End::told(*status, result)) {
            self.judge.blame(format!("{run}: told to have ended as {status:?} with {result:?}, stored is {stored:?}"));
        }
    }

    fn submit(&mut self, slot: usize, task: Box<Task>) {
        let record = self.record(task.token.run);
        let at = self.at;
        self.trace.note(at, || format!("p{slot} starts {:?}", task.token));
        let process = &self.processes[slot];
        let shard = shard_of(task.token.run, process.shards.len());
        if process.drained.contains(&shard) {
            self.judge.blame(format!("{:?}: starts though p{slot} shall start nothing more", task.token));
        }
        let is_lost =
            process.held.get(&task.token.run).is_some_and(|epoch| process.lost.contains(&(task.token.run, *epoch)));
        if is_lost {
            self.judge.blame(format!("{:?}: starts though p{slot} was told that the run is lost", task.token));
        }
        let session = process.owners[shard];
        let is_held = self.is_held(session);
        if !is_held && !self.stood_still(slot) {
            self.judge.blame(format!("{:?}: p{slot} starts it though its lease is over", task.token));
        }
        let is_unaware = self.taken_over.contains(&session) && self.stood_still(slot);
        self.judge.starts(session, &task, record.as_ref(), is_held && !is_unaware);
        let (process, mut acts) = (&mut self.processes[slot], Vec::new());
        process.desk.submit(process.moment(at), task, &mut acts);
        self.act(slot, acts);
    }

    /// Has any part of a process stood still within the last lease? Then it may not know yet what time it is.
    fn stood_still(&self, slot: usize) -> bool {
        let lease = i64::try_from(self.settings.lease.millis()).unwrap_or(i64::MAX);
        self.processes[slot].still.values().any(|until| until + lease > self.at)
    }

    fn settle(&mut self, slot: usize, outcome: Outcome) {
        let (at, mut acts) = (self.at, Vec::new());
        let process = &mut self.processes[slot];
        process.working.remove(&outcome.token);
        // A worker that was told to stop does not always get to answer.
        if process.stopped.contains(&outcome.token) && self.dice.chance(700) {
            return;
        }
        let process = &mut self.processes[slot];
        let ran = process.desk.settled(process.moment(at), &outcome.token, outcome.result.as_ref().ok(), &mut acts);
        self.act(slot, acts);
        // What the desk no longer knows must mean nothing to the shard either.
        if self.processes[slot].up && (ran.is_some() || self.dice.chance(self.faults().late_outcome)) {
            self.tell_shard(slot, outcome.token.run, Input::Outcome(outcome));
        }
    }

    fn act(&mut self, slot: usize, acts: Vec<Act>) {
        for act in acts {
            if self.crashes(slot) {
                return;
            }
            match act {
                Act::Start(task) => self.employ(slot, &task),
                Act::Stop { token, .. } => {
                    let process = &mut self.processes[slot];
                    process.working.remove(&token);
                    process.stopped.insert(token);
                }
                Act::TimedOut { token, silent, ran } => {
                    let started_at = self.processes[slot].wall(self.at).minus(ran);
                    self.tell_shard(slot, token.run, Input::TimedOut { token, silent, started_at });
                }
                Act::Refuse { token, wait, reason } => {
                    self.judge.did_not_start(&token);
                    let until = self.processes[slot].wall(self.at).plus(wait);
                    self.tell_shard(slot, token.run, Input::Refused { token, until, reason });
                }
                Act::Answer { token, value } => {
                    self.tell_shard(slot, token.run, Input::Outcome(Outcome::new(token, Ok(value))));
                }
            }
        }
    }

    /// A worker takes a task on and answers after a while, if it does.
    fn employ(&mut self, slot: usize, task: &Task) {
        let working = &mut self.processes[slot].working;
        working.insert(task.token.clone());
        if working.len() > self.settings.concurrency {
            let (many, slots) = (working.len(), self.settings.concurrency);
            self.judge.blame(format!("p{slot} has {many} attempts at work in {slots} slots"));
        }
        let failures = self.judge.failures(&task.token);
        let Some(result) = answer(&task.action, &task.arguments, failures) else { return };
        let takes = if &*task.action == "slow" { self.dice.between(500, 9_000) } else { self.dice.between(0, 150) };
        let outcome = Outcome { worker: Some(employer(task.token.epoch)), ..Outcome::new(task.token.clone(), result) };
        self.answer_to_an_earlier_start(slot, takes, &outcome);
        if self.dice.chance(self.faults().twice) {
            let again = takes + self.dice.between(0, 3_000);
            self.to(slot, again, Part::Desk, Message::Done(outcome.clone()));
        }
        if self.dice.chance(self.faults().late_outcome) {
            let late = takes + self.dice.between(0, 20_000);
            self.later(slot, late, Part::Desk, Message::Done(outcome.clone()));
        }
        self.to(slot, takes, Part::Desk, Message::Done(outcome));
    }

    /// An owner that did not get to write down what it did may have started the same attempt: that one's answer may come now.
    fn answer_to_an_earlier_start(&mut self, slot: usize, takes: i64, outcome: &Outcome) {
        let token = &outcome.token;
        let attempt = (token.run, Arc::clone(&token.execution), token.attempt);
        let Some(earlier) = self.answers.insert(attempt, outcome.clone()) else { return };
        if earlier.token.epoch != token.epoch && self.faults().late_outcome > 0 {
            let before = self.dice.between(0, takes);
            let number = shard_of(token.run, self.processes[slot].shards.len());
            self.to(slot, before, Part::Shard(number), Message::Input(Input::Outcome(earlier)));
        }
    }

    fn tell_shard(&mut self, slot: usize, run: RunId, input: Input) {
        let number = shard_of(run, self.processes[slot].shards.len());
        self.to(slot, 0, Part::Shard(number), Message::Input(input));
    }
}

/// The run that an input is about, if a shard may fall over it.
fn run_of(input: &Input) -> Option<RunId> {
    match input {
        Input::Adopt(adoption) => Some(adoption.run),
        Input::Outcome(outcome) => Some(outcome.token.run),
        Input::TimedOut { token, .. } | Input::Refused { token, .. } => Some(token.run),
        Input::Mail(run, _) | Input::Committed(run, ..) | Input::Unanswered(run, _) => Some(*run),
        Input::Rejected(..) | Input::Latest(..) | Input::Checkpoint(_) | Input::Discard(_) => None,
        Input::Drain | Input::Fence | Input::Owner(_) => None,
    }
}

/// The rest is heard every second, and would fill the trace.
pub(crate) fn says_something(heard: &Heard) -> bool {
    match heard {
        Heard::Claimed(Ok(claimed)) => !claimed.runs.is_empty(),
        Heard::TookOver(taken) => !taken.ended.is_empty() || taken.runs > 0,
        Heard::Owned(owned) => !owned.is_empty(),
        Heard::Beaten(held) => held.is_err(),
        Heard::Mailed | Heard::Rang | Heard::Pruned { .. } | Heard::Announced(_) => false,
        Heard::Registered(_) | Heard::Claimed(Err(_)) | Heard::Failed(_) => true,
        Heard::Took { .. } | Heard::Left { .. } | Heard::Serve(_) | Heard::Drain => true,
        Heard::Gone(_) | Heard::Own(_) | Heard::Disown(_) => true,
    }
}

fn in_words(input: &Input) -> String {
    match input {
        Input::Adopt(it) => {
            let rows = if let Past::Stored { rows, .. } = &it.past { rows.len() } else { 1 };
            format!("adoption of {} {} with {rows} rows, {} mail", it.run, it.epoch.0, it.mail.len())
        }
        other => short(other),
    }
}

/// What a worker answers: `ok` and `slow` compute, `big` gives a large value, `flaky2` fails twice first, `stuck1` never
/// answers before it has failed once, `hang` never does, `bad_E` always fails as `E`.
fn answer(action: &str, with: &Value, failures: u32) -> Option<Result<Value, Failure>> {
    let count = |prefix: &str| action.strip_prefix(prefix).and_then(|count| count.parse::<u32>().ok());
    if action == "hang" || count("stuck").is_some_and(|count| failures < count) {
        return None;
    }
    if let Some(kind) = action.strip_prefix("bad_") {
        return Some(Err(Failure::new(kind, "always")));
    }
    if count("flaky").is_some_and(|count| failures < count) {
        return Some(Err(Failure::new("Flaky", "try again")));
    }
    let number = with.as_int().unwrap_or(-1);
    if action == "big" {
        return Some(Ok(Value::str("x".repeat(5_000 + usize::try_from(number.max(0)).unwrap_or_default()))));
    }
    Some(Ok(Value::Int((number * 7 + 3).rem_euclid(1_000))))
}
