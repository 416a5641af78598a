//! The law: one pure function from a plan, a state and an event to the next state and its effects.
//!
//! `advance` folds one event. State is as large as what is alive, never as what is over. The
//! journal of events decides everything: dispatches are effects, not events; limits that many runs
//! share come in as refusals; time comes in with each event, and `State::next_wake` says when a
//! `Timer` event is due. Nothing here stores, waits or asks.

mod accumulators;
mod arena;
mod attempts;
mod branches;
mod cancel;
mod codec;
mod digest;
pub mod drive;
mod effect;
mod event;
mod halt;
mod handling;
mod heap;
mod inputs;
pub mod limits;
mod loops;
mod machine;
mod names;
mod outcomes;
mod outgoing_message;
mod path;
mod plan;
mod receive;
mod settle;
mod start;
mod state;
mod trace;
mod try_step;
mod view;
mod waits;
mod weight;

pub use codec::{BadRow, Stored};
pub use drive::{Driven, World, drive, drive_with};
pub use effect::{Dispatch, Effect, Notice, Send, StartChild};
pub use event::{Event, EventKind, Fed, Outcome, Settled, Start};
pub use handling::Handling;
pub use machine::Progress;
pub use plan::Plan;
pub use state::State;
pub use trace::{Mark, StepTrace};
pub use view::{Reason, Status};

use machine::Machine;

/// Folds one event into a state; effects are appended. A state that is half done with an event
/// takes no other.
pub fn advance(
    plan: &Plan,
    state: &mut State,
    event: Event,
    effects: &mut Vec<Effect>,
) -> Progress {
    receive(&mut Machine::new(plan, state, effects), event)
}

/// Goes on with an event that is half done.
pub fn resume_slice(plan: &Plan, state: &mut State, effects: &mut Vec<Effect>) -> Progress {
    if !state.busy {
        return Progress::Done;
    }
    Machine::new(plan, state, effects).work()
}

/// Folds one event to its end, slice after slice.
pub fn fold(plan: &Plan, state: &mut State, event: Event, effects: &mut Vec<Effect>) -> Progress {
    let mut progress = advance(plan, state, event, effects);
    while progress == Progress::More {
        progress = resume_slice(plan, state, effects);
    }
    progress
}

/// As `advance`, and also says what happened to each step.
pub fn advance_traced(
    plan: &Plan,
    state: &mut State,
    event: Event,
    effects: &mut Vec<Effect>,
    trace: &mut Vec<StepTrace>,
) -> Progress {
    let mut machine = Machine::new(plan, state, effects);
    machine.trace = Some(trace);
    receive(&mut machine, event)
}

/// As `resume_slice`, and also says what happened to each step.
pub fn resume_slice_traced(
    plan: &Plan,
    state: &mut State,
    effects: &mut Vec<Effect>,
    trace: &mut Vec<StepTrace>,
) -> Progress {
    let mut machine = Machine::new(plan, state, effects);
    machine.trace = Some(trace);
    machine.work()
}

fn receive(machine: &mut Machine<'_>, event: Event) -> Progress {
    assert!(
        !machine.state.busy,
        "a state that is half done with an event takes no other"
    );
    assert!(
        machine.state.version == machine.plan.version(),
        "a run stays on the version it started with"
    );
    if !machine.concerns(&event) {
        return Progress::Ignored;
    }
    machine.receive(event);
    machine.work()
}
