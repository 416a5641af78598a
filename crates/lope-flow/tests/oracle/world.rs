//! A world that answers in any order, twice, late, and after crashes; and watches what the law does
//! meanwhile.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use lope_definition::Definition;
use lope_flow::law::{
    Dispatch, Effect, Event, EventKind, Fed, Mark, Outcome, Plan, Progress, Settled, Start,
    StartChild, State, Status, StepTrace, advance_traced, resume_slice_traced,
};
use lope_model::{Epoch, RunId, Timestamp, Value};

use super::{Dice, answer};

/// What the world does beside answering.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mischief {
    /// Delivers rows again and rows that say nothing.
    pub junk: bool,
    /// Owners die: open attempts are adopted.
    pub crashes: bool,
    /// Pauses and resumes.
    pub pauses: bool,
    /// Snapshots are taken and gone on with.
    pub snapshots: bool,
    /// Cancels once, after so many events.
    pub cancel_after: Option<usize>,
}

/// A run in a world.
#[derive(Debug)]
pub struct Lived<'a> {
    pub plan: &'a Plan,
    pub state: State,
    pub journal: Vec<Event>,
    pub results: BTreeMap<String, Settled>,
    pub mended: bool,
    now: Timestamp,
    dice: Dice,
    pending: Vec<Effect>,
    open: HashSet<(Arc<str>, u32)>,
    failures: HashMap<Arc<str>, u32>,
    epoch: u64,
    settled: HashSet<Arc<str>>,
    pub dispatched: HashMap<Arc<str>, u32>,
    pub done: BTreeSet<Arc<str>>,
    retried: bool,
}

impl<'a> Lived<'a> {
    pub fn new(plan: &'a Plan, seed: u64) -> Self {
        Self {
            plan,
            state: State::new(plan),
            journal: Vec::new(),
            results: BTreeMap::new(),
            mended: false,
            now: Timestamp::EPOCH,
            dice: Dice::new(seed),
            pending: Vec::new(),
            open: HashSet::new(),
            failures: HashMap::new(),
            epoch: 1,
            settled: HashSet::new(),
            dispatched: HashMap::new(),
            done: BTreeSet::new(),
            retried: false,
        }
    }

    pub fn start(&mut self, inputs: &[Value]) {
        let mut fed = inputs
            .iter()
            .enumerate()
            .map(|(index, value)| Fed::new(&format!("{index}"), value.clone()));
        let open = inputs.len() != 1;
        let input = if open { None } else { fed.next() };
        let run = RunId::from_parts(Timestamp::EPOCH, [5; 10]);
        let start = Start {
            run,
            law: lope_flow::LAW,
            seed: 9,
            epoch: Epoch(1),
            open,
            env: Value::Null,
            input,
        };
        self.event(EventKind::Start(Box::new(start)));
        for fed in fed {
            self.event(EventKind::Input(Box::new(fed)));
        }
    }

    /// Lives until nothing is left to happen.
    pub fn live(&mut self, mischief: Mischief) {
        let mut cancelled = false;
        for round in 0..200_000_usize {
            if mischief.cancel_after.is_some_and(|after| round >= after) && !cancelled {
                cancelled = true;
                self.event(EventKind::Cancel { force: false });
            }
            self.mischief(mischief);
            if !self.next() {
                return;
            }
        }
        panic!("the run does not end");
    }

    /// One thing happens; false if nothing can.
    fn next(&mut self) -> bool {
        if self.state.status() == Status::Paused && self.dice.chance(40) {
            self.event(EventKind::Resume);
            return true;
        }
        let timer = self.state.next_wake();
        if let Some(wake) = timer
            && (self.pending.is_empty() || self.dice.chance(20))
        {
            self.now = self.now.max(wake);
            self.event(EventKind::Timer);
            return true;
        }
        if self.pending.is_empty() {
            let idle = self.state.status() == Status::Idle;
            let kind = if idle {
                EventKind::Close
            } else {
                EventKind::Resume
            };
            return self.event(kind) != Progress::Ignored;
        }
        let index = self.dice.below(self.pending.len() as u64) as usize;
        match self.pending.swap_remove(index) {
            Effect::Dispatch(dispatch) => self.answer(&dispatch),
            Effect::StartChild(child) => self.grow_up(&child),
            _ => {}
        }
        true
    }

