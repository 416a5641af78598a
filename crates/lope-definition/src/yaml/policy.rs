//! How steps are tried: the fields of a policy, on a step itself or in a rule for those that match.

use std::sync::Arc;

use lope_expr::{Expr, Template};
use lope_model::Priority;
use lope_model::policy::{
    Backoff, CircuitBreaker, Fallback, KeyedConcurrency, OnFailure, RateLimit,
};

use super::fields::{Fields, WorkflowReader, listed};
use super::tree::{NodeId, Shape};
use super::words::KINDS;
use crate::definition::{Glob, Matcher, Rule, StepPolicy};
use crate::policy::{PRESETS, preset};

/// Every field of a policy.
pub(super) const KEYS: [&str; 20] = [
    "preset",
    "retries",
    "backoff",
    "base_delay",
    "max_delay",
    "retry_on",
    "never_retry_on",
    "timeout",
    "deadline",
    "heartbeat",
    "on_failure",
    "fallback",
    "priority",
    "idempotency_key",
    "circuit_breaker",
    "rate_limit",
    "concurrency",
    "executor",
    "durable",
    "loss_budget",
];

const BACKOFF: [(&str, Backoff); 4] = [
    ("none", Backoff::None),
    ("linear", Backoff::Linear),
    ("exponential", Backoff::Exponential),
    ("jitter", Backoff::Jitter),
];
const ON_FAILURE: [(&str, OnFailure); 2] = [("halt", OnFailure::Halt), ("skip", OnFailure::Skip)];

impl<'a> WorkflowReader<'a> {
    /// The rules under `policies`, in their order.
    pub(super) fn rules(&mut self, id: NodeId) {
        for item in self.items(id, "policies") {
            let known: Vec<&str> = ["match"].into_iter().chain(KEYS).collect();
            let Some(fields) = self.fields(*item, "a policy", &known) else {
                continue;
            };
            let matcher = fields
                .get("match")
                .map(|id| self.matcher(id))
                .unwrap_or_default();
            let policy = self.policy_of(fields, &[]);
            if policy == StepPolicy::default()
                && fields.entries.iter().all(|entry| &*entry.key == "match")
            {
                self.refuse(fields.at, "the policy says nothing");
            }
            self.written.remember(fields.at, fields.entries);
            self.definition.policies.push(Rule {
                at: fields.at,
                ..Rule::new(matcher, policy)
            });
        }
    }

    /// Which steps: `{step, kind, action, where}`, or just a pattern for names.
    fn matcher(&mut self, id: NodeId) -> Matcher {
        if self.as_text(id).is_some() {
            return Matcher {
                step: self.glob(id, "match"),
                ..Matcher::default()
            };
        }
        let Some(fields) = self.fields(id, "'match'", &["step", "kind", "action", "where"]) else {
            return Matcher::default();
        };
        Matcher {
            step: fields.get("step").and_then(|id| self.glob(id, "step")),
            kind: fields.get("kind").and_then(|id| self.kind_glob(id)),
            action: fields.get("action").and_then(|id| self.glob(id, "action")),
            predicate: fields.get("where").map(|id| self.predicate(id)),
            steps: None,
        }
    }

    /// A predicate only sees `step`.
    fn predicate(&mut self, id: NodeId) -> Expr {
        let predicate = self.condition(id, "where");
        predicate.each_free_name(&mut |name, at| {
            if name != "step" {
                let problem = self.problem(at, format!("unknown name '{name}'"));
                self.problems.push(problem.hint(
                    "'where' sees 'step' alone: step.name, step.path, step.kind, step.action",
                ));
            }
        });
        predicate
    }

    fn glob(&mut self, id: NodeId, what: &str) -> Option<Glob> {
        self.text(id, what).map(Glob)
    }

    fn kind_glob(&mut self, id: NodeId) -> Option<Glob> {
        let glob = self.glob(id, "kind")?;
        let words = KINDS.map(|(word, _)| word);
        if glob.is_exact() && !words.contains(&&*glob.0) {
            let problem = self.problem(
                self.tree.at(id),
                format!("there is no kind of step called '{glob}'"),
            );
            self.problems.push(problem.did_you_mean(&glob.0, words));
        }
        Some(glob)
    }

    /// What the entries say about trying, leaving out the keys that mean something else here.
    pub(super) fn policy_of(&mut self, fields: Fields<'a>, other: &[&str]) -> StepPolicy {
        let below = fields
            .get("preset")
            .map(|id| self.presets(id))
            .unwrap_or_default();
        let mut policy = StepPolicy::default();
        for entry in fields
            .entries
            .iter()
            .filter(|entry| !other.contains(&&*entry.key))
        {
            self.policy_field(&mut policy, &entry.key, entry.value);
        }
        policy.over(&below)
    }

    /// Named policies, the later over the earlier; what is said beside them lies on top.
    fn presets(&mut self, id: NodeId) -> StepPolicy {
        let mut policy = StepPolicy::default();
        for (name, at) in self.texts(id, "preset") {
            if let Some(top) = preset::<Template>(&name) {
                policy = top.over(&policy);
                continue;
            }
            let known = PRESETS.map(|(name, _)| name);
            let problem = self
                .problem(at, format!("there is no preset '{name}'"))
                .did_you_mean(&name, known);
            let hint = format!("the presets are {}", listed(&known));
            self.problems.push(if problem.hint.is_none() {
                problem.hint(hint)
            } else {
                problem
            });
        }
        policy
    }

