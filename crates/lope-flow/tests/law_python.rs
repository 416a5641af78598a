//! What only compiled Python asks of the law: variables that come back from a function, exceptions that are raised as
//! values, and values that are changed in place.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod build;

use build::*;
use lope_flow::definition::{Block, Kind, Step};
use lope_flow::expr::{Expr, Template};
use lope_flow::law::{Settled, drive};
use lope_model::Value;

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

/// An expression as the compiler of Python writes it.
fn code(text: &str) -> Template {
    Template::new(Expr::from_value(&json(text)).unwrap())
}

fn change(name: &str, text: &str) -> Step {
    Step::new(name, Kind::Let { value: code(text) }).set("xs")
}

/// A list that grows by one item at a time costs one item at a time: copies of it would use up what one event may cost.
#[test]
fn a_long_list_is_grown_in_place() {
    const ITEMS: i64 = 60_000;
    let mut draft = Draft::new();
    let grow = change("grow", r#"[["name", "xs"], ["name", "n"], ["call", "py.m.append", 2]]"#);
    let body = draft.block(Block::of(vec![grow, assign("up", "n + 1").set("n")]).in_order().steps);
    let steps = [
        assign("first", "[]").set("xs"),
        assign("zero", "0").set("n"),
        while_("rounds", "n < input", body, Some(1_000_000)),
        give("r", "[size(xs), xs[size(xs) - 1]]"),
    ];
    let flow = draft.root(Block::of(steps.to_vec()).in_order().steps);
    let run = drive(&flow, vec![ITEMS.into()], |_| done("unused"));
    assert_eq!(run.value(), Some(&Value::list(vec![ITEMS.into(), (ITEMS - 1).into()])), "{:?}", run.result());
}

/// A change that fails leaves the variable as it was, and one that mentions it twice sees it as it was.
#[test]
fn a_change_in_place_is_all_or_nothing() {
    let failing = [
        r#"[["name", "xs"], 9, 1, ["call", "py.set_item", 3]]"#,
        r#"[["name", "xs"], "a", 1, ["call", "py.m.insert", 3]]"#,
        r#"[["name", "xs"], 5, ["call", "py.m.extend", 2]]"#,
        r#"[["name", "xs"], ["lit", [1]], 5, ["py.index"], ["call", "py.m.append", 2]]"#,
    ];
    for text in failing {
        let mut draft = Draft::new();
        let body = draft.block([change("bad", text)]);
        let handler = draft.block([assign("seen", "'seen'")]);
        let twice = change("twice", r#"[["name", "xs"], ["name", "xs"], ["call", "py.m.append", 2]]"#);
        let steps = [
            assign("first", "[1, 2]").set("xs"),
            try_("t", body, vec![on(&[], None, handler)], None),
            twice,
            give("r", "xs"),
        ];
        let flow = draft.root(Block::of(steps.to_vec()).in_order().steps);
        let run = drive(&flow, vec![0.into()], |_| done("unused"));
        let pair = Value::list(vec![1.into(), 2.into()]);
        assert_eq!(run.value(), Some(&Value::list(vec![1.into(), 2.into(), pair])), "{text}");
    }
}

/// What is grown in place is bounded like everything else.
#[test]
fn a_list_that_is_grown_in_place_stays_within_its_limit() {
    let mut draft = Draft::new();
    let grow = change("grow", r#"[["name", "xs"], ["name", "input"], ["call", "py.m.append", 2]]"#);
    let body = draft.block([grow]);
    let steps = [assign("first", "[]").set("xs"), while_("rounds", "true", body, Some(1_000_000))];
    let flow = draft.root(Block::of(steps.to_vec()).in_order().steps);
    let text = "x".repeat(1_000_000);
    let run = drive(&flow, vec![Value::str(text)], |_| done("unused"));
    let Some(Settled::Failed(failure)) = run.result() else { panic!("{:?}", run.result()) };
    assert_eq!(&*failure.kind, "Limit");
}