    fn answer(&mut self, dispatch: &Dispatch) {
        let failures = self
            .failures
            .entry(Arc::clone(&dispatch.execution))
            .or_default();
        let result = answer(&dispatch.action, &dispatch.with, *failures, self.mended);
        let failed = matches!(result, Settled::Failed(_));
        let outcome = Outcome {
            execution: Arc::clone(&dispatch.execution),
            attempt: dispatch.attempt,
            epoch: dispatch.epoch,
            result,
            started_at: Some(self.now),
            worker: Some("w".into()),
            log: None,
        };
        if self.event(EventKind::Outcome(Box::new(outcome))) == Progress::Done && failed {
            *self
                .failures
                .entry(Arc::clone(&dispatch.execution))
                .or_default() += 1;
        }
    }

    fn grow_up(&mut self, child: &StartChild) {
        let result = Settled::Done(Value::Int(child.input.as_int().unwrap_or(0) + 1));
        let (execution, child) = (Arc::clone(&child.execution), child.child);
        self.event(EventKind::Child {
            execution,
            child,
            result,
        });
    }

    fn mischief(&mut self, mischief: Mischief) {
        if mischief.junk && self.dice.chance(20) {
            let old = self.dice.pick(&self.journal).clone();
            let junk = match self.dice.below(3) {
                0 if matches!(
                    old.kind,
                    EventKind::Outcome(_) | EventKind::Child { .. } | EventKind::Start(_)
                ) =>
                {
                    old.kind
                }
                1 => EventKind::Adopted {
                    epoch: Epoch(self.epoch),
                    budget: None,
                },
                _ => EventKind::Refused {
                    execution: "nobody/3".into(),
                    attempt: 1,
                    epoch: Epoch(1),
                    until: self.now,
                    reason: "junk".into(),
                },
            };
            let before = self.state.clone();
            assert_eq!(self.event(junk), Progress::Ignored);
            assert_eq!(before, self.state, "junk changes nothing");
        }
        if mischief.crashes && self.dice.chance(3) {
            self.epoch += 1;
            self.pending
                .retain(|effect| !matches!(effect, Effect::Dispatch(_)) || self.dice.chance(50));
            self.open.clear();
            self.event(EventKind::Adopted {
                epoch: Epoch(self.epoch),
                budget: None,
            });
        }
        if mischief.pauses && self.dice.chance(5) {
            self.event(EventKind::Pause {
                reason: Some("a rest".into()),
            });
        }
        if mischief.snapshots && self.dice.chance(20) {
            let mut blobs = Vec::new();
            let bytes = self.state.clone().encode(&mut blobs);
            let blob = |digest| {
                blobs
                    .iter()
                    .find(|blob| blob.digest == digest)
                    .map(|blob| blob.bytes.clone())
            };
            let read = State::decode(&bytes, blob).expect("a snapshot can be read");
            assert_eq!(read, self.state);
            self.state = read;
        }
    }

    pub fn retry(&mut self) -> Progress {
        self.epoch += 1;
        self.retried = true;
        self.open.clear();
        self.pending.clear();
        self.event(EventKind::Retry {
            epoch: Epoch(self.epoch),
        })
    }

