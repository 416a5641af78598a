//! Histories: a journal folded into a list of executions with their attempts, times and outcomes,
//! at any position.
//!
//! What `runs show`, graphs and timelines use. A historian runs the law over the rows and watches;
//! it decides nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use lope_model::{Failure, RunId, Timestamp, Value};

use crate::law::{
    Dispatch, Effect, Event, EventKind, Mark, Plan, Progress, Settled, StartChild, State, Status,
    StepTrace, advance_traced, resume_slice_traced,
};

/// Most executions that a history keeps unless it is told otherwise: the youngest, and all that are
/// not over.
pub const EXECUTIONS_MAX: usize = 100_000;

/// One firing of a step.
#[derive(Clone, PartialEq, Debug)]
pub struct Execution {
    /// As in `mail/3/send`.
    pub id: Arc<str>,
    /// The path of the step in the definition, as in `mail/send`.
    pub step: Arc<str>,
    pub status: ExecutionStatus,
    pub opened_at: Timestamp,
    /// The journal row that opened it.
    pub opened_by: u64,
    pub finished_at: Option<Timestamp>,
    /// What its last attempt, its child or its message was given; other kinds are given nothing.
    pub input: Option<Value>,
    pub output: Option<Value>,
    pub failure: Option<Failure>,
    /// Attempts of an action or a child run, in order; other kinds have none.
    pub attempts: Vec<AttemptRecord>,
}

/// One try of an execution.
#[derive(Clone, PartialEq, Debug)]
pub struct AttemptRecord {
    pub number: u32,
    pub action: Arc<str>,
    pub dispatched_at: Timestamp,
    /// When the worker began, as the outcome tells.
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    pub worker: Option<Arc<str>>,
    pub log: Option<Arc<str>>,
    pub child: Option<RunId>,
    pub status: ExecutionStatus,
    pub failure: Option<Failure>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ExecutionStatus {
    Running,
    Done,
    Skipped,
    Failed,
    /// It failed and was skipped, as its policy says.
    Forgiven,
    Cancelled,
    /// Only of attempts: its runner died, or a limit did not let it start.
    Lost,
}

/// Folds rows and watches.
#[derive(Debug)]
pub struct Historian<'a> {
    plan: &'a Plan,
    state: State,
    /// When a runner first took the run up; nothing happened before.
    begun: Option<Timestamp>,
    /// The last row folded.
    seq: u64,
    limit: usize,
    next: u64,
    executions: BTreeMap<u64, Execution>,
    index: HashMap<Arc<str>, u64>,
    /// Those of them that are over.
    over: BTreeSet<u64>,
    /// Executions that are over and were left out.
    dropped: u64,
    results: Vec<(Arc<str>, Settled)>,
    /// Executions that the last row said something about.
    touched: BTreeSet<u64>,
    /// Numbers of executions that are never left out.
    pinned: Range<u64>,
}

/// Where a historian stood: another one can go on from there.
#[derive(Clone, Debug)]
pub struct HistoryMark {
    state: State,
    seq: u64,
    next: u64,
    /// What was not over, by number.
    live: BTreeMap<u64, Execution>,
}

impl HistoryMark {
    /// How many executions were opened before.
    pub const fn opened(&self) -> u64 {
        self.next
    }

    /// An execution that was not over.
    pub fn live(&self, number: u64) -> Option<&Execution> {
        self.live.get(&number)
    }

    /// About how many bytes its values take in memory.
    pub fn weight(&mut self) -> usize {
        self.state.weight()
    }
}

impl<'a> Historian<'a> {
    /// A historian at the beginning of a journal.
    pub fn new(plan: &'a Plan) -> Self {
        Self::from_state(plan, State::new(plan), 0)
    }

    /// A historian at a snapshot: what was over before it stays unknown.
    pub fn from_state(plan: &'a Plan, state: State, seq: u64) -> Self {
        Self {
            plan,
            state,
            begun: None,
            seq,
            limit: EXECUTIONS_MAX,
            next: 0,
            executions: BTreeMap::new(),
            index: HashMap::new(),
            over: BTreeSet::new(),
            dropped: 0,
            results: Vec::new(),
            touched: BTreeSet::new(),
            pinned: 0..0,
        }
    }

    /// A historian where another one stood: what was over there stays unknown.
    pub fn from_mark(plan: &'a Plan, mark: HistoryMark) -> Self {
        let index = mark.live.iter();
        let index = index.map(|(number, it)| (Arc::clone(&it.id), *number));
        Self {
            next: mark.next,
            index: index.collect(),
            executions: mark.live,
            ..Self::from_state(plan, mark.state, mark.seq)
        }
    }

