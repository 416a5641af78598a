//! The way to the store and back: requests are lost, late, or answered; what the store takes in is
//! shown to the checker.

use std::sync::Arc;

use lope_engine::session::SessionEvent;
use lope_engine::shard::{Adoption, Home, Latest, Past, ShardInput};
use lope_engine::{client, codec};
use lope_flow::law::EventKind;
use lope_model::{Epoch, RunId, RunnerId, Timestamp, limit};
use lope_store::runs::{
    Admit, Admitted, ClaimedRun, CommitReply, LiveStatus, Register, Release, RunCommit, Takeover,
    Then, Wake,
};

use crate::mutant;
use crate::process::{BORN, MORNING, Process};
use crate::trace::short;
use crate::wire::{
    LoadAnswer, PendingRequest, ProcessMessage, ProcessPart, Request, Told, shard_of,
};
use crate::world::{Happening, SimWorld, at_once};

/// How long a process waits for an answer before it gives up.
const PATIENCE: i64 = 1_500;
/// The slowest answer.
const SLOW: i64 = 20_000;
/// Most runs put back, most mail fetched, by one request.
const SWEEP_MAX: usize = 1_000;
/// How long a client waits before it tries again.
pub(crate) const AGAIN: i64 = 300;

pub(crate) type Answers = Vec<(ProcessPart, ProcessMessage)>;

impl SimWorld {
    /// A process sends a request.
    pub(crate) fn send(&mut self, slot: usize, request: Request) {
        let from = self.processes[slot].address;
        let session = self.processes[slot].session();
        let faults = self.faults();
        let mut pending = PendingRequest {
            from,
            session,
            request,
            given_up: false,
            unheard: false,
        };
        self.calls += 1;
        if self.at < self.processes[slot].cut_off || self.dice.chance(faults.lose_request) {
            return self.give_up(pending);
        }
        let way = self.dice.between(0, faults.latency);
        if self.dice.chance(faults.late_request) {
            let late = PATIENCE + self.dice.between(0, 20_000);
            self.give_up(pending.clone());
            pending.given_up = true;
            return self.at_time(late, Happening::Call(Box::new(pending)));
        }
        pending.unheard = self.dice.chance(faults.lose_answer);
        self.at_time(way, Happening::Call(Box::new(pending)));
    }

    /// The answer does not come; its sender hears so after a while.
    fn give_up(&mut self, pending: PendingRequest) {
        self.unanswered += 1;
        let at = self.at;
        let patience = self.dice.between(0, PATIENCE);
        self.trace.note(at, || {
            format!(
                "p{} {} is not answered",
                pending.from.slot,
                pending.request.verb()
            )
        });
        let session = pending.session;
        let asked = pending.request.asked();
        let mut answers: Answers = match pending.request {
            Request::Load(runs) => vec![(
                ProcessPart::Adopter,
                ProcessMessage::Loaded(session, runs, LoadAnswer::Unanswered),
            )],
            Request::Commit(commits) => self.unanswered(pending.from.slot, &commits),
            Request::Latest(workflow) => {
                return self.at_time(
                    patience + 500,
                    Happening::Ask(pending.from, Box::new(Request::Latest(workflow))),
                );
            }
            Request::GiveBack(owner, runs) => {
                let again = Request::GiveBack(owner, runs);
                return self.at_time(
                    patience + 200,
                    Happening::Ask(pending.from, Box::new(again)),
                );
            }
            Request::Admit { job } => {
                vec![(
                    ProcessPart::Adopter,
                    ProcessMessage::Unborn(session, self.ids[job]),
                )]
            }
            Request::Register | Request::Heartbeat | Request::Claim(_) | Request::Takeover => {
                Vec::new()
            }
            Request::Reconcile | Request::Mail | Request::Park(_) | Request::Release => Vec::new(),
        };
        answers.extend(asked.map(|asked| {
            (
                ProcessPart::Session,
                ProcessMessage::Answer(session, SessionEvent::Failed(asked)),
            )
        }));
        for (part, message) in answers {
            self.reply(pending.from, patience, part, message);
        }
    }

