//! The shape of a definition: blocks form a tree, lists are not empty, limits are kept. Checked
//! first, since every other check walks along it.

use std::collections::BTreeSet;

use lope_expr::TextLocation;

use crate::definition::{
    BlockId, Checkpoint, Definition, NAME_MAX, NESTING_MAX, Problem, Role, STEPS_MAX, Step,
    StepKind,
};

pub(super) fn validate(definition: &Definition) -> Vec<Problem> {
    let mut problems = settings(definition);
    problems.extend(references(definition));
    if problems.is_empty() {
        problems.extend(nesting(definition));
        for step in definition.blocks.iter().flat_map(|block| &block.steps) {
            problems.extend(contents(definition, step));
        }
    }
    problems
}

fn problem(message: impl Into<String>) -> Problem {
    Problem::new(TextLocation::NOWHERE, "", message)
}

fn settings(definition: &Definition) -> Vec<Problem> {
    let mut problems = Vec::new();
    if definition.name.is_empty()
        || definition.name.len() > NAME_MAX
        || definition.name.chars().any(char::is_control)
    {
        problems.push(problem(format!(
            "a workflow's name has 1 to {NAME_MAX} bytes and no control characters"
        )));
    }
    if definition.concurrency == Some(0) {
        problems.push(
            problem("'concurrency: 0' would never run anything").hint("leave it out for no bound"),
        );
    }
    if definition.checkpoint == Checkpoint::EveryN(0) {
        problems
            .push(problem("'every_n: 0' is no interval").hint("use 'manual' for no checkpoints"));
    }
    let steps: usize = definition
        .blocks
        .iter()
        .map(|block| block.steps.len())
        .sum();
    if steps > STEPS_MAX {
        problems.push(problem(format!(
            "{steps} steps; at most {STEPS_MAX} are allowed"
        )));
    }
    problems
}

/// Every block but the root and functions is held by exactly one step.
fn references(definition: &Definition) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut held = vec![0_u32; definition.blocks.len()];
    for step in definition.blocks.iter().flat_map(|block| &block.steps) {
        for (role, id) in step.kind.blocks() {
            let Some(block) = definition.blocks.get(id.index()) else {
                problems.push(Problem::of(
                    step,
                    &step.name,
                    format!("block {} does not exist", id.0),
                ));
                continue;
            };
            match (role, &block.parameters) {
                (Role::Function, None) => {
                    problems.push(Problem::of(
                        step,
                        &step.name,
                        format!("block {} is not a function", id.0),
                    ));
                }
                (Role::Function, Some(_)) => {}
                (_, Some(_)) => problems.push(Problem::of(
                    step,
                    &step.name,
                    "a function can only be called",
                )),
                (_, None) => held[id.index()] += 1,
            }
        }
    }
    for (index, count) in held.iter().enumerate() {
        let expected = u32::from(index != 0 && definition.blocks[index].parameters.is_none());
        if *count != expected {
            problems.push(problem(format!(
                "block {index} is held by {count} steps instead of {expected}"
            )));
        }
    }
    problems
}

fn nesting(definition: &Definition) -> Vec<Problem> {
    let mut depth = vec![0_usize; definition.blocks.len()];
    let order = definition.preorder();
    for id in &order {
        for (role, child) in definition
            .block(*id)
            .steps
            .iter()
            .flat_map(|step| step.kind.blocks())
        {
            if role != Role::Function {
                depth[child.index()] = depth[id.index()] + 1;
            }
        }
    }
    let reached: BTreeSet<BlockId> = order.into_iter().collect();
    let unreached =
        (0..definition.blocks.len()).find(|index| !reached.contains(&BlockId(*index as u32)));
    let mut problems = Vec::new();
    problems.extend(
        unreached.map(|index| problem(format!("block {index} can never run: nothing leads to it"))),
    );
    if let Some(depth) = depth.into_iter().max().filter(|depth| *depth > NESTING_MAX) {
        problems.push(problem(format!(
            "blocks are nested {depth} deep; at most {NESTING_MAX} is allowed"
        )));
    }
    problems
}

fn contents(definition: &Definition, step: &Step) -> Vec<Problem> {
    let report = |message: String| vec![Problem::of(step, &step.name, message)];
    match &step.kind {
        StepKind::Switch {
            cases,
            otherwise: None,
        } if cases.is_empty() => report("a switch needs a case".into()),
        StepKind::Race { branches } | StepKind::All { branches, .. } => {
            let word = step.kind.word();
            let mut names = BTreeSet::new();
            if branches.is_empty() {
                return report(format!("'{word}' needs a branch"));
            }
            match branches.iter().find(|branch| !names.insert(&branch.name)) {
                Some(branch) => report(format!("two branches are called '{}'", branch.name)),
                None => Vec::new(),
            }
        }
        StepKind::Call { function, with, .. } => arguments(
            definition,
            step,
            *function,
            with.iter().map(|(name, _)| &**name),
        ),
        _ => Vec::new(),
    }
}

fn arguments<'a>(
    definition: &Definition,
    step: &Step,
    function: BlockId,
    given: impl Iterator<Item = &'a str>,
) -> Vec<Problem> {
    let parameters = definition
        .block(function)
        .parameters
        .as_deref()
        .unwrap_or_default();
    let given: Vec<&str> = given.collect();
    let unknown = given
        .iter()
        .find(|name| !parameters.iter().any(|parameter| **parameter == ***name));
    let missing = parameters
        .iter()
        .find(|parameter| !given.contains(&&***parameter));
    let message = match (unknown, missing) {
        (Some(name), _) => format!("the function has no parameter '{name}'"),
        (None, Some(name)) => format!("the function's parameter '{name}' is missing"),
        (None, None) => return Vec::new(),
    };
    vec![Problem::of(step, &step.name, message)]
}
