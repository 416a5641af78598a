//! `race` and `all`: several blocks at once, each in a frame of its own.

use std::sync::Arc;

use lope_definition::{Branch, OnError, StepKind};
use lope_model::{Failure, Map, Value};

use super::arena::Key;
use super::machine::Machine;
use super::names::failure_value;
use super::plan::PlanStep;
use super::start::Spot;
use super::state::{Branches, End, Exit, Work, WorkItem};

impl<'a> Machine<'a> {
    pub(crate) fn start_branches(
        &mut self,
        spot: Spot<'a>,
        branches: &'a [Branch],
        work: fn(Box<Branches>) -> Work,
    ) -> Result<Option<Value>, Failure> {
        let exec = self.hold(spot, work(Box::default()));
        for (lane, branch) in branches.iter().enumerate() {
            let act = self.begin_block(exec, branch.block, lane as u64)?;
            if let Some((_, held)) = self.branches_at(exec) {
                held.acts.insert(lane as u64, act);
            }
            self.begin(act);
        }
        Ok(None)
    }

    /// The first branch to end decides; the others are cancelled.
    pub(crate) fn racer_ended(&mut self, exec: Key, lane: u64, end: End) {
        let Some((step, held)) = self.branches_at(exec) else {
            return;
        };
        held.acts.remove(&lane);
        if held.ending.is_some() {
            return self.end_branches_if_empty(exec);
        }
        let end = match end {
            End::Done(output) => {
                let winner = Value::Str(name_of(step, lane));
                End::Done(Value::map([("winner", winner), ("output", output)]))
            }
            end @ End::Exit(_) => end,
        };
        self.end_branches(exec, end);
    }

    /// All branches must end; one that fails ends all, unless failures are collected.
    pub(crate) fn branch_ended(&mut self, exec: Key, lane: u64, end: End) {
        let Some((step, held)) = self.branches_at(exec) else {
            return;
        };
        held.acts.remove(&lane);
        if held.ending.is_some() {
            return self.end_branches_if_empty(exec);
        }
        let collects = matches!(
            step.kind,
            StepKind::All {
                on_error: OnError::Collect,
                ..
            }
        );
        let output = match end {
            End::Done(value) => value,
            End::Exit(Exit::Failed(failure)) if collects => {
                Value::map([("error", failure_value(&failure))])
            }
            end @ End::Exit(_) => return self.end_branches(exec, end),
        };
        held.outputs.insert(lane, output);
        if held.acts.is_empty() {
            let outputs = std::mem::take(&mut held.outputs);
            let outputs: Map = outputs
                .into_iter()
                .map(|(lane, value)| (name_of(step, lane), value))
                .collect();
            self.conclude(exec, End::Done(Value::Map(Arc::new(outputs))));
        }
    }

    fn end_branches(&mut self, exec: Key, end: End) {
        let Some((_, held)) = self.branches_at(exec) else {
            return;
        };
        held.ending = Some(end);
        let open: Vec<Key> = held.acts.values().copied().collect();
        for act in open {
            self.enqueue(WorkItem::Leave {
                act,
                exit: Exit::Cancelled,
            });
        }
        self.end_branches_if_empty(exec);
    }

    fn end_branches_if_empty(&mut self, exec: Key) {
        let Some((_, held)) = self.branches_at(exec) else {
            return;
        };
        if held.acts.is_empty()
            && let Some(end) = held.ending.take()
        {
            self.conclude(exec, end);
        }
    }

    fn branches_at(&mut self, exec: Key) -> Option<(&'a PlanStep, &mut Branches)> {
        let open = self.state.execs.get(exec)?;
        let step = self.planned(open.act, open.step)?;
        match &mut self.state.execs.get_mut(exec)?.work {
            Work::Race(held) | Work::All(held) => Some((step, held)),
            Work::Attempt(_)
            | Work::Send(_)
            | Work::Sleep(_)
            | Work::Wait(_)
            | Work::Turn(_)
            | Work::Block(_)
            | Work::Each(_)
            | Work::While(_)
            | Work::Try(_) => None,
        }
    }
}

/// The name of a branch; work in branches belongs to a step that has some.
fn name_of(step: &PlanStep, lane: u64) -> Arc<str> {
    if let StepKind::Race { branches } | StepKind::All { branches, .. } = &step.kind {
        Arc::clone(&branches[lane as usize].name)
    } else {
        "".into()
    }
}
