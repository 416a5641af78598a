//! Which policy a step has: the first rule that matches, what the step says itself on top, and what
//! came with the input on top of all.

use crate::definition::{Rule, StepFacts, StepPolicy};

/// The policy of a step under ordered rules: the step's own fields over those of the first rule
/// that matches it.
pub fn resolve(rules: &[Rule], facts: StepFacts<'_>, own: &StepPolicy) -> StepPolicy {
    match first_match(rules, facts) {
        Some(below) => own.over(below),
        None => own.clone(),
    }
}

/// What overrides given with an input make of a policy; nothing if none of them matches the step.
pub fn override_with(
    overrides: &[Rule],
    facts: StepFacts<'_>,
    below: &StepPolicy,
) -> Option<StepPolicy> {
    first_match(overrides, facts).map(|top| top.over(below))
}

fn first_match<'a>(rules: &'a [Rule], facts: StepFacts<'_>) -> Option<&'a StepPolicy> {
    rules
        .iter()
        .find(|rule| rule.matcher.matches(facts))
        .map(|rule| &rule.policy)
}

#[cfg(test)]
mod tests {
    use lope_model::{Policy, Span};

    use super::*;
    use crate::definition::Matcher;

    fn retries(count: u32) -> StepPolicy {
        Policy {
            retries: Some(count),
            ..Policy::default()
        }
    }

    const SEND: StepFacts<'static> = StepFacts {
        name: "send",
        path: "mail/send",
        kind: "action",
        action: Some("smtp"),
    };

    #[test]
    fn the_first_rule_that_matches_wins_and_unmatched_steps_get_the_defaults() {
        let rules = [
            Rule::new(Matcher::named("s*"), retries(1)),
            Rule::new(Matcher::named("send"), retries(9)),
        ];
        assert_eq!(resolve(&rules, SEND, &Policy::default()), retries(1));
        assert_eq!(
            resolve(
                &rules,
                StepFacts {
                    name: "pay",
                    ..SEND
                },
                &Policy::default()
            ),
            Policy::default()
        );
    }

    #[test]
    fn own_fields_lie_over_rules_and_overrides_over_both() {
        let rule = Policy {
            timeout: Some(Span::from_secs(5)),
            ..retries(1)
        };
        let resolved = resolve(&[Rule::new(Matcher::default(), rule)], SEND, &retries(2));
        assert_eq!(
            (resolved.retries, resolved.timeout),
            (Some(2), Some(Span::from_secs(5)))
        );
        let top = override_with(
            &[Rule::new(Matcher::of_kind("action"), retries(7))],
            SEND,
            &resolved,
        )
        .unwrap();
        assert_eq!(
            (top.retries, top.timeout),
            (Some(7), Some(Span::from_secs(5)))
        );
        assert_eq!(
            override_with(
                &[Rule::new(Matcher::named("x"), retries(7))],
                SEND,
                &resolved
            ),
            None
        );
    }
}
