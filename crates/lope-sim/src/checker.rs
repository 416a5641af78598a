//! The checker of what must hold: sees every row that becomes durable and every attempt that
//! starts, and says what must not be.
//!
//! It folds each run's journal itself, row by row, as the store takes it in. It knows nothing of
//! processes and their memory.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use lope_definition::{Checkpoint, Recipient};
use lope_engine::codec::{self, Blobs};
use lope_engine::executor::{Task, Token};
use lope_flow::law::{self, Effect, EventKind, Plan, Progress, Reason, Settled, State};
use lope_model::{Epoch, RunId, RunnerId, Timestamp};
use lope_store::runs::{
    Admit, CommitReply, Deliver, FinalStatus, JournalRow, RunCommit, RunRecord, RunStatus,
    Snapshot, Then,
};

/// A run is not claimed more often than this: more means that processes throw it to each other.
const EPOCHS_MAX: u64 = 60;

/// A run as the store has it, folded.
#[derive(Debug)]
struct Watched {
    plan: Arc<Plan>,
    state: State,
    head: u64,
    at: Timestamp,
    blobs: Blobs,
    failures: BTreeMap<Arc<str>, u32>,
    failures_max: u32,
    done: BTreeSet<Arc<str>>,
    /// Attempts that were announced as about to begin.
    announced: BTreeSet<(Arc<str>, u32)>,
    signals: u32,
    /// Signals that the run sent to itself.
    own_signals: u32,
    /// What the rows since the last commit led to and the next must hold.
    due: Vec<Effect>,
    /// Steps whose children were told of since then.
    told: BTreeSet<Arc<str>>,
    /// What came as mail, and when, that was not read yet.
    mail: VecDeque<(&'static str, Timestamp)>,
    /// When it was last told to go on after it had been stopped: what it had not written down
    /// before that, it does again.
    resumed: Timestamp,
    /// Under which epoch it was last written, and how it had ended with that.
    epoch: Epoch,
    ended: Option<FinalStatus>,
}

#[derive(Debug, Default)]
pub(crate) struct InvariantChecker {
    runs: BTreeMap<RunId, Watched>,
    /// Every attempt that an owner started, whoever it was.
    started: BTreeSet<Token>,
    pub(crate) violations: Vec<String>,
    /// Attempts started by a process that had stood still for longer than its lease and did not
    /// know it yet.
    pub(crate) stale_starts: u32,
    pub(crate) rows: u64,
    pub(crate) refused: u64,
    /// How late timers and mail may be, where that is judged.
    punctual: Option<i64>,
}

impl InvariantChecker {
    pub(crate) fn new(punctual: Option<i64>) -> Self {
        Self {
            punctual,
            ..Self::default()
        }
    }

    /// Mail is there for a run.
    pub(crate) fn expect_mail(&mut self, run: RunId, kind: &'static str, at: Timestamp) {
        self.runs
            .entry(run)
            .and_modify(|watched| watched.mail.push_back((kind, at)));
    }

    /// A run that was stopped is told to go on.
    pub(crate) fn resumed(&mut self, run: RunId, at: Timestamp) {
        self.runs
            .entry(run)
            .and_modify(|watched| watched.resumed = at);
    }

    pub(crate) fn blame(&mut self, what: String) {
        self.violations.push(what);
    }

    pub(crate) fn admitted(&mut self, admit: &Admit, plan: &Arc<Plan>, failures_max: u32) {
        if self.runs.contains_key(&admit.run) {
            return;
        }
        let blobs = admit
            .blobs
            .iter()
            .map(|blob| (blob.digest, blob.bytes.clone()))
            .collect();
        let watched = Watched {
            plan: Arc::clone(plan),
            state: State::new(plan),
            head: 0,
            at: Timestamp::EPOCH,
            blobs,
            failures: BTreeMap::new(),
            failures_max,
            done: BTreeSet::new(),
            announced: BTreeSet::new(),
            signals: 0,
            own_signals: 0,
            due: Vec::new(),
            told: BTreeSet::new(),
            mail: VecDeque::new(),
            resumed: Timestamp::EPOCH,
            epoch: Epoch(0),
            ended: None,
        };
        self.runs.insert(admit.run, watched);
        admit.rows.iter().for_each(|row| self.row(admit.run, row));
    }

