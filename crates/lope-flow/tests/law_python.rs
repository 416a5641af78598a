//! What only compiled Python asks of the law: variables that come back from a function, the heap of
//! a run, and tasks.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::build;

use lope_definition::{Block, Parallel, Step, StepKind};
use lope_flow::law::{Settled, drive};
use lope_model::Value;

use build::*;

/// Calls a function with `n` and takes `n` back.
fn call_back(name: &str, function: lope_definition::BlockId) -> Step {
    Step::new(
        name,
        StepKind::Call {
            function,
            with: vec![("n".into(), t("n"))],
            back: vec!["n".into()],
        },
    )
}

#[test]
fn a_function_gives_back_what_it_set() {
    let mut draft = Draft::new();
    let function = draft.function(&["n"], [assign("up", "n + 1").set("n")]);
    let steps = Block::of(vec![
        assign("first", "input").set("n"),
        call_back("f", function),
        give("r", "n"),
    ])
    .in_order();
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
    let steps = [
        assign("first", "input").set("n"),
        try_("t", body, vec![on(&[], None, handler)], None),
        give("r", "n"),
    ];
    let flow = draft.root(Block::of(steps.to_vec()).in_order().steps);
    let run = drive(&flow, vec![4.into()], |_| done("unused"));
    assert_eq!(run.value(), Some(&50.into()));
}

/// A step that works on the heap of its run.
fn region(name: &str) -> Step {
    let StepKind::Dispatch(mut spec) = dispatch(ACTION, name, "{}") else {
        panic!("a dispatch is a dispatch");
    };
    spec.heap = true;
    Step::new(name, StepKind::Dispatch(spec))
}

/// The heap as a region is given it, as text.
fn heap_of(dispatch: &lope_flow::law::Dispatch) -> String {
    let heap = dispatch.with.get("heap").unwrap();
    if *heap == Value::Null {
        return String::new();
    }
    let pages = heap.get("pages").and_then(Value::as_list).unwrap();
    let text = pages.iter().map(|page| match page {
        Value::Bytes(bytes) => std::str::from_utf8(bytes).unwrap(),
        other => panic!("{other:?}"),
    });
    text.collect()
}

/// What a region answers that adds to the heap or writes it anew.
fn answer(adds: bool, new: &str) -> Settled {
    let new = Value::Bytes(new.as_bytes().into());
    let change = Value::list(vec![Value::str("some version"), Value::Bool(adds), new]);
    done(Value::map([("heap", change), ("v", Value::Int(1))]))
}

/// Regions that are ready together follow each other, and each sees what those before it changed.
#[test]
fn a_region_has_the_heap_alone() {
    let flow = flow([region("a"), region("b"), act("plain", "{}"), region("c")]);
    let mut seen = Vec::new();
    let run = drive(&flow, vec![Value::Null], |dispatch| {
        if &*dispatch.action == "plain" {
            assert_eq!(dispatch.with.get("heap"), None);
            return done("no heap");
        }
        let heap = heap_of(dispatch);
        seen.push(heap.clone());
        match &*dispatch.action {
            "a" => answer(false, "xyz"),
            "b" => answer(true, "-"),
            _ => answer(false, "anew"),
        }
    });
    assert_eq!(seen, ["", "xyz", "xyz-"]);
    assert!(run.value().is_some(), "{:?}", run.status());
    let mut state = run.state;
    let mut blobs = Vec::new();
    let bytes = state.encode(&mut blobs);
    let again = lope_flow::law::State::decode(&bytes, |_| None).unwrap();
    assert_eq!(again, state);
}

/// A region that is lost with its runner has changed nothing, and has the heap again.
#[test]
fn a_lost_region_changes_nothing() {
    let flow = flow([region("a"), region("b").follows(&["a"])]);
    let mut tries = 0;
    let run = drive(&flow, vec![Value::Null], |dispatch| {
        tries += 1;
        match (&*dispatch.action, tries) {
            ("a", _) => answer(false, "one"),
            ("b", _) => {
                assert_eq!(heap_of(dispatch), "one");
                failed("WorkerLost")
            }
            (other, _) => panic!("no step calls {other}"),
        }
    });
    assert!(tries > 2, "it was tried again: {tries}");
    assert!(run.value().is_none());
}

