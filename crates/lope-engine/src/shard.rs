//! The machine of one shard: the runs it holds, advanced by the law, written ahead, and let go.
//! Pure: inputs and time in, outputs out.
//!
//! An event is folded, its row waits to be committed, and what the event led to waits with it:
//! nothing is dispatched before the commit that holds its cause is durable (a checkpoint strategy
//! may relax that for outcomes). A run has one commit under way at a time; what happens meanwhile
//! goes into the next one.

mod adopt;
mod after_commit;
mod children;
mod giving_back;
mod mail;
mod memory;
mod pending_commit;
mod resident;
mod unread_mail;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use foldhash::HashMap;
use lope_definition::Definition;
use lope_flow::law::{Event, Notice, Plan, Reason, Settled};
use lope_model::{Epoch, Realm, RunId, RunnerId, Span, Timestamp, Value, VersionId};
use lope_store::runs::{
    CommitReply, FinalStatus, JournalRow, Mail, Parent, RunCommit, Snapshot, StoredDefinition,
};

pub use crate::admission::Home;
use crate::codec::Blobs;
use crate::executor::{Task, TaskOutcome, Token};
use crate::mailbox_send::EncodeMessage;
use crate::settings::Settings;
use resident::Resident;

/// A run that this shard shall hold from now on.
#[derive(Debug)]
pub struct Adoption {
    pub run: RunId,
    pub epoch: Epoch,
    /// The session it was claimed in.
    pub owner: RunnerId,
    pub plan: Arc<Plan>,
    pub home: Home,
    pub parent: Option<Parent>,
    pub past: Past,
    /// Mail that waits, in order.
    pub mail: Vec<Mail>,
    /// How much mail was ever delivered.
    pub seen: u64,
}

/// What happened to a run before it came here.
#[derive(Debug)]
pub enum Past {
    /// It was born here: this is its first row, which takes so many bytes.
    Born { start: Event, size: usize },
    Stored {
        snapshot: Option<Snapshot>,
        rows: Vec<JournalRow>,
        /// The large values that snapshot and rows refer to.
        blobs: Blobs,
    },
}

impl Default for Past {
    /// Nothing yet.
    fn default() -> Self {
        Self::Stored {
            snapshot: None,
            rows: Vec::new(),
            blobs: Blobs::new(),
        }
    }
}

/// What came in.
#[derive(Debug)]
pub enum ShardInput {
    Adopt(Box<Adoption>),
    Outcome(TaskOutcome),
    /// An attempt ran out of time, or was silent for too long.
    TimedOut {
        token: Token,
        silent: bool,
        started_at: Timestamp,
    },
    /// A limit that many runs share did not let an attempt start.
    Refused {
        token: Token,
        until: Timestamp,
        reason: Arc<str>,
    },
    /// An attempt has its slot: it begins as soon as that is written down.
    Announce(Token),
    /// An attempt has not begun and will not here.
    Returned(Token),
    Mail(RunId, Vec<Mail>),
    /// The answer to a commit that was sent under this epoch.
    Committed(RunId, Epoch, CommitReply),
    /// The commit of a run was not answered, or could not be made.
    Unanswered(RunId, Epoch),
    /// The commit of a run is one that the store will never make.
    Rejected(RunId, String),
    /// Which version of a workflow is the latest, if there is one.
    Latest(Arc<str>, Option<Latest>),
    /// Write down what was not committed yet.
    Checkpoint(RunId),
    /// Let a run go without writing what was not committed yet, and keep it out of claims until
    /// somebody asks for it.
    Discard(RunId),
    /// Start nothing more; let every run go as soon as nothing of it is in flight.
    Drain,
    /// The session or the engine has ended: forget everything, write nothing.
    Abandon,
    /// From now on runs are owned as this runner.
    Owner(RunnerId),
}

/// The version that a new child of this name gets, what a runner must serve to take it, and what it
/// asks of its input.
#[derive(Clone, PartialEq, Debug)]
pub struct Latest {
    pub version: VersionId,
    /// The usual one if the definition names none.
    pub realm: Realm,
    /// JSON Schema; null: anything.
    pub input: Value,
}

