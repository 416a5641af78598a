//! `try`: a block with handlers by type of failure, and `finally`, which runs however the block
//! ended.

use lope_definition::{BlockId, FailureHandler, StepKind};
use lope_model::{Failure, Value};

use super::arena::Key;
use super::machine::Machine;
use super::names::failure_value;
use super::start::Spot;
use super::state::{End, Exit, TryPhase, TryWork, Work};

impl<'a> Machine<'a> {
    pub(crate) fn start_try(
        &mut self,
        spot: Spot<'a>,
        block: BlockId,
        guarded: bool,
    ) -> Result<Option<Value>, Failure> {
        let exec = self.hold(spot, Work::Block(spot.act));
        let act = self.begin_block(exec, block, 0)?;
        self.set_work(
            exec,
            Work::Try(Box::new(TryWork {
                phase: TryPhase::Body,
                act,
                pending: None,
            })),
        );
        self.state.guards += u32::from(guarded);
        self.begin(act);
        Ok(None)
    }

    /// The body, a handler or `finally` has ended.
    pub(crate) fn try_ended(&mut self, exec: Key, end: End) {
        let Some((step, held)) = self.try_at(exec) else {
            return;
        };
        let StepKind::Try { handlers, .. } = &step.kind else {
            return;
        };
        match (held.phase, end) {
            (TryPhase::Body, End::Exit(Exit::Failed(failure))) => {
                match handler_for(handlers, &failure) {
                    Some(handler) => self.handle(exec, handler, &failure),
                    None => self.go_to_finally(exec, End::Exit(Exit::Failed(failure))),
                }
            }
            (TryPhase::Body | TryPhase::Handler, end) => self.go_to_finally(exec, end),
            (TryPhase::Finally, End::Done(_)) => {
                let pending = held.pending.take().unwrap_or(End::Done(Value::Null));
                self.end_try(exec, pending);
            }
            (TryPhase::Finally, end @ End::Exit(_)) => {
                let cancelled = held.pending == Some(End::Exit(Exit::Cancelled));
                self.end_try(
                    exec,
                    if cancelled {
                        End::Exit(Exit::Cancelled)
                    } else {
                        end
                    },
                );
            }
        }
    }

    fn handle(&mut self, exec: Key, handler: &'a FailureHandler, failure: &Failure) {
        match self.begin_block_of(exec, handler.block, 0) {
            Ok(act) => {
                self.set_try(exec, TryPhase::Handler, act);
                self.bind(act, handler.name.iter().map(|_| failure_value(failure)));
                self.begin(act);
            }
            Err(failure) => self.go_to_finally(exec, End::Exit(Exit::Failed(Box::new(failure)))),
        }
    }

    fn go_to_finally(&mut self, exec: Key, end: End) {
        let Some((step, held)) = self.try_at(exec) else {
            return;
        };
        let StepKind::Try {
            finally: Some(block),
            ..
        } = step.kind
        else {
            return self.end_try(exec, end);
        };
        held.pending = Some(end);
        match self.begin_block_of(exec, block, 0) {
            Ok(act) => {
                self.set_try(exec, TryPhase::Finally, act);
                self.begin(act);
            }
            Err(failure) => self.end_try(exec, End::Exit(Exit::Failed(Box::new(failure)))),
        }
    }

    fn end_try(&mut self, exec: Key, end: End) {
        let guarded = self
            .try_at(exec)
            .is_some_and(|(step, _)| has_finally(&step.kind));
        self.state.guards -= u32::from(guarded);
        self.conclude(exec, end);
    }

    fn try_at(&mut self, exec: Key) -> Option<(&'a super::plan::PlanStep, &mut TryWork)> {
        let open = self.state.execs.get(exec)?;
        let step = self.planned(open.act, open.step)?;
        match &mut self.state.execs.get_mut(exec)?.work {
            Work::Try(held) => Some((step, held)),
            Work::Attempt(_)
            | Work::Send(_)
            | Work::Sleep(_)
            | Work::Wait(_)
            | Work::Turn(_)
            | Work::Block(_)
            | Work::Each(_)
            | Work::While(_)
            | Work::Race(_)
            | Work::All(_) => None,
        }
    }

    fn set_try(&mut self, exec: Key, phase: TryPhase, act: Key) {
        if let Some((_, held)) = self.try_at(exec) {
            held.phase = phase;
            held.act = act;
        }
    }
}

pub(crate) fn has_finally(kind: &StepKind) -> bool {
    matches!(
        kind,
        StepKind::Try {
            finally: Some(_),
            ..
        }
    )
}

/// The first handler that names the failure's type or a base of it; one that names none takes all
/// but a cancel.
pub(crate) fn handler_for<'a>(
    handlers: &'a [FailureHandler],
    failure: &Failure,
) -> Option<&'a FailureHandler> {
    handlers
        .iter()
        .find(|handler| match handler.matches.as_slice() {
            [] => failure.is_a("*"),
            kinds => kinds.iter().any(|kind| failure.is_a(kind)),
        })
}
