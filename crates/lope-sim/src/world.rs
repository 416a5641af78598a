//! The world: one agenda, one clock, and what happens next.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use lope_engine::executor::TaskOutcome;
use lope_engine::session::SessionEvent;
use lope_engine::settings::QueueLimit;
use lope_engine::shard::ShardInput;
use lope_engine::{Settings, client};
use lope_flow::law::Plan;
use lope_model::{Clock, RunId, RunnerId, Span, Timestamp, VersionId, limit};
use lope_store::memory::MemoryStore;
use lope_store::runs::RunRecord;
use lope_store::{ManualClock, Store, Watch};

use crate::checker::InvariantChecker;
use crate::client_act::ClientAct;
use crate::dice::Dice;
use crate::faults::Faults;
use crate::mutant::{self, Mutant};
use crate::process::{MORNING, Process, SkewedTime};
use crate::report::{SimCounts, SimReport};
use crate::shapes::{self, SimJob};
use crate::trace::SimTrace;
use crate::wire::{Address, PendingRequest, ProcessMessage, ProcessPart, Request};

/// Things that may happen without the clock moving.
const STANDSTILL: u32 = 20_000;
/// A process that may hold this many runs has room for all of them.
const ROOMY: usize = 1_000;
/// Where nothing goes wrong and there is room, timers fire and mail is read within this time: a
/// sweep, and what it takes.
const PUNCTUAL: i64 = 1_500;
/// Falls of shards over one run, at most: after three it would be set aside.
pub(crate) const FALLS_MAX: u32 = 2;
/// A process that is asked to end has this long.
const GRACE: i64 = 5_000;

/// Everything that a world follows from.
#[derive(Clone, Debug)]
pub struct Setup {
    pub seed: u64,
    pub processes: usize,
    pub jobs: Vec<SimJob>,
    pub faults: Faults,
    /// What is done wrong, to see whether the checker sees it.
    pub mutant: Option<Mutant>,
    /// Keep the last things that happened.
    pub traced: bool,
}

#[derive(Debug)]
pub(crate) enum Happening {
    Call(Box<PendingRequest>),
    /// A request is made again.
    Ask(Address, Box<Request>),
    To(Address, ProcessPart, ProcessMessage),
    /// To whatever process has the slot by then.
    Later(usize, ProcessPart, ProcessMessage),
    Restart(usize),
    Pause(usize, i64),
    Stall(usize, ProcessPart, i64),
    /// The answers to a process's heartbeats are slow until then.
    Strain(usize, i64),
    /// A process does not reach the store until then.
    Outage(usize, i64),
    Shutdown(usize),
    Admit {
        job: usize,
        born: bool,
    },
    Client {
        job: usize,
        act: ClientAct,
    },
}

#[derive(Debug)]
pub(crate) struct SimWorld {
    pub(crate) setup: Setup,
    pub(crate) settings: Settings,
    pub(crate) at: i64,
    pub(crate) agenda: BTreeMap<(i64, u64), Happening>,
    entries: u64,
    clock: Arc<ManualClock>,
    pub(crate) store: Store,
    pub(crate) watch: Watch,
    pub(crate) processes: Vec<Process>,
    pub(crate) plans: BTreeMap<VersionId, Arc<Plan>>,
    pub(crate) jobs: Vec<SimJob>,
    pub(crate) ids: Vec<RunId>,
    pub(crate) checker: InvariantChecker,
    /// What workers answered, or will, to the last start of each attempt.
    pub(crate) answers: BTreeMap<(RunId, Arc<str>, u32), TaskOutcome>,
    pub(crate) dice: Dice,
    pub(crate) trace: SimTrace,
    pub(crate) calls: u64,
    calm: Faults,
    pub(crate) points: u64,
    pub(crate) crashes: u32,
    pub(crate) falls: BTreeMap<RunId, u32>,
    /// Sessions whose runs were taken away. A registration that was long under way may begin one
    /// again that knows nothing of it.
    pub(crate) taken_over: BTreeSet<RunnerId>,
    /// Attempts that had a slot when they were to be written down as begun.
    pub(crate) announcing: BTreeSet<(RunId, Arc<str>, u32)>,
    pub(crate) standstill: u32,
    pub(crate) over_at: Option<i64>,
    pub(crate) points_until_over: Option<u64>,
    pub(crate) fences: u32,
    /// Answers that a run is another's, to a shard that holds it.
    pub(crate) lost_heard: u32,
    pub(crate) unanswered: u64,
    pub(crate) counts: SimCounts,
    /// Clients that are not done yet.
    pub(crate) clients: usize,
}