    /// The state of a run as a snapshot of one row more than there is.
    pub(crate) fn snapshot_ahead(&self, run: RunId) -> Option<Snapshot> {
        let watched = self.runs.get(&run)?;
        let mut state = watched.state.clone();
        Some(codec::snapshot(
            watched.head + 1,
            &mut state,
            &mut Vec::new(),
        ))
    }

    /// Every run that the store has been given.
    pub(crate) fn runs(&self) -> Vec<RunId> {
        self.runs.keys().copied().collect()
    }

    /// How often an execution has failed, durably.
    pub(crate) fn failures(&self, token: &Token) -> u32 {
        self.runs
            .get(&token.run)
            .and_then(|run| run.failures.get(&token.execution))
            .copied()
            .unwrap_or(0)
    }

    /// Is it durable that this attempt begins?
    pub(crate) fn is_announced(&self, token: &Token) -> bool {
        let attempt = (Arc::clone(&token.execution), token.attempt);
        self.runs
            .get(&token.run)
            .is_some_and(|run| run.announced.contains(&attempt))
    }

    /// Is it durable that a run is paused?
    pub(crate) fn is_paused(&self, run: RunId) -> bool {
        let watched = self.runs.get(&run);
        watched.is_some_and(|watched| watched.state.paused().is_some())
    }

    /// Signals that arrived from others.
    pub(crate) fn signals(&self, run: RunId) -> u32 {
        self.runs
            .get(&run)
            .map_or(0, |run| run.signals.saturating_sub(run.own_signals))
    }

    /// The store took a commit in, or refused it.
    pub(crate) fn committed(
        &mut self,
        commit: &RunCommit,
        before: Option<&RunRecord>,
        reply: &CommitReply,
    ) {
        let CommitReply::Done { undelivered, .. } = reply else {
            self.refused += 1;
            return;
        };
        let run = commit.run;
        if before
            .is_none_or(|record| record.owner != Some(commit.owner) || record.epoch != commit.epoch)
        {
            self.blame(format!(
                "{run}: a stale write is visible: epoch {} of {}",
                commit.epoch.0, commit.owner
            ));
        }
        self.compare_past(commit);
        if let Some(watched) = self.runs.get_mut(&run) {
            watched.blobs.extend(
                commit
                    .blobs
                    .iter()
                    .map(|blob| (blob.digest, blob.bytes.clone())),
            );
        }
        commit.rows.iter().for_each(|row| self.row(run, row));
        self.compare_workers(commit);
        self.compare_effects(
            commit,
            before.and_then(|record| record.parent.as_ref()).is_some(),
        );
        self.compare_snapshot(commit);
        self.compare_end(commit);
        self.compare_delivered(commit, undelivered);
    }

    /// What has completed or was cancelled has ended for good, and no epoch comes again.
    fn compare_past(&mut self, commit: &RunCommit) {
        let Some(watched) = self.runs.get_mut(&commit.run) else {
            return;
        };
        let ended = match &commit.then {
            Then::Finish(finish) => Some(finish.status),
            Then::Hold(_) | Then::Release(_) => None,
        };
        let before = std::mem::replace(&mut watched.ended, ended);
        let epoch = std::mem::replace(&mut watched.epoch, commit.epoch);
        if let Some(status @ (FinalStatus::Completed | FinalStatus::Cancelled)) = before {
            self.blame(format!(
                "{}: had ended as {}, and is written to again",
                commit.run,
                status.as_str()
            ));
        }
        if epoch > commit.epoch {
            self.blame(format!(
                "{}: written under epoch {} after {}",
                commit.run, commit.epoch.0, epoch.0
            ));
        }
    }

