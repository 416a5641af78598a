//! The scheduler: who runs, when, in which order, and why.

use std::cell::Cell;
use std::rc::Rc;

use lope_model::{Failure, Span, Timestamp};
use lope_reactive::Json;
use lope_reactive::machine::SpaceOutput;
use lope_reactive::scheduler::{ChangedBy, NodePlace, NodeRole, NodeSpec, NonSettling, RunReason};

use crate::fixture::{cell, json, link};
use crate::sheet::{Sheet, number};

fn reports(sheet: &mut Sheet) -> Vec<NonSettling> {
    let outputs = std::mem::take(&mut sheet.outputs).into_iter();
    let report = |output| match output {
        SpaceOutput::NonSettling(report) => Some(report),
        _ => None,
    };
    outputs.filter_map(report).collect()
}

#[test]
fn a_node_runs_when_it_is_invalid_live_and_eligible_and_registering_runs_nothing() {
    let mut sheet = Sheet::new(json!({"a": 1}));
    let double = sheet.compute(&["a"], "b", |values| values[0] * 2);
    assert!(sheet.ran().is_empty());
    sheet.turn(Vec::new());
    assert!(sheet.ran().is_empty(), "invalid, but nobody wants it");
    let observer = sheet.observe("b");
    assert!(sheet.ran().is_empty(), "live, but no turn yet");
    sheet.turn(Vec::new());
    assert_eq!(
        (sheet.ran(), sheet.int("b")),
        (vec![double, observer], Some(2))
    );
    sheet.turn(Vec::new());
    assert!(sheet.ran().is_empty(), "live, but valid");
    sheet.machine.nodes().remove(observer);
    sheet.set("a", 5);
    assert!(sheet.ran().is_empty(), "nobody wants it any more");
    assert_eq!((sheet.why(double).live, sheet.int("b")), (false, Some(2)));
    sheet.observe("b");
    sheet.turn(Vec::new());
    assert_eq!(
        sheet.int("b"),
        Some(10),
        "brought up to date when somebody wants it again"
    );
    assert!(sheet.machine.is_idle(sheet.now));
}

#[test]
fn invalidation_is_by_value_and_path() {
    let mut sheet = Sheet::new(json!({"a": 1, "o": {"x": 1, "y": 1}}));
    let sign = sheet.compute(&["a"], "sign", |values| values[0].signum());
    let text = sheet.compute(&["sign"], "text", |values| values[0] + 100);
    let whole = sheet.observe("o");
    let part = sheet.observe("o/x");
    sheet.observe("text");
    sheet.turn(Vec::new());
    sheet.ran();
    sheet.set("a", 7);
    assert_eq!(
        sheet.ran(),
        [sign],
        "an unchanged output runs nothing downstream"
    );
    sheet.set("a", -7);
    assert_eq!(sheet.ran()[..2], [sign, text]);
    sheet.set("o/y", 2);
    assert_eq!(sheet.ran(), [whole]);
    sheet.set("o", json!({"x": 2, "y": 2}));
    assert_eq!(sheet.ran(), [whole, part]);
    sheet.set("o", json!({"x": 2, "y": 2}));
    sheet.set("unrelated", 1);
    assert!(sheet.ran().is_empty());
}

#[test]
fn a_value_under_a_parent_that_was_not_there_runs_its_own_readers_alone() {
    let mut sheet = Sheet::new(json!({}));
    let reads_x = sheet.observe("a/b/x");
    let reads_y = sheet.observe("a/b/y");
    let reads_b = sheet.observe("a/b");
    sheet.turn(Vec::new());
    sheet.ran();
    sheet.set("a/b/x", 1);
    assert_eq!(sheet.ran(), [reads_x, reads_b]);
    sheet.set("a/b/y", 1);
    assert_eq!(sheet.ran(), [reads_y, reads_b]);
    sheet.set("a", json!({"b": {}}));
    assert_eq!(sheet.ran(), [reads_x, reads_y, reads_b]);
    sheet.set("a", json!({}));
    assert_eq!(sheet.ran(), [reads_b], "nothing was there but an object");
    sheet.set("elsewhere", json!({"x": 1}));
    sheet.set("a/b", link("sheet/elsewhere"));
    assert_eq!(sheet.ran(), [reads_x, reads_y, reads_b], "a link leads on");
}

