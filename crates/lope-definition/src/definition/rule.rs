//! Policy rules: which steps a rule speaks about, and what it says.
//!
//! Matchers look at what a step *is* (name, path, kind, action), never at values, so a rule is
//! settled when a plan is made. A predicate written in Rust is settled even earlier: whoever builds
//! the definition asks it and stores `steps`.

use std::fmt;
use std::sync::Arc;

use lope_expr::{Expr, Fuel, Scope, Template, TextLocation, eval};
use lope_model::{Policy, Value};
use serde::{Deserialize, Serialize};

/// A policy whose fallbacks and keys are templates, as definitions hold them.
pub type StepPolicy = Policy<Template>;

/// A policy for the steps that match.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Rule {
    #[serde(default, rename = "match")]
    pub matcher: Matcher,
    pub policy: StepPolicy,
    /// Where it was written; like that of a step never part of what the rule is.
    #[serde(
        default,
        with = "super::step::location",
        skip_serializing_if = "super::step::is_nowhere"
    )]
    pub at: TextLocation,
}

/// Which steps. All that is said must hold; a matcher that says nothing matches every step.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Matcher {
    /// The step's name, or its path (`mail/send`) if the pattern has a `/`; `*` and `?` are wild.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Glob>,
    /// The step's kind (`action`, `run`, `http`…).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Glob>,
    /// The action that the step dispatches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<Glob>,
    /// A predicate over `step` (`name`, `path`, `kind`, `action`).
    #[serde(default, rename = "where", skip_serializing_if = "Option::is_none")]
    pub predicate: Option<Expr>,
    /// The paths of the steps for which a predicate outside the definition held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<Vec<Arc<str>>>,
}

/// A pattern with `*` (any text) and `?` (any character).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Glob(pub Arc<str>);

/// What a matcher may look at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StepFacts<'a> {
    pub name: &'a str,
    /// Names of the steps around it and its own, as in `mail/send`.
    pub path: &'a str,
    pub kind: &'a str,
    pub action: Option<&'a str>,
}

impl Rule {
    pub fn new(matcher: Matcher, policy: StepPolicy) -> Self {
        Self {
            matcher,
            policy,
            at: TextLocation::NOWHERE,
        }
    }
}

impl Matcher {
    /// Steps with this name (or pattern).
    pub fn named(pattern: &str) -> Self {
        Self {
            step: Some(pattern.into()),
            ..Self::default()
        }
    }

    pub fn of_kind(kind: &str) -> Self {
        Self {
            kind: Some(kind.into()),
            ..Self::default()
        }
    }

    /// Exactly the steps with these paths.
    pub fn of_paths(paths: Vec<Arc<str>>) -> Self {
        Self {
            steps: Some(paths),
            ..Self::default()
        }
    }

    /// Does the rule speak about this step? A predicate that fails to evaluate to a bool does not
    /// hold.
    pub fn matches(&self, facts: StepFacts<'_>) -> bool {
        self.step.as_ref().is_none_or(|glob| {
            glob.matches(if glob.0.contains('/') {
                facts.path
            } else {
                facts.name
            })
        }) && self
            .kind
            .as_ref()
            .is_none_or(|glob| glob.matches(facts.kind))
            && self
                .action
                .as_ref()
                .is_none_or(|glob| facts.action.is_some_and(|action| glob.matches(action)))
            && self
                .steps
                .as_ref()
                .is_none_or(|steps| steps.iter().any(|path| **path == *facts.path))
            && self
                .predicate
                .as_ref()
                .is_none_or(|predicate| facts.satisfy(predicate))
    }
}

impl StepFacts<'_> {
    fn satisfy(self, predicate: &Expr) -> bool {
        let step = Value::map([
            ("name", Value::str(self.name)),
            ("path", Value::str(self.path)),
            ("kind", Value::str(self.kind)),
            ("action", self.action.into()),
        ]);
        let mut fuel = Fuel::default();
        matches!(
            eval(predicate, &JustStep(step), &mut fuel),
            Ok(Value::Bool(true))
        )
    }
}

/// The scope of a predicate.
struct JustStep(Value);

impl Scope for JustStep {
    fn lookup(&self, name: &str) -> Option<&Value> {
        (name == "step").then_some(&self.0)
    }
}

impl From<&str> for Glob {
    fn from(pattern: &str) -> Self {
        Self(pattern.into())
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Glob {
    /// Is the pattern just a word?
    pub fn is_exact(&self) -> bool {
        !self.0.contains(['*', '?'])
    }

    /// Linear in pattern and text for one star, and never worse than their product.
    pub fn matches(&self, text: &str) -> bool {
        let (pattern, text): (Vec<char>, Vec<char>) =
            (self.0.chars().collect(), text.chars().collect());
        let (mut p, mut t) = (0, 0);
        let mut star: Option<(usize, usize)> = None;
        while t < text.len() {
            if pattern.get(p) == Some(&'*') {
                star = Some((p, t));
                p += 1;
            } else if pattern.get(p).is_some_and(|c| *c == '?' || *c == text[t]) {
                (p, t) = (p + 1, t + 1);
            } else if let Some((at, taken)) = star {
                star = Some((at, taken + 1));
                (p, t) = (at + 1, taken + 1);
            } else {
                return false;
            }
        }
        pattern[p..].iter().all(|c| *c == '*')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_whole_texts() {
        for (pattern, text, expected) in [
            ("send", "send", true),
            ("send", "sender", false),
            ("send*", "sender", true),
            ("*end*", "sender", true),
            ("s?nd", "send", true),
            ("s?nd", "snd", false),
            ("*", "", true),
            ("?", "", false),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxbyy", false),
            ("*a", "aaab", false),
        ] {
            assert_eq!(
                Glob::from(pattern).matches(text),
                expected,
                "{pattern} {text}"
            );
        }
    }

    #[test]
    fn everything_that_a_matcher_says_must_hold() {
        let facts = StepFacts {
            name: "send",
            path: "mail/send",
            kind: "action",
            action: Some("send_email"),
        };
        assert!(Matcher::default().matches(facts));
        assert!(Matcher::named("send").matches(facts) && Matcher::named("*/send").matches(facts));
        assert!(
            !Matcher {
                kind: Some("run".into()),
                ..Matcher::named("send")
            }
            .matches(facts)
        );
        assert!(
            Matcher {
                action: Some("send_*".into()),
                ..Matcher::default()
            }
            .matches(facts)
        );
        assert!(
            !Matcher {
                action: Some("*".into()),
                ..Matcher::default()
            }
            .matches(StepFacts {
                action: None,
                ..facts
            })
        );
        assert!(Matcher::of_paths(vec!["mail/send".into()]).matches(facts));
        let predicate = Expr::binary(
            lope_expr::Binary::Eq,
            Expr::name("step").field("kind"),
            Expr::literal("action"),
        );
        assert!(
            Matcher {
                predicate: Some(predicate),
                ..Matcher::default()
            }
            .matches(facts)
        );
    }
}