    /// Where it stands.
    pub fn mark(&self) -> HistoryMark {
        let live = self.executions.iter();
        let live = live.filter(|(_, it)| it.status == ExecutionStatus::Running);
        HistoryMark {
            state: self.state.clone(),
            seq: self.seq,
            next: self.next,
            live: live.map(|(number, it)| (*number, it.clone())).collect(),
        }
    }

    /// Keeps the executions with these numbers; they are counted from 0 as they are opened.
    #[must_use]
    pub fn pinning(mut self, numbers: Range<u64>) -> Self {
        self.pinned = numbers;
        self
    }

    /// How many executions were opened.
    pub const fn opened(&self) -> u64 {
        self.next
    }

    /// Executions with these numbers that are still known.
    pub fn numbered(&self, numbers: Range<u64>) -> impl Iterator<Item = (u64, &Execution)> {
        let within = self.executions.range(numbers);
        within.map(|(number, execution)| (*number, execution))
    }

    /// Keeps at most so many executions that are over.
    #[must_use]
    pub const fn with_limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// When a runner first took the run up, if one has. The first row is of the run's admission: what
    /// it led to happened then.
    pub fn begin_at(&mut self, begun: Option<Timestamp>) {
        let Some(begun) = begun.filter(|_| self.begun.is_none()) else {
            return;
        };
        self.begun = Some(begun);
        let later = |at: &mut Timestamp| *at = begun.max(*at);
        for execution in self.executions.values_mut() {
            later(&mut execution.opened_at);
            execution.finished_at.iter_mut().for_each(later);
            for attempt in &mut execution.attempts {
                later(&mut attempt.dispatched_at);
                attempt.started_at.iter_mut().for_each(later);
                attempt.finished_at.iter_mut().for_each(later);
            }
        }
    }

    pub const fn has_begun(&self) -> bool {
        self.begun.is_some()
    }

    /// When the row happened that is folded.
    fn at(&self) -> Timestamp {
        self.since_begin(self.state.at())
    }

    fn since_begin(&self, at: Timestamp) -> Timestamp {
        self.begun.map_or(at, |begun| begun.max(at))
    }

    /// Folds the next row. Its number must follow the last one's.
    pub fn push(&mut self, seq: u64, event: &Event) -> Progress {
        self.touched.clear();
        self.note_outcome(event);
        let (mut effects, mut traces) = (Vec::new(), Vec::new());
        let mut progress = advance_traced(
            self.plan,
            &mut self.state,
            event.clone(),
            &mut effects,
            &mut traces,
        );
        self.seq = seq;
        // Slice after slice: a long loop may be in one row.
        loop {
            traces.drain(..).for_each(|trace| self.note_trace(trace));
            effects
                .drain(..)
                .for_each(|effect| self.note_effect(effect));
            self.forget();
            if progress != Progress::More {
                return progress;
            }
            let state = &mut self.state;
            progress = resume_slice_traced(self.plan, state, &mut effects, &mut traces);
        }
    }

