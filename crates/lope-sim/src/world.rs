//! The world: one agenda, one clock, and what happens next.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use lope_engine::executor::Outcome;
use lope_engine::keeper::Heard;
use lope_engine::shard::Input;
use lope_engine::{Settings, client};
use lope_flow::law::Plan;
use lope_model::{RunId, RunnerId, Span, Timestamp, VersionId};
use lope_store::memory::MemoryStore;
use lope_store::runs::{RunRecord, RunStatus};
use lope_store::{ManualClock, Store, Watch};

use crate::dice::Dice;
use crate::faults::Faults;
use crate::judge::Judge;
use crate::process::{MORNING, Process};
use crate::report::{End, Report};
use crate::shapes::{self, Job};
use crate::trace::Trace;
use crate::wire::{Address, Letter, Message, Part, Request};

/// After the faults have stopped every run must end within this time.
const PATIENCE: i64 = 240_000;
/// How long the world goes on after the last run has ended: long enough for anything left over to show.
const AFTERMATH: i64 = 25_000;
/// Things that may happen without the clock moving.
const STANDSTILL: u32 = 20_000;
/// Most requests of a process in a second, on average over a world: more means that it goes round in circles.
const CALLS_MAX: f64 = 60.0;
/// A process that may hold this many runs has room for all of them.
const ROOMY: usize = 1_000;
/// Where nothing goes wrong and there is room, timers fire and mail is read within this time: a sweep, and what it takes.
const PUNCTUAL: i64 = 1_500;
/// Falls of shards over one run, at most: after three it would be set aside.
const FALLS_MAX: u32 = 2;
/// Until about this time there is work in most worlds.
const BUSY: i64 = 9_000;
/// A process that is asked to end has this long.
const GRACE: i64 = 5_000;

/// Everything that a world follows from.
#[derive(Clone, Debug)]
pub struct Setup {
    pub seed: u64,
    pub processes: usize,
    pub jobs: Vec<Job>,
    pub faults: Faults,
    /// Keep the last things that happened.
    pub traced: bool,
}

#[derive(Debug)]
pub(crate) enum Happening {
    Call(Box<Letter>),
    /// A request is made again.
    Ask(Address, Box<Request>),
    To(Address, Part, Message),
    /// To whatever process has the slot by then.
    Later(usize, Part, Message),
    Restart(usize),
    Pause(usize, i64),
    Stall(usize, Part, i64),
    /// The answers to a process's heartbeats are slow until then.
    Strain(usize, i64),
    /// A process does not reach the store until then.
    Outage(usize, i64),
    Shutdown(usize),
    Admit {
        job: usize,
        born: bool,
    },
    Mail {
        job: usize,
        number: usize,
    },
}

#[derive(Debug)]
pub(crate) struct World {
    setup: Setup,
    pub(crate) settings: Settings,
    pub(crate) at: i64,
    agenda: BTreeMap<(i64, u64), Happening>,
    entries: u64,
    clock: Arc<ManualClock>,
    pub(crate) store: Store,
    pub(crate) watch: Watch,
    pub(crate) processes: Vec<Process>,
    pub(crate) plans: BTreeMap<VersionId, Arc<Plan>>,
    pub(crate) jobs: Vec<Job>,
    pub(crate) ids: Vec<RunId>,
    pub(crate) judge: Judge,
    /// What workers answered, or will, to the last start of each attempt.
    pub(crate) answers: BTreeMap<(RunId, Arc<str>, u32), Outcome>,
    pub(crate) dice: Dice,
    pub(crate) trace: Trace,
    pub(crate) calls: u64,
    calm: Faults,
    points: u64,
    crashes: u32,
    falls: BTreeMap<RunId, u32>,
    /// Sessions whose runs were taken away. A registration that was long under way may begin one again that knows nothing of it.
    pub(crate) taken_over: BTreeSet<RunnerId>,
    standstill: u32,
    over_at: Option<i64>,
    points_until_over: Option<u64>,
    pub(crate) fences: u32,
    /// Answers that a run is another's, to a shard that holds it.
    pub(crate) lost_heard: u32,
    pub(crate) unanswered: u64,
}

impl Setup {
    /// A world out of a seed: who, what, and what goes wrong.
    pub fn rolled(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let jobs = shapes::rolled(&mut dice);
        let processes = 1 + usize::try_from(dice.below(3)).unwrap_or_default();
        let faults = Faults::rolled(&mut dice);
        Self { seed, processes, jobs, faults, traced: false }
    }
}

/// Live through a world.
pub fn simulate(setup: &Setup) -> Report {
    let mut world = World::new(setup.clone());
    world.begin();
    while world.step() {}
    world.report()
}

