//! How a step is tried: the fields a policy may hold, and how one is laid over another.
//!
//! What an argument or a key looks like is the front end's business (`E`: text in a file, a tree in
//! a definition), and what the fields lead to is decided by the workflow law.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::name::Priority;
use crate::time::Span;
use crate::value::Value;

/// How the delay before the next attempt grows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backoff {
    /// No delay.
    #[default]
    None,
    /// `base × attempt`.
    Linear,
    /// `base × 2^(attempt−1)`.
    Exponential,
    /// Exponential, then anywhere between half and the whole of it.
    Jitter,
}

/// What a step that has spent its retries and fallback does to its input.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    #[default]
    Halt,
    Skip,
}

/// What happens instead, once, when the retries are spent.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fallback<E> {
    /// This value is the step's output.
    Value(E),
    /// One more attempt with these arguments.
    RetryWith(E),
    /// Another action, with these arguments or the step's own.
    Action { name: Arc<str>, with: Option<E> },
}

/// Stop calling what keeps failing: open after `failures` in a row, try one again after `reset`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CircuitBreaker {
    pub failures: u32,
    pub reset: Span,
    /// Runs and steps that name the same circuit share it; default: the action's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Arc<str>>,
}

/// At most `count` starts in every `per`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RateLimit {
    pub count: u32,
    pub per: Span,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Arc<str>>,
}

/// At most `limit` attempts at once among those with an equal key, over all runs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(bound(serialize = "E: Serialize", deserialize = "E: Deserialize<'de>"))]
pub struct KeyedConcurrency<E> {
    pub limit: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<E>,
}

/// How a step is tried. Absent fields say nothing; `over` lays one policy over another.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(bound(serialize = "E: Serialize", deserialize = "E: Deserialize<'de>"))]
pub struct Policy<E = Value> {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Backoff>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_delay: Option<Span>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_delay: Option<Span>,
    /// Failure types that are retried; absent: all but those in `never_retry_on`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_on: Option<Vec<Arc<str>>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub never_retry_on: Option<Vec<Arc<str>>>,
    /// Longest time of one attempt, from the moment it gets its slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// No new attempt later than this after the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Span>,
    /// Longest silence of a worker that reports progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heartbeat: Option<Span>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<OnFailure>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<Fallback<E>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<E>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub circuit_breaker: Option<CircuitBreaker>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<RateLimit>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<KeyedConcurrency<E>>,
    /// Which kind of worker, where an action has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executor: Option<Arc<str>>,
    /// Journal each dispatch too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durable: Option<bool>,
    /// How many times an attempt may be lost with its runner before the step fails as `RunnerLost`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_budget: Option<u32>,
}

impl<E> Default for Policy<E> {
    fn default() -> Self {
        Self {
            retries: None,
            backoff: None,
            base_delay: None,
            max_delay: None,
            retry_on: None,
            never_retry_on: None,
            timeout: None,
            deadline: None,
            heartbeat: None,
            on_failure: None,
            fallback: None,
            priority: None,
            idempotency_key: None,
            circuit_breaker: None,
            rate_limit: None,
            concurrency: None,
            executor: None,
            durable: None,
            loss_budget: None,
        }
    }
}

impl<E: Clone> Policy<E> {
    /// This policy laid over `below`: a field said here wins, a silent one lets `below` through.
    #[must_use]
    pub fn over(&self, below: &Self) -> Self {
        fn pick<T: Clone>(top: Option<&T>, below: Option<&T>) -> Option<T> {
            top.or(below).cloned()
        }
        Self {
            retries: self.retries.or(below.retries),
            backoff: self.backoff.or(below.backoff),
            base_delay: self.base_delay.or(below.base_delay),
            max_delay: self.max_delay.or(below.max_delay),
            retry_on: pick(self.retry_on.as_ref(), below.retry_on.as_ref()),
            never_retry_on: pick(self.never_retry_on.as_ref(), below.never_retry_on.as_ref()),
            timeout: self.timeout.or(below.timeout),
            deadline: self.deadline.or(below.deadline),
            heartbeat: self.heartbeat.or(below.heartbeat),
            on_failure: self.on_failure.or(below.on_failure),
            fallback: pick(self.fallback.as_ref(), below.fallback.as_ref()),
            priority: self.priority.or(below.priority),
            idempotency_key: pick(
                self.idempotency_key.as_ref(),
                below.idempotency_key.as_ref(),
            ),
            circuit_breaker: pick(
                self.circuit_breaker.as_ref(),
                below.circuit_breaker.as_ref(),
            ),
            rate_limit: pick(self.rate_limit.as_ref(), below.rate_limit.as_ref()),
            concurrency: pick(self.concurrency.as_ref(), below.concurrency.as_ref()),
            executor: pick(self.executor.as_ref(), below.executor.as_ref()),
            durable: self.durable.or(below.durable),
            loss_budget: self.loss_budget.or(below.loss_budget),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_laid_over_another_wins_where_it_speaks() {
        let below: Policy = Policy {
            retries: Some(3),
            timeout: Some(Span::from_secs(5)),
            ..Policy::default()
        };
        let top = Policy {
            retries: Some(0),
            durable: Some(true),
            ..Policy::default()
        };
        let merged = top.over(&below);
        assert_eq!(
            (merged.retries, merged.timeout, merged.durable),
            (Some(0), Some(Span::from_secs(5)), Some(true))
        );
    }
}