    fn policy_field(&mut self, policy: &mut StepPolicy, key: &str, id: NodeId) {
        match key {
            "retries" => policy.retries = self.count(id, key, 0),
            "backoff" => policy.backoff = self.word(id, key, &BACKOFF),
            "base_delay" => policy.base_delay = self.span(id, key),
            "max_delay" => policy.max_delay = self.span(id, key),
            "retry_on" => policy.retry_on = Some(self.types(id, key)),
            "never_retry_on" => policy.never_retry_on = Some(self.types(id, key)),
            "timeout" => policy.timeout = self.span(id, key),
            "deadline" => policy.deadline = self.span(id, key),
            "heartbeat" => policy.heartbeat = self.span(id, key),
            "on_failure" => policy.on_failure = self.word(id, key, &ON_FAILURE),
            "fallback" => policy.fallback = self.fallback(id),
            "priority" => policy.priority = self.priority(id),
            "idempotency_key" => policy.idempotency_key = Some(self.template(id)),
            "circuit_breaker" => policy.circuit_breaker = self.circuit_breaker(id),
            "rate_limit" => policy.rate_limit = self.rate_limit(id),
            "concurrency" => policy.concurrency = self.keyed_concurrency(id),
            "executor" => policy.executor = self.text(id, key),
            "durable" => policy.durable = self.boolean(id, key),
            "loss_budget" => policy.loss_budget = self.count(id, key, 0),
            _ => {}
        }
    }

    fn types(&mut self, id: NodeId, what: &str) -> Vec<Arc<str>> {
        self.texts(id, what)
            .into_iter()
            .map(|(name, _)| name)
            .collect()
    }

    fn priority(&mut self, id: NodeId) -> Option<Priority> {
        let level: i64 = self.count(id, "priority", 0)?;
        Priority::new(level)
            .map_err(|error| self.refuse(self.tree.at(id), error.to_string()))
            .ok()
    }

    /// `{value}`, `{retry_with}` or `{action, with}`.
    fn fallback(&mut self, id: NodeId) -> Option<Fallback<Template>> {
        let fields = self.fields(id, "'fallback'", &["value", "retry_with", "action", "with"])?;
        match (
            fields.get("value"),
            fields.get("retry_with"),
            fields.get("action"),
        ) {
            (Some(value), None, None) => Some(Fallback::Value(self.template(value))),
            (None, Some(with), None) => Some(Fallback::RetryWith(self.template(with))),
            (None, None, Some(action)) => {
                let name = self.text(action, "action")?;
                Some(Fallback::Action {
                    name,
                    with: fields.get("with").map(|id| self.template(id)),
                })
            }
            _ => {
                self.refuse(
                    fields.at,
                    "'fallback' takes one of 'value', 'retry_with' and 'action'",
                );
                None
            }
        }
    }

    fn circuit_breaker(&mut self, id: NodeId) -> Option<CircuitBreaker> {
        let fields = self.fields(id, "'circuit_breaker'", &["failures", "reset", "name"])?;
        let failures = self.required(fields, "failures", "circuit_breaker");
        let reset = self.required(fields, "reset", "circuit_breaker");
        let name = fields.get("name").and_then(|id| self.text(id, "name"));
        let failures = self.count(failures?, "failures", 1);
        let reset = self.span(reset?, "reset");
        Some(CircuitBreaker {
            failures: failures?,
            reset: reset?,
            name,
        })
    }

    /// `{count, per}`, or a text such as `10/1s`.
    fn rate_limit(&mut self, id: NodeId) -> Option<RateLimit> {
        if let Some(text) = self.as_text(id) {
            let read = text.content.split_once('/').and_then(|(count, per)| {
                Some(RateLimit {
                    count: count.trim().parse().ok()?,
                    per: per.trim().parse().ok()?,
                    name: None,
                })
            });
            if read.is_none() {
                self.mismatch(
                    id,
                    "rate_limit",
                    "'COUNT/DURATION' as in 10/1s, or {count, per}",
                );
            }
            return read;
        }
        let fields = self.fields(id, "'rate_limit'", &["count", "per", "name"])?;
        let count = self.required(fields, "count", "rate_limit");
        let per = self.required(fields, "per", "rate_limit");
        let name = fields.get("name").and_then(|id| self.text(id, "name"));
        let count = self.count(count?, "count", 1);
        let per = self.span(per?, "per");
        Some(RateLimit {
            count: count?,
            per: per?,
            name,
        })
    }

    /// `{limit, key}`, or just the limit.
    fn keyed_concurrency(&mut self, id: NodeId) -> Option<KeyedConcurrency<Template>> {
        if !matches!(self.tree.shape(id), Shape::Map(_)) {
            return self
                .count(id, "concurrency", 1)
                .map(|limit| KeyedConcurrency { limit, key: None });
        }
        let fields = self.fields(id, "'concurrency'", &["limit", "key"])?;
        let limit = self.required(fields, "limit", "concurrency")?;
        let key = fields.get("key").map(|id| self.template(id));
        self.count(limit, "limit", 1)
            .map(|limit| KeyedConcurrency { limit, key })
    }
}
