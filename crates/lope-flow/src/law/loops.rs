//! `each` and `while`: a block once per element, or again and again.
//!
//! An `each` opens its elements through a window, so that a list of a hundred thousand never makes
//! as many open blocks; its results are kept in chunks that do not change once they are full.

use std::sync::Arc;

use lope_definition::{BlockId, OnError, Parallel, StepKind};
use lope_expr::Template;
use lope_model::failure::kind;
use lope_model::{Failure, Value};

use super::arena::Key;
use super::limits::{CHUNK, CROWD, RESULTS_MAX, WINDOW_MAX};
use super::machine::Machine;
use super::names::failure_value;
use super::start::Spot;
use super::state::{EachWork, ElementResults, End, Exit, WhileWork, Work, WorkItem};
use super::weight::weight;

/// Elements opened in one turn.
const TURN: usize = 64;

impl<'a> Machine<'a> {
    pub(crate) fn start_each(
        &mut self,
        spot: Spot<'a>,
        over: &Template,
    ) -> Result<Option<Value>, Failure> {
        let items = elements(self.eval(spot.act, over.expr())?)?;
        let wanted = spot.step.uses > 0 || spot.step.set.is_some();
        let open = is_open(&spot.step.kind);
        if !open && items.as_list().is_none_or(<[Value]>::is_empty) {
            return Ok(Some(Value::list(Vec::new())));
        }
        let results = (wanted && !open).then(ElementResults::default);
        let each = EachWork {
            items,
            next: 0,
            acts: std::collections::BTreeMap::new(),
            results,
            ending: None,
        };
        let exec = self.hold(spot, Work::Each(Box::new(each)));
        if open {
            self.host_tasks(exec);
        }
        self.enqueue(WorkItem::Fill { exec });
        Ok(None)
    }

    /// Adds elements to the open `each`: tasks that regions have started.
    pub(crate) fn start_tasks(&mut self, wanted: &[Value]) {
        let host = self.state.heap.as_ref().and_then(|heap| heap.tasks);
        let Some(exec) = host.filter(|_| !wanted.is_empty()) else {
            return;
        };
        if let Some((_, each)) = self.each_at(exec)
            && let Value::List(items) = &mut each.items
        {
            Arc::make_mut(items).extend_from_slice(wanted);
            self.enqueue(WorkItem::Fill { exec });
        }
    }

    /// The block of a task that has not ended.
    pub(crate) fn task_at(&mut self, lane: u64) -> Option<Key> {
        let exec = self.state.heap.as_ref()?.tasks?;
        self.each_at(exec)?.1.acts.get(&lane).copied()
    }

    /// A task has ended, or was cancelled. What it failed with its own block has told.
    fn task_ended(&mut self, exec: Key, end: End) {
        match end {
            End::Exit(exit @ Exit::Failed(_)) => self.end_each(exec, End::Exit(exit)),
            End::Done(_) => {}
            End::Exit(Exit::Return(_) | Exit::Break | Exit::Continue | Exit::Cancelled) => {}
        }
    }

    /// Opens elements up to the window.
    pub(crate) fn fill(&mut self, exec: Key) {
        for _ in 0..TURN {
            match self.next_element(exec) {
                Some(Ok(())) => {}
                Some(Err(failure)) => {
                    return self.end_each(exec, End::Exit(Exit::Failed(Box::new(failure))));
                }
                None => return,
            }
        }
        self.enqueue(WorkItem::Fill { exec });
    }

    /// Opens the next element if there is one and the window has room.
    fn next_element(&mut self, exec: Key) -> Option<Result<(), Failure>> {
        let failure = self.out_of_fuel();
        let crowded = self.state.acts.len() > CROWD;
        let most = self.plan.concurrency;
        let (step, each) = self.each_at(exec)?;
        let StepKind::Each {
            parallel,
            block,
            index,
            open,
            ..
        } = &step.kind
        else {
            return None;
        };
        let has_room = *open
            || each.acts.is_empty()
            || (each.acts.len() < window(*parallel, most) && !crowded);
        if each.ending.is_some() || !has_room {
            return None;
        }
        let item = each.items.as_list()?.get(each.next as usize).cloned();
        let Some(item) = item else {
            if each.acts.is_empty() && !open {
                let results = each
                    .results
                    .take()
                    .map_or(Value::Null, ElementResults::into_value);
                self.conclude(exec, End::Done(results));
            }
            return None;
        };
        if let Some(failure) = failure {
            return Some(Err(failure));
        }
        let lane = each.next;
        each.next += 1;
        if *open && let Value::List(items) = &mut each.items {
            Arc::make_mut(items)[lane as usize] = Value::Null;
        }
        Some(
            self.begin_element(
                exec,
                *block,
                lane,
                [item]
                    .into_iter()
                    .chain(index.as_ref().map(|_| Value::Int(lane as i64))),
            ),
        )
    }