    /// What steers a run, and the end of its child, reach it however much mail it has.
    fn compare_delivered(&mut self, commit: &RunCommit, undelivered: &[RunId]) {
        let lives = |run: &RunId| {
            let watched = self.runs.get(run);
            watched.is_some_and(|watched| !watched.state.status().is_final())
        };
        let is_missed = |mail: &&Deliver| {
            undelivered.contains(&mail.run) && !mail.id.starts_with("send/") && lives(&mail.run)
        };
        if let Some(mail) = commit.deliveries.iter().find(is_missed) {
            let missed = format!("{}: '{}' is lost to {}", commit.run, mail.id, mail.run);
            self.blame(missed);
        }
    }

    fn row(&mut self, run: RunId, row: &JournalRow) {
        self.rows += 1;
        let punctual = self.punctual;
        let Some(watched) = self.runs.get_mut(&run) else {
            return self.blame(format!(
                "{run}: row {} of a run that was never admitted",
                row.seq
            ));
        };
        if let (Some(most), Some(late)) = (punctual, watched.lateness(row))
            && late > most
        {
            return self.blame(format!(
                "{run}: row {} ({}) is {late} ms late",
                row.seq, row.event
            ));
        }
        if let Err(fault) = watched.take(row) {
            self.blame(format!("{run}: {fault}"));
        }
    }

    /// An owner writes down the answers to what it started itself; what an earlier one started may
    /// have been something else.
    fn compare_workers(&mut self, commit: &RunCommit) {
        let Some(watched) = self.runs.get(&commit.run) else {
            return;
        };
        let foreign =
            commit
                .rows
                .iter()
                .find_map(|row| match codec::event(row, &watched.blobs).ok()?.kind {
                    EventKind::Outcome(outcome) => outcome
                        .worker
                        .filter(|worker| *worker != employer(commit.epoch)),
                    _ => None,
                });
        if let Some(worker) = foreign {
            self.blame(format!(
                "{}: epoch {} took an answer {worker} for its own",
                commit.run, commit.epoch.0
            ));
        }
    }

    /// What the law said shall be in a commit is in it.
    fn compare_effects(&mut self, commit: &RunCommit, has_parent: bool) {
        let Some(watched) = self.runs.get_mut(&commit.run) else {
            return;
        };
        let mut due = std::mem::take(&mut watched.due);
        // A child that was never there need not be told that it shall end.
        let is_unborn = |effect: &Effect| matches!(effect, Effect::CancelChild { child, .. } if !self.runs.contains_key(child));
        due.retain(|effect| !is_unborn(effect));
        let Some(watched) = self.runs.get_mut(&commit.run) else {
            return;
        };
        let lacks = |effect: &&Effect| watched.lacks(commit, effect, has_parent);
        if let Some(effect) = due.iter().find(lacks) {
            self.violations
                .push(format!("{}: not in the commit: {effect:?}", commit.run));
        }
        watched.told.clear();
        let is_post = |effect: &&Effect| matches!(effect, Effect::Send(send) if send.to == Recipient::Mailbox);
        let mailbox_sends = due.iter().filter(is_post).count();
        let held = commit.mailbox_sends.len();
        if mailbox_sends != held {
            self.violations.push(format!(
                "{}: {held} messages in a commit instead of {mailbox_sends}",
                commit.run
            ));
        }
    }

    /// A snapshot is what the journal folds to.
    fn compare_snapshot(&mut self, commit: &RunCommit) {
        let (Some(snapshot), Some(watched)) = (&commit.snapshot, self.runs.get(&commit.run)) else {
            return;
        };
        match codec::state(snapshot, &watched.blobs) {
            Ok(state) if state == watched.state && snapshot.seq == watched.head => {}
            Ok(_) => self.blame(format!(
                "{}: the snapshot at {} is not the fold",
                commit.run, snapshot.seq
            )),
            Err(error) => self.blame(format!("{}: {error}", commit.run)),
        }
    }