impl Latest {
    pub fn of(stored: &StoredDefinition) -> Self {
        // One that cannot be read is told when its run is loaded.
        let definition = Definition::decode(&stored.body).ok();
        let realm = definition
            .as_ref()
            .map(Definition::realm)
            .unwrap_or_default();
        let input = definition.map_or(Value::Null, |definition| definition.input);
        Self {
            version: stored.version,
            realm,
            input,
        }
    }
}

/// What to do.
#[derive(Debug)]
pub enum ShardOutput {
    /// Boxed, as are tasks: outputs are handed on several times.
    Commit(Box<RunCommit>),
    Start(Box<Task>),
    /// It is durable that this attempt begins.
    Begin(Token),
    Cancel(Token),
    /// Nothing more of a run begins, or it may again.
    Pause(RunId, bool),
    /// Ask for the latest version of a workflow.
    FindLatest(Arc<str>),
    /// More mail waits for a run of ours.
    MoreMail,
    /// Children of a run of ours are there, durably.
    Born(Vec<RunId>),
    /// A run is no longer held here.
    Left {
        run: RunId,
        epoch: Epoch,
        why: UnloadReason,
    },
    /// The machine panicked at a run, with these words, and holds it no longer; what it had of it
    /// may be half done.
    Fell {
        run: RunId,
        epoch: Epoch,
        why: String,
    },
    /// A run takes about so many bytes of memory now.
    Weighs {
        run: RunId,
        bytes: usize,
    },
    /// Everything a run had to write is durable.
    Checkpointed(RunId),
    /// An open run has nothing more to do, durably.
    Rested(RunId),
    /// An input has its result, durably.
    InputSettled {
        run: RunId,
        input: Arc<str>,
        result: Settled,
    },
    Notice {
        run: RunId,
        plan: Arc<Plan>,
        notice: Notice,
    },
}

/// Why a run is no longer held.
#[derive(Clone, PartialEq, Debug)]
pub enum UnloadReason {
    /// It has ended.
    Ended {
        status: FinalStatus,
        result: Settled,
    },
    /// It waits for something, or was let go on the way out.
    Released,
    /// Another runner has it, or may have.
    Lost,
    /// What the store holds of it cannot be folded; it stays as it is and is parked with this
    /// reason.
    Broken(String),
}

/// Settings of a shard.
#[derive(Clone, Copy, Debug)]
pub struct ShardSettings {
    pub evict_after: Span,
    /// A snapshot is written when the journal behind the last one weighs more than that one, and at
    /// least this.
    pub snapshot_min: usize,
    /// How often an execution may lose its runner, where its policy does not say.
    pub loss_budget: u32,
    /// Largest value that an attempt may answer with, encoded.
    pub payload_max: usize,
    /// Makes the rows of messages to mailboxes.
    pub mailbox_send: Option<EncodeMessage>,
}

impl ShardSettings {
    pub fn of(settings: &Settings) -> Self {
        Self {
            evict_after: settings.evict_after,
            snapshot_min: settings.snapshot_min,
            loss_budget: settings.loss_budget,
            payload_max: settings.payload_max,
            mailbox_send: settings.mailbox_send,
        }
    }
}

/// One shard.
#[derive(Debug)]
pub struct Shard {
    settings: ShardSettings,
    owner: RunnerId,
    /// Boxed: a resident is large. It has no order; where one can be seen it is made.
    runs: HashMap<RunId, Box<Resident>>,
    /// When each run must be looked at.
    wheel: BTreeSet<(Timestamp, RunId)>,
    /// Runs that wait to know the latest version of a workflow.
    asking: BTreeMap<Arc<str>, BTreeSet<RunId>>,
    /// What was found out about workflows that children are of, and when.
    latest: BTreeMap<Arc<str>, (Latest, Timestamp)>,
    draining: bool,
    /// Runs that were given back when everything was lost.
    given_up: BTreeSet<(RunId, Epoch)>,
    /// The run that was worked on last.
    at_work: Option<(RunId, Epoch)>,
    /// Does anybody want to hear notices?
    listened: bool,
}

