//! Starting steps: what each kind does when its needs are settled.

use lope_definition::{BlockId, Case, StepKind};
use lope_expr::Template;
use lope_model::failure::kind;
use lope_model::{Failure, Value};

use super::arena::Key;
use super::limits::DEPTH_MAX;
use super::machine::Machine;
use super::names::failure_of;
use super::plan::PlanStep;
use super::state::{Act, BlockStepState, Exec, Exit, Work, WorkItem};
use super::trace::Mark;

/// A step of an open block.
#[derive(Clone, Copy)]
pub(crate) struct Spot<'a> {
    pub(crate) act: Key,
    pub(crate) index: u32,
    pub(crate) step: &'a PlanStep,
}

/// What starting a step has led to at once, if anything.
type Started = Result<Option<Value>, Failure>;

impl<'a> Machine<'a> {
    /// Starts a step whose needs are settled.
    pub(crate) fn start_step(&mut self, act: Key, index: u32) {
        let Some(open) = self.state.acts.get(act).filter(|open| open.exit.is_none()) else {
            return;
        };
        let spot = Spot {
            act,
            index,
            step: self.plan.step(open.block, index),
        };
        match open.steps[index as usize].state {
            BlockStepState::Doomed => return self.skip(spot),
            BlockStepState::Waiting => {}
            BlockStepState::Open(_) | BlockStepState::Done | BlockStepState::Skipped => return,
        }
        match self.wanted(spot) {
            Ok(true) => {
                self.mark(spot, || Mark::Opened);
                self.start_kind(spot);
            }
            Ok(false) => self.skip(spot),
            Err(failure) => self.raise(spot, failure),
        }
    }

    fn wanted(&mut self, spot: Spot<'a>) -> Result<bool, Failure> {
        if let Some(failure) = self.out_of_fuel() {
            return Err(failure);
        }
        spot.step
            .when
            .as_ref()
            .map_or(Ok(true), |when| self.condition(spot.act, when))
    }

    fn start_kind(&mut self, spot: Spot<'a>) {
        let started = match &spot.step.kind {
            StepKind::Dispatch(dispatch) => self.start_work(spot, dispatch),
            StepKind::Let { value } => self.eval(spot.act, value.expr()).map(Some),
            StepKind::If {
                when,
                then,
                otherwise,
            } => self
                .condition(spot.act, when)
                .and_then(|holds| self.choose(spot, if holds { Some(*then) } else { *otherwise })),
            StepKind::Switch { cases, otherwise } => self
                .first_case(spot.act, cases)
                .and_then(|found| self.choose(spot, found.or(*otherwise))),
            StepKind::Each { over, .. } => self.start_each(spot, over),
            StepKind::While { block, .. } => self.start_while(spot, *block),
            StepKind::Try { block, finally, .. } => self.start_try(spot, *block, finally.is_some()),
            StepKind::Sleep { span } => self.start_sleep(spot, span),
            StepKind::Until { time } => self.start_until(spot, time),
            StepKind::Wait {
                signal, timeout, ..
            } => self.start_wait(spot, signal, timeout.as_ref()),
            StepKind::Workflow {
                workflow,
                with,
                detach,
            } => self.start_child(spot, workflow, with, *detach),
            StepKind::Send { to, target, body } => self.start_send(spot, *to, target, body),
            StepKind::State { .. } => self.start_state(spot),
            StepKind::Race { branches } => self.start_branches(spot, branches, Work::Race),
            StepKind::All { branches, .. } => self.start_branches(spot, branches, Work::All),
            StepKind::Return { value } => return self.leave_with(spot, value),
            StepKind::Raise { error } => self
                .eval(spot.act, error.expr())
                .and_then(|error| Err(failure_of(&error)?)),
            StepKind::Break => return self.leave_now(spot, Exit::Break),
            StepKind::Continue => return self.leave_now(spot, Exit::Continue),
            StepKind::Call { function, with, .. } => self.call(spot, *function, with),
        };
        match started {
            Ok(Some(value)) => self.settle(spot, value),
            Ok(None) => {}
            Err(failure) => self.raise(spot, failure),
        }
    }

    fn leave_with(&mut self, spot: Spot<'a>, value: &Template) {
        match self.eval(spot.act, value.expr()) {
            Ok(value) => self.leave_now(spot, Exit::Return(value)),
            Err(failure) => self.raise(spot, failure),
        }
    }

    fn leave_now(&mut self, spot: Spot<'a>, exit: Exit) {
        self.mark(spot, || match &exit {
            Exit::Return(value) => Mark::Done(value.clone()),
            Exit::Break | Exit::Continue | Exit::Failed(_) | Exit::Cancelled => {
                Mark::Done(Value::Null)
            }
        });
        self.leave(spot.act, exit);
    }