    /// A run ends when, and as, its journal says.
    fn compare_end(&mut self, commit: &RunCommit) {
        let Some(watched) = self.runs.get(&commit.run) else {
            return;
        };
        let folded = watched.state.status();
        let run = commit.run;
        match &commit.then {
            Then::Finish(finish) if finish.status.as_str() != folded.as_str() => {
                self.blame(format!(
                    "{run}: stored as {}, folded {}",
                    finish.status.as_str(),
                    folded.as_str()
                ));
            }
            Then::Hold(_) | Then::Release(_) if folded.is_final() => {
                self.blame(format!(
                    "{run}: has ended as {} and is kept",
                    folded.as_str()
                ));
            }
            Then::Finish(_) | Then::Hold(_) | Then::Release(_) => {}
        }
    }

    /// A process is about to have an attempt made.
    pub(crate) fn starts(
        &mut self,
        session: RunnerId,
        task: &Task,
        record: Option<&RunRecord>,
        is_held: bool,
    ) {
        let Some(watched) = self.runs.get(&task.token.run) else {
            return self.blame(format!(
                "{:?}: an attempt of a run that was never admitted",
                task.token
            ));
        };
        if record.is_none_or(|record| record.owner != Some(session)) {
            self.stale_starts += 1;
            if is_held {
                self.blame(format!(
                    "{:?}: started by a process that does not own the run",
                    task.token
                ));
            }
            return;
        }
        let relaxed = watched.plan.definition().checkpoint != Checkpoint::EveryStep;
        if watched.done.contains(&task.token.execution) {
            return self.blame(format!(
                "{:?}: a settled execution starts again",
                task.token
            ));
        }
        if !relaxed && !watched.has_in_flight(&task.token) {
            return self.blame(format!(
                "{:?}: starts before what led to it is durable",
                task.token
            ));
        }
        if !self.started.insert(task.token.clone()) {
            self.blame(format!("{:?}: the same attempt starts twice", task.token));
        }
    }

    /// An attempt was refused: it keeps its number for when it may start.
    pub(crate) fn did_not_start(&mut self, token: &Token) {
        self.started.remove(token);
    }

    /// The store's last word about a run against the fold of its journal.
    pub(crate) fn last_word(&mut self, record: &RunRecord) {
        let Some(watched) = self.runs.get(&record.run) else {
            return;
        };
        let run = record.run;
        let folded = watched.state.status();
        let head = watched.head;
        if let RunStatus::Final(status) = record.status
            && status.as_str() != folded.as_str()
        {
            self.blame(format!(
                "{run}: ended as {}, its journal as {}",
                status.as_str(),
                folded.as_str()
            ));
        }
        if record.epoch.0 > EPOCHS_MAX {
            self.blame(format!(
                "{run}: went from hand to hand {} times",
                record.epoch.0
            ));
        }
        if record.head != head {
            self.blame(format!(
                "{run}: its head is {}, its journal ends at {head}",
                record.head
            ));
        }
    }
}

/// Who does the work that an owner under this epoch has done: its answers say so.
pub(crate) fn employer(epoch: Epoch) -> Arc<str> {
    format!("of epoch {}", epoch.0).into()
}

impl Watched {
    fn take(&mut self, row: &JournalRow) -> Result<(), String> {
        if row.seq != self.head + 1 {
            return Err(format!("row {} follows row {}", row.seq, self.head));
        }
        if row.at < self.at {
            return Err(format!("row {} is earlier than the one before", row.seq));
        }
        (self.head, self.at) = (row.seq, row.at);
        let event = codec::event(row, &self.blobs).map_err(|error| error.to_string())?;
        self.count(&event.kind)?;
        match &event.kind {
            EventKind::Child { execution, .. } => {
                self.told.insert(Arc::clone(execution));
            }
            EventKind::Dispatched {
                execution, attempt, ..
            } => drop(self.announced.insert((Arc::clone(execution), *attempt))),
            EventKind::Returned {
                execution, attempt, ..
            } => drop(self.announced.remove(&(Arc::clone(execution), *attempt))),
            _ => {}
        }
        let word = event.kind.word();
        let before = self.due.len();
        match law::fold(&self.plan, &mut self.state, event, &mut self.due) {
            Progress::Ignored => {
                return Err(format!("row {} ({word}) says nothing to its run", row.seq));
            }
            Progress::Done | Progress::More => {}
        }
        let to_itself =
            |effect: &&Effect| matches!(effect, Effect::Send(send) if send.to == Recipient::Run);
        self.own_signals += self.due[before..].iter().filter(to_itself).count() as u32;
        Ok(())
    }

