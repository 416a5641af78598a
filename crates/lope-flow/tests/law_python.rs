//! What only compiled Python asks of the law: variables that come back from a function, and exceptions that are raised
//! as values.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod build;

use build::*;
use lope_flow::definition::{Block, Kind, Step};
use lope_flow::law::drive;

/// Calls a function with `n` and takes `n` back.
fn call_back(name: &str, function: lope_flow::definition::BlockId) -> Step {
    Step::new(name, Kind::Call { function, with: vec![("n".into(), t("n"))], back: vec!["n".into()] })
}

#[test]
fn a_function_gives_back_what_it_set() {
    let mut draft = Draft::new();
    let function = draft.function(&["n"], [assign("up", "n + 1").set("n")]);
    let steps = Block::of(vec![assign("first", "input").set("n"), call_back("f", function), give("r", "n")]).in_order();
    let flow = draft.root(steps.steps);
    let run = drive(&flow, vec![4.into()], |_| done("unused"));
    assert_eq!(run.value(), Some(&5.into()));
}

/// What a method does to its object before it fails stays done.
#[test]
fn a_function_that_fails_gives_back_too() {
    let mut draft = Draft::new();
    let failing = Block::of(vec![assign("up", "n + 1").set("n"), raise("no", "'no'")]).in_order();
    let function = draft.function(&["n"], failing.steps);
    let body = draft.block([call_back("f", function)]);
    let handler = draft.block([assign("seen", "n * 10").set("n")]);
    let steps =
        [assign("first", "input").set("n"), try_("t", body, vec![on(&[], None, handler)], None), give("r", "n")];
    let flow = draft.root(Block::of(steps.to_vec()).in_order().steps);
    let run = drive(&flow, vec![4.into()], |_| done("unused"));
    assert_eq!(run.value(), Some(&50.into()));
}
