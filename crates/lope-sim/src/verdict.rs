//! What is wrong with a world: it is lived through twice, with its faults and without.

use crate::faults::Faults;
use crate::report::SimReport;
use crate::world::{Setup, simulate};

/// What is wrong with a world, if anything is: the checker's words, or ends that differ from those
/// without faults.
pub fn complaint(setup: &Setup) -> Option<String> {
    let expected = simulate(&without_faults(setup));
    if !expected.violations.is_empty() {
        return Some(format!(
            "without faults: {}",
            expected.violations.join("\n")
        ));
    }
    let SimReport {
        ends, violations, ..
    } = simulate(setup);
    if !violations.is_empty() {
        return Some(violations.join("\n"));
    }
    let names: Vec<String> = setup
        .jobs
        .iter()
        .map(|job| job.plan.name().to_string())
        .collect();
    (ends != expected.ends).then(|| {
        format!(
            "{names:?}\n  ended as   {ends:?}\n  instead of {:?}",
            expected.ends
        )
    })
}

fn without_faults(setup: &Setup) -> Setup {
    Setup {
        faults: Faults::none(),
        mutant: None,
        traced: false,
        ..setup.clone()
    }
}

/// What goes wrong in a world, and the last things that happened in it: in the one without faults,
/// where that one is to blame.
pub fn story(setup: &Setup, lines: usize) -> String {
    let calm = without_faults(setup);
    let is_calm_to_blame = !simulate(&calm).violations.is_empty();
    let told = if is_calm_to_blame { &calm } else { setup };
    let trace = simulate(&Setup {
        traced: true,
        ..told.clone()
    })
    .trace;
    let last = trace
        .iter()
        .skip(trace.len().saturating_sub(lines))
        .map(String::as_str);
    format!("{:?}\n{}", told.faults, last.collect::<Vec<_>>().join("\n"))
}