/// The memory store never waits.
pub(crate) fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("the memory store answers at once"),
    }
}

/// The faults of a world in which nothing goes wrong.
fn calm_as(setup: &Setup) -> Faults {
    Faults { latency: setup.faults.latency, ..Faults::none() }
}

impl World {
    fn new(setup: Setup) -> Self {
        let mut dice = Dice::new(setup.seed ^ 0x5eed);
        let clock = Arc::new(ManualClock::at(Timestamp::from_millis(MORNING)));
        let store = MemoryStore::with_clock(Arc::clone(&clock) as Arc<dyn lope_model::Clock>);
        let watch = store.runs.watch();
        let ids = setup.jobs.iter().map(|_| RunId::from_parts(Timestamp::from_millis(MORNING), dice.bytes())).collect();
        let lease = *dice.pick(&[3_000, 6_000, 15_000]);
        let max_runs = *dice.pick(&[2, 5, ROOMY]);
        let settings = Settings {
            shards: 1 + usize::try_from(dice.below(2)).unwrap_or_default(),
            max_runs,
            claim_batch: *dice.pick(&[1, 3, 500]),
            lease: Span::from_millis(lease),
            heartbeat: Span::from_millis(lease / 3),
            sweep: Span::from_secs(1),
            evict_after: Span::from_millis(*dice.pick(&[300, 2_000, 10_000])),
            snapshot_min: *dice.pick(&[1, 300, 65_536]),
            concurrency: *dice.pick(&[2, 5, 256]),
            post: Some(crate::shapes::stamped),
            ..Settings::default()
        };
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
            judge: Judge::new((setup.faults == calm_as(&setup) && max_runs == ROOMY).then_some(PUNCTUAL)),
            answers: BTreeMap::new(),
            dice,
            trace: Trace::new(setup.traced),
            calls: 0,
            calm: calm_as(&setup),
            points: 0,
            crashes: 0,
            falls: BTreeMap::new(),
            taken_over: BTreeSet::new(),
            standstill: 0,
            over_at: None,
            points_until_over: None,
            fences: 0,
            lost_heard: 0,
            unanswered: 0,
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
            .chain([shapes::child(), shapes::strict()])
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
            self.at_time(at, Happening::Mail { job, number: 0 });
        }
        self.plan_trouble();
    }

    /// Pauses, stalls and shutdowns have their times from the beginning.
    fn plan_trouble(&mut self) {
        let faults = self.setup.faults;
        let lease = i64::try_from(self.settings.lease.millis()).unwrap_or(i64::MAX);
        for _ in 0..faults.pauses {
            let (at, slot) = (self.busy_time(), self.slot());
            let until = (at + self.dice.between(10, lease * 5 / 2)).min(faults.until);
            self.at_time(at, Happening::Pause(slot, until));
        }
        for _ in 0..faults.stalls {
            let (at, slot) = (self.busy_time(), self.slot());
            let part = *self.dice.pick(&[Part::Keeper, Part::Adopter, Part::Desk, Part::Shard(0)]);
            // While a keeper stands still for longer than its lease the shards go on, and hear that their runs are lost.
            let most = if part == Part::Keeper { lease * 2 } else { lease };
            let until = (at + self.dice.between(1, most)).min(faults.until);
            self.at_time(at, Happening::Stall(slot, part, until));
        }
        for _ in 0..faults.outages {
            let (at, slot) = (self.busy_time(), self.slot());
            let until = at + self.dice.between(lease / 2, lease * 3 / 2);
            self.at_time(at - lease / 2, Happening::Strain(slot, at));
            self.at_time(at, Happening::Outage(slot, until.min(faults.until)));
            if self.dice.chance(600) {
                let later = until + self.dice.between(0, lease);
                self.at_time(at, Happening::Stall(slot, Part::Keeper, later.min(faults.until)));
            }
        }
        for _ in 0..faults.shutdowns {
            let (at, slot) = (self.busy_time(), self.slot());
            self.at_time(at, Happening::Shutdown(slot));
        }
    }

    /// Some time before the faults stop, more often than not one at which there is work.
    fn busy_time(&mut self) -> i64 {
        let until = self.setup.faults.until;
        let latest = if self.dice.chance(600) { BUSY.min(until) } else { until };
        self.dice.between(0, latest)
    }

    fn slot(&mut self) -> usize {
        usize::try_from(self.dice.below(self.setup.processes as u64)).unwrap_or_default()
    }

    fn process(&mut self, address: Address) -> Process {
        let skew = self.setup.faults.skew;
        let skew = self.dice.between(-skew, skew);
        let runner = self.runner_id();
        Process::start(address, &self.settings, runner, (self.at, skew))
    }

    pub(crate) fn runner_id(&mut self) -> RunnerId {
        RunnerId::from_parts(Timestamp::from_millis(MORNING + self.at), self.dice.bytes())
    }

    /// What may go wrong now.
    pub(crate) fn faults(&self) -> Faults {
        if self.at < self.setup.faults.until { self.setup.faults } else { self.calm }
    }

    pub(crate) fn at_time(&mut self, delay: i64, happening: Happening) {
        self.entries += 1;
        self.agenda.insert((self.at + delay.max(0), self.entries), happening);
    }

    /// A message to a part of a process as it is now.
    pub(crate) fn to(&mut self, slot: usize, delay: i64, part: Part, message: Message) {
        self.reply(self.processes[slot].address, delay, part, message);
    }

    pub(crate) fn reply(&mut self, to: Address, delay: i64, part: Part, message: Message) {
        self.at_time(delay, Happening::To(to, part, message));
    }

    /// A message to whatever process has the slot by then.
    pub(crate) fn later(&mut self, slot: usize, delay: i64, part: Part, message: Message) {
        self.at_time(delay, Happening::Later(slot, part, message));
    }

    pub(crate) fn record(&self, run: RunId) -> Option<RunRecord> {
        at_once(self.store.runs.run(run)).expect("the memory store answers")
    }

    /// Does the store hold this session to be alive?
    pub(crate) fn is_held(&self, session: RunnerId) -> bool {
        let runners = at_once(self.store.runs.runners(usize::MAX)).expect("the memory store answers");
        runners.iter().any(|runner| runner.runner == session && runner.live)
    }

    /// A point between two effects of a process: does it crash here?
    pub(crate) fn crashes(&mut self, slot: usize) -> bool {
        if !self.processes[slot].up {
            return true;
        }
        let (point, faults) = (self.points, self.setup.faults);
        self.points += 1;
        let chance = if self.at < faults.until && self.crashes < faults.crashes_max { faults.crash } else { 0 };
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
        let Some((due, tick)) = self.next() else { return false };
        self.standstill = if due > self.at { 0 } else { self.standstill + 1 };
        if self.standstill > STANDSTILL {
            self.judge.blame(format!("time stands still at {}: {tick:?} wants to look again and again", self.at));
            return false;
        }
        if due > self.at {
            self.clock.pass(Span::from_millis((due - self.at).cast_unsigned()));
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

    /// When something happens next: a part that looks at the clock, or the first entry of the agenda.
    fn next(&mut self) -> Option<(i64, Option<(usize, Part)>)> {
        let entry = self.agenda.first_key_value().map(|((at, _), _)| *at);
        let mut ticks: Option<(i64, (usize, Part))> = None;
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
                Some(if tick_first { (due, Some(tick)) } else { (entry, None) })
            }
        }
    }

    fn happen(&mut self, key: (i64, u64), happening: Happening) {
        let at = self.at;
        match happening {
            Happening::Call(letter) => self.serve(*letter),
            Happening::Ask(from, request) => {
                let process = &self.processes[from.slot];
                let is_over = matches!(&*request, Request::GiveBack(owner, _) if *owner != process.session());
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
                self.trace.note(at, || format!("p{slot} starts for the {start}. time again"));
                self.processes[slot] = self.process(Address { slot, start });
            }
            Happening::Pause(slot, until) => {
                self.trace.note(at, || format!("p{slot} stands still until {until}"));
                let process = &mut self.processes[slot];
                let parts: Vec<Part> = process.parts().chain([Part::Adopter]).collect();
                parts.into_iter().for_each(|part| process.stand_still(part, until));
            }
            Happening::Stall(slot, part, until) => {
                self.trace.note(at, || format!("p{slot} {part:?} stands still until {until}"));
                self.processes[slot].stand_still(part, until);
            }
            Happening::Strain(slot, until) => self.processes[slot].strained = until,
            Happening::Outage(slot, until) => {
                self.trace.note(at, || format!("p{slot} does not reach the store until {until}"));
                self.processes[slot].cut_off = until;
            }
            Happening::Shutdown(slot) => self.shut_down(slot),
            Happening::Admit { job, born } => self.admit(job, born),
            Happening::Mail { job, number } => self.mail(job, number),
        }
    }

    /// A message waits while its part stands still, and keeps its place.
    fn arrive(&mut self, key: (i64, u64), address: Address, part: Part, message: Message) {
        let process = &self.processes[address.slot];
        if process.address != address || !process.up {
            return;
        }
        let until = process.still_until(part);
        if until > self.at {
            self.agenda.insert((until, key.1), Happening::To(address, part, message));
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
        self.at_time(GRACE, Happening::Stall(slot, Part::Adopter, 0));
        self.to(slot, 0, Part::Keeper, Message::Heard(Heard::Drain));
        for number in 0..self.processes[slot].shards.len() {
            self.to(slot, 0, Part::Shard(number), Message::Input(Input::Drain));
        }
    }

    /// Processes that were asked to end do so when they hold nothing, or their time is over.
    fn end_processes(&mut self) {
        for slot in 0..self.processes.len() {
            let process = &self.processes[slot];
            let Some(by) = process.ending.filter(|_| process.up) else { continue };
            if process.held.is_empty() || self.at >= by {
                self.send(slot, Request::Release);
                self.stop(slot);
            }
        }
    }

    /// Is there anything left to see?
    fn goes_on(&mut self) -> bool {
        if !self.judge.violations.is_empty() {
            return false;
        }
        if let Some(over_at) = self.over_at {
            return self.at < over_at + AFTERMATH;
        }
        if self.at >= self.setup.faults.until && self.all_ended() {
            self.over_at = Some(self.at);
            self.points_until_over = Some(self.points);
        }
        if self.at > self.setup.faults.until + PATIENCE {
            self.blame_stranded();
            return false;
        }
        true
    }

    fn all_ended(&self) -> bool {
        let watched = self.judge.runs();
        let is_over =
            |run: &RunId| self.record(*run).is_some_and(|record| matches!(record.status, RunStatus::Final(_)));
        self.ids.iter().all(is_over) && watched.iter().all(is_over)
    }

    fn blame_stranded(&mut self) {
        for (run, job) in self.ids.clone().into_iter().zip(self.jobs.clone()) {
            let record = self.record(run);
            if record.as_ref().is_none_or(|record| matches!(record.status, RunStatus::Live(_))) {
                let held: Vec<usize> = self.processes.iter().map(Process::resident).collect();
                self.judge.blame(format!("{run} ({}) is stranded; in memory {held:?}: {record:?}", job.plan.name()));
            }
        }
        if self.judge.violations.is_empty() {
            self.judge.blame("a child is stranded".to_owned());
        }
    }

    fn report(mut self) -> Report {
        if self.judge.violations.is_empty() {
            self.look_back();
        }
        let ends = self.ids.iter().map(|run| self.record(*run).and_then(|record| End::of(&record))).collect();
        Report {
            ends,
            violations: self.judge.violations,
            points: self.points,
            points_until_over: self.points_until_over.unwrap_or(self.points),
            fences: self.fences,
            lost_heard: self.lost_heard,
            refused: self.judge.refused,
            unanswered: self.unanswered,
            crashes: self.crashes,
            falls: self.falls.values().map(|falls| (*falls).min(FALLS_MAX)).sum(),
            rows: self.judge.rows,
            calls: self.calls,
            stale_starts: self.judge.stale_starts,
            over_at: self.over_at.unwrap_or(self.at),
            trace: self.trace.into_lines(),
        }
    }

    /// When all is over: the store is sound, and no process keeps anything of what has ended.
    fn look_back(&mut self) {
        for run in self.judge.runs() {
            if let Some(record) = self.record(run) {
                self.judge.last_word(&record);
            }
        }
        for finding in at_once(self.store.upkeep.check()).expect("the memory store answers") {
            self.judge.blame(format!("the store is not sound: {finding:?}"));
        }
        for (run, job) in self.ids.iter().zip(&self.jobs) {
            let sent = job.mail.iter().filter(|(_, kind)| kind.word() == "signal").count();
            let arrived = self.judge.signals(*run);
            if arrived as usize > sent {
                self.judge.violations.push(format!("{run}: {arrived} signals of {sent} arrived"));
            }
        }
        let rate = self.calls as f64 * 1_000.0 / self.at as f64 / self.processes.len() as f64;
        if rate > CALLS_MAX {
            self.judge.blame(format!("{rate:.0} requests a second from each process"));
        }
        for process in self.processes.iter().filter(|process| process.up) {
            let (slot, counted) = (process.address.slot, process.keeper.resident());
            let (resident, held) = (process.resident(), process.held.len());
            let running = process.desk.in_flight().max(process.working.len());
            if (resident, held, running, counted) != (0, 0, 0, 0) {
                self.judge.violations.push(format!(
                    "p{slot} keeps what has ended: {resident} in shards, {held} held, {running} in flight, {counted} counted"
                ));
            }
        }
    }
}
