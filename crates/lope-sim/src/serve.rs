//! The way to the store and back: requests are lost, late, or answered; what the store takes in is shown to the judge.

use std::sync::Arc;

use lope_engine::client;
use lope_engine::keeper::Heard;
use lope_engine::shard::{Adoption, Home, Input, Latest, Past};
use lope_model::{Epoch, RunId, RunnerId, Timestamp, limit};
use lope_store::runs::{
    Admit, Admitted, ClaimedRun, CommitReply, Delivered, LiveStatus, Register, Release, RunCommit, Takeover, Then, Wake,
};

use crate::process::{BORN, MORNING, Process};
use crate::trace::short;
use crate::wire::{Letter, Message, Part, Request, Told, shard_of};
use crate::world::{Happening, World, at_once};

/// How long a process waits for an answer before it gives up.
const PATIENCE: i64 = 1_500;
/// The slowest answer.
const SLOW: i64 = 20_000;
/// Most runs put back, most mail fetched, by one request.
const SWEEP_MAX: usize = 1_000;
/// How long a client waits before it tries again.
const AGAIN: i64 = 300;

type Answers = Vec<(Part, Message)>;

impl World {
    /// A process sends a request.
    pub(crate) fn send(&mut self, slot: usize, request: Request) {
        let (from, session) = (self.processes[slot].address, self.processes[slot].session());
        let faults = self.faults();
        let mut letter = Letter { from, session, request, given_up: false, unheard: false };
        self.calls += 1;
        if self.at < self.processes[slot].cut_off || self.dice.chance(faults.lose_request) {
            return self.give_up(letter);
        }
        let way = self.dice.between(0, faults.latency);
        if self.dice.chance(faults.late_request) {
            let late = PATIENCE + self.dice.between(0, 20_000);
            self.give_up(letter.clone());
            letter.given_up = true;
            return self.at_time(late, Happening::Call(Box::new(letter)));
        }
        letter.unheard = self.dice.chance(faults.lose_answer);
        self.at_time(way, Happening::Call(Box::new(letter)));
    }

    /// The answer does not come; its sender hears so after a while.
    fn give_up(&mut self, letter: Letter) {
        self.unanswered += 1;
        let (at, patience) = (self.at, self.dice.between(0, PATIENCE));
        self.trace.note(at, || format!("p{} {} is not answered", letter.from.slot, letter.request.verb()));
        let session = letter.session;
        let asked = letter.request.asked();
        let mut answers: Answers = match letter.request {
            Request::Load(runs) => vec![(Part::Adopter, Message::Loaded(session, runs, None))],
            Request::Commit(commits) => self.unanswered(letter.from.slot, &commits),
            Request::Latest(workflow) => {
                return self.at_time(patience + 500, Happening::Ask(letter.from, Box::new(Request::Latest(workflow))));
            }
            Request::GiveBack(owner, runs) => {
                let again = Request::GiveBack(owner, runs);
                return self.at_time(patience + 200, Happening::Ask(letter.from, Box::new(again)));
            }
            Request::Admit { job } => vec![(Part::Adopter, Message::Unborn(session, self.ids[job]))],
            Request::Register | Request::Heartbeat | Request::Claim(_) | Request::Takeover => Vec::new(),
            Request::Reconcile | Request::Mail | Request::Park(_) | Request::Release => Vec::new(),
        };
        answers.extend(asked.map(|asked| (Part::Keeper, Message::Answer(session, Heard::Failed(asked)))));
        for (part, message) in answers {
            self.reply(letter.from, patience, part, message);
        }
    }

    fn unanswered(&self, slot: usize, commits: &[RunCommit]) -> Answers {
        let shards = self.processes[slot].shards.len();
        let inputs =
            commits.iter().map(|it| (Part::Shard(shard_of(it.run, shards)), Input::Unanswered(it.run, it.epoch)));
        inputs.map(|(part, input)| (part, Message::Input(input))).collect()
    }

    /// A request reaches the store.
    pub(crate) fn serve(&mut self, letter: Letter) {
        let slot = letter.from.slot;
        let is_up = self.processes[slot].address == letter.from && self.processes[slot].up;
        if is_up && self.crashes(slot) {
            return;
        }
        let answers = self.execute(&letter);
        self.ring();
        if is_up && self.crashes(slot) {
            return;
        }
        if letter.given_up {
            return;
        }
        if letter.unheard {
            return self.give_up(letter);
        }
        let way = self.way_back(&letter);
        for (part, message) in answers {
            self.reply(letter.from, way, part, message);
        }
    }

