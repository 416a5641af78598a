//! What a dispatcher must know of a policy to handle an attempt.

use std::sync::Arc;

use lope_definition::{StepKind, StepPolicy};
use lope_model::policy::{CircuitBreaker, Fallback, RateLimit};
use lope_model::{Priority, Span};

/// The parts of a policy that are not the law's business but the dispatcher's. Circuits and rates
/// that a policy does not name have the action's name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Handling {
    pub timeout: Option<Span>,
    pub heartbeat: Option<Span>,
    pub priority: Priority,
    pub circuit_breaker: Option<CircuitBreaker>,
    pub rate_limit: Option<RateLimit>,
    /// Journal a `Dispatched` row before the attempt starts.
    pub durable: bool,
    /// The secrets that the step's own templates name; no other is given to it.
    pub secrets: Arc<[Arc<str>]>,
}

impl Handling {
    pub(crate) fn new(kind: &StepKind, policy: &StepPolicy) -> Self {
        let action = match kind {
            StepKind::Dispatch(dispatch) => &*dispatch.action,
            StepKind::State {
                action: Some(action),
                ..
            } => action,
            StepKind::State { action: None, .. }
            | StepKind::Let { .. }
            | StepKind::If { .. }
            | StepKind::Switch { .. }
            | StepKind::Each { .. }
            | StepKind::While { .. }
            | StepKind::Try { .. }
            | StepKind::Sleep { .. }
            | StepKind::Until { .. }
            | StepKind::Wait { .. }
            | StepKind::Workflow { .. }
            | StepKind::Send { .. }
            | StepKind::Race { .. }
            | StepKind::All { .. }
            | StepKind::Return { .. }
            | StepKind::Raise { .. }
            | StepKind::Break
            | StepKind::Continue
            | StepKind::Call { .. } => kind.word(),
        };
        let named =
            |name: &Option<Arc<str>>| Some(name.as_ref().map_or_else(|| action.into(), Arc::clone));
        let circuit = policy.circuit_breaker.clone();
        let rate = policy.rate_limit.clone();
        Self {
            timeout: policy.timeout,
            heartbeat: policy.heartbeat,
            priority: policy.priority.unwrap_or_default(),
            circuit_breaker: circuit.map(|breaker| CircuitBreaker {
                name: named(&breaker.name),
                ..breaker
            }),
            rate_limit: rate.map(|limit| RateLimit {
                name: named(&limit.name),
                ..limit
            }),
            durable: policy.durable.unwrap_or(false),
            secrets: secrets(kind, policy),
        }
    }
}

fn secrets(kind: &StepKind, policy: &StepPolicy) -> Arc<[Arc<str>]> {
    let call = if let StepKind::Dispatch(dispatch) = kind {
        Some(&dispatch.with)
    } else {
        None
    };
    let fallback = match &policy.fallback {
        Some(
            Fallback::RetryWith(with)
            | Fallback::Action {
                with: Some(with), ..
            },
        ) => Some(with),
        Some(Fallback::Value(_) | Fallback::Action { with: None, .. }) | None => None,
    };
    call.into_iter()
        .chain(fallback)
        .flat_map(|template| template.expr().secrets())
        .collect()
}
