//! Policies of a flow: which steps a rule speaks about, and how they are tried.
//!
//! Matchers look at what a step is, never at values; a predicate written in Rust is asked once,
//! when the flow is built, and the definition holds the steps for which it held.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lope_definition::policy::preset;
use lope_definition::{Definition, Matcher, Rule, StepFacts, StepPolicy};
use lope_expr::{Origin, Template};
use lope_model::policy::{
    Backoff, CircuitBreaker, Fallback, KeyedConcurrency, OnFailure, RateLimit,
};
use lope_model::{Policy, Priority, Span};
use lope_workers::function::BoxedFunction;
use serde::Serialize;

use super::work::Work;
use crate::convert::to_value;
use crate::error::{Error, Result};

/// What a predicate may look at.
pub type Facts<'a> = StepFacts<'a>;

type Predicate = Arc<dyn for<'a> Fn(Facts<'a>) -> bool + Send + Sync>;

/// Which steps.
#[derive(Clone)]
pub struct Match {
    matcher: Matcher,
    predicate: Option<Predicate>,
}

impl Match {
    /// Every step.
    pub fn all() -> Self {
        Self {
            matcher: Matcher::default(),
            predicate: None,
        }
    }

    /// Steps of a kind: `action`, `each`, `workflow`, `state`…
    pub fn kind(kind: &str) -> Self {
        Self {
            matcher: Matcher::of_kind(kind),
            predicate: None,
        }
    }

    /// Steps for which a predicate over their name, path, kind and action holds.
    pub fn when(predicate: impl for<'a> Fn(Facts<'a>) -> bool + Send + Sync + 'static) -> Self {
        Self {
            predicate: Some(Arc::new(predicate)),
            ..Self::all()
        }
    }
}

/// A name, or a pattern with `*` and `?`.
impl From<&str> for Match {
    fn from(pattern: &str) -> Self {
        Self {
            matcher: Matcher::named(pattern),
            predicate: None,
        }
    }
}

/// How the steps that match are tried. The first rule that matches a step is the one it has.
#[derive(Clone)]
pub struct PolicyRule {
    matches: Match,
    policy: StepPolicy,
    pub(super) fallback: Option<BoxedFunction>,
    problems: Vec<(&'static str, String)>,
}

/// A rule for the steps that match: `policy("send*").retries(3)`.
pub fn policy(matches: impl Into<Match>) -> PolicyRule {
    PolicyRule {
        matches: matches.into(),
        policy: Policy::default(),
        fallback: None,
        problems: Vec::new(),
    }
}

impl PolicyRule {
    /// Lay a preset (`once`, `quick`, `network`, `patient`, `critical`, `optional`) over what is
    /// said so far.
    #[must_use]
    pub fn preset(mut self, name: &str) -> Self {
        match preset(name) {
            Some(top) => self.policy = top.over(&self.policy),
            None => self
                .problems
                .push(("preset", format!("there is none called '{name}'"))),
        }
        self
    }

    #[must_use]
    pub fn retries(mut self, retries: u32) -> Self {
        self.policy.retries = Some(retries);
        self
    }

    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.policy.backoff = Some(backoff);
        self
    }

    #[must_use]
    pub fn base_delay(mut self, delay: Duration) -> Self {
        self.policy.base_delay = Some(span(delay));
        self
    }

    #[must_use]
    pub fn max_delay(mut self, delay: Duration) -> Self {
        self.policy.max_delay = Some(span(delay));
        self
    }

    /// Only failures of these types are tried again.
    #[must_use]
    pub fn retry_on(mut self, kinds: &[&str]) -> Self {
        self.policy.retry_on = Some(kinds.iter().map(|kind| (*kind).into()).collect());
        self
    }

    #[must_use]
    pub fn never_retry_on(mut self, kinds: &[&str]) -> Self {
        self.policy.never_retry_on = Some(kinds.iter().map(|kind| (*kind).into()).collect());
        self
    }