    fn begin_element(
        &mut self,
        exec: Key,
        block: BlockId,
        lane: u64,
        names: impl Iterator<Item = Value>,
    ) -> Result<(), Failure> {
        let act = self.begin_block_of(exec, block, lane)?;
        if let Some((_, each)) = self.each_at(exec) {
            each.acts.insert(lane, act);
        }
        self.bind(act, names);
        self.begin(act);
        Ok(())
    }

    fn each_at(&mut self, exec: Key) -> Option<(&'a super::plan::PlanStep, &mut EachWork)> {
        let open = self.state.execs.get(exec)?;
        let step = self.planned(open.act, open.step)?;
        match &mut self.state.execs.get_mut(exec)?.work {
            Work::Each(each) => Some((step, each)),
            Work::Attempt(_)
            | Work::Send(_)
            | Work::Sleep(_)
            | Work::Wait(_)
            | Work::Turn(_)
            | Work::Block(_)
            | Work::While(_)
            | Work::Try(_)
            | Work::Race(_)
            | Work::All(_) => None,
        }
    }

    pub(crate) fn element_ended(&mut self, exec: Key, lane: u64, end: End) {
        let Some((step, each)) = self.each_at(exec) else {
            return;
        };
        each.acts.remove(&lane);
        let collects = matches!(
            step.kind,
            StepKind::Each {
                on_error: OnError::Collect,
                ..
            }
        );
        if each.ending.is_some() {
            return self.end_each_if_empty(exec);
        }
        if is_open(&step.kind) {
            return self.task_ended(exec, end);
        }
        let output = match end {
            End::Done(value) => value,
            End::Exit(Exit::Continue) => Value::Null,
            End::Exit(Exit::Failed(failure)) if collects => {
                Value::map([("error", failure_value(&failure))])
            }
            End::Exit(Exit::Break) => {
                let results = each
                    .results
                    .take()
                    .map_or(Value::Null, ElementResults::into_value);
                return self.end_each(exec, End::Done(results));
            }
            End::Exit(exit @ (Exit::Failed(_) | Exit::Return(_) | Exit::Cancelled)) => {
                return self.end_each(exec, End::Exit(exit));
            }
        };
        match each
            .results
            .as_mut()
            .map_or(Ok(()), |results| results.put(lane, output))
        {
            Ok(()) => self.enqueue(WorkItem::Fill { exec }),
            Err(failure) => self.end_each(exec, End::Exit(Exit::Failed(Box::new(failure)))),
        }
    }

    /// An `each` is decided: it ends when its open elements are gone.
    fn end_each(&mut self, exec: Key, end: End) {
        let Some((_, each)) = self.each_at(exec) else {
            return;
        };
        each.ending = Some(end);
        let open: Vec<Key> = each.acts.values().copied().collect();
        for act in open {
            self.enqueue(WorkItem::Leave {
                act,
                exit: Exit::Cancelled,
            });
        }
        self.end_each_if_empty(exec);
    }

    fn end_each_if_empty(&mut self, exec: Key) {
        let Some((_, each)) = self.each_at(exec) else {
            return;
        };
        if each.acts.is_empty()
            && let Some(end) = each.ending.take()
        {
            self.conclude(exec, end);
        }
    }

    pub(crate) fn start_while(
        &mut self,
        spot: Spot<'a>,
        block: BlockId,
    ) -> Result<Option<Value>, Failure> {
        if !self.goes_on(spot, 0)? {
            return Ok(Some(Value::Int(0)));
        }
        let exec = self.hold(spot, Work::Block(spot.act));
        let act = self.begin_block(exec, block, 0)?;
        self.set_work(
            exec,
            Work::While(Box::new(WhileWork { iterations: 0, act })),
        );
        self.begin(act);
        Ok(None)
    }