    pub fn event(&mut self, kind: EventKind) -> Progress {
        let event = Event::new(self.now, kind);
        let (mut effects, mut traces) = (Vec::new(), Vec::new());
        let mut progress = advance_traced(
            self.plan,
            &mut self.state,
            event.clone(),
            &mut effects,
            &mut traces,
        );
        while progress == Progress::More {
            let state = &mut self.state;
            progress = resume_slice_traced(self.plan, state, &mut effects, &mut traces);
        }
        if progress == Progress::Ignored {
            assert!(
                effects.is_empty() && traces.is_empty(),
                "what is ignored has no effects"
            );
            return progress;
        }
        self.note_outcome(&event);
        self.journal.push(event);
        traces.iter().for_each(|trace| self.watch(trace));
        effects.into_iter().for_each(|effect| self.take(effect));
        let most = self.plan.definition().concurrency.unwrap_or(1_024) as usize;
        assert!(
            self.open.len() <= most,
            "{} in flight of {most}",
            self.open.len()
        );
        assert_eq!(
            self.open.len(),
            self.state.load().0 as usize,
            "the law counts what is in flight"
        );
        progress
    }

    fn note_outcome(&mut self, event: &Event) {
        match &event.kind {
            EventKind::Outcome(it) => {
                assert!(
                    self.open.remove(&(Arc::clone(&it.execution), it.attempt)),
                    "only what is open has an outcome"
                );
            }
            EventKind::Adopted { .. } => self.open.clear(),
            _ => {}
        }
    }

    fn take(&mut self, effect: Effect) {
        match effect {
            Effect::Dispatch(dispatch) => {
                let token = (Arc::clone(&dispatch.execution), dispatch.attempt);
                assert!(
                    self.open.insert(token),
                    "one attempt is never dispatched twice"
                );
                assert!(
                    !self.done.contains(&dispatch.execution),
                    "what is done is not run again"
                );
                *self
                    .dispatched
                    .entry(Arc::clone(&dispatch.execution))
                    .or_default() += 1;
                self.pending.push(Effect::Dispatch(dispatch));
            }
            Effect::CancelAttempt {
                execution, attempt, ..
            } => {
                assert!(
                    self.open.remove(&(execution, attempt)),
                    "only what is open is cancelled"
                );
            }
            Effect::StartChild(_) => self.pending.push(effect),
            Effect::InputSettled { input, result } => {
                let known = self.results.insert(input.to_string(), result);
                assert!(known.is_none() || self.retried, "an input settles once");
            }
            Effect::CancelChild { .. } | Effect::Send(_) | Effect::Telemetry(_) => {}
            Effect::Complete { .. } | Effect::Fail { .. } | Effect::Cancelled => {}
        }
    }

    /// Every execution settles at most once, and opens only when what it needs is settled.
    fn watch(&mut self, trace: &StepTrace) {
        match &trace.mark {
            Mark::Opened => self.check_needs(trace),
            Mark::Done(_)
            | Mark::Skipped
            | Mark::Failed(_)
            | Mark::Forgiven(_)
            | Mark::Cancelled => {
                let first = self.settled.insert(Arc::clone(&trace.execution));
                assert!(first || self.retried, "{} settles twice", trace.execution);
                if matches!(trace.mark, Mark::Done(_)) {
                    self.done.insert(Arc::clone(&trace.execution));
                }
            }
        }
    }

    fn check_needs(&self, trace: &StepTrace) {
        let (prefix, name) = trace
            .execution
            .rsplit_once('/')
            .map_or(("", &*trace.execution), |(p, n)| (p, n));
        let step = find_step(self.plan.definition(), name);
        for need in step.needs.iter().chain(&step.follows) {
            let path = if prefix.is_empty() {
                need.to_string()
            } else {
                format!("{prefix}/{need}")
            };
            assert!(
                self.settled.contains(&*path),
                "{} opens before {path} is settled",
                trace.execution
            );
        }
    }
}

/// The generator gives every step a name of its own.
fn find_step<'a>(definition: &'a Definition, name: &str) -> &'a lope_definition::Step {
    let mut steps = definition.blocks.iter().flat_map(|block| &block.steps);
    steps
        .find(|step| &*step.name == name)
        .unwrap_or_else(|| panic!("no step '{name}'"))
}