impl Setup {
    /// A world out of a seed: who, what, and what goes wrong.
    pub fn rolled(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let jobs = shapes::rolled(&mut dice);
        let processes = 1 + usize::try_from(dice.below(3)).unwrap_or_default();
        let faults = Faults::rolled(&mut dice);
        Self {
            seed,
            processes,
            jobs,
            faults,
            mutant: None,
            traced: false,
        }
    }
}

/// Live through a world.
pub fn simulate(setup: &Setup) -> SimReport {
    let mut world = SimWorld::new(setup.clone());
    world.begin();
    while world.step() {}
    world.report()
}

/// What every process of a world is told.
fn settings(setup: &Setup, dice: &mut Dice) -> Settings {
    let lease = *dice.pick(&[3_000, 6_000, 15_000]);
    let mut settings = Settings {
        max_runs: *dice.pick(&[2, 5, ROOMY]),
        shards: 1 + usize::try_from(dice.below(2)).unwrap_or_default(),
        claim_batch: *dice.pick(&[1, 3, 500]),
        lease: Span::from_millis(lease),
        heartbeat: Span::from_millis(lease / 3),
        sweep: Span::from_secs(1),
        evict_after: Span::from_millis(*dice.pick(&[300, 2_000, 10_000])),
        snapshot_min: *dice.pick(&[1, 300, 65_536]),
        concurrency: *dice.pick(&[2, 5, 256]),
        mailbox_send: Some(shapes::stamped),
        ..Settings::default()
    };
    let narrow = shapes::narrow_queue();
    if setup.jobs.iter().any(|job| job.queue == narrow) {
        let limit = QueueLimit {
            concurrency: Some(*dice.pick(&[1, 2])),
            ..QueueLimit::default()
        };
        settings.queues.push(narrow.clone());
        settings.queue_limits.insert(narrow, limit);
    }
    settings
}

/// The memory store never waits.
pub(crate) fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("the memory store answers at once"),
    }
}

impl SimWorld {
    fn new(setup: Setup) -> Self {
        let mut dice = Dice::new(setup.seed ^ 0x5eed);
        let clock = Arc::new(ManualClock::at(Timestamp::from_millis(MORNING)));
        let ids = setup
            .jobs
            .iter()
            .map(|_| RunId::from_parts(Timestamp::from_millis(MORNING), dice.bytes()))
            .collect();
        let settings = settings(&setup, &mut dice);
        let room = *dice.pick(&[2, 5, limit::MAIL_MAX]);
        let store = MemoryStore::with_room(Arc::clone(&clock) as Arc<dyn Clock>, room);
        let is_bounded = !settings.queue_limits.is_empty();
        let watch = store.runs.watch();
        let watch = if is_bounded { watch } else { watch.only_work() };
        let is_calm = setup.faults == setup.faults.calm();
        let is_punctual = is_calm && settings.max_runs == ROOMY && !is_bounded;
        Self {
            jobs: setup.jobs.clone(),
            settings,
            at: 0,
            agenda: BTreeMap::new(),
            entries: 0,
            clock,
            store,
            watch,
            processes: Vec::new(),
            plans: BTreeMap::new(),
            ids,
            checker: InvariantChecker::new(is_punctual.then_some(PUNCTUAL)),
            answers: BTreeMap::new(),
            dice,
            trace: SimTrace::new(setup.traced),
            calls: 0,
            calm: setup.faults.calm(),
            points: 0,
            crashes: 0,
            falls: BTreeMap::new(),
            taken_over: BTreeSet::new(),
            announcing: BTreeSet::new(),
            standstill: 0,
            over_at: None,
            points_until_over: None,
            fences: 0,
            lost_heard: 0,
            unanswered: 0,
            counts: SimCounts::default(),
            clients: 0,
            setup,
        }
    }

    /// May a shard fall over this run once more?
    pub(crate) fn falls_over(&mut self, run: RunId) -> bool {
        let falls = self.falls.entry(run).or_default();
        *falls += 1;
        *falls <= FALLS_MAX
    }

    fn begin(&mut self) {
        for plan in self
            .jobs
            .iter()
            .map(|job| Arc::clone(&job.plan))
            .chain([shapes::child(), shapes::strict(), shapes::patient()])
            .collect::<Vec<_>>()
        {
            at_once(client::deploy(&self.store, &plan)).expect("the memory store answers");
            self.plans.insert(plan.version(), plan);
        }
        for slot in 0..self.setup.processes {
            let process = self.process(Address { slot, start: 0 });
            self.processes.push(process);
        }
        for job in 0..self.jobs.len() {
            let (at, born) = (self.jobs[job].at, self.jobs[job].born_claimed);
            self.at_time(at, Happening::Admit { job, born });
            for act in self.jobs[job].first_acts() {
                self.clients += 1;
                self.at_time(at, Happening::Client { job, act });
            }
        }
        self.plan_trouble();
    }

