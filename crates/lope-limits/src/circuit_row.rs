//! The row of a circuit. A closed one has none.

use lope_definition::policy::Breaker;
use lope_model::Timestamp;
use serde::{Deserialize, Serialize};

use crate::holder::Holder;

/// A circuit that is not closed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct CircuitRow {
    state: CircuitState,
    /// The attempt that brought it there: the last that failed, or the probe.
    pub(crate) by: Holder,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
enum CircuitState {
    Failing(u32),
    Open(Timestamp),
    HalfOpen(Timestamp),
}

impl CircuitRow {
    /// The row of a circuit in this state; none for a closed one.
    pub(crate) fn of(breaker: Breaker, by: Holder) -> Option<Self> {
        let state = match breaker {
            Breaker::Closed => return None,
            Breaker::Failing(failures) => CircuitState::Failing(failures),
            Breaker::Open(until) => CircuitState::Open(until),
            Breaker::HalfOpen(since) => CircuitState::HalfOpen(since),
        };
        Some(Self { state, by })
    }

    pub(crate) fn breaker(row: Option<&Self>) -> Breaker {
        match row.map(|row| row.state) {
            None => Breaker::Closed,
            Some(CircuitState::Failing(failures)) => Breaker::Failing(failures),
            Some(CircuitState::Open(until)) => Breaker::Open(until),
            Some(CircuitState::HalfOpen(since)) => Breaker::HalfOpen(since),
        }
    }
}
