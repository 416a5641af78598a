//! What a process does with what its shards put out, and what a shard that panics costs it.

use lope_engine::session::SessionEvent;
use lope_engine::shard::{Past, ShardInput, ShardOutput, UnloadReason};
use lope_model::{Epoch, RunId};
use lope_store::runs::{CommitReply, FinalStatus, RunCommit};

use crate::damage::parking;
use crate::mutant::{self, Mutant};
use crate::report::SimEnd;
use crate::trace::short;
use crate::wire::{ProcessMessage, ProcessPart, Request, shard_of};
use crate::world::SimWorld;

impl SimWorld {
    /// A shard takes an input in, or only looks at the clock; its outputs go where they belong.
    pub(crate) fn shard(&mut self, slot: usize, part: ProcessPart, input: Option<ShardInput>) {
        let (at, ProcessPart::Shard(number)) = (self.at, part) else {
            return;
        };
        if let Some(input) = &input {
            self.watch_discards(slot, number, input);
        }
        let process = &mut self.processes[slot];
        let now = process.wall(at);
        let mut outputs = Vec::new();
        if let Some(input) = input {
            if let ShardInput::Owner(runner) = &input {
                process.owners[number] = *runner;
            }
            self.trace.note(at, || {
                format!("p{slot} shard {number} takes {}", in_words(&input))
            });
            let at_risk = run_of(&input);
            if let ShardInput::Committed(run, epoch, CommitReply::Lost { .. }) = &input {
                process.lost.insert((*run, *epoch));
                self.lost_heard += u32::from(process.shards[number].holds(*run));
            } else if matches!(input, ShardInput::Drain) {
                process.drained.insert(number);
            }
            if let (Some(Mutant::WriteDiscarded), ShardInput::Discard(run)) =
                (self.setup.mutant, &input)
            {
                let first = ShardInput::Checkpoint(*run);
                process.shards[number].handle(now, first, &mut outputs);
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

    /// A shard panicked: what it had said so far is done, the rest is lost, and so is the run, or
    /// everything.
    fn fall(&mut self, slot: usize, number: usize, mut outputs: Vec<ShardOutput>) {
        let at = self.at;
        let said = self.dice.below(outputs.len() as u64 + 1);
        outputs.truncate(usize::try_from(said).unwrap_or_default());
        let everything = self.dice.chance(100);
        self.trace.note(at, || {
            format!(
                "p{slot} shard {number} falls{}",
                if everything { " with all it holds" } else { "" }
            )
        });
        let process = &mut self.processes[slot];
        let shard = &mut process.shards[number];
        if !everything && shard.expel("simulated", &mut outputs) {
            return self.carry(slot, outputs);
        }
        let shards = process.shards.len();
        let owner = process.session();
        let held = process
            .held
            .iter()
            .filter(|(run, _)| shard_of(**run, shards) == number);
        let lost: Vec<(RunId, Epoch)> = held.map(|(run, epoch)| (*run, *epoch)).collect();
        process.shards[number] = process.shards[number].emptied(lost.iter().copied());
        self.cancel_runs(slot, |run| shard_of(run, shards) == number);
        self.send(slot, Request::GiveBack(owner, lost));
    }

    /// Everything of these runs is stopped at the dispatcher, as whoever gives runs up does.
    pub(crate) fn cancel_runs(&mut self, slot: usize, is_meant: impl Fn(RunId) -> bool) {
        let at = self.at;
        let process = &mut self.processes[slot];
        let mut commands = Vec::new();
        process
            .dispatcher
            .cancel_runs(process.moment(at), is_meant, &mut commands);
        self.act(slot, commands);
    }

    pub(crate) fn carry(&mut self, slot: usize, outputs: Vec<ShardOutput>) {
        let (mut commits, mut gone, mut left) = (Vec::new(), Vec::new(), 0);
        for output in outputs {
            if self.crashes(slot) {
                return;
            }
            match output {
                ShardOutput::Commit(commit) => commits.push(self.outgoing(slot, *commit)),
                ShardOutput::Fell { run, epoch, .. } => {
                    let owner = self.processes[slot].session();
                    self.cancel_runs(slot, |it| it == run);
                    self.send(slot, Request::GiveBack(owner, vec![(run, epoch)]));
                }
                ShardOutput::Left { run, epoch, why } => {
                    left += usize::from(self.processes[slot].lets_go(run, epoch));
                    gone.push(run);
                    self.left(slot, run, epoch, why);
                }
                ShardOutput::Start(task) => self.submit(slot, task),
                ShardOutput::Begin(token) => {
                    let at = self.at;
                    let process = &mut self.processes[slot];
                    let mut commands = Vec::new();
                    process
                        .dispatcher
                        .announced(process.moment(at), &token, &mut commands);
                    self.act(slot, commands);
                }
                ShardOutput::Cancel(token) => {
                    let at = self.at;
                    let process = &mut self.processes[slot];
                    let mut commands = Vec::new();
                    process
                        .dispatcher
                        .cancel(process.moment(at), &token, &mut commands);
                    self.act(slot, commands);
                }
                ShardOutput::Pause(run, on) => {
                    let on = on && self.setup.mutant != Some(Mutant::BeginWhatIsPaused);
                    let process = &mut self.processes[slot];
                    let now = process.moment(self.at);
                    let mut commands = Vec::new();
                    process.dispatcher.pause(now, run, on, &mut commands);
                    self.act(slot, commands);
                }
                ShardOutput::MoreMail => self.to(
                    slot,
                    0,
                    ProcessPart::Session,
                    ProcessMessage::SessionEvent(SessionEvent::Notified),
                ),
                ShardOutput::FindLatest(workflow) => self.send(slot, Request::Latest(workflow)),
                ShardOutput::Born(_)
                | ShardOutput::InputSettled { .. }
                | ShardOutput::Weighs { .. }
                | ShardOutput::Checkpointed(_) => {}
                ShardOutput::Rested(_) | ShardOutput::Notice { .. } => {}
            }
        }
        let owner = self.processes[slot].session();
        self.give_back(slot, owner, left);
        self.gone(slot, gone);
        if !commits.is_empty() && !self.crashes(slot) {
            self.send_commits(slot, commits);
        }
    }

    /// A shard is told to throw away what it has not sent yet. One that does not have the run any
    /// more, or only later, is not meant.
    fn watch_discards(&mut self, slot: usize, number: usize, input: &ShardInput) {
        let process = &mut self.processes[slot];
        match input {
            ShardInput::Discard(run) if process.shards[number].holds(*run) => {
                if let Some(key) = process.held.get(run).map(|epoch| (*run, *epoch)) {
                    let upto = process.sent.get(&key).copied().unwrap_or_default();
                    process.forgotten.insert(key, upto);
                }
            }
            ShardInput::Adopt(adoption) => {
                process.forgotten.remove(&(adoption.run, adoption.epoch));
            }
            _ => {}
        }
    }

    /// A commit as it leaves a process: nothing of what is another's, nothing of what was thrown
    /// away.
    fn outgoing(&mut self, slot: usize, commit: RunCommit) -> RunCommit {
        let key = (commit.run, commit.epoch);
        let process = &mut self.processes[slot];
        if process.lost.contains(&key) {
            self.checker.blame(format!(
                "{}: p{slot} goes on with what it was told is lost",
                commit.run
            ));
        }
        let mut commit = mutant::commit(self.setup.mutant, commit);
        let forgotten = process.forgotten.get(&key).copied();
        if self.setup.mutant == Some(Mutant::SnapshotDiscarded) && forgotten.is_some() {
            commit.snapshot = self.checker.snapshot_ahead(commit.run);
        }
        let row = commit.rows.last().map_or(0, |row| row.seq);
        let reach = row.max(commit.snapshot.as_ref().map_or(0, |snapshot| snapshot.seq));
        if forgotten.is_some_and(|upto| reach > upto) {
            self.checker.blame(format!(
                "{}: p{slot} writes up to {reach} of what it shall forget",
                commit.run
            ));
        }
        let sent = process.sent.entry(key).or_default();
        *sent = reach.max(*sent);
        commit
    }

    /// Commits travel together or one by one; that has no meaning, unless one cannot be made.
    fn send_commits(&mut self, slot: usize, commits: Vec<RunCommit>) {
        if self.dice.chance(300) {
            for commit in commits {
                self.send(slot, Request::Commit(vec![commit]));
            }
        } else {
            for group in self.groups(slot, commits) {
                self.send(slot, Request::Commit(group));
            }
        }
    }

    fn left(&mut self, slot: usize, run: RunId, epoch: Epoch, why: UnloadReason) {
        let at = self.at;
        self.trace
            .note(at, || format!("p{slot} {run} left: {}", short(&why)));
        let owner = self.processes[slot].session();
        self.check_end(run, &why);
        if let UnloadReason::Broken(reason) = why {
            if !self.is_damaged(run) {
                self.checker.blame(format!("{run}: set aside: {reason}"));
            }
            self.send(slot, Request::Park(parking(run, owner, epoch, reason)));
        }
    }

    fn is_retried(&self, run: RunId) -> bool {
        let mut jobs = self.ids.iter().zip(&self.jobs);
        jobs.any(|(id, job)| *id == run && job.retried)
    }

    /// Who waits for a run is told what the store holds, and not before it does.
    fn check_end(&mut self, run: RunId, why: &UnloadReason) {
        let UnloadReason::Ended { status, result } = why else {
            return;
        };
        // It may have been retried before its process heard of the end.
        if *status == FinalStatus::Failed && self.is_retried(run) {
            return;
        }
        let stored = self.record(run).and_then(|record| SimEnd::of(&record));
        if stored.as_ref() != Some(&SimEnd::told(*status, result)) {
            self.checker.blame(format!(
                "{run}: told to have ended as {status:?} with {result:?}, stored is {stored:?}"
            ));
        }
    }
}

/// The run that an input is about, if a shard may fall over it.
fn run_of(input: &ShardInput) -> Option<RunId> {
    match input {
        ShardInput::Adopt(adoption) => Some(adoption.run),
        ShardInput::Outcome(outcome) => Some(outcome.token.run),
        ShardInput::TimedOut { token, .. } | ShardInput::Refused { token, .. } => Some(token.run),
        ShardInput::Announce(token) | ShardInput::Returned(token) => Some(token.run),
        ShardInput::Mail(run, _)
        | ShardInput::Committed(run, ..)
        | ShardInput::Unanswered(run, _) => Some(*run),
        ShardInput::Rejected(..)
        | ShardInput::Latest(..)
        | ShardInput::Checkpoint(_)
        | ShardInput::Discard(_) => None,
        ShardInput::Drain | ShardInput::Abandon | ShardInput::Owner(_) => None,
    }
}

fn in_words(input: &ShardInput) -> String {
    match input {
        ShardInput::Adopt(it) => {
            let rows = if let Past::Stored { rows, .. } = &it.past {
                rows.len()
            } else {
                1
            };
            format!(
                "adoption of {} {} with {rows} rows, {} mail",
                it.run,
                it.epoch.0,
                it.mail.len()
            )
        }
        other => short(other),
    }
}
