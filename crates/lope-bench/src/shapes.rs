//! The workflows that are measured. Their only action does nothing, so that what is left is the
//! engine's and the store's.

use std::sync::Arc;

use lope::workflows::{self, Plan};

/// The name of the action that does nothing.
pub(crate) const NOTHING: &str = "nothing";

/// One step.
pub(crate) const ONE: &str = "
name: bench-one
steps:
  only: { action: nothing, with: { number: '${{ input }}' } }
";

/// As many steps as the input says, one after the other.
pub(crate) const SEQUENCE: &str = "
name: bench-sequence
steps:
  start: { let: 0, set: round }
  rounds:
    while: round < input
    max: 100000000
    needs: [start]
    steps:
      step: { action: nothing, with: { number: '${{ round }}' } }
      next: { let: '${{ round + 1 }}', set: round, needs: [step] }
";

/// As many steps as the input says, all at once.
pub(crate) const FAN: &str = "
name: bench-fan
steps:
  all:
    each: ${{ range(input) }}
    as: number
    parallel: max
    steps:
      step: { action: nothing, with: { number: '${{ number }}' } }
  done: { return: '${{ size(all) }}' }
";

/// It sleeps as long as the input says.
pub(crate) const SLEEPER: &str = "
name: bench-sleeper
steps:
  nap: { sleep: '${{ input }}' }
";

/// A plan of one of these texts.
pub(crate) fn plan(text: &str) -> Arc<Plan> {
    workflows::read(text, "bench").expect("the texts above are workflows")
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_shape_is_a_workflow() {
        for text in [super::ONE, super::SEQUENCE, super::FAN, super::SLEEPER] {
            assert!(super::plan(text).name().starts_with("bench-"));
        }
    }
}
