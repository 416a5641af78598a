//! What a process does with what its shards put out, and what a shard that panics costs it.

use lope_engine::session::SessionEvent;
use lope_engine::shard::{Past, ShardInput, ShardOutput, UnloadReason};
use lope_model::{Epoch, RunId};
use lope_store::runs::{CommitReply, LiveStatus, Release, RunCommit, Then, Wake};

use crate::mutant;
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
        let (mut commits, mut left) = (Vec::new(), 0);
        for output in outputs {
            if self.crashes(slot) {
                return;
            }
            match output {
                ShardOutput::Commit(commit) => {
                    if self.processes[slot]
                        .lost
                        .contains(&(commit.run, commit.epoch))
                    {
                        self.checker.blame(format!(
                            "{}: p{slot} goes on with what it was told is lost",
                            commit.run
                        ));
                    }
                    commits.push(mutant::commit(self.setup.mutant, *commit));
                }
                ShardOutput::Fell { run, epoch, .. } => {
                    let owner = self.processes[slot].session();
                    self.cancel_runs(slot, |it| it == run);
                    self.send(slot, Request::GiveBack(owner, vec![(run, epoch)]));
                }
                ShardOutput::Left { run, epoch, why } => {
                    left += usize::from(self.processes[slot].lets_go(run, epoch));
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

    fn left(&mut self, slot: usize, run: RunId, epoch: Epoch, why: UnloadReason) {
        let at = self.at;
        self.trace
            .note(at, || format!("p{slot} {run} left: {}", short(&why)));
        let owner = self.processes[slot].session();
        self.check_end(run, &why);
        if let UnloadReason::Broken(reason) = why {
            self.checker.blame(format!("{run}: set aside: {reason}"));
            let then = Then::Release(Release {
                status: LiveStatus::Paused,
                wake: Wake::Parked(reason),
                seen: u64::MAX,
            });
            self.send(slot, Request::Park(RunCommit::new(run, owner, epoch, then)));
        }
    }

    /// Who waits for a run is told what the store holds, and not before it does.
    fn check_end(&mut self, run: RunId, why: &UnloadReason) {
        let UnloadReason::Ended { status, result } = why else {
            return;
        };
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
        ShardInput::Drain | ShardInput::Fence | ShardInput::Abandon | ShardInput::Owner(_) => None,
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