#[test]
fn an_actions_own_writes_do_not_trigger_it() {
    let mut sheet = Sheet::new(json!({"a": 1, "log": 0}));
    let node = sheet.node(NodeRole::Observer, &["a"], "log", |transaction| {
        let next = number(transaction, "sheet/log") + number(transaction, "sheet/a");
        transaction.set(&cell("sheet/log"), &next.into()).unwrap();
        Ok(())
    });
    sheet.turn(Vec::new());
    assert_eq!((sheet.ran(), sheet.int("log")), (vec![node], Some(1)));
    sheet.set("a", 10);
    assert_eq!((sheet.ran(), sheet.int("log")), (vec![node], Some(11)));
    sheet.set("log", 0);
    assert_eq!(
        (sheet.ran(), sheet.int("log")),
        (vec![node], Some(10)),
        "the writes of others do"
    );
}

#[test]
fn data_edges_decide_then_parents_then_registration() {
    let mut sheet = Sheet::new(json!({"a": 1}));
    // Registered against the direction of the data: join of two that come from one.
    let seen = sheet.observe("join");
    let join = sheet.compute(&["left", "right"], "join", |values| values[0] + values[1]);
    let right = sheet.compute(&["middle"], "right", |values| values[0] * 10);
    let middle = sheet.compute(&["a"], "middle", |values| values[0]);
    let left = sheet.compute(&["a"], "left", |values| values[0]);
    sheet.turn(Vec::new());
    assert_eq!(sheet.ran(), [middle, left, right, join, seen], "each once");
    assert_eq!(sheet.int("join"), Some(11));
    sheet.set("a", 2);
    assert_eq!(sheet.ran(), [middle, left, right, join, seen]);

    let mut sheet = Sheet::new(json!({}));
    let first = sheet.observe("x");
    let child = sheet.machine.nodes().add(NodeSpec {
        role: NodeRole::Observer,
        place: NodePlace::default(),
        parent: Some(first),
        reads: [].into(),
        writes: [].into(),
    });
    let second = sheet.observe("y");
    assert!(child < second, "the child was registered first");
    let ignore = sheet.node(NodeRole::Computation, &[], "unused", |_| Ok(()));
    sheet.machine.nodes().remove(ignore);
    sheet.machine.nodes().remove(child);
    let grandchild = sheet.machine.nodes().add(NodeSpec {
        role: NodeRole::Observer,
        place: NodePlace::default(),
        parent: Some(first),
        reads: [].into(),
        writes: [].into(),
    });
    sheet.machine.program().adopt(grandchild);
    let third = sheet.observe("z");
    sheet.turn(Vec::new());
    assert_eq!(sheet.ran(), [first, second, third, grandchild]);
}

#[test]
fn an_unselected_branch_is_not_computed() {
    let mut sheet = Sheet::new(json!({"condition": true, "a": 1}));
    let yes = sheet.compute(&["a"], "yes", |values| values[0] + 1);
    let no = sheet.compute(&["a"], "no", |values| values[0] - 1);
    sheet.node(
        NodeRole::Computation,
        &["condition"],
        "chosen",
        |transaction| {
            let condition = transaction.get(&cell("sheet/condition")) == Some(Json::Bool(true));
            let branch = link(if condition { "sheet/yes" } else { "sheet/no" });
            transaction.set(&cell("sheet/chosen"), &branch).unwrap();
            Ok(())
        },
    );
    sheet.observe("chosen");
    sheet.turn(Vec::new());
    assert_eq!((sheet.int("chosen"), sheet.get("no")), (Some(2), None));
    assert_eq!((sheet.why(yes).live, sheet.why(no).live), (true, false));
    sheet.set("condition", false);
    assert_eq!(sheet.int("chosen"), Some(0));
    sheet.ran();
    sheet.set("a", 5);
    assert!(!sheet.ran().contains(&yes), "nobody wants it now");
    assert_eq!((sheet.int("chosen"), sheet.int("yes")), (Some(4), Some(2)));
}

