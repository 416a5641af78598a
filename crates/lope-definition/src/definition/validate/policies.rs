//! Policies that cannot be meant: fields that contradict each other, numbers that allow nothing,
//! and fields on steps that have no use for them.

use lope_model::Span;
use lope_model::policy::Backoff;

use super::DefinitionValidator;
use crate::definition::{Problem, StepKind, StepPolicy};

impl DefinitionValidator<'_> {
    pub(super) fn policies(&mut self) {
        for rule in &self.definition.policies {
            self.problems.extend(
                contradictions(&rule.policy).map(|message| Problem::new(rule.at, "", message)),
            );
        }
        for (block, _, step) in self.steps() {
            let misplaced = misplaced(&step.kind, &step.policy);
            let found: Vec<String> = contradictions(&step.policy).chain(misplaced).collect();
            for message in found {
                self.report(block, step, message);
            }
        }
    }
}

fn contradictions(policy: &StepPolicy) -> impl Iterator<Item = String> + use<> {
    let mut found: Vec<String> = Vec::new();
    let mut refuse = |wrong: bool, message: &str| {
        if wrong {
            found.push(message.to_owned());
        }
    };
    refuse(
        policy.timeout == Some(Span::ZERO),
        "'timeout: 0s' lets no attempt finish",
    );
    refuse(
        policy.deadline == Some(Span::ZERO),
        "'deadline: 0s' lets no attempt start",
    );
    refuse(
        policy.heartbeat == Some(Span::ZERO),
        "'heartbeat: 0s' lets no attempt live",
    );
    refuse(
        exceeds(policy.base_delay, policy.max_delay),
        "'base_delay' is longer than 'max_delay'",
    );
    refuse(
        exceeds(policy.heartbeat, policy.timeout),
        "'heartbeat' is longer than 'timeout'",
    );
    let grows = policy
        .backoff
        .is_some_and(|backoff| backoff != Backoff::None);
    refuse(
        grows && policy.base_delay == Some(Span::ZERO),
        "a backoff with 'base_delay: 0s' never grows",
    );
    refuse(
        policy.retry_on.as_ref().is_some_and(Vec::is_empty),
        "'retry_on' names no failure; use 'retries: 0'",
    );
    if let (Some(on), Some(never)) = (&policy.retry_on, &policy.never_retry_on)
        && let Some(kind) = on.iter().find(|kind| never.contains(kind))
    {
        refuse(
            true,
            &format!("'{kind}' is in 'retry_on' and in 'never_retry_on'"),
        );
    }
    let breaker = policy.circuit_breaker.as_ref();
    refuse(
        breaker.is_some_and(|breaker| breaker.failures == 0),
        "a circuit breaker needs 1 failure or more to open",
    );
    let rate = policy.rate_limit.as_ref();
    refuse(
        rate.is_some_and(|rate| rate.count == 0 || rate.per == Span::ZERO),
        "a rate limit of 0 lets nothing start",
    );
    refuse(
        policy
            .concurrency
            .as_ref()
            .is_some_and(|limit| limit.limit == 0),
        "'concurrency' of 0 lets nothing start",
    );
    found.into_iter()
}

fn exceeds(small: Option<Span>, large: Option<Span>) -> bool {
    matches!((small, large), (Some(small), Some(large)) if small > large)
}

/// Which fields mean nothing on a step of this kind. `on_failure` means something on all.
fn misplaced(kind: &StepKind, policy: &StepPolicy) -> Option<String> {
    let said = said(policy);
    let wrong = match kind {
        StepKind::Dispatch(_)
        | StepKind::State {
            action: Some(_), ..
        } => None,
        StepKind::Workflow { .. } => said.iter().find(|(_, scope)| *scope == Scope::Dispatch),
        _ => said.iter().find(|(_, scope)| *scope != Scope::Any),
    };
    wrong.map(|(name, _)| format!("'{name}' means nothing on '{}'", kind.word()))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    Any,
    /// Whatever is attempted: work for a worker, a child run.
    Attempts,
    Dispatch,
}

fn said(policy: &StepPolicy) -> Vec<(&'static str, Scope)> {
    [
        ("retries", policy.retries.is_some(), Scope::Attempts),
        ("backoff", policy.backoff.is_some(), Scope::Attempts),
        ("base_delay", policy.base_delay.is_some(), Scope::Attempts),
        ("max_delay", policy.max_delay.is_some(), Scope::Attempts),
        ("retry_on", policy.retry_on.is_some(), Scope::Attempts),
        (
            "never_retry_on",
            policy.never_retry_on.is_some(),
            Scope::Attempts,
        ),
        ("timeout", policy.timeout.is_some(), Scope::Attempts),
        ("deadline", policy.deadline.is_some(), Scope::Attempts),
        ("heartbeat", policy.heartbeat.is_some(), Scope::Dispatch),
        ("on_failure", policy.on_failure.is_some(), Scope::Any),
        ("fallback", policy.fallback.is_some(), Scope::Attempts),
        ("priority", policy.priority.is_some(), Scope::Attempts),
        (
            "idempotency_key",
            policy.idempotency_key.is_some(),
            Scope::Dispatch,
        ),
        (
            "circuit_breaker",
            policy.circuit_breaker.is_some(),
            Scope::Dispatch,
        ),
        ("rate_limit", policy.rate_limit.is_some(), Scope::Dispatch),
        ("concurrency", policy.concurrency.is_some(), Scope::Dispatch),
        ("executor", policy.executor.is_some(), Scope::Dispatch),
        ("durable", policy.durable.is_some(), Scope::Dispatch),
        ("loss_budget", policy.loss_budget.is_some(), Scope::Dispatch),
    ]
    .into_iter()
    .filter(|(_, said, _)| *said)
    .map(|(name, _, scope)| (name, scope))
    .collect()
}