impl Shard {
    pub fn new(settings: ShardSettings, owner: RunnerId) -> Self {
        Self {
            settings,
            owner,
            runs: HashMap::default(),
            wheel: BTreeSet::new(),
            asking: BTreeMap::new(),
            latest: BTreeMap::new(),
            draining: false,
            given_up: BTreeSet::new(),
            at_work: None,
            listened: true,
        }
    }

    /// Notices are made only while somebody wants to hear them.
    pub fn listen(&mut self, listened: bool) {
        if listened != self.listened {
            self.listened = listened;
            self.runs
                .values_mut()
                .for_each(|resident| resident.listened = listened);
        }
    }

    pub fn len(&self) -> usize {
        self.runs.len()
    }

    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    pub fn holds(&self, run: RunId) -> bool {
        self.runs.contains_key(&run)
    }

    /// Take one input in and say what to do.
    pub fn handle(&mut self, now: Timestamp, input: ShardInput, out: &mut Vec<ShardOutput>) {
        self.at_work = None;
        match input {
            ShardInput::Adopt(adoption) => self.adopt(now, *adoption, out),
            ShardInput::Outcome(outcome) => self.outcome(now, outcome, out),
            ShardInput::TimedOut {
                token,
                silent,
                started_at,
            } => {
                self.outcome(now, TaskOutcome::timed_out(token, silent, started_at), out);
            }
            ShardInput::Refused {
                token,
                until,
                reason,
            } => {
                self.with(now, token.run, out, |resident| {
                    resident.refuse(now, &token, until, reason);
                });
            }
            ShardInput::Announce(token) => {
                let drains = self.draining;
                self.with(now, token.run, out, |resident| {
                    resident.announce(now, token, drains);
                });
            }
            ShardInput::Returned(token) => {
                let drains = self.draining;
                self.with(now, token.run, out, |resident| {
                    resident.take_back(now, &token, drains);
                });
            }
            ShardInput::Mail(run, mail) => {
                self.with(now, run, out, |resident| resident.take_mail(now, mail));
            }
            ShardInput::Committed(run, epoch, reply) => {
                if self.has_sent(run, epoch) {
                    self.committed(now, run, reply, out);
                }
            }
            ShardInput::Unanswered(run, epoch) => {
                if self.has_sent(run, epoch) {
                    self.unanswered(now, run);
                }
            }
            ShardInput::Rejected(run, why) => self.forget(run, UnloadReason::Broken(why), out),
            ShardInput::Latest(workflow, latest) => self.found_latest(now, workflow, latest, out),
            ShardInput::Checkpoint(run) => self.checkpoint(now, run, out),
            ShardInput::Discard(run) => self.with(now, run, out, Resident::discard),
            ShardInput::Drain => self.drain(now, out),
            ShardInput::Abandon => self.let_go_of_all(out),
            ShardInput::Owner(owner) => self.owner = owner,
        }
    }

    /// Look at the clock: timers, runs that rested long enough, commits to be tried again.
    pub fn tick(&mut self, now: Timestamp, out: &mut Vec<ShardOutput>) {
        while let Some((due, run)) = self.wheel.first().copied()
            && due <= now
        {
            self.wheel.pop_first();
            self.resend(now, run, out);
            self.with(now, run, out, |resident| resident.woken(now));
        }
    }