    fn first_case(&mut self, act: Key, cases: &[Case]) -> Result<Option<BlockId>, Failure> {
        for case in cases {
            if self.condition(act, &case.when)? {
                return Ok(Some(case.block));
            }
        }
        Ok(None)
    }

    fn choose(&mut self, spot: Spot<'a>, block: Option<BlockId>) -> Started {
        let Some(block) = block else {
            return Ok(Some(Value::Null));
        };
        let exec = self.hold(spot, Work::Block(spot.act));
        let act = self.begin_block(exec, block, 0)?;
        self.set_work(exec, Work::Block(act));
        self.begin(act);
        Ok(None)
    }

    fn call(
        &mut self,
        spot: Spot<'a>,
        function: BlockId,
        with: &[(std::sync::Arc<str>, Template)],
    ) -> Started {
        let mut arguments = Vec::with_capacity(with.len());
        for (name, value) in with {
            arguments.push((name, self.eval(spot.act, value.expr())?));
        }
        let exec = self.hold(spot, Work::Block(spot.act));
        let act = self.begin_block(exec, function, 0)?;
        self.set_work(exec, Work::Block(act));
        for (name, value) in arguments {
            if let Some(address) = self.plan.scopes.resolve(function, name) {
                self.set_slot(act, address.slot, value);
            }
        }
        self.begin(act);
        Ok(None)
    }

    /// Makes the step one that takes time.
    pub(crate) fn hold(&mut self, spot: Spot<'a>, work: Work) -> Key {
        let exec = self.state.execs.insert(Exec {
            act: spot.act,
            step: spot.index,
            path: None,
            work,
        });
        if let Some(act) = self.state.acts.get_mut(spot.act) {
            act.steps[spot.index as usize].state = BlockStepState::Open(exec);
            act.live += 1;
        }
        exec
    }

    pub(crate) fn set_work(&mut self, exec: Key, work: Work) {
        if let Some(exec) = self.state.execs.get_mut(exec) {
            exec.work = work;
        }
    }

    /// Opens the first block of an execution; if that cannot be, the execution is let go.
    pub(crate) fn begin_block(
        &mut self,
        exec: Key,
        block: BlockId,
        lane: u64,
    ) -> Result<Key, Failure> {
        self.begin_block_of(exec, block, lane).inspect_err(|_| {
            self.let_go(exec);
        })
    }

    /// Opens a block of an execution. Its steps start with `begin`, when the names that it brings
    /// are bound.
    pub(crate) fn begin_block_of(
        &mut self,
        exec: Key,
        block: BlockId,
        lane: u64,
    ) -> Result<Key, Failure> {
        let holder = self
            .state
            .execs
            .get(exec)
            .and_then(|exec| self.state.acts.get(exec.act));
        let (input, depth) = holder.map_or((0, 0), |holder| (holder.input, holder.depth + 1));
        if depth > DEPTH_MAX {
            let mut failure = Failure::new(
                kind::LIMIT,
                format!("blocks are nested more than {DEPTH_MAX} deep"),
            );
            failure.bases = vec!["RecursionError".into()];
            return Err(failure);
        }
        let planned = self.plan.block(block);
        let act = self.state.acts.insert(Act {
            lane,
            depth,
            ..Act::new(block, planned, Some(exec), input)
        });
        for (slot, address) in &planned.inherits {
            let value = self
                .state
                .outward(act, address.hops)
                .and_then(|outer| self.state.acts.get(outer));
            if let Some(value) = value.and_then(|outer| outer.slots[address.slot as usize].clone())
            {
                self.set_slot(act, *slot, value);
            }
        }
        Ok(act)
    }

    pub(crate) fn set_slot(&mut self, act: Key, slot: u32, value: Value) {
        if let Some(act) = self.state.acts.get_mut(act) {
            act.slots[slot as usize] = Some(value);
        }
    }

    /// Binds a block's own names, in order.
    pub(crate) fn bind(&mut self, act: Key, values: impl IntoIterator<Item = Value>) {
        let Some(open) = self.state.acts.get_mut(act) else {
            return;
        };
        let first = self.plan.block(open.block).locals as usize;
        for (slot, value) in open.slots[first..].iter_mut().zip(values) {
            *slot = Some(value);
        }
    }

    /// Starts the steps of an open block that wait for nothing.
    pub(crate) fn begin(&mut self, act: Key) {
        let Some(open) = self.state.acts.get(act) else {
            return;
        };
        let block = self.plan.block(open.block);
        if block.steps.is_empty() {
            return self.finish(act);
        }
        for step in &block.starts {
            self.enqueue(WorkItem::Open { act, step: *step });
        }
    }
}