#[test]
fn what_does_not_settle_runs_ten_times_then_backs_off_and_the_rest_goes_on() {
    let mut sheet = Sheet::new(json!({"a": 1, "on": 1}));
    let ping = sheet.compute(&["pong", "on"], "ping", |values| values[0] + values[1]);
    let pong = sheet.compute(&["ping"], "pong", |values| values[0]);
    sheet.observe("pong");
    let rest = sheet.compute(&["a"], "b", |values| values[0] + 1);
    sheet.observe("b");
    sheet.turn(Vec::new());
    let ran = sheet.ran();
    let most = |node| ran.iter().filter(|other| **other == node).count();
    assert_eq!((most(ping).max(most(pong)), most(rest)), (10, 1));
    let mut waits = Vec::new();
    for _ in 0..5 {
        let found = reports(&mut sheet);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].cycle, [ping, pong].into());
        assert_eq!(found[0].runs, 10);
        assert!(matches!(
            &found[0].reason,
            Some(RunReason::Changed {
                by: ChangedBy::Node(_),
                ..
            })
        ));
        waits.push(found[0].until.since(sheet.now).millis());
        assert_eq!(sheet.machine.next_deadline(sheet.now), Some(found[0].until));
        assert!(sheet.machine.is_idle(sheet.now), "nothing can run now");
        sheet.set("a", waits.len() as i64);
        assert_eq!(
            sheet.int("b"),
            Some(waits.len() as i64 + 1),
            "the rest of the space responds"
        );
        sheet.outputs.clear();
        sheet.wait(*waits.last().unwrap());
    }
    assert_eq!(waits, [250, 500, 1_000, 2_000, 2_000]);
    sheet.set("on", 0);
    sheet.wait(2_000);
    sheet.outputs.clear();
    sheet.wait(10_000);
    assert!(reports(&mut sheet).is_empty(), "it has settled");
    assert_eq!(sheet.machine.next_deadline(sheet.now), None);
    sheet.set("on", 1);
    let again = reports(&mut sheet);
    assert_eq!(
        again[0].until.since(sheet.now).millis(),
        250,
        "the wait begins anew"
    );
}

#[test]
fn a_clock_that_is_set_back_holds_nobody_up_who_waits() {
    let mut sheet = Sheet::new(json!({}));
    let ping = sheet.compute(&["pong"], "ping", |values| values[0] + 1);
    sheet.compute(&["ping"], "pong", |values| values[0]);
    sheet.observe("pong");
    sheet.turn(Vec::new());
    let until = reports(&mut sheet)[0].until;
    sheet.ran();
    sheet.now = Timestamp::from_millis(until.millis() - 2_000);
    assert_eq!(sheet.machine.next_deadline(sheet.now), Some(until));
    sheet.turn(Vec::new());
    assert!(sheet.ran().is_empty(), "it may have to wait so long");
    sheet.now = Timestamp::from_millis(until.millis() - 2_001);
    let longest = sheet.now.plus(Span::from_millis(2_000));
    assert_eq!(sheet.machine.next_deadline(sheet.now), Some(longest));
    sheet.turn(Vec::new());
    assert!(sheet.ran().contains(&ping));
}

#[test]
fn a_cycle_that_settles_is_no_trouble() {
    let mut sheet = Sheet::new(json!({"limit": 5}));
    sheet.compute(&["down", "limit"], "up", |values| {
        (values[0] + 1).min(values[1])
    });
    sheet.compute(&["up"], "down", |values| values[0]);
    sheet.observe("down");
    sheet.turn(Vec::new());
    assert_eq!((sheet.int("down"), reports(&mut sheet).len()), (Some(5), 0));
}

#[test]
fn a_cycle_that_nobody_wants_any_more_stops() {
    let mut sheet = Sheet::new(json!({"limit": 3}));
    let up = sheet.compute(&["down", "limit"], "up", |values| {
        (values[0] + 1).min(values[1])
    });
    let down = sheet.compute(&["up"], "down", |values| values[0]);
    let observer = sheet.observe("down");
    sheet.turn(Vec::new());
    sheet.machine.nodes().remove(observer);
    sheet.ran();
    sheet.set("limit", 9);
    assert!(sheet.ran().is_empty());
    assert_eq!((sheet.why(up).live, sheet.why(down).live), (false, false));
}

#[test]
fn why_says_what_made_a_node_run_and_what_keeps_it_from_running() {
    let mut sheet = Sheet::new(json!({"a": 1}));
    let node = sheet.compute(&["a"], "b", |values| values[0]);
    let why = sheet.why(node);
    assert_eq!(
        (why.live, why.invalid, why.runs),
        (false, Some(RunReason::Registered), 0)
    );
    let observer = sheet.observe("b");
    sheet.turn(Vec::new());
    assert_eq!(sheet.why(node).last_reason, Some(RunReason::Registered));
    sheet.set("a", 2);
    let why = sheet.why(node);
    let by_edit = RunReason::Changed {
        at: cell("sheet/a"),
        by: ChangedBy::Edit,
    };
    assert_eq!(
        by_edit.to_string(),
        format!("an edit changed {}", cell("sheet/a"))
    );
    assert_eq!(
        (why.last_reason, why.runs, why.invalid),
        (Some(by_edit), 2, None)
    );
    assert_eq!(
        (why.read_by, why.reads_from),
        ([observer].into(), [].into())
    );
    let by_node = RunReason::Changed {
        at: cell("sheet/b"),
        by: ChangedBy::Node(node),
    };
    assert_eq!(sheet.why(observer).last_reason, Some(by_node));
}