    fn process(&mut self, address: Address) -> Process {
        let skew = self.setup.faults.skew;
        let skew = self.dice.between(-skew, skew);
        let runner = self.runner_id();
        Process::start(
            address,
            &self.settings,
            &self.store,
            runner,
            SkewedTime { at: self.at, skew },
        )
    }

    pub(crate) fn runner_id(&mut self) -> RunnerId {
        RunnerId::from_parts(Timestamp::from_millis(MORNING + self.at), self.dice.bytes())
    }

    /// What may go wrong now.
    pub(crate) fn faults(&self) -> Faults {
        if self.at < self.setup.faults.until {
            self.setup.faults
        } else {
            self.calm
        }
    }

    pub(crate) fn at_time(&mut self, delay: i64, happening: Happening) {
        self.entries += 1;
        self.agenda
            .insert((self.at + delay.max(0), self.entries), happening);
    }

    /// A message to a part of a process as it is now.
    pub(crate) fn to(
        &mut self,
        slot: usize,
        delay: i64,
        part: ProcessPart,
        message: ProcessMessage,
    ) {
        self.reply(self.processes[slot].address, delay, part, message);
    }

    pub(crate) fn reply(
        &mut self,
        to: Address,
        delay: i64,
        part: ProcessPart,
        message: ProcessMessage,
    ) {
        self.at_time(delay, Happening::To(to, part, message));
    }

    /// A message to whatever process has the slot by then.
    pub(crate) fn later(
        &mut self,
        slot: usize,
        delay: i64,
        part: ProcessPart,
        message: ProcessMessage,
    ) {
        self.at_time(delay, Happening::Later(slot, part, message));
    }

    pub(crate) fn record(&self, run: RunId) -> Option<RunRecord> {
        let record = at_once(self.store.runs.run(run)).expect("the memory store answers");
        record.map(|record| mutant::shown(self.setup.mutant, record))
    }

    /// Does the store hold this session to be alive?
    pub(crate) fn is_held(&self, session: RunnerId) -> bool {
        let runners =
            at_once(self.store.runs.runners(usize::MAX)).expect("the memory store answers");
        runners
            .iter()
            .any(|runner| runner.runner == session && runner.live)
    }

    /// A point between two effects of a process: does it crash here?
    pub(crate) fn crashes(&mut self, slot: usize) -> bool {
        if !self.processes[slot].up {
            return true;
        }
        let point = self.points;
        let faults = self.setup.faults;
        self.points += 1;
        let chance = if self.at < faults.until && self.crashes < faults.crashes_max {
            faults.crash
        } else {
            0
        };
        if faults.crash_at == Some(point) || self.dice.chance(chance) {
            self.crash(slot);
            return true;
        }
        false
    }

    fn crash(&mut self, slot: usize) {
        let at = self.at;
        self.trace.note(at, || format!("p{slot} crashes"));
        self.crashes += 1;
        self.stop(slot);
    }

    fn stop(&mut self, slot: usize) {
        self.processes[slot].up = false;
        let lease = i64::try_from(self.settings.lease.millis()).unwrap_or(i64::MAX);
        let back = self.dice.between(1, lease * 3 / 2);
        self.at_time(back, Happening::Restart(slot));
    }

    /// One thing happens; false when nothing more shall.
    fn step(&mut self) -> bool {
        let Some((due, tick)) = self.next() else {
            return false;
        };
        self.standstill = if due > self.at {
            0
        } else {
            self.standstill + 1
        };
        if self.standstill > STANDSTILL {
            self.checker.blame(format!(
                "time stands still at {}: {tick:?} wants to look again and again",
                self.at
            ));
            return false;
        }
        if due > self.at {
            self.clock
                .pass(Span::from_millis((due - self.at).cast_unsigned()));
            self.at = due;
        }
        match tick {
            Some((slot, part)) => self.tick(slot, part),
            None => {
                let (key, happening) = self.agenda.pop_first().expect("it was looked at");
                self.happen(key, happening);
            }
        }
        self.end_processes();
        self.goes_on()
    }