    pub(crate) fn iteration_ended(&mut self, exec: Key, end: End) {
        let Some(Work::While(held)) = self.state.execs.get(exec).map(|open| &open.work) else {
            return;
        };
        let iterations = held.iterations;
        match end {
            End::Done(_) | End::Exit(Exit::Continue) => self.next_iteration(exec, iterations + 1),
            End::Exit(Exit::Break) => self.settle_exec(exec, Value::Int(iterations as i64)),
            end @ End::Exit(Exit::Failed(_) | Exit::Return(_) | Exit::Cancelled) => {
                self.conclude(exec, end);
            }
        }
    }

    fn next_iteration(&mut self, exec: Key, iterations: u64) {
        let Some(open) = self.state.execs.get(exec) else {
            return;
        };
        let (act, index) = (open.act, open.step);
        let Some(step) = self.planned(act, index) else {
            return;
        };
        let StepKind::While { block, .. } = &step.kind else {
            return;
        };
        let opened = match self.goes_on(Spot { act, index, step }, iterations) {
            Ok(true) => self.begin_block_of(exec, *block, iterations),
            Ok(false) => return self.settle_exec(exec, Value::Int(iterations as i64)),
            Err(failure) => Err(failure),
        };
        match opened {
            Ok(act) => {
                if let Some(Work::While(held)) =
                    self.state.execs.get_mut(exec).map(|open| &mut open.work)
                {
                    held.iterations = iterations;
                    held.act = act;
                }
                self.begin(act);
            }
            Err(failure) => self.conclude(exec, End::Exit(Exit::Failed(Box::new(failure)))),
        }
    }

    /// Does a `while` go on after so many iterations?
    fn goes_on(&mut self, spot: Spot<'a>, iterations: u64) -> Result<bool, Failure> {
        let StepKind::While { when, max, .. } = &spot.step.kind else {
            return Ok(false);
        };
        if let Some(failure) = self.out_of_fuel() {
            return Err(failure);
        }
        let holds = self.condition(spot.act, when)?;
        match max {
            Some(max) if holds && iterations >= *max => Err(Failure::new(
                kind::LIMIT,
                format!("the loop wants more than {max} rounds"),
            )),
            Some(_) | None => Ok(holds),
        }
    }
}

const fn is_open(kind: &StepKind) -> bool {
    matches!(kind, StepKind::Each { open: true, .. })
}

/// How many elements may be open at once.
fn window(parallel: Parallel, most: u32) -> usize {
    let wanted = match parallel {
        Parallel::One => 1,
        Parallel::Upto(bound) => bound.max(1),
        Parallel::Max => WINDOW_MAX,
    };
    wanted.min(most).min(WINDOW_MAX) as usize
}

/// The elements of what an `each` goes over: a list, a map's keys, or the list inside a tagged
/// value.
fn elements(value: Value) -> Result<Value, Failure> {
    match value {
        Value::List(_) => Ok(value),
        Value::Map(map) => Ok(Value::list(
            map.keys().map(|key| Value::Str(Arc::clone(key))).collect(),
        )),
        Value::Tag(tag) if tag.value.as_list().is_some() => Ok(tag.value.clone()),
        other => Err(Failure::new(
            "TypeError",
            format!("'each' goes over a list or a map, not {}", other.kind()),
        )),
    }
}

impl ElementResults {
    /// Takes the result of an element, in any order.
    fn put(&mut self, lane: u64, value: Value) -> Result<(), Failure> {
        self.weight += weight(&value);
        if self.weight > RESULTS_MAX {
            return Err(Failure::new(
                kind::LIMIT,
                format!("the results are larger than {RESULTS_MAX} bytes"),
            ));
        }
        if lane != self.done {
            self.early.insert(lane, value);
            return Ok(());
        }
        self.append(value);
        while let Some(value) = self.early.remove(&self.done) {
            self.append(value);
        }
        Ok(())
    }

    fn append(&mut self, value: Value) {
        self.done += 1;
        self.tail.push(value);
        if self.tail.len() == CHUNK {
            self.chunks
                .push(Value::list(std::mem::take(&mut self.tail)));
        }
    }

    fn into_value(self) -> Value {
        if self.chunks.is_empty() {
            return Value::list(self.tail);
        }
        let mut all = Vec::with_capacity(self.chunks.len() * CHUNK + self.tail.len());
        for chunk in &self.chunks {
            all.extend_from_slice(chunk.as_list().unwrap_or_default());
        }
        all.extend(self.tail);
        Value::list(all)
    }
}