    pub(crate) fn unanswered(&self, slot: usize, commits: &[RunCommit]) -> Answers {
        let shards = self.processes[slot].shards.len();
        let inputs = commits.iter().map(|it| {
            (
                ProcessPart::Shard(shard_of(it.run, shards)),
                ShardInput::Unanswered(it.run, it.epoch),
            )
        });
        inputs
            .map(|(part, input)| (part, ProcessMessage::Input(input)))
            .collect()
    }

    /// A request reaches the store.
    pub(crate) fn serve(&mut self, pending: PendingRequest) {
        let slot = pending.from.slot;
        let is_up = self.processes[slot].address == pending.from && self.processes[slot].up;
        if is_up && self.crashes(slot) {
            return;
        }
        let answers = self.execute(&pending);
        self.notify_all();
        if is_up && self.crashes(slot) {
            return;
        }
        if pending.given_up {
            return;
        }
        if pending.unheard {
            return self.give_up(pending);
        }
        let way = self.way_back(&pending);
        for (part, message) in answers {
            self.reply(pending.from, way, part, message);
        }
    }

    /// How long an answer takes. Those to heartbeats are sometimes just slow enough for a lease to
    /// hang on them.
    fn way_back(&mut self, pending: &PendingRequest) -> i64 {
        let faults = self.faults();
        let is_strained = self.at < self.processes[pending.from.slot].strained;
        if is_strained && matches!(pending.request, Request::Heartbeat) {
            let lease = i64::try_from(self.settings.lease.millis()).unwrap_or(i64::MAX);
            return self.dice.between(lease / 5, lease / 2);
        }
        let is_slow = self.dice.chance(faults.slow);
        if is_slow {
            self.dice.between(1_000, SLOW)
        } else {
            self.dice.between(0, faults.latency)
        }
    }

    fn execute(&mut self, pending: &PendingRequest) -> Answers {
        let slot = pending.from.slot;
        let session = pending.session;
        let at = self.at;
        let runs = Arc::clone(&self.store.runs);
        let event = match &pending.request {
            Request::Register => {
                SessionEvent::Registered(fine(at_once(runs.register(self.register(session)))))
            }
            Request::Heartbeat => SessionEvent::Beaten(fine(at_once(runs.heartbeat(session)))),
            Request::Claim(claim) => {
                let claim = mutant::claim(self.setup.mutant, claim.clone());
                let claimed = fine(at_once(runs.claim(claim)));
                self.check_bound();
                SessionEvent::Claimed(claimed)
            }
            Request::Takeover => {
                let taken = fine(at_once(runs.takeover(Takeover { limit: SWEEP_MAX })));
                self.taken_over.extend(&taken.ended);
                SessionEvent::TookOver(taken)
            }
            Request::Reconcile => {
                SessionEvent::Owned(fine(at_once(runs.owned(session, None, limit::PAGE_MAX))))
            }
            Request::Mail => return self.waiting(slot, session),
            Request::Load(claimed) => return self.load(session, claimed),
            Request::Commit(commits) => return self.commit(slot, commits),
            Request::Park(park) => {
                fine(at_once(runs.commit(vec![park.clone()])));
                return Vec::new();
            }
            Request::Latest(workflow) => {
                let found = fine(at_once(runs.latest(workflow)))
                    .as_ref()
                    .map(Latest::of);
                return vec![(
                    ProcessPart::Adopter,
                    ProcessMessage::Tell(Told::Latest(Arc::clone(workflow), found)),
                )];
            }
            Request::GiveBack(owner, lost) => {
                self.put_back(*owner, lost);
                return vec![(
                    ProcessPart::Adopter,
                    ProcessMessage::GivenBack(*owner, lost.clone()),
                )];
            }
            Request::Release => {
                fine(at_once(runs.release(session)));
                return Vec::new();
            }
            Request::Admit { job } => return self.admit_born(session, *job),
        };
        if crate::work::says_something(&event) {
            self.trace
                .note(at, || format!("p{slot} store answers {}", short(&event)));
        }
        vec![(ProcessPart::Session, ProcessMessage::Answer(session, event))]
    }