#[test]
fn a_failing_computation_has_no_output_and_recovers_when_its_inputs_change() {
    let mut sheet = Sheet::new(json!({"a": 0}));
    let node = sheet.node(NodeRole::Computation, &["a"], "b", |transaction| {
        let a = number(transaction, "sheet/a");
        transaction.set(&cell("sheet/b"), &a.into()).unwrap();
        (a >= 0)
            .then_some(())
            .ok_or_else(|| Failure::new("Negative", "below zero"))
    });
    sheet.observe("b");
    sheet.turn(Vec::new());
    assert_eq!(sheet.int("b"), Some(0));
    sheet.set("a", -1);
    assert_eq!(
        sheet.get("b"),
        None,
        "not what it wrote before it failed, nor the value before"
    );
    let failed = sheet.outputs.iter().any(|output| {
        matches!(output, SpaceOutput::Failed { node: failed, failure } if *failed == node && failure.message == "below zero")
    });
    assert!(failed);
    let error = sheet.machine.spaces().begin().get(&cell("errors/last"));
    assert_eq!(error, Some("below zero".into()));
    sheet.ran();
    sheet.set("unrelated", 1);
    assert!(sheet.ran().is_empty(), "it is not tried again for nothing");
    sheet.set("a", 3);
    assert_eq!(sheet.int("b"), Some(3));
}

#[test]
fn the_test_mode_runs_twice_and_fails_what_differs() {
    let count = Rc::new(Cell::new(0_i64));
    let counting = Rc::clone(&count);
    let mut sheet = Sheet::new(json!({"a": 1}));
    sheet.machine.check_twice();
    sheet.node(NodeRole::Observer, &["a"], "unstable", move |transaction| {
        counting.set(counting.get() + 1);
        transaction
            .set(&cell("sheet/unstable"), &counting.get().into())
            .unwrap();
        Ok(())
    });
    sheet.compute(&["a"], "stable", |values| values[0]);
    sheet.observe("stable");
    sheet.turn(Vec::new());
    assert_eq!(
        (sheet.get("unstable"), sheet.int("stable")),
        (None, Some(1))
    );
    let unstable = |output: &SpaceOutput| matches!(output, SpaceOutput::Failed { failure, .. } if &*failure.kind == "Unstable");
    assert_eq!(
        sheet
            .outputs
            .iter()
            .filter(|output| unstable(output))
            .count(),
        1
    );
}

#[test]
fn a_chain_and_a_fan_run_each_node_once_and_a_leaf_runs_its_reader_alone() {
    const FAN: usize = 10_000;
    const LEAVES: usize = 9_000;
    let leaves = (0..LEAVES).map(|number| (format!("l{number}"), number.into()));
    let leaves: serde_json::Map<String, serde_json::Value> = leaves.collect();
    let mut start = json!({"c0": 1, "leaf": 0});
    start.as_object_mut().unwrap().extend(leaves);
    let mut sheet = Sheet::new(start);
    for number in 0..1_000 {
        let (from, to) = (format!("c{number}"), format!("c{}", number + 1));
        sheet.compute(&[&from], &to, |values| values[0] + 1);
    }
    sheet.observe("c1000");
    for _ in 0..FAN {
        sheet.observe("c0");
    }
    for number in 0..LEAVES {
        sheet.observe(&format!("l{number}"));
    }
    let reader = sheet.compute(&["leaf"], "read", |values| values[0]);
    let observer = sheet.observe("read");
    sheet.turn(Vec::new());
    assert_eq!(sheet.int("c1000"), Some(1_001));
    assert_eq!(sheet.ran().len(), 1_000 + 1 + FAN + LEAVES + 2);
    sheet.set("c0", 2);
    assert_eq!(sheet.ran().len(), 1_000 + 1 + FAN);
    sheet.set("leaf", 1);
    assert_eq!(sheet.ran(), [reader, observer]);
}