    /// Longest time of one attempt.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.policy.timeout = Some(span(timeout));
        self
    }

    /// No new attempt later than this after the first.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.policy.deadline = Some(span(deadline));
        self
    }

    /// A step that has failed for good is skipped with what needs it; the rest goes on.
    #[must_use]
    pub fn skip_on_failure(mut self) -> Self {
        self.policy.on_failure = Some(OnFailure::Skip);
        self
    }

    /// When the retries are spent, this is the step's output.
    #[must_use]
    pub fn fallback_value<T: Serialize>(mut self, value: T) -> Self {
        match to_value(&value) {
            Ok(value) => self.policy.fallback = Some(Fallback::Value(Template::literal(value))),
            Err(message) => self.problems.push(("fallback_value", message)),
        }
        self
    }

    /// When the retries are spent, one more attempt with these arguments.
    #[must_use]
    pub fn retry_with<T: Serialize>(mut self, arguments: T) -> Self {
        match to_value(&arguments) {
            Ok(value) => self.policy.fallback = Some(Fallback::RetryWith(Template::literal(value))),
            Err(message) => self.problems.push(("retry_with", message)),
        }
        self
    }

    /// When the retries are spent, other work with the step's own arguments.
    #[must_use]
    pub fn fallback<A>(mut self, work: impl Work<A>) -> Self {
        self.fallback = Some(work.into_function());
        self
    }

    /// Who goes first among those that are ready: 0 to 9, higher first, 4 is normal.
    #[must_use]
    pub fn priority(mut self, level: i64) -> Self {
        match Priority::new(level) {
            Ok(priority) => self.policy.priority = Some(priority),
            Err(error) => self.problems.push(("priority", error.to_string())),
        }
        self
    }

    /// An expression (`"${{ input.id }}"`): attempts with an equal key have one effect.
    #[must_use]
    pub fn idempotency_key(mut self, template: &str) -> Self {
        self.policy.idempotency_key = self.template("idempotency_key", template);
        self
    }

    /// Open after so many failures in a row; try one again after `reset`.
    #[must_use]
    pub fn circuit_breaker(mut self, failures: u32, reset: Duration) -> Self {
        self.policy.circuit_breaker = Some(CircuitBreaker {
            failures,
            reset: span(reset),
            name: None,
        });
        self
    }

    /// At most `count` starts in every `per`.
    #[must_use]
    pub fn rate_limit(mut self, count: u32, per: Duration) -> Self {
        self.policy.rate_limit = Some(RateLimit {
            count,
            per: span(per),
            name: None,
        });
        self
    }

    /// At most so many attempts at once, over all runs.
    #[must_use]
    pub fn concurrency(mut self, limit: u32) -> Self {
        self.policy.concurrency = Some(KeyedConcurrency { limit, key: None });
        self
    }

    /// Journal each dispatch too, so that what was dispatched and not completed can be listed.
    #[must_use]
    pub fn durable(mut self) -> Self {
        self.policy.durable = Some(true);
        self
    }

    /// Which executor does it, if not this program's functions.
    #[must_use]
    pub fn executor(mut self, kind: &str) -> Self {
        self.policy.executor = Some(kind.into());
        self
    }

    fn template(&mut self, option: &'static str, text: &str) -> Option<Template> {
        match Template::parse_text(text, Origin::START) {
            Ok(template) => Some(template),
            Err(error) => {
                self.problems.push((option, error.to_string()));
                None
            }
        }
    }

    /// The rule as a definition holds it. `fallback` names the action of a fallback that is a
    /// closure.
    pub(crate) fn resolve(&self, definition: &Definition, fallback: Option<&str>) -> Result<Rule> {
        if let Some((option, message)) = self.problems.first() {
            return Err(Error::BadOption {
                option,
                message: message.clone(),
            });
        }
        let mut policy = self.policy.clone();
        if self.fallback.is_some() {
            let name = fallback.ok_or_else(|| Error::BadOption {
                option: "fallback",
                message: "a closure must be part of the flow: give it to the builder".to_owned(),
            })?;
            policy.fallback = Some(Fallback::Action {
                name: name.into(),
                with: None,
            });
        }
        let matcher = match &self.matches.predicate {
            None => self.matches.matcher.clone(),
            Some(predicate) => Matcher::of_paths(paths(definition, &**predicate)),
        };
        Ok(Rule::new(matcher, policy))
    }
}

/// The paths of the steps for which a predicate holds.
fn paths(definition: &Definition, holds: &dyn for<'a> Fn(Facts<'a>) -> bool) -> Vec<Arc<str>> {
    let prefixes = definition.prefixes();
    let blocks = definition.blocks.iter().zip(&prefixes);
    let steps =
        blocks.flat_map(|(block, prefix)| block.steps.iter().map(move |step| (prefix, step)));
    let paths = steps.filter_map(|(prefix, step)| {
        let path = format!("{prefix}{}", step.name);
        holds(step.kind.facts(&step.name, &path)).then(|| path.as_str().into())
    });
    paths.collect()
}

pub(super) fn span(duration: Duration) -> Span {
    Span::from_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

impl fmt::Debug for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Match({:?}, predicate: {})",
            self.matcher,
            self.predicate.is_some()
        )
    }
}

impl fmt::Debug for PolicyRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PolicyRule({:?}, {:?})", self.matches, self.policy)
    }
}