    fn waiting(&mut self, slot: usize, session: RunnerId) -> Answers {
        let shards = self.processes[slot].shards.len();
        let mail = fine(at_once(self.store.runs.waiting(session, SWEEP_MAX)));
        let mutant = self.setup.mutant;
        let inputs = mail.into_iter().map(|(run, mail)| {
            (
                ProcessPart::Shard(shard_of(run, shards)),
                ShardInput::Mail(run, mutant::mail(mutant, mail)),
            )
        });
        let mut answers: Answers = inputs
            .map(|(part, input)| (part, ProcessMessage::Input(input)))
            .collect();
        answers.push((
            ProcessPart::Session,
            ProcessMessage::Answer(session, SessionEvent::Mailed),
        ));
        answers
    }

    /// Of a queue with a bound no more runs have an owner than may.
    fn check_bound(&mut self) {
        let Some((queue, limit)) = self.settings.queue_limits.first_key_value() else {
            return;
        };
        let runs = self.checker.runs().into_iter();
        let owned = runs
            .filter_map(|run| self.record(run))
            .filter(|record| record.queue == *queue && record.owner.is_some())
            .count();
        let most = limit.concurrency.map_or(usize::MAX, |most| most as usize);
        self.counts.bounded += u32::from(owned == most);
        if owned > most {
            self.checker.blame(format!(
                "{owned} runs of the queue '{queue}' have an owner, {most} may"
            ));
        }
    }

    fn load(&mut self, session: RunnerId, claimed: &[ClaimedRun]) -> Answers {
        if claimed.iter().any(|run| self.is_damaged(run.run)) {
            let damaged = ProcessMessage::Loaded(session, claimed.to_vec(), LoadAnswer::Damaged);
            return vec![(ProcessPart::Adopter, damaged)];
        }
        let ids: Vec<_> = claimed.iter().map(|run| run.run).collect();
        let mut loaded = fine(at_once(self.store.runs.load(&ids)));
        for loaded in loaded.iter_mut().flatten() {
            loaded.mail = mutant::mail(self.setup.mutant, std::mem::take(&mut loaded.mail));
        }
        vec![(
            ProcessPart::Adopter,
            ProcessMessage::Loaded(session, claimed.to_vec(), LoadAnswer::Runs(loaded)),
        )]
    }

    fn commit(&mut self, slot: usize, commits: &[RunCommit]) -> Answers {
        if commits.iter().any(|commit| self.is_damaged(commit.run)) {
            return self.refuse_group(slot, commits);
        }
        let at = self.at;
        let mut answers = Vec::new();
        let shards = self.processes[slot].shards.len();
        for commit in commits {
            let before = self.record(commit.run);
            let stored = mutant::stored(self.setup.mutant, commit.clone());
            let replies = fine(at_once(self.store.runs.commit(vec![stored])));
            let reply = replies.into_iter().next().expect("one answer a commit");
            self.trace.note(at, || {
                let rows: Vec<&str> = commit.rows.iter().map(|row| &*row.event).collect();
                format!(
                    "p{slot}   {} {rows:?} {} → {}",
                    commit.run,
                    short(&commit.then),
                    short(&reply)
                )
            });
            if matches!(reply, CommitReply::Done { .. }) {
                for child in &commit.children {
                    let plan = Arc::clone(&self.plans[&child.version]);
                    self.checker
                        .admitted(child, &plan, crate::shapes::FAILURES_MAX);
                }
            }
            self.checker.committed(commit, before.as_ref(), &reply);
            if matches!(reply, CommitReply::Done { .. }) {
                self.watch_announced(commit);
            }
            let part = ProcessPart::Shard(shard_of(commit.run, shards));
            answers.push((
                part,
                ProcessMessage::Input(ShardInput::Committed(commit.run, commit.epoch, reply)),
            ));
        }
        answers
    }

    /// What is written down as begun has a slot.
    fn watch_announced(&mut self, commit: &RunCommit) {
        for row in commit.rows.iter().filter(|row| &*row.event == "dispatched") {
            if let Ok(EventKind::Dispatched {
                execution, attempt, ..
            }) = codec::kind_of(row)
                && !self
                    .announcing
                    .contains(&(commit.run, Arc::clone(&execution), attempt))
            {
                self.checker.blame(format!(
                    "{}: {execution} #{attempt} is written down as begun and has no slot",
                    commit.run
                ));
            }
        }
    }