    /// How long an answer takes. Those to heartbeats are sometimes just slow enough for a lease to hang on them.
    fn way_back(&mut self, letter: &Letter) -> i64 {
        let faults = self.faults();
        let is_strained = self.at < self.processes[letter.from.slot].strained;
        if is_strained && matches!(letter.request, Request::Heartbeat) {
            let lease = i64::try_from(self.settings.lease.millis()).unwrap_or(i64::MAX);
            return self.dice.between(lease / 5, lease / 2);
        }
        let is_slow = self.dice.chance(faults.slow);
        if is_slow { self.dice.between(1_000, SLOW) } else { self.dice.between(0, faults.latency) }
    }

    fn execute(&mut self, letter: &Letter) -> Answers {
        let (slot, session) = (letter.from.slot, letter.session);
        let at = self.at;
        let runs = Arc::clone(&self.store.runs);
        let heard = match &letter.request {
            Request::Register => Heard::Registered(fine(at_once(runs.register(self.register(session))))),
            Request::Heartbeat => Heard::Beaten(fine(at_once(runs.heartbeat(session)))),
            Request::Claim(claim) => Heard::Claimed(fine(at_once(runs.claim(claim.clone())))),
            Request::Takeover => {
                let taken = fine(at_once(runs.takeover(Takeover { limit: SWEEP_MAX })));
                self.taken_over.extend(&taken.ended);
                Heard::TookOver(taken)
            }
            Request::Reconcile => Heard::Owned(fine(at_once(runs.owned(session, None, limit::PAGE_MAX)))),
            Request::Mail => return self.waiting(slot, session),
            Request::Load(claimed) => return self.load(session, claimed),
            Request::Commit(commits) => return self.commit(slot, commits),
            Request::Park(park) => {
                fine(at_once(runs.commit(vec![park.clone()])));
                return Vec::new();
            }
            Request::Latest(workflow) => {
                let found = fine(at_once(runs.latest(workflow))).as_ref().map(Latest::of);
                return vec![(Part::Adopter, Message::Tell(Told::Latest(Arc::clone(workflow), found)))];
            }
            Request::GiveBack(owner, lost) => {
                self.put_back(*owner, lost);
                return vec![(Part::Adopter, Message::GivenBack(*owner, lost.clone()))];
            }
            Request::Release => {
                fine(at_once(runs.release(session)));
                return Vec::new();
            }
            Request::Admit { job } => return self.admit_born(session, *job),
        };
        if crate::work::says_something(&heard) {
            self.trace.note(at, || format!("p{slot} store answers {}", short(&heard)));
        }
        vec![(Part::Keeper, Message::Answer(session, heard))]
    }

    fn waiting(&mut self, slot: usize, session: RunnerId) -> Answers {
        let shards = self.processes[slot].shards.len();
        let mail = fine(at_once(self.store.runs.waiting(session, SWEEP_MAX)));
        let inputs = mail.into_iter().map(|(run, mail)| (Part::Shard(shard_of(run, shards)), Input::Mail(run, mail)));
        let mut answers: Answers = inputs.map(|(part, input)| (part, Message::Input(input))).collect();
        answers.push((Part::Keeper, Message::Answer(session, Heard::Mailed)));
        answers
    }

    fn load(&mut self, session: RunnerId, claimed: &[ClaimedRun]) -> Answers {
        let ids: Vec<_> = claimed.iter().map(|run| run.run).collect();
        let loaded = fine(at_once(self.store.runs.load(&ids)));
        vec![(Part::Adopter, Message::Loaded(session, claimed.to_vec(), Some(loaded)))]
    }

    fn commit(&mut self, slot: usize, commits: &[RunCommit]) -> Answers {
        let (at, mut answers) = (self.at, Vec::new());
        let shards = self.processes[slot].shards.len();
        for commit in commits {
            let before = self.record(commit.run);
            let replies = fine(at_once(self.store.runs.commit(vec![commit.clone()])));
            let reply = replies.into_iter().next().expect("one answer a commit");
            self.trace.note(at, || {
                let rows: Vec<&str> = commit.rows.iter().map(|row| &*row.event).collect();
                format!("p{slot}   {} {rows:?} {} → {}", commit.run, short(&commit.then), short(&reply))
            });
            if matches!(reply, CommitReply::Done { .. }) {
                for child in &commit.children {
                    let plan = Arc::clone(&self.plans[&child.version]);
                    self.judge.admitted(child, &plan, crate::shapes::FAILURES_MAX);
                }
            }
            self.judge.committed(commit, before.as_ref(), &reply);
            let part = Part::Shard(shard_of(commit.run, shards));
            answers.push((part, Message::Input(Input::Committed(commit.run, commit.epoch, reply))));
        }
        answers
    }