    /// Is something missing in a commit that its rows led to?
    fn lacks(&self, commit: &RunCommit, effect: &Effect, has_parent: bool) -> bool {
        let is_delivered = |id: String| commit.deliveries.iter().any(|mail| mail.id == id);
        let run = commit.run;
        match effect {
            Effect::StartChild(child) => {
                let is_born = commit.children.iter().any(|admit| admit.run == child.child);
                !is_born && !self.told.contains(&child.execution) && self.waits_for(child.child)
            }
            Effect::Send(send) if send.to == Recipient::Mailbox => false,
            Effect::Send(send) => !is_delivered(format!("send/{run}/{}", send.execution)),
            Effect::Complete { .. } | Effect::Fail { .. } | Effect::Cancelled => {
                has_parent && !is_delivered(format!("child/{run}"))
            }
            Effect::CancelChild { execution, .. } => {
                !is_delivered(format!("cancel/{run}/{execution}"))
            }
            Effect::Dispatch(_) | Effect::CancelAttempt { .. } => false,
            Effect::InputSettled { .. } | Effect::Telemetry(_) => false,
        }
    }

    fn waits_for(&self, child: RunId) -> bool {
        let is_it = |reason: &Reason| matches!(reason, Reason::Child { child: other, .. } if *other == child);
        self.state.why(&self.plan, usize::MAX).iter().any(is_it)
    }

    /// How long after its cause a row was made, if it has one that has a time. While it was stopped
    /// does not count.
    fn lateness(&mut self, row: &JournalRow) -> Option<i64> {
        let cause = match &*row.event {
            "timer" => self.state.next_wake()?,
            "pause" | "resume" | "cancel" | "signal" => {
                let is_it = |(kind, _): &(&str, Timestamp)| **kind == *row.event;
                let first = self.mail.iter().position(is_it)?;
                self.mail.remove(first)?.1
            }
            _ => return None,
        };
        Some(row.at.millis() - cause.max(self.resumed).millis())
    }

    fn count(&mut self, kind: &EventKind) -> Result<(), String> {
        match kind {
            EventKind::Outcome(outcome) => match &outcome.result {
                Settled::Done(_) if !self.done.insert(Arc::clone(&outcome.execution)) => {
                    Err(format!("{} settles twice", outcome.execution))
                }
                Settled::Done(_) | Settled::Cancelled => Ok(()),
                Settled::Failed(_) => {
                    let failures = self
                        .failures
                        .entry(Arc::clone(&outcome.execution))
                        .or_default();
                    *failures += 1;
                    let spent = *failures > self.failures_max;
                    if spent {
                        Err(format!("{} failed {failures} times", outcome.execution))
                    } else {
                        Ok(())
                    }
                }
            },
            EventKind::Signal { .. } => {
                self.signals += 1;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn has_in_flight(&self, token: &Token) -> bool {
        self.state
            .outstanding(&self.plan)
            .iter()
            .any(|effect| match effect {
                Effect::Dispatch(it) => {
                    it.execution == token.execution
                        && it.attempt == token.attempt
                        && it.epoch <= token.epoch
                }
                _ => false,
            })
    }
}