    /// Runs that a shard fell over may be claimed again, after a little while.
    fn put_back(&mut self, owner: RunnerId, lost: &[(RunId, Epoch)]) {
        let due = Timestamp::from_millis(MORNING + self.at + 200);
        for (run, epoch) in lost {
            let release = Release {
                status: LiveStatus::Running,
                wake: Wake::At(due),
                seen: u64::MAX,
            };
            let commit = RunCommit::new(*run, owner, *epoch, Then::Release(release));
            fine(at_once(self.store.runs.commit(vec![commit])));
        }
    }

    /// Somebody may have made work: every process may hear of it.
    pub(crate) fn notify_all(&mut self) {
        if !self.watch.take() {
            return;
        }
        for slot in 0..self.processes.len() {
            if self.processes[slot].up && !self.dice.chance(self.faults().lose_notification) {
                let way = self.dice.between(0, self.faults().latency);
                self.to(
                    slot,
                    way,
                    ProcessPart::Session,
                    ProcessMessage::SessionEvent(SessionEvent::Notified),
                );
            }
        }
    }

    fn register(&self, runner: RunnerId) -> Register {
        let (name, host) = ("sim".to_owned(), "sim".to_owned());
        Register {
            runner,
            name,
            host,
            pid: 1,
            process: String::new(),
            program: "sim".to_owned(),
            serves: lope_store::runs::Serves::default(),
            lease: self.settings.lease,
        }
    }

    /// A client wants a run: from the store, or from a process that takes it on at once.
    pub(crate) fn admit(&mut self, job: usize, born: bool) {
        let ready = |process: &Process| {
            process.up
                && process.session_machine.is_registered()
                && !process.held.contains_key(&self.ids[job])
        };
        let up: Vec<usize> = (0..self.processes.len())
            .filter(|slot| ready(&self.processes[*slot]))
            .collect();
        if born && !up.is_empty() {
            // Whoever asked a process that may be gone asks again, elsewhere.
            let slot = *self.dice.pick(&up);
            self.at_time(2 * PATIENCE, Happening::Admit { job, born: false });
            self.processes[slot].held.insert(self.ids[job], BORN);
            return self.send(slot, Request::Admit { job });
        }
        if self.dice.chance(self.faults().lose_request) {
            return self.at_time(AGAIN, Happening::Admit { job, born: false });
        }
        let admit = self.new_run(job).admit;
        self.admitted(job, &admit);
        if self.dice.chance(self.faults().lose_answer) {
            self.at_time(AGAIN, Happening::Admit { job, born: false });
        }
    }

    fn new_run(&self, job: usize) -> client::PendingRun {
        let wanted = &self.jobs[job];
        let options = client::RunStartOptions {
            input: Some(wanted.input.clone()),
            queue: wanted.queue.clone(),
            ..Default::default()
        };
        let now = lope_model::Timestamp::from_millis(MORNING + self.at);
        let limits = lope_engine::QueueLimits::new();
        client::new_run_as(self.ids[job], &wanted.plan, options, &limits, now)
    }

    fn admitted(&mut self, job: usize, admit: &Admit) -> Option<Admitted> {
        let answers = fine(at_once(self.store.runs.admit(vec![admit.clone()])));
        let plan = Arc::clone(&self.jobs[job].plan);
        let most = self.jobs[job].failures_max;
        self.checker.admitted(admit, &plan, most);
        self.notify_all();
        answers.into_iter().next()
    }

    fn admit_born(&mut self, session: RunnerId, job: usize) -> Answers {
        let client::PendingRun { mut admit, start } = self.new_run(job);
        admit.claimed_by = Some(session);
        let Some(Admitted::Created { epoch, owned: true }) = self.admitted(job, &admit) else {
            return vec![(
                ProcessPart::Adopter,
                ProcessMessage::Unborn(session, admit.run),
            )];
        };
        let adoption = Adoption {
            run: admit.run,
            epoch,
            owner: session,
            plan: Arc::clone(&self.jobs[job].plan),
            home: Home::default(),
            parent: admit.parent,
            past: Past::Born {
                start,
                size: admit.rows[0].body.len(),
            },
            mail: Vec::new(),
            seen: 0,
        };
        vec![(
            ProcessPart::Adopter,
            ProcessMessage::Newborn(Box::new(adoption)),
        )]
    }
}

pub(crate) fn fine<T>(answer: lope_store::StoreResult<T>) -> T {
    answer.expect("the memory store answers")
}