    /// Runs that a shard fell over may be claimed again, after a little while.
    fn put_back(&mut self, owner: RunnerId, lost: &[(RunId, Epoch)]) {
        let due = Timestamp::from_millis(MORNING + self.at + 200);
        for (run, epoch) in lost {
            let release = Release { status: LiveStatus::Running, wake: Wake::At(due), seen: u64::MAX };
            let commit = RunCommit::new(*run, owner, *epoch, Then::Release(release));
            fine(at_once(self.store.runs.commit(vec![commit])));
        }
    }

    /// Somebody may have made work: every process may hear of it.
    pub(crate) fn ring(&mut self) {
        if !self.watch.take() {
            return;
        }
        for slot in 0..self.processes.len() {
            if self.processes[slot].up && !self.dice.chance(self.faults().lose_bell) {
                let way = self.dice.between(0, self.faults().latency);
                self.to(slot, way, Part::Keeper, Message::Heard(Heard::Rang));
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
            program: "sim".to_owned(),
            serves: lope_store::runs::Serves::default(),
            lease: self.settings.lease,
        }
    }

    /// A client wants a run: from the store, or from a process that takes it on at once.
    pub(crate) fn admit(&mut self, job: usize, born: bool) {
        let ready = |process: &Process| {
            process.up && process.keeper.is_registered() && !process.held.contains_key(&self.ids[job])
        };
        let up: Vec<usize> = (0..self.processes.len()).filter(|slot| ready(&self.processes[*slot])).collect();
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
        let admit = self.birth(job).admit;
        self.admitted(job, &admit);
        if self.dice.chance(self.faults().lose_answer) {
            self.at_time(AGAIN, Happening::Admit { job, born: false });
        }
    }

    fn birth(&self, job: usize) -> client::Birth {
        let wanted = &self.jobs[job];
        let options = client::StartOptions { input: Some(wanted.input.clone()), ..Default::default() };
        let now = lope_model::Timestamp::from_millis(MORNING + self.at);
        client::birth_as(self.ids[job], &wanted.plan, options, now)
    }

    fn admitted(&mut self, job: usize, admit: &Admit) -> Option<Admitted> {
        let answers = fine(at_once(self.store.runs.admit(vec![admit.clone()])));
        let (plan, most) = (Arc::clone(&self.jobs[job].plan), self.jobs[job].failures_max);
        self.judge.admitted(admit, &plan, most);
        self.ring();
        answers.into_iter().next()
    }

    fn admit_born(&mut self, session: RunnerId, job: usize) -> Answers {
        let client::Birth { mut admit, start } = self.birth(job);
        admit.claimed_by = Some(session);
        let Some(Admitted::Created { epoch, owned: true }) = self.admitted(job, &admit) else {
            return vec![(Part::Adopter, Message::Unborn(session, admit.run))];
        };
        let adoption = Adoption {
            run: admit.run,
            epoch,
            owner: session,
            weight: admit.weight,
            plan: Arc::clone(&self.jobs[job].plan),
            home: Home::default(),
            parent: admit.parent,
            past: Past::Born { start, size: admit.rows[0].body.len() },
            mail: Vec::new(),
            seen: 0,
        };
        vec![(Part::Adopter, Message::Newborn(Box::new(adoption)))]
    }

    /// A client sends a run its next mail, until it is sure that it arrived.
    pub(crate) fn mail(&mut self, job: usize, number: usize) {
        let Some((due, kind)) = self.jobs[job].mail.get(number).cloned() else { return };
        if self.at < due {
            return self.at_time(due - self.at, Happening::Mail { job, number });
        }
        if self.dice.chance(self.faults().lose_request) {
            return self.at_time(AGAIN, Happening::Mail { job, number });
        }
        let mail = lope_engine::codec::mail(self.ids[job], format!("mail/{number}"), &kind);
        let delivered = fine(at_once(self.store.runs.deliver(vec![mail])));
        let at = self.at;
        self.trace.note(at, || format!("client sends {} to job {job}: {delivered:?}", kind.word()));
        if delivered[0] == Delivered::Accepted {
            self.judge.expect_mail(self.ids[job], Timestamp::from_millis(MORNING + at));
        }
        self.ring();
        match delivered[0] {
            Delivered::Missing | Delivered::Full => self.at_time(AGAIN, Happening::Mail { job, number }),
            Delivered::Accepted if self.dice.chance(self.faults().lose_answer) => {
                self.at_time(AGAIN, Happening::Mail { job, number });
            }
            Delivered::Accepted | Delivered::Duplicate | Delivered::Finished => {
                self.at_time(0, Happening::Mail { job, number: number + 1 });
            }
        }
    }
}

fn fine<T>(answer: lope_store::StoreResult<T>) -> T {
    answer.expect("the memory store answers")
}
