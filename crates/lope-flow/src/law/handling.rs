//! What a dispatcher must know of a policy to handle an attempt.

use std::sync::Arc;

use lope_model::policy::{CircuitBreaker, RateLimit};
use lope_model::{Priority, Span};

use crate::definition::{Kind, StepPolicy};

/// The parts of a policy that are not the law's business but the dispatcher's. Circuits and rates that a policy does not
/// name have the action's name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Handling {
    pub timeout: Option<Span>,
    pub heartbeat: Option<Span>,
    pub priority: Priority,
    pub circuit_breaker: Option<CircuitBreaker>,
    pub rate_limit: Option<RateLimit>,
    /// Journal a `Dispatched` row before the attempt starts.
    pub durable: bool,
}

impl Handling {
    pub(crate) fn new(kind: &Kind, policy: &StepPolicy) -> Self {
        let action = match kind {
            Kind::Dispatch(dispatch) => &*dispatch.action,
            Kind::State { action: Some(action), .. } => action,
            _ => kind.word(),
        };
        let named = |name: &Option<Arc<str>>| Some(name.as_ref().map_or_else(|| action.into(), Arc::clone));
        let circuit = policy.circuit_breaker.clone();
        let rate = policy.rate_limit.clone();
        Self {
            timeout: policy.timeout,
            heartbeat: policy.heartbeat,
            priority: policy.priority.unwrap_or_default(),
            circuit_breaker: circuit.map(|breaker| CircuitBreaker { name: named(&breaker.name), ..breaker }),
            rate_limit: rate.map(|limit| RateLimit { name: named(&limit.name), ..limit }),
            durable: policy.durable.unwrap_or(false),
        }
    }
}
