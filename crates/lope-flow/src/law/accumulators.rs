//! `state`: accumulators of the run, whose next state is an expression or what an action makes of
//! it. Inputs reach each of them in the order in which they were fed, however long their other
//! steps take.

use std::collections::BTreeSet;

use lope_definition::{StepKind, executor};
use lope_model::{Failure, Value};

use super::arena::Key;
use super::attempts::ActionCall;
use super::machine::Machine;
use super::start::Spot;
use super::state::{BlockStepState, Work, WorkItem};

impl<'a> Machine<'a> {
    pub(crate) fn start_state(&mut self, spot: Spot<'a>) -> Result<Option<Value>, Failure> {
        let (_, top) = spot.step.state.expect("a state is numbered by the plan");
        let input = self.state.acts.get(spot.act).map_or(0, |act| act.input);
        if self.is_first(top, input) {
            return self.accumulate(spot);
        }
        let turn = (top, input, self.state.next_number());
        let exec = self.hold(spot, Work::Turn(turn));
        self.state.turns.insert(turn, exec);
        Ok(None)
    }

    /// Are all earlier inputs past this step of the root?
    fn is_first(&self, top: u32, input: u64) -> bool {
        self.state.inputs.range(..input).rev().all(|(_, earlier)| {
            let root = self.state.acts.get(earlier.root);
            root.is_none_or(|root| {
                matches!(
                    root.steps[top as usize].state,
                    BlockStepState::Done | BlockStepState::Skipped
                )
            })
        })
    }

    /// The next state; nothing yet if an action makes it.
    fn accumulate(&mut self, spot: Spot<'a>) -> Result<Option<Value>, Failure> {
        let (number, _) = spot.step.state.expect("a state is numbered by the plan");
        let StepKind::State {
            init,
            next,
            value,
            action,
        } = &spot.step.kind
        else {
            return Ok(None);
        };
        let previous = match self.state.totals.get(&number) {
            Some(total) => total.clone(),
            None => self.eval(spot.act, init.expr())?,
        };
        let value = value
            .as_ref()
            .map_or(Ok(Value::Null), |value| self.eval(spot.act, value.expr()))?;
        let extra = [("previous", previous), ("value", value)];
        if let Some(action) = action {
            let call = ActionCall {
                executor: &executor::ACTION.into(),
                action,
                with: next,
                heap: false,
            };
            return self.start_action(spot, call, &extra);
        }
        let total = self.eval_with(spot.act, next.expr(), &extra)?;
        self.state.totals.insert(number, total.clone());
        Ok(Some(total))
    }

    /// Takes the turn of the first that waits at a step of the root, if it has come, and comes back
    /// for the next.
    pub(crate) fn next_turn(&mut self, top: u32) {
        let waiting = self.state.turns.range((top, 0, 0)..(top + 1, 0, 0)).next();
        let Some((turn, exec)) = waiting.map(|(turn, exec)| (*turn, *exec)) else {
            return;
        };
        if self.is_first(top, turn.1) {
            self.state.turns.remove(&turn);
            self.enqueue(WorkItem::Turns { top });
            self.take_turn(exec);
        }
    }

    /// An input is gone: the turn of others may have come anywhere.
    pub(crate) fn next_turns(&mut self) {
        let tops: BTreeSet<u32> = self.state.turns.keys().map(|(top, _, _)| *top).collect();
        tops.into_iter()
            .for_each(|top| self.enqueue(WorkItem::Turns { top }));
    }

    fn take_turn(&mut self, exec: Key) {
        let Some(spot) = self.let_go(exec) else {
            return;
        };
        if self
            .state
            .acts
            .get(spot.act)
            .is_none_or(|act| act.exit.is_some())
        {
            return self.close_if_empty(spot.act);
        }
        match self.accumulate(spot) {
            Ok(Some(total)) => self.settle(spot, total),
            Ok(None) => {}
            Err(failure) => self.raise(spot, failure),
        }
    }
}
