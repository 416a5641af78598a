//! A definition whose rules have been applied: every step carries the whole of its policy.

use lope_model::Policy;

use super::{BlockId, Definition, Step, StepFacts, StepKind, StepPolicy};
use crate::policy::resolve;

impl Definition {
    /// The same workflow with the policy of every step merged from the rules and its own fields.
    /// Rules only give a step what means something on its kind.
    pub fn merged(&self) -> Self {
        let mut merged = self.clone();
        let prefixes = self.prefixes();
        for (index, prefix) in prefixes.iter().enumerate() {
            for step in &mut merged.block_mut(BlockId(index as u32)).steps {
                step.policy = self.policy_of(step, &format!("{prefix}{}", step.name));
            }
        }
        merged
    }

    fn policy_of(&self, step: &Step, path: &str) -> StepPolicy {
        let resolved = resolve(
            &self.policies,
            step.kind.facts(&step.name, path),
            &step.policy,
        );
        match step.kind {
            StepKind::Dispatch(_) | StepKind::Workflow { .. } => resolved,
            _ => Policy {
                on_failure: resolved.on_failure,
                ..Policy::default()
            },
        }
    }
}

impl StepKind {
    /// What a matcher may look at in a step of this kind.
    pub fn facts<'a>(&'a self, name: &'a str, path: &'a str) -> StepFacts<'a> {
        let action = match self {
            Self::Dispatch(dispatch) => Some(&*dispatch.action),
            Self::State { action, .. } => action.as_deref(),
            _ => None,
        };
        StepFacts {
            name,
            path,
            kind: self.word(),
            action,
        }
    }
}