    /// Executions in the order in which they were opened.
    pub fn plan(&self) -> &'a Plan {
        self.plan
    }

    pub fn executions(&self) -> impl Iterator<Item = &Execution> {
        self.executions.values()
    }

    pub fn execution(&self, id: &str) -> Option<&Execution> {
        self.executions.get(self.index.get(id)?)
    }

    /// Executions that the last row opened, changed or ended, in the order in which they were
    /// opened.
    pub fn touched(&self) -> impl Iterator<Item = &Execution> {
        self.touched_numbered().map(|(_, execution)| execution)
    }

    /// The same with their numbers.
    pub fn touched_numbered(&self) -> impl Iterator<Item = (u64, &Execution)> {
        let touched = self.touched.iter();
        touched.filter_map(|number| Some((*number, self.executions.get(number)?)))
    }

    /// How many executions that are over were left out.
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Inputs that have a result, in the order in which they settled.
    pub fn results(&self) -> &[(Arc<str>, Settled)] {
        &self.results
    }

    pub fn status(&self) -> Status {
        self.state.status()
    }

    pub const fn state(&self) -> &State {
        &self.state
    }

    /// The last row folded.
    pub const fn seq(&self) -> u64 {
        self.seq
    }

    /// What an event says about the attempt it names, before the law judges it.
    fn note_outcome(&mut self, event: &Event) {
        let at = self.since_begin(event.at);
        match &event.kind {
            EventKind::Outcome(outcome) => {
                let started_at = outcome.started_at.map(|at| self.since_begin(at));
                let Some(attempt) = self.open_attempt(&outcome.execution, Some(outcome.attempt))
                else {
                    return;
                };
                attempt.started_at = started_at;
                attempt.worker.clone_from(&outcome.worker);
                attempt.log.clone_from(&outcome.log);
                attempt.end(at, &outcome.result);
            }
            EventKind::Child {
                execution, result, ..
            } => {
                if let Some(attempt) = self.open_attempt(execution, None) {
                    attempt.end(at, result);
                }
            }
            EventKind::Refused {
                execution, attempt, ..
            } => {
                if let Some(attempt) = self.open_attempt(execution, Some(*attempt)) {
                    (attempt.status, attempt.finished_at) = (ExecutionStatus::Lost, Some(at));
                }
            }
            EventKind::Adopted { .. } | EventKind::Forked { .. } => self.lose_attempts(at),
            EventKind::Start(_)
            | EventKind::Input(_)
            | EventKind::Timer
            | EventKind::Signal { .. } => {}
            EventKind::Cancel { .. }
            | EventKind::Pause { .. }
            | EventKind::Resume
            | EventKind::Close => {}
            EventKind::Returned { execution, .. } => self.take_back(execution),
            EventKind::Dispatched { .. } | EventKind::Retry { .. } => {}
        }
    }

    /// What never began is not lost: it will be dispatched again as the attempt that it was.
    fn lose_attempts(&mut self, at: Timestamp) {
        for execution in self.executions.values_mut() {
            if self.state.has_not_begun(&execution.id) {
                execution.attempts.retain(AttemptRecord::is_over);
            }
            let open = execution.attempts.iter_mut();
            for attempt in open.filter(|attempt| !attempt.is_over()) {
                (attempt.status, attempt.finished_at) = (ExecutionStatus::Lost, Some(at));
            }
        }
    }

    /// The attempt of an execution that was given back without having begun.
    fn take_back(&mut self, execution: &str) {
        let Some(number) = self.index.get(execution) else {
            return;
        };
        self.touched.insert(*number);
        if let Some(execution) = self.executions.get_mut(number) {
            execution.attempts.retain(AttemptRecord::is_over);
        }
    }

    fn open_attempt(&mut self, execution: &str, number: Option<u32>) -> Option<&mut AttemptRecord> {
        let opened = *self.index.get(execution)?;
        self.touched.insert(opened);
        let execution = self.executions.get_mut(&opened)?;
        let mut open = execution
            .attempts
            .iter_mut()
            .filter(|attempt| attempt.status == ExecutionStatus::Running);
        open.find(|attempt| number.is_none_or(|number| attempt.number == number))
    }

    fn note_trace(&mut self, trace: StepTrace) {
        let at = self.at();
        let number = self.number_of(&trace);
        self.touched.insert(number);
        let Some(execution) = self.executions.get_mut(&number) else {
            return;
        };
        let (status, output, failure) = match trace.mark {
            Mark::Opened => (ExecutionStatus::Running, None, None),
            Mark::Done(value) => (ExecutionStatus::Done, Some(value), None),
            Mark::Skipped => (ExecutionStatus::Skipped, None, None),
            Mark::Failed(failure) => (ExecutionStatus::Failed, None, Some(failure)),
            Mark::Forgiven(failure) => (ExecutionStatus::Forgiven, None, Some(failure)),
            Mark::Cancelled => (ExecutionStatus::Cancelled, None, None),
        };
        execution.finished_at = (status != ExecutionStatus::Running).then_some(at);
        execution.status = status;
        execution.output = output;
        execution.failure = failure;
        if status == ExecutionStatus::Running {
            self.over.remove(&number);
        } else if !self.pinned.contains(&number) {
            self.over.insert(number);
        }
    }

    /// The number of the execution that a trace speaks of; a new one if it is not known.
    fn number_of(&mut self, trace: &StepTrace) -> u64 {
        if let Some(number) = self.index.get(&trace.execution) {
            return *number;
        }
        let number = self.next;
        self.next += 1;
        let execution = Execution {
            id: Arc::clone(&trace.execution),
            step: Arc::clone(&trace.step),
            status: ExecutionStatus::Running,
            opened_at: self.at(),
            opened_by: self.seq,
            finished_at: None,
            input: None,
            output: None,
            failure: None,
            attempts: Vec::new(),
        };
        self.executions.insert(number, execution);
        self.index.insert(Arc::clone(&trace.execution), number);
        number
    }

    fn note_effect(&mut self, effect: Effect) {
        match effect {
            Effect::Dispatch(dispatch) => self.note_dispatch(*dispatch),
            Effect::StartChild(child) => self.note_child(*child),
            Effect::CancelAttempt { execution, .. } | Effect::CancelChild { execution, .. } => {
                let at = self.at();
                if let Some(attempt) = self.open_attempt(&execution, None) {
                    (attempt.status, attempt.finished_at) = (ExecutionStatus::Cancelled, Some(at));
                }
            }
            Effect::InputSettled { input, result } => self.results.push((input, result)),
            Effect::Send(send) => {
                let send = *send;
                self.note_input(&send.execution, send.body);
            }
            Effect::Complete { .. }
            | Effect::Fail { .. }
            | Effect::Cancelled
            | Effect::Telemetry(_) => {}
        }
    }

    fn note_dispatch(&mut self, dispatch: Dispatch) {
        let given = dispatch.arguments();
        let attempt = AttemptRecord::new(dispatch.attempt, dispatch.action, self.at());
        self.note_attempt(&dispatch.execution, attempt);
        self.note_input(&dispatch.execution, given);
    }

    fn note_child(&mut self, child: StartChild) {
        let known = self
            .execution(&child.execution)
            .map_or(0, |execution| execution.attempts.len());
        let mut attempt = AttemptRecord::new(known as u32 + 1, child.workflow, self.at());
        attempt.child = Some(child.child);
        if child.detached && self.state.law() < 2 {
            (attempt.status, attempt.finished_at) = (ExecutionStatus::Done, Some(self.at()));
        }
        self.note_attempt(&child.execution, attempt);
        self.note_input(&child.execution, child.input);
    }

    fn note_input(&mut self, execution: &str, input: Value) {
        let number = self.index.get(execution);
        if let Some(execution) = number.and_then(|number| self.executions.get_mut(number)) {
            execution.input = Some(input);
        }
    }

    fn note_attempt(&mut self, execution: &str, attempt: AttemptRecord) {
        let Some(number) = self.index.get(execution) else {
            return;
        };
        self.touched.insert(*number);
        if let Some(execution) = self.executions.get_mut(number) {
            execution.attempts.push(attempt);
        }
    }

    fn forget(&mut self) {
        while self.executions.len() > self.limit {
            // What was opened before the last row and is over with it is still told.
            let is_told = |number: &u64| {
                let opened_by = self.executions.get(number).map(|it| it.opened_by);
                self.touched.contains(number) && opened_by < Some(self.seq)
            };
            let Some(number) = self.over.iter().find(|it| !is_told(it)).copied() else {
                return;
            };
            self.over.remove(&number);
            if let Some(execution) = self.executions.remove(&number) {
                self.index.remove(&execution.id);
                self.dropped += 1;
            }
        }
    }
}