    /// When `tick` must be called at the latest.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.wheel.first().map(|(due, _)| *due)
    }

    /// Is a commit of this run under way under this epoch? Answers to those of an earlier one come
    /// too late to mean anything.
    fn has_sent(&mut self, run: RunId, epoch: Epoch) -> bool {
        self.at_work = Some((run, epoch));
        self.runs
            .get(&run)
            .is_some_and(|resident| resident.epoch == epoch && resident.pending_commit.is_some())
    }

    fn outcome(&mut self, now: Timestamp, outcome: TaskOutcome, out: &mut Vec<ShardOutput>) {
        self.with(now, outcome.token.run, out, |resident| {
            resident.settle(now, outcome);
        });
    }

    fn found_latest(
        &mut self,
        now: Timestamp,
        workflow: Arc<str>,
        latest: Option<Latest>,
        out: &mut Vec<ShardOutput>,
    ) {
        let is_known = latest.is_some();
        match latest {
            Some(latest) => drop(self.latest.insert(Arc::clone(&workflow), (latest, now))),
            None => drop(self.latest.remove(&workflow)),
        }
        for run in self.asking.remove(&workflow).unwrap_or_default() {
            self.with(now, run, out, |resident| {
                resident.found(now, &workflow, is_known);
            });
        }
    }

    fn checkpoint(&mut self, now: Timestamp, run: RunId, out: &mut Vec<ShardOutput>) {
        if !self.holds(run) {
            return out.push(ShardOutput::Checkpointed(run));
        }
        self.with(now, run, out, Resident::ask_checkpoint);
    }

    fn drain(&mut self, now: Timestamp, out: &mut Vec<ShardOutput>) {
        self.draining = true;
        let mut runs: Vec<RunId> = self.runs.keys().copied().collect();
        runs.sort_unstable();
        runs.into_iter()
            .for_each(|run| self.with(now, run, out, |_| ()));
    }

    fn let_go_of_all(&mut self, out: &mut Vec<ShardOutput>) {
        self.wheel.clear();
        self.asking.clear();
        let mut residents: Vec<_> = std::mem::take(&mut self.runs).into_values().collect();
        residents.sort_unstable_by_key(|resident| resident.run);
        residents
            .into_iter()
            .for_each(|resident| resident.leave(UnloadReason::Released, out));
    }

    /// Do something to a run, then see what it leads to.
    fn with(
        &mut self,
        now: Timestamp,
        run: RunId,
        out: &mut Vec<ShardOutput>,
        change: impl FnOnce(&mut Resident),
    ) {
        let Some(resident) = self.runs.get_mut(&run) else {
            return;
        };
        self.at_work = Some((run, resident.epoch));
        change(resident);
        resident.tell_pause(out);
        self.after(now, run, out);
    }

    /// The children that a run waits for.
    fn children_of(&self, run: RunId) -> Vec<RunId> {
        let Some(resident) = self.runs.get(&run) else {
            return Vec::new();
        };
        let reasons = resident.state.why(&resident.plan, usize::MAX).into_iter();
        let child = |reason: Reason| {
            if let Reason::Child { child, .. } = reason {
                Some(child)
            } else {
                None
            }
        };
        reasons.filter_map(child).collect()
    }

    /// After a panic: drop the run that was being worked on. False: it was none.
    pub fn expel(&mut self, why: &str, out: &mut Vec<ShardOutput>) -> bool {
        let Some((run, mut epoch)) = self.at_work.take() else {
            return false;
        };
        if let Some(mut resident) = self.take(run) {
            resident.cancel_all(out);
            // A late message of an earlier claim may have been at work; what is lost is the run as it
            // was held.
            epoch = epoch.max(resident.epoch);
        }
        out.push(ShardOutput::Fell {
            run,
            epoch,
            why: why.to_owned(),
        });
        true
    }

    /// A shard like this one that holds nothing. These are given back to the store: one that is on
    /// its way here is not taken.
    pub fn emptied(&self, given_up: impl IntoIterator<Item = (RunId, Epoch)>) -> Self {
        let given_up = given_up.into_iter().collect();
        Self {
            draining: self.draining,
            given_up,
            ..Self::new(self.settings, self.owner)
        }
    }

    /// Drop a run, stop what it has in flight, and say why.
    fn forget(&mut self, run: RunId, why: UnloadReason, out: &mut Vec<ShardOutput>) {
        if let Some(resident) = self.take(run) {
            resident.leave(why, out);
        }
    }

    /// What is held of a run, which is held no longer.
    fn take(&mut self, run: RunId) -> Option<Box<Resident>> {
        let resident = self.runs.remove(&run)?;
        // Should it come back, it asks for itself.
        for runs in self.asking.values_mut() {
            runs.remove(&run);
        }
        if resident.check_at < Timestamp::NEVER {
            self.wheel.remove(&(resident.check_at, run));
        }
        Some(resident)
    }
}

#[cfg(test)]
mod tests;
