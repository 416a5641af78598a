//! What attempts ask of the limits, what they are answered, and what they give back.

use std::sync::Arc;

use lope_model::policy::{CircuitBreaker, RateLimit};
use lope_model::{Failure, Timestamp, Value};

use crate::holder::AttemptRef;
use crate::key::LimitKey;

/// What an attempt needs before it begins; all of it or nothing.
#[derive(Clone, PartialEq, Debug)]
pub struct LimitRequest {
    pub attempt: AttemptRef,
    /// Attempts with an equal key have one effect.
    pub idempotency_key: Option<Arc<str>>,
    /// At most so many with an equal key at once.
    pub permit: Option<(Arc<str>, u32)>,
    pub circuit: Option<Arc<CircuitBreaker>>,
    pub rate: Option<Arc<RateLimit>>,
}

/// May it begin?
#[derive(Clone, PartialEq, Debug)]
pub enum LimitVerdict {
    Granted {
        /// It takes the place of one whose runner is gone; what that one started may still be
        /// there.
        inherited: bool,
    },
    /// The work was done under its idempotency key, and this came out.
    Done(Result<Value, Box<Failure>>),
    /// Not before this time.
    Refused { until: Timestamp, reason: Arc<str> },
    /// Others hold this; it is free when they have ended.
    Held(LimitKey),
}

/// An attempt that was granted what it asked for has ended, or will not begin.
#[derive(Clone, PartialEq, Debug)]
pub struct LimitEnd {
    /// What it had asked for.
    pub request: LimitRequest,
    /// What came out, if it began: a value is what all with its idempotency key get.
    pub result: Option<Result<Value, ()>>,
}

/// One thing to do with the limits.
#[derive(Clone, PartialEq, Debug)]
pub enum LimitWork {
    Request(LimitRequest),
    End(LimitEnd),
}

impl LimitRequest {
    /// The limits that it touches.
    pub fn keys(&self) -> impl Iterator<Item = LimitKey> + use<> {
        let outcome = self.idempotency_key.clone().map(LimitKey::Outcome);
        let permits = self.permit.clone().map(|(key, _)| LimitKey::Permits(key));
        let circuit = self.circuit.as_deref().map(circuit_key);
        let rate = self.rate.as_deref().map(rate_key);
        [outcome, permits, circuit, rate].into_iter().flatten()
    }

    /// The rate, if it needs nothing else.
    pub(crate) fn rate_alone(&self) -> Option<&RateLimit> {
        let needs_more =
            self.idempotency_key.is_some() || self.permit.is_some() || self.circuit.is_some();
        self.rate.as_deref().filter(|_| !needs_more)
    }
}

impl LimitEnd {
    /// It did not begin.
    pub fn unused(request: LimitRequest) -> Self {
        Self {
            request,
            result: None,
        }
    }

    /// The limits that its end touches: a start that was made stays counted.
    fn keys(&self) -> impl Iterator<Item = LimitKey> + use<> {
        let is_rate = |key: &LimitKey| matches!(key, LimitKey::Rate(_));
        self.request.keys().filter(move |key| !is_rate(key))
    }
}

impl LimitWork {
    pub(crate) fn keys(&self) -> Vec<LimitKey> {
        match self {
            Self::Request(request) => request.keys().collect(),
            Self::End(end) => end.keys().collect(),
        }
    }

    pub fn attempt(&self) -> &AttemptRef {
        match self {
            Self::Request(request) => &request.attempt,
            Self::End(end) => &end.request.attempt,
        }
    }
}

pub(crate) fn circuit_key(settings: &CircuitBreaker) -> LimitKey {
    LimitKey::Circuit(settings.name.clone().unwrap_or_else(|| "".into()))
}

pub(crate) fn rate_key(settings: &RateLimit) -> LimitKey {
    LimitKey::Rate(settings.name.clone().unwrap_or_else(|| "".into()))
}