/// Folds a journal up to a row (or to its end) and tells what happened.
pub fn history(
    plan: &Plan,
    rows: impl IntoIterator<Item = (u64, Event)>,
    upto: Option<u64>,
) -> Historian<'_> {
    let mut historian = Historian::new(plan);
    for (seq, event) in rows
        .into_iter()
        .take_while(|(seq, _)| upto.is_none_or(|last| *seq <= last))
    {
        historian.push(seq, &event);
    }
    historian
}

impl AttemptRecord {
    /// Has it ended, or does it wait for a child, whose end comes by itself?
    fn is_over(&self) -> bool {
        self.status != ExecutionStatus::Running || self.child.is_some()
    }

    const fn new(number: u32, action: Arc<str>, at: Timestamp) -> Self {
        Self {
            number,
            action,
            dispatched_at: at,
            started_at: None,
            finished_at: None,
            worker: None,
            log: None,
            child: None,
            status: ExecutionStatus::Running,
            failure: None,
        }
    }

    fn end(&mut self, at: Timestamp, result: &Settled) {
        self.finished_at = Some(at);
        self.status = match result {
            Settled::Done(_) => ExecutionStatus::Done,
            Settled::Failed(_) => ExecutionStatus::Failed,
            Settled::Cancelled => ExecutionStatus::Cancelled,
        };
        if let Settled::Failed(failure) = result {
            self.failure = Some(Failure::clone(failure));
        }
    }
}

impl ExecutionStatus {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Skipped => "skipped",
            Self::Failed => "failed",
            Self::Forgiven => "forgiven",
            Self::Cancelled => "cancelled",
            Self::Lost => "lost",
        }
    }
}
