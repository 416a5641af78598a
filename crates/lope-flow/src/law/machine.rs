//! The machine: takes one event, then does one small thing after another until nothing is left to
//! do.
//!
//! What follows from what is a queue of tasks in the state, never a recursion, so that nesting
//! costs no stack and an event may be done in slices. Between events the queue is empty.

use std::sync::Arc;

use lope_expr::{Expr, Fuel, eval};
use lope_model::failure::kind;
use lope_model::{Failure, Value};

use super::arena::Key;
use super::effect::Effect;
use super::event::Settled;
use super::limits::{EVAL_FUEL, EVENT_FUEL, HANDLER_FUEL, SLICE_FUEL, TURN_FUEL};
use super::names::BlockNames;
use super::plan::{Plan, PlanStep};
use super::state::{State, WorkItem};
use super::trace::StepTrace;

/// What became of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// It says nothing to this run (a duplicate, a late outcome): the state is as it was, and no
    /// row is needed.
    Ignored,
    /// It is done.
    Done,
    /// It is half done: call `resume_slice`. No other event may come in between.
    More,
}

pub(crate) struct Machine<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) state: &'a mut State,
    pub(crate) effects: &'a mut Vec<Effect>,
    pub(crate) trace: Option<&'a mut Vec<StepTrace>>,
    /// Fuel left in this slice.
    slice: u64,
    /// The input that the task at hand works for.
    input: Option<u64>,
}

impl<'a> Machine<'a> {
    pub(crate) fn new(plan: &'a Plan, state: &'a mut State, effects: &'a mut Vec<Effect>) -> Self {
        Self {
            plan,
            state,
            effects,
            trace: None,
            slice: SLICE_FUEL,
            input: None,
        }
    }

    /// Works until nothing is left to do or the slice is used up.
    pub(crate) fn work(&mut self) -> Progress {
        loop {
            while let Some(task) = self.state.tasks.pop_front() {
                self.spend(TURN_FUEL);
                self.perform(task);
                if self.state.spent > EVENT_FUEL + HANDLER_FUEL {
                    self.give_up();
                }
                if self.slice == 0 {
                    return Progress::More;
                }
            }
            self.let_through();
            if self.state.tasks.is_empty() {
                self.end_event();
                return Progress::Done;
            }
        }
    }

    fn perform(&mut self, task: WorkItem) {
        self.input = self.input_of(&task);
        match task {
            WorkItem::Open { act, step } => self.start_step(act, step),
            WorkItem::Ended { exec, lane, end } => self.block_ended(exec, lane, end),
            WorkItem::InputEnded { input, end } => self.input_ended(input, end),
            WorkItem::Leave { act, exit } => self.leave(act, exit),
            WorkItem::Fill { exec } => self.fill(exec),
            WorkItem::Timers => self.fire_timer(),
            WorkItem::Turns { top } => self.next_turn(top),
            WorkItem::Outgoing { exec } => self.send_outgoing(exec),
        }
    }

    fn input_of(&self, task: &WorkItem) -> Option<u64> {
        let act = match task {
            WorkItem::InputEnded { input, .. } => return Some(*input),
            WorkItem::Open { act, .. } | WorkItem::Leave { act, .. } => *act,
            WorkItem::Ended { exec, .. }
            | WorkItem::Fill { exec }
            | WorkItem::Outgoing { exec } => self.state.execs.get(*exec)?.act,
            WorkItem::Timers | WorkItem::Turns { .. } => return None,
        };
        self.state.acts.get(act).map(|act| act.input)
    }

    /// An input that goes on after its handlers had their share of fuel is ended for good.
    fn give_up(&mut self) {
        (self.state.spent, self.state.warned) = (0, false);
        match self.input {
            Some(input) => self.end_input_at_once(input, &Settled::failed(too_much_work())),
            None => self.state.tasks.clear(),
        }
    }

    pub(crate) fn enqueue(&mut self, item: WorkItem) {
        self.state.tasks.push_back(item);
    }

    pub(crate) fn spend(&mut self, fuel: u64) {
        self.slice = self.slice.saturating_sub(fuel);
        self.state.spent = self.state.spent.saturating_add(fuel);
        self.state.fuel = self.state.fuel.saturating_add(fuel);
    }

    /// The failure of a step that would use more fuel than one event may. It comes once: handlers
    /// have a share of their own.
    pub(crate) fn out_of_fuel(&mut self) -> Option<Failure> {
        let spent = self.state.spent > EVENT_FUEL && !self.state.warned;
        self.state.warned |= spent;
        spent.then(too_much_work)
    }

    /// The value of an expression in an open block.
    pub(crate) fn eval(&mut self, act: Key, expr: &Expr) -> Result<Value, Failure> {
        self.eval_with(act, expr, &[])
    }

    /// The value of an expression that also sees some names of the law.
    pub(crate) fn eval_with(
        &mut self,
        act: Key,
        expr: &Expr,
        extra: &[(&'static str, Value)],
    ) -> Result<Value, Failure> {
        if let Some(value) = expr.as_literal() {
            return Ok(value.clone());
        }
        let mut fuel = Fuel::new(EVAL_FUEL);
        let result = eval(
            expr,
            &BlockNames {
                plan: self.plan,
                state: self.state,
                act,
                extra,
            },
            &mut fuel,
        );
        self.spend(fuel.spent());
        result.map_err(Failure::from)
    }

    /// The value of an expression that must be a bool.
    pub(crate) fn condition(&mut self, act: Key, expr: &Expr) -> Result<bool, Failure> {
        match self.eval(act, expr)? {
            Value::Bool(holds) => Ok(holds),
            other => Err(Failure::new(
                "TypeError",
                format!("a condition must be true or false, not {}", other.kind()),
            )),
        }
    }

    /// The value of an expression that must be a text.
    pub(crate) fn text(&mut self, act: Key, expr: &Expr, what: &str) -> Result<Arc<str>, Failure> {
        match self.eval(act, expr)? {
            Value::Str(text) => Ok(text),
            other => Err(Failure::new(
                "TypeError",
                format!("{what} must be a text, not {}", other.kind()),
            )),
        }
    }

    /// The plan of a step in an open block.
    pub(crate) fn planned(&self, act: Key, step: u32) -> Option<&'a PlanStep> {
        let block = self.state.acts.get(act)?.block;
        Some(self.plan.step(block, step))
    }

    pub(crate) fn path(&self, act: Key, step: u32) -> Arc<str> {
        self.state.path(self.plan, act, step)
    }

    pub(crate) fn emit(&mut self, effect: Effect) {
        self.state.digest = effect.mixed_into(self.state.digest);
        self.effects.push(effect);
    }

    fn end_event(&mut self) {
        self.state.busy = false;
        (self.state.spent, self.state.warned) = (0, false);
        self.state.acts.rest();
        self.state.execs.rest();
        self.state.mix_shape();
    }
}

fn too_much_work() -> Failure {
    Failure::new(
        kind::LIMIT,
        format!("more than {EVENT_FUEL} units of work for one event"),
    )
}