    /// When something happens next: a part that looks at the clock, or the first entry of the
    /// agenda.
    fn next(&mut self) -> Option<(i64, Option<(usize, ProcessPart)>)> {
        let entry = self.agenda.first_key_value().map(|((at, _), _)| *at);
        let mut ticks: Option<(i64, (usize, ProcessPart))> = None;
        for process in self.processes.iter().filter(|process| process.up) {
            for part in process.parts() {
                if let Some(due) = process.deadline(part).map(|due| due.max(self.at))
                    && ticks.is_none_or(|(earlier, _)| due < earlier)
                {
                    ticks = Some((due, (process.address.slot, part)));
                }
            }
        }
        match (entry, ticks) {
            (None, None) => None,
            (Some(entry), None) => Some((entry, None)),
            (None, Some((due, tick))) => Some((due, Some(tick))),
            (Some(entry), Some((due, tick))) => {
                let tick_first = due < entry || (due == entry && self.dice.chance(500));
                Some(if tick_first {
                    (due, Some(tick))
                } else {
                    (entry, None)
                })
            }
        }
    }

    fn happen(&mut self, key: (i64, u64), happening: Happening) {
        let at = self.at;
        match happening {
            Happening::Call(pending) => self.serve(*pending),
            Happening::Ask(from, request) => {
                let process = &self.processes[from.slot];
                let is_over =
                    matches!(&*request, Request::GiveBack(owner, _) if *owner != process.session());
                if process.address == from && process.up && !is_over {
                    self.send(from.slot, *request);
                }
            }
            Happening::To(address, part, message) => self.arrive(key, address, part, message),
            Happening::Later(slot, part, message) => {
                let address = self.processes[slot].address;
                self.arrive(key, address, part, message);
            }
            Happening::Restart(slot) => {
                let start = self.processes[slot].address.start + 1;
                self.trace
                    .note(at, || format!("p{slot} starts for the {start}. time again"));
                self.processes[slot] = self.process(Address { slot, start });
            }
            Happening::Pause(slot, until) => {
                self.trace
                    .note(at, || format!("p{slot} stands still until {until}"));
                let process = &mut self.processes[slot];
                let parts: Vec<ProcessPart> =
                    process.parts().chain([ProcessPart::Adopter]).collect();
                parts
                    .into_iter()
                    .for_each(|part| process.stand_still(part, until));
            }
            Happening::Stall(slot, part, until) => {
                self.trace.note(at, || {
                    format!("p{slot} {part:?} stands still until {until}")
                });
                self.processes[slot].stand_still(part, until);
            }
            Happening::Strain(slot, until) => self.processes[slot].strained = until,
            Happening::Outage(slot, until) => {
                self.trace.note(at, || {
                    format!("p{slot} does not reach the store until {until}")
                });
                self.processes[slot].cut_off = until;
            }
            Happening::Shutdown(slot) => self.shut_down(slot),
            Happening::Admit { job, born } => self.admit(job, born),
            Happening::Client { job, act } => self.client(job, act),
        }
    }

    /// A message waits while its part stands still, and keeps its place.
    fn arrive(
        &mut self,
        key: (i64, u64),
        address: Address,
        part: ProcessPart,
        message: ProcessMessage,
    ) {
        let process = &self.processes[address.slot];
        if process.address != address || !process.up {
            return;
        }
        let until = process.still_until(part);
        if until > self.at {
            self.agenda
                .insert((until, key.1), Happening::To(address, part, message));
        } else {
            self.receive(address.slot, part, message);
        }
    }

    fn shut_down(&mut self, slot: usize) {
        if !self.processes[slot].up || self.processes[slot].ending.is_some() {
            return;
        }
        let at = self.at;
        self.trace.note(at, || format!("p{slot} is asked to end"));
        self.processes[slot].ending = Some(self.at + GRACE);
        self.at_time(GRACE, Happening::Stall(slot, ProcessPart::Adopter, 0));
        self.to(
            slot,
            0,
            ProcessPart::Session,
            ProcessMessage::SessionEvent(SessionEvent::Drain),
        );
        for number in 0..self.processes[slot].shards.len() {
            self.to(
                slot,
                0,
                ProcessPart::Shard(number),
                ProcessMessage::Input(ShardInput::Drain),
            );
        }
        let process = &mut self.processes[slot];
        let mut commands = Vec::new();
        process.dispatcher.drain(process.moment(at), &mut commands);
        self.act(slot, commands);
    }

    /// Processes that were asked to end do so when they hold nothing, or their time is over.
    fn end_processes(&mut self) {
        for slot in 0..self.processes.len() {
            let process = &self.processes[slot];
            let Some(by) = process.ending.filter(|_| process.up) else {
                continue;
            };
            if process.held.is_empty() || self.at >= by {
                self.send(slot, Request::Release);
                self.stop(slot);
            }
        }
    }
}
