//! Settling: a step has its output, is skipped, or fails; a block ends, or is left.

use lope_definition::policy::override_with;
use lope_model::policy::OnFailure;
use lope_model::{Failure, Map, Value};

use super::arena::Key;
use super::machine::Machine;
use super::plan::{BlockOutput, PlanBlock};
use super::start::Spot;
use super::state::{BlockStepState, End, Exit, Work, WorkItem};
use super::trace::{Mark, StepTrace};

impl<'a> Machine<'a> {
    /// A step has its output.
    pub(crate) fn settle(&mut self, spot: Spot<'a>, value: Value) {
        self.mark(spot, || Mark::Done(value.clone()));
        if let Some(address) = spot.step.set
            && let Some(owner) = self.state.outward(spot.act, address.hops)
        {
            self.set_slot(owner, address.slot, value.clone());
        }
        let Some(act) = self.state.acts.get_mut(spot.act) else {
            return;
        };
        let step = &mut act.steps[spot.index as usize];
        step.state = BlockStepState::Done;
        if step.uses > 0 {
            act.slots[spot.index as usize] = Some(value);
        }
        self.settled(spot, false);
    }

    /// A step is skipped, and with it what needs it.
    pub(crate) fn skip(&mut self, spot: Spot<'a>) {
        self.mark(spot, || Mark::Skipped);
        self.pass_over(spot);
    }

    fn pass_over(&mut self, spot: Spot<'a>) {
        if let Some(act) = self.state.acts.get_mut(spot.act) {
            act.steps[spot.index as usize].state = BlockStepState::Skipped;
        }
        self.settled(spot, true);
    }

    /// A step is over: what it read is wanted once less, and what waited for it may start.
    fn settled(&mut self, spot: Spot<'a>, skipped: bool) {
        let Some(act) = self.state.acts.get_mut(spot.act) else {
            return;
        };
        for slot in &spot.step.frees {
            let step = &mut act.steps[*slot as usize];
            step.uses = step.uses.saturating_sub(1);
            if step.uses == 0 {
                act.slots[*slot as usize] = None;
            }
        }
        for dependent in &spot.step.then {
            let step = &mut act.steps[dependent.step as usize];
            step.waits -= 1;
            if skipped && dependent.needs && step.state == BlockStepState::Waiting {
                step.state = BlockStepState::Doomed;
            }
            if step.waits == 0 {
                self.state.tasks.push_back(WorkItem::Open {
                    act: spot.act,
                    step: dependent.step,
                });
            }
        }
        act.unsettled -= 1;
        let over = act.unsettled == 0;
        let at_root = act.parent.is_none();
        if at_root && spot.step.holds_state {
            self.enqueue(WorkItem::Turns { top: spot.index });
        }
        if over {
            self.finish(spot.act);
        }
    }

    /// A step has failed for good.
    pub(crate) fn raise(&mut self, spot: Spot<'a>, failure: Failure) {
        self.raise_after(spot, failure, 0);
    }

    /// A step has failed for good, after so many attempts.
    pub(crate) fn raise_after(&mut self, spot: Spot<'a>, mut failure: Failure, attempts: u32) {
        if self
            .state
            .acts
            .get(spot.act)
            .is_none_or(|act| act.exit.is_some())
        {
            return self.close_if_empty(spot.act);
        }
        if failure.step.is_none() {
            failure.step = Some(self.path(spot.act, spot.index).to_string().into());
        }
        if self.forgives(spot) {
            self.mark(spot, || Mark::Forgiven(failure.clone()));
            return self.pass_over(spot);
        }
        self.mark(spot, || Mark::Failed(failure.clone()));
        if self.can_halt(spot.act, &failure) {
            self.halt(spot, failure, attempts);
        } else {
            self.leave(spot.act, Exit::Failed(Box::new(failure)));
        }
    }

    /// Is a step that failed skipped with what needs it?
    pub(crate) fn forgives(&self, spot: Spot<'a>) -> bool {
        let input = self
            .state
            .acts
            .get(spot.act)
            .and_then(|act| self.state.inputs.get(&act.input));
        let overrides = input
            .map(|input| input.fed.policies.as_slice())
            .unwrap_or_default();
        let top = override_with(overrides, spot.step.facts(), &spot.step.policy);
        top.and_then(|policy| policy.on_failure)
            .unwrap_or(spot.step.on_failure)
            == OnFailure::Skip
    }

