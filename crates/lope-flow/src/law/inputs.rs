//! Inputs: each fed input is the body of the workflow once, in a frame of its own; the run ends
//! when no more can come.

use std::sync::Arc;

use lope_definition::BlockId;
use lope_model::failure::kind;
use lope_model::{Failure, Value, limit};

use super::effect::{Effect, Notice};
use super::event::{Fed, Settled, Start};
use super::limits::INPUTS_MAX;
use super::machine::Machine;
use super::state::{Act, End, Exit, Halted, Identity, Input, Life};
use super::weight::weight;

/// What a result may weigh less than a store takes, since its weight is a little less than its
/// bytes.
const RESULT_MARGIN: usize = 16 * 1_024;

impl Machine<'_> {
    pub(crate) fn start_run(&mut self, start: Start) {
        let identity = Identity {
            id: start.run,
            seed: start.seed,
            open: start.open,
            started_at: self.state.at,
            attempt: 1,
            env: start.env,
        };
        self.state.law = start.law;
        self.state.run = Some(identity);
        self.state.epoch = start.epoch;
        self.state.life = Life::Live;
        self.state.rebuild();
        self.emit(Effect::Telemetry(Notice::Started));
        if let Some(fed) = start.input {
            self.feed(fed);
        }
    }

    pub(crate) fn feed(&mut self, fed: Fed) {
        self.state.closed |= !self.is_open();
        self.state.queue.push_back(fed);
        self.begin_inputs();
    }

    pub(crate) fn is_open(&self) -> bool {
        self.state.run.as_ref().is_some_and(|run| run.open)
    }

    fn begin_inputs(&mut self) {
        while self.state.inputs.len() < INPUTS_MAX
            && let Some(fed) = self.state.queue.pop_front()
        {
            let number = self.state.next_input;
            self.state.next_input += 1;
            self.begin_input(number, fed);
        }
    }

    pub(crate) fn begin_input(&mut self, number: u64, fed: Fed) {
        let block = self.plan.block(BlockId::ROOT);
        let root = self
            .state
            .acts
            .insert(Act::new(BlockId::ROOT, block, None, number));
        self.emit(Effect::Telemetry(Notice::InputStarted {
            input: Arc::clone(&fed.id),
        }));
        self.state
            .inputs
            .insert(number, Box::new(Input { fed, root }));
        self.begin(root);
    }

    pub(crate) fn input_ended(&mut self, number: u64, end: End) {
        let Some(input) = self.state.inputs.remove(&number) else {
            return;
        };
        let result = match end {
            End::Done(value) | End::Exit(Exit::Return(value)) => self.bounded(value),
            End::Exit(Exit::Failed(failure)) => Settled::Failed(failure),
            End::Exit(Exit::Cancelled) => Settled::Cancelled,
            End::Exit(Exit::Break | Exit::Continue) => Settled::Done(Value::Null),
        };
        self.emit(Effect::InputSettled {
            input: Arc::clone(&input.fed.id),
            result: result.clone(),
        });
        self.next_turns();
        self.begin_inputs();
        if self.state.closed && self.state.inputs.is_empty() {
            self.last_input_ended(input.fed, result);
        }
    }

    /// A result that no store could take is a failure; before the third law it stopped its run.
    fn bounded(&self, value: Value) -> Settled {
        let weight = if self.state.law >= 3 {
            weight(&value)
        } else {
            0
        };
        if weight <= limit::PAYLOAD_MAX - RESULT_MARGIN {
            return Settled::Done(value);
        }
        let most = limit::PAYLOAD_MAX;
        let message = format!("the result has about {weight} bytes, {most} are allowed");
        Settled::failed(Failure::new(kind::LIMIT, message))
    }

    /// A run that is not open ends as its input did.
    fn last_input_ended(&mut self, fed: Fed, result: Settled) {
        match (&self.state.life, result) {
            (Life::Cancelling, _) => self.end_run(Life::Cancelled),
            (_, Settled::Failed(failure)) if !self.is_open() => {
                let tasks = std::collections::VecDeque::new();
                self.state.halted = Some(Halted {
                    step: None,
                    attempts: 0,
                    tasks,
                    fed: Some(fed),
                });
                self.end_run(Life::Failed(failure));
            }
            (_, Settled::Done(value)) if !self.is_open() => self.complete(value),
            (_, Settled::Done(_) | Settled::Failed(_) | Settled::Cancelled) => {
                self.complete(Value::Null);
            }
        }
    }

    /// An open run takes no more inputs.
    pub(crate) fn close(&mut self) {
        self.state.closed = true;
        if self.state.inputs.is_empty() {
            self.complete(Value::Null);
        }
    }

    fn complete(&mut self, result: Value) {
        self.end_run(Life::Completed);
        self.emit(Effect::Complete { result });
    }
}
