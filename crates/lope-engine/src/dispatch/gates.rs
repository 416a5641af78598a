//! The limits that all runs of a process share: circuits that open when what they lead to keeps failing, and rates.
//!
//! A task is let through or told how long to wait; the run journals that as a refusal. A rate is booked: whoever is told to wait
//! has its place, and asks again when its time has come.

use std::collections::HashMap;
use std::sync::Arc;

use lope_flow::policy::{Admission, Breaker, Limiter};
use lope_model::policy::{CircuitBreaker, RateLimit};
use lope_model::{Moment, RunId, Span, Timestamp};

use crate::executor::{Limits, Token};

/// Most circuits, and most rates, that are remembered; beyond that, those that stop nobody are forgotten.
const GATES_MAX: usize = 10_000;
/// How long a start that was booked and not taken is remembered.
const BOOKED_FOR: Span = Span::from_secs(3_600);

/// Circuits and rates by name.
#[derive(Debug, Default)]
pub(super) struct Gates {
    circuits: HashMap<Arc<str>, Breaker>,
    rates: HashMap<Arc<str>, Limiter>,
    booked: HashMap<Attempt, Timestamp>,
}

/// Whose place is booked: whoever owns the run when the time has come takes it.
type Attempt = (RunId, Arc<str>, u32);

fn attempt(token: &Token) -> Attempt {
    (token.run, Arc::clone(&token.execution), token.attempt)
}

/// Why a task does not start, and for how long.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Refusal {
    pub(super) wait: Span,
    pub(super) reason: Arc<str>,
}

impl Gates {
    /// May the task start now? A start that is granted counts.
    pub(super) fn admit(&mut self, now: Moment, token: &Token, limits: &Limits) -> Result<(), Refusal> {
        let now = Timestamp::from_millis(now.0);
        let circuit = limits.circuit_breaker.as_ref().map(|settings| self.ask_circuit(now, settings)).transpose()?;
        if let Some(settings) = &limits.rate_limit {
            self.ask_rate(now, token, settings)?;
        }
        if let Some((name, after)) = circuit {
            self.circuits.insert(name, after);
        }
        Ok(())
    }

    /// How an attempt that was let through ended.
    pub(super) fn record(&mut self, now: Moment, settings: &CircuitBreaker, succeeded: bool) {
        let name = name_of(settings.name.as_ref());
        let circuit = self.circuits.entry(name).or_default();
        circuit.record(settings, Timestamp::from_millis(now.0), succeeded);
    }

    /// The task will not come back.
    pub(super) fn forget(&mut self, token: &Token) {
        self.booked.remove(&attempt(token));
    }

    /// The circuit as it is after the task was let through; it only becomes so if nothing else stops the task.
    fn ask_circuit(&mut self, now: Timestamp, settings: &CircuitBreaker) -> Result<(Arc<str>, Breaker), Refusal> {
        if self.circuits.len() >= GATES_MAX {
            self.circuits.retain(|_, circuit| *circuit != Breaker::Closed);
        }
        let name = name_of(settings.name.as_ref());
        let mut circuit = self.circuits.get(&name).copied().unwrap_or_default();
        match circuit.admit(settings, now) {
            Admission::Go => Ok((name, circuit)),
            Admission::Wait(until) => {
                Err(Refusal { wait: until.since(now), reason: format!("the circuit '{name}' is open").into() })
            }
        }
    }

    fn ask_rate(&mut self, now: Timestamp, token: &Token, settings: &RateLimit) -> Result<(), Refusal> {
        let name = name_of(settings.name.as_ref());
        let attempt = attempt(token);
        let start = match self.booked.get(&attempt) {
            Some(start) => *start,
            None => {
                self.make_room(now);
                self.rates.entry(Arc::clone(&name)).or_default().book(settings, now)
            }
        };
        if start <= now {
            self.booked.remove(&attempt);
            return Ok(());
        }
        self.booked.insert(attempt, start);
        let reason = format!("the rate '{name}' allows {} in {}", settings.count, settings.per);
        Err(Refusal { wait: start.since(now), reason: reason.into() })
    }

    fn make_room(&mut self, now: Timestamp) {
        if self.rates.len() >= GATES_MAX {
            self.rates.retain(|_, rate| !rate.is_spent(now));
        }
        if self.booked.len() >= GATES_MAX {
            self.booked.retain(|_, start| start.plus(BOOKED_FOR) > now);
        }
    }
}

fn name_of(name: Option<&Arc<str>>) -> Arc<str> {
    name.map_or_else(|| "".into(), Arc::clone)
}