    /// An execution is over: its step settles, unless its block is being left.
    pub(crate) fn settle_exec(&mut self, exec: Key, value: Value) {
        let Some(spot) = self.let_go(exec) else {
            return;
        };
        if self
            .state
            .acts
            .get(spot.act)
            .is_some_and(|act| act.exit.is_none())
        {
            if let Some((number, _)) = spot.step.state {
                self.state.totals.insert(number, value.clone());
            }
            self.settle(spot, value);
        } else {
            self.close_if_empty(spot.act);
        }
    }

    /// An execution ends as one of its blocks did.
    pub(crate) fn conclude(&mut self, exec: Key, end: End) {
        let exit = match end {
            End::Done(value) => return self.settle_exec(exec, value),
            End::Exit(exit) => exit,
        };
        let Some(spot) = self.let_go(exec) else {
            return;
        };
        match exit {
            Exit::Failed(failure) => self.raise(spot, *failure),
            Exit::Cancelled => {
                self.mark(spot, || Mark::Cancelled);
                self.close_if_empty(spot.act);
            }
            Exit::Return(_) | Exit::Break | Exit::Continue => {
                self.mark(spot, || Mark::Done(Value::Null));
                self.leave(spot.act, exit);
            }
        }
    }

    /// Forgets an execution; its step is where it was.
    pub(crate) fn let_go(&mut self, exec: Key) -> Option<Spot<'a>> {
        let gone = self.state.execs.remove(exec)?;
        if let Some(path) = &gone.path {
            self.state.index.remove(path);
        }
        let act = self.state.acts.get_mut(gone.act)?;
        act.live -= 1;
        let step = self.plan.step(act.block, gone.step);
        Some(Spot {
            act: gone.act,
            index: gone.step,
            step,
        })
    }

    /// A block shall be left: what is at work in it is cancelled, and when all of that is gone it
    /// ends.
    pub(crate) fn leave(&mut self, key: Key, exit: Exit) {
        let Some(act) = self.state.acts.get_mut(key) else {
            return;
        };
        let leaving = act.exit.is_some();
        if !leaving || exit == Exit::Cancelled {
            act.exit = Some(exit);
        }
        if !leaving {
            let open = act.steps.iter().filter_map(|step| match step.state {
                BlockStepState::Open(exec) => Some(exec),
                BlockStepState::Waiting
                | BlockStepState::Doomed
                | BlockStepState::Done
                | BlockStepState::Skipped => None,
            });
            for exec in open.collect::<Vec<Key>>() {
                self.cancel(exec);
            }
        }
        self.close_if_empty(key);
    }

    /// A block that is being left ends when nothing in it is at work.
    pub(crate) fn close_if_empty(&mut self, key: Key) {
        let Some(act) = self.state.acts.get_mut(key).filter(|act| act.live == 0) else {
            return;
        };
        if let Some(exit) = act.exit.take() {
            self.end_block(key, End::Exit(exit));
        }
    }

    /// All steps of a block are settled.
    pub(crate) fn finish(&mut self, key: Key) {
        let Some(act) = self.state.acts.get(key) else {
            return;
        };
        let end = match self.output(key, self.plan.block(act.block)) {
            Ok(value) => End::Done(value),
            Err(failure) => End::Exit(Exit::Failed(Box::new(failure))),
        };
        self.end_block(key, end);
    }

    fn output(&mut self, key: Key, block: &'a PlanBlock) -> Result<Value, Failure> {
        let act = self.state.acts.get_mut(key).expect("the block is open");
        match &block.output {
            BlockOutput::Unwanted | BlockOutput::Nothing => Ok(Value::Null),
            BlockOutput::Leaf(leaf) => Ok(act.slots[*leaf as usize].take().unwrap_or_default()),
            BlockOutput::Leaves(leaves) => {
                let outputs = leaves.iter().filter_map(|leaf| {
                    let value = act.slots[*leaf as usize].take()?;
                    Some((block.steps[*leaf as usize].name.clone(), value))
                });
                Ok(Value::Map(std::sync::Arc::new(outputs.collect::<Map>())))
            }
            BlockOutput::Collect(collect) => self.eval(key, collect),
        }
    }

    fn end_block(&mut self, key: Key, end: End) {
        if end != End::Exit(Exit::Cancelled) {
            self.give_back(key);
        }
        let Some(act) = self.state.acts.remove(key) else {
            return;
        };
        match act.parent {
            Some(exec) => self.enqueue(WorkItem::Ended {
                exec,
                lane: act.lane,
                end,
            }),
            None => self.enqueue(WorkItem::InputEnded {
                input: act.input,
                end,
            }),
        }
    }

    /// The variables of a function that its caller shall have.
    fn give_back(&mut self, key: Key) {
        let Some(act) = self.state.acts.get(key) else {
            return;
        };
        let Some(open) = act.parent.and_then(|exec| self.state.execs.get(exec)) else {
            return;
        };
        let caller = open.act;
        let function = act.block;
        let Some(step) = self.planned(caller, open.step) else {
            return;
        };
        for name in step.kind.back() {
            let found = self.plan.scopes.resolve(function, name);
            let act = self.state.acts.get(key);
            let value = found
                .zip(act)
                .and_then(|(address, act)| act.slots[address.slot as usize].clone());
            if let Some(value) = value {
                self.set_variable(caller, name, value);
            }
        }
    }

    fn set_variable(&mut self, act: Key, name: &str, value: Value) {
        let address = self
            .state
            .acts
            .get(act)
            .and_then(|act| self.plan.scopes.resolve(act.block, name));
        if let Some(address) = address
            && let Some(owner) = self.state.outward(act, address.hops)
        {
            self.set_slot(owner, address.slot, value);
        }
    }

    /// A block of an execution has ended.
    pub(crate) fn block_ended(&mut self, exec: Key, lane: u64, end: End) {
        let Some(open) = self.state.execs.get(exec) else {
            return;
        };
        match open.work {
            Work::Block(_) => self.only_block_ended(exec, end),
            Work::Each(_) => self.element_ended(exec, lane, end),
            Work::While(_) => self.iteration_ended(exec, end),
            Work::Try(_) => self.try_ended(exec, end),
            Work::Race(_) => self.racer_ended(exec, lane, end),
            Work::All(_) => self.branch_ended(exec, lane, end),
            Work::Attempt(_) | Work::Send(_) | Work::Sleep(_) | Work::Wait(_) | Work::Turn(_) => {}
        }
    }

    /// `return` ends a function, not what called it.
    fn only_block_ended(&mut self, exec: Key, end: End) {
        let called = self
            .state
            .execs
            .get(exec)
            .and_then(|open| self.planned(open.act, open.step));
        let is_call =
            called.is_some_and(|step| matches!(step.kind, lope_definition::StepKind::Call { .. }));
        match end {
            End::Exit(Exit::Return(value)) if is_call => self.settle_exec(exec, value),
            end => self.conclude(exec, end),
        }
    }

    /// Notes what happens to many executions at once, if somebody watches.
    pub(crate) fn mark_all(&mut self, execs: &[Key], mark: &Mark) {
        for exec in execs {
            let spot = self
                .state
                .execs
                .get(*exec)
                .map(|open| (open.act, open.step));
            if let Some((act, index)) = spot
                && let Some(step) = self.planned(act, index)
            {
                self.mark(Spot { act, index, step }, || mark.clone());
            }
        }
    }

    /// Notes what happened to a step, if somebody watches.
    pub(crate) fn mark(&mut self, spot: Spot<'a>, mark: impl FnOnce() -> Mark) {
        if self.trace.is_none() {
            return;
        }
        let trace = StepTrace {
            execution: self.path(spot.act, spot.index),
            step: spot.step.path.clone(),
            mark: mark(),
        };
        self.trace
            .iter_mut()
            .for_each(|watched| watched.push(trace.clone()));
    }
}