/// Pages are few however often a region adds something, and what was added is all there.
#[test]
fn a_heap_that_grows_has_few_pages() {
    let mut draft = Draft::new();
    let body = draft.block([region("a")]);
    let flow = plan(&draft.define([each("loop", "input", "x", Parallel::One, body)]));
    let (mut expected, mut most, mut rounds) = (String::new(), 0, 0);
    drive(
        &flow,
        vec![Value::list(vec![Value::Null; 1_000])],
        |dispatch| {
            assert_eq!(heap_of(dispatch), expected);
            let pages = dispatch.with.get("heap").and_then(|heap| heap.get("pages"));
            most = most.max(pages.and_then(Value::as_list).map_or(0, <[Value]>::len));
            rounds += 1;
            let new = format!("{rounds},");
            expected.push_str(&new);
            answer(true, &new)
        },
    );
    assert_eq!(rounds, 1_000);
    assert!(most <= 16, "{most} pages");
}

/// A heap that grows for long is stored once, not again and again with every page that is put to
/// another.
#[test]
fn pages_that_are_full_stay_as_they_are() {
    let mut draft = Draft::new();
    let body = draft.block([region("a")]);
    let flow = plan(&draft.define([each("loop", "input", "x", Parallel::One, body)]));
    let new = "x".repeat(1_000);
    let mut seen: Vec<usize> = Vec::new();
    drive(
        &flow,
        vec![Value::list(vec![Value::Null; 500])],
        |dispatch| {
            let pages = dispatch.with.get("heap").and_then(|heap| heap.get("pages"));
            let lengths = pages.and_then(Value::as_list).unwrap_or_default();
            seen = lengths
                .iter()
                .map(|page| match page {
                    Value::Bytes(bytes) => bytes.len(),
                    other => panic!("{other:?}"),
                })
                .collect();
            answer(true, &new)
        },
    );
    assert_eq!(seen.iter().sum::<usize>(), 499 * 1_000);
    let full = seen.iter().filter(|length| **length >= 32 * 1024).count();
    assert!((5..=16).contains(&full), "{seen:?}");
    assert!(seen.iter().all(|length| *length < 100 * 1024), "{seen:?}");
    assert!(seen.len() <= full + 16, "{seen:?}");
}

/// Regions start tasks beside the code that started them, wake who waits, and cancel; whoever wakes
/// somebody who is gone wakes nobody else.
#[test]
fn regions_start_wake_and_cancel_tasks() {
    let mut draft = Draft::new();
    let turn = |name: &str| {
        let kind = StepKind::Wait {
            signal: t("'\\u0000w' + string(task)"),
            timeout: None,
            default: None,
        };
        Step::new(name, kind)
    };
    let task = draft.block([turn("turn"), act("work", "task").follows(&["turn"])]);
    let StepKind::Each {
        over,
        item,
        parallel,
        block,
        on_error,
        ..
    } = each("tasks", "[]", "task", Parallel::Max, task).kind
    else {
        panic!("a loop is a loop");
    };
    let host = StepKind::Each {
        over,
        item,
        index: None,
        parallel,
        block,
        on_error,
        open: true,
    };
    let tasks = draft.block([Step::new("tasks", host)]);
    let main = draft.block([
        region("start"),
        region("wake").follows(&["start"]),
        region("end").follows(&["wake"]),
    ]);
    let both = race("both", &[("main", main), ("tasks", tasks)]);
    let flow = plan(&draft.define([both]));
    let mut worked = Vec::new();
    let run = drive(&flow, vec![Value::Null], |dispatch| {
        let turns = |entries| done(Value::map([("tasks", Value::map(entries))]));
        match &*dispatch.action {
            "start" => turns([("start", Value::from(vec![1.into(), 2.into(), 3.into()]))]),
            "wake" => {
                let name =
                    |number| Value::list(vec![Value::str(format!("\0w{number}")), Value::Null]);
                let wake = Value::list(vec![name(1), name(9), name(3)]);
                done(Value::map([(
                    "tasks",
                    Value::map([("wake", wake), ("cancel", Value::list(vec![Value::Int(2)]))]),
                )]))
            }
            "end" => done(Value::Null),
            _ => {
                worked.push(dispatch.with.clone());
                done(Value::Null)
            }
        }
    });
    assert_eq!(
        worked,
        [Value::Int(1)],
        "the second was not woken, the third was cancelled"
    );
    assert!(run.value().is_some(), "{:?}", run.status());
}
