//! Runs as wholes: many inputs, accumulators, pause, cancel, retry from where it failed, forks,
//! limits, odd orders.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::build;

use lope_definition::{Parallel, Step, StepKind};
use lope_flow::law::{Effect, Reason, Settled, Status, drive, limits};
use lope_model::{Failure, Policy, Value};

use build::script::{Led, lead};
use build::*;

/// "A workflow started with `start_workflow` stays open: it is `idle` between inputs, can be fed
/// again, while working too, until stopped."
#[test]
fn an_open_run_is_idle_between_inputs() {
    let flow = flow([act("a", "input")]);
    let mut led = lead(&flow, &[("open", "")]);
    assert_eq!(
        (led.status(), led.state.why(&flow, 9)),
        (Status::Idle, vec![Reason::Idle])
    );
    assert_eq!(led.line("input x 5"), "a#1(5)");
    assert_eq!(
        led.line("input x 5"),
        "ignored",
        "the id of an input at work is a duplicate"
    );
    assert_eq!(
        led.line("input y 5"),
        "@2/a#1(5)",
        "equal inputs are both processed"
    );
    assert_eq!(led.status(), Status::Running);
    assert_eq!(led.line("@2/a#1 ok 1"), "y=1");
    assert_eq!(
        led.line("a#1 err E"),
        "x!E",
        "one input's failure leaves the run open"
    );
    assert_eq!(led.status(), Status::Idle);
    assert_eq!(led.line("input z 1"), "@3/a#1(1)");
    assert_eq!(led.line("close"), "");
    assert_eq!(led.line("input w 1"), "ignored");
    assert_eq!(led.line("@3/a#1 ok 2"), "z=2; complete null");
    assert_eq!(led.status(), Status::Completed);
    lead(&flow, &[("open", ""), ("close", "complete null")]);
    lead(&flow, &[("open", ""), ("cancel", "cancelled")]);
}

/// "Two inputs at once through a shared join: each gets its own join, order kept per input."
#[test]
fn concurrent_inputs_do_not_mix() {
    let flow = flow([
        act("a", "input"),
        act("b", "input"),
        assign("j", "[a, b]").set("v"),
        give("r", "v"),
    ]);
    lead(
        &flow,
        &[
            ("open", ""),
            ("input x 1", "a#1(1); b#1(1)"),
            ("input y 2", "@2/a#1(2); @2/b#1(2)"),
            ("@2/b#1 ok 22", ""),
            ("a#1 ok 10", ""),
            ("b#1 ok 11", "x=[10,11]"),
            ("@2/a#1 ok 20", "y=[20,22]"),
        ],
    );
}

#[test]
fn accumulators_apply_in_input_order() {
    let flow = flow([
        act("a", "input"),
        state("s", "[]", "previous + [value]").needs(&["a"]),
        give("r", "s"),
    ]);
    let mut led = lead(
        &flow,
        &[
            ("open", ""),
            ("input x 1", "a#1(1)"),
            ("input y 2", "@2/a#1(2)"),
            ("input z 3", "@3/a#1(3)"),
            ("input w 4", "@4/a#1(4)"),
            ("@3/a#1 ok 30", ""),
            ("@2/a#1 ok 20", ""),
        ],
    );
    assert!(
        led.state
            .why(&flow, 9)
            .iter()
            .any(|reason| matches!(reason, Reason::Turn { .. }))
    );
    assert_eq!(led.line("a#1 ok 10"), "x=[10]; y=[10,20]; z=[10,20,30]");
    assert_eq!(led.line("@4/a#1 err E"), "w!E");
    assert_eq!(led.line("input v 5"), "@5/a#1(5)");
    assert_eq!(
        led.line("@5/a#1 ok 50"),
        "v=[10,20,30,50]",
        "a failed input leaves the state alone"
    );
    assert_eq!(led.state.totals(&flow)[0].1, json("[10,20,30,50]"));
}

/// A state whose next value an action makes: inputs have their turn in order, one at a time; a
/// failed one leaves it alone.
#[test]
fn a_state_made_by_an_action_is_made_in_the_order_of_inputs() {
    let mut sum = state("s", "0", "[previous, value]").needs(&["a"]);
    let StepKind::State { action, .. } = &mut sum.kind else {
        panic!("a state")
    };
    *action = Some("plus".into());
    let flow = flow([act("a", "input"), sum, give("r", "s")]);
    let mut led = lead(
        &flow,
        &[
            ("open", ""),
            ("input x 1", "a#1(1)"),
            ("input y 2", "@2/a#1(2)"),
            ("input z 3", "@3/a#1(3)"),
            ("@2/a#1 ok 20", ""),
            ("a#1 ok 10", "s#1([0,10])"),
            ("s#1 ok 10", "x=10; @2/s#1([10,20])"),
            ("@3/a#1 ok 30", ""),
            ("@2/s#1 err E", "y!E; @3/s#1([10,30])"),
            ("@3/s#1 ok 40", "z=40"),
        ],
    );
    assert_eq!(led.state.totals(&flow)[0].1, json("40"));
    assert_eq!(led.status(), Status::Idle);
    led.line("close");
}

#[test]
fn an_input_that_fails_or_is_skipped_gives_its_turn_away() {
    let flow = flow([
        act("a", "input"),
        state("s", "0", "previous + value")
            .needs(&["a"])
            .when(e("input > 0")),
        give("r", "s"),
    ]);
    lead(
        &flow,
        &[
            ("open", ""),
            ("input x 1", "a#1(1)"),
            ("input y 0", "@2/a#1(0)"),
            ("input z 3", "@3/a#1(3)"),
            ("@3/a#1 ok 3", ""),
            ("@2/a#1 ok 2", "y=null"),
            ("a#1 err E", "x!E; z=3"),
        ],
    );
}

#[test]
fn a_state_in_a_loop_applies_every_round() {
    let mut draft = Draft::new();
    let mut sum = state("s", "0", "previous + value");
    if let StepKind::State { value, .. } = &mut sum.kind {
        *value = Some(t("x"));
    }
    let body = draft.block([sum]);
    let flow = draft.root([each("m", "input", "x", Parallel::One, body), give("r", "m")]);
    lead(
        &flow,
        &[
            ("open", ""),
            ("input a [1,2,3]", "a=[1,3,6]"),
            ("input b [4]", "b=[10]"),
        ],
    );
}

#[test]
fn more_inputs_than_may_work_at_once_wait() {
    let flow = flow([act("a", "input")]);
    let mut led = lead(&flow, &[("open", "")]);
    for number in 0..limits::INPUTS_MAX + 2 {
        led.line(&format!("input {number} {number}"));
    }
    assert_eq!(led.state.load().0, limits::WINDOW_MAX);
    let next = limits::INPUTS_MAX + 1;
    assert_eq!(
        led.line("a#1 ok 1"),
        format!("0=1; @{next}/a#1({})", next - 1)
    );
}

/// "Pause still folds outcomes and timers, dispatches nothing."
#[test]
fn a_paused_run_folds_and_dispatches_nothing() {
    let flow = flow([
        act("a", "null"),
        sleep("s", "1"),
        act("b", "a"),
        act("c", "null").needs(&["s"]),
        send("m", "7", "a"),
        child("k", "w", "a"),
    ]);
    let mut led = lead(
        &flow,
        &[
            ("start 0", "a#1"),
            ("pause", ""),
            ("pause", "ignored"),
            ("a#1 ok 7", ""),
            ("at 1000", ""),
        ],
    );
    assert_eq!(led.status(), Status::Paused);
    assert!(matches!(&led.state.why(&flow, 9)[0], Reason::Paused { .. }));
    assert_eq!(led.line("resume"), "b#1(7); c#1; send 7 7; child k(w 7)");
    let mut led = lead(&flow, &[("start 0", "a#1"), ("pause", "")]);
    assert_eq!(
        led.line("cancel"),
        "-a#1; 1~; cancelled",
        "cancel bypasses pause"
    );
}

#[test]
fn a_failed_run_goes_on_where_it_failed() {
    let mut draft = Draft::new();
    let body = draft.block([act("w", "x"), act("z", "w")]);
    let flow = draft.root([
        act("a", "null"),
        each("m", "[1,2]", "x", Parallel::Upto(2), body).needs(&["a"]),
        sleep("s", "60"),
        wait("g", "go", None, None),
        give("r", "[m, g]").needs(&["s"]),
    ]);
    let mut led = lead(
        &flow,
        &[
            ("start 0", "a#1"),
            ("a#1 ok", "m/0/w#1(1); m/1/w#1(2)"),
            ("m/0/w#1 ok 10", "m/0/z#1(10)"),
            ("m/1/w#1 err E", "-m/0/z#1; 1!E; fail E"),
            ("m/0/z#1 ok 1", "ignored"),
            ("signal go 1", "ignored"),
            ("at 60000", "ignored"),
        ],
    );
    assert_eq!((led.status(), led.wake()), (Status::Failed, None));
    assert_eq!(led.state.failure().unwrap().step.as_deref(), Some("m/1/w"));
    assert_eq!(
        led.line("retry 5"),
        "m/0/z#2(10); m/1/w#2(2)",
        "settled steps are not run again"
    );
    assert_eq!(led.line("m/1/w#1 ok 0"), "ignored");
    assert_eq!(led.line("m/1/w#2 ok 20"), "m/1/z#1(20)");
    assert_eq!(led.line("m/0/z#2 ok 1"), "");
    assert_eq!(led.line("m/1/z#1 ok 2"), "");
    assert_eq!(led.line("signal go 3"), "1=[[1,2],3]; complete [[1,2],3]");
}

#[test]
fn a_retry_after_finally_begins_the_try_again() {
    let mut draft = Draft::new();
    let (body, finally) = (
        draft.block([act("a", "null"), act("b", "null").needs(&["a"])]),
        draft.block([act("f", "null")]),
    );
    let flow = draft.root([
        act("z", "null"),
        try_("t", body, vec![], Some(finally)).needs(&["z"]),
        give("r", "t"),
    ]);
    let mut led = lead(
        &flow,
        &[
            ("start 0", "z#1"),
            ("z#1 ok", "t/a#1"),
            ("t/a#1 ok", "t/b#1"),
            ("t/b#1 err E", "t/:finally/f#1"),
            ("t/:finally/f#1 ok", "1!E; fail E"),
        ],
    );
    assert_eq!(led.line("retry 5"), "t/a#1");
    let mut late = led.journal[2].clone();
    late.at = led.state.at();
    assert_eq!(
        led.event(late.kind),
        "ignored",
        "the epoch tells the attempts apart"
    );
}

#[test]
fn a_retry_of_an_input_whose_output_failed_begins_it_again() {
    let mut draft = Draft::new();
    draft.0.root_mut().collect = Some(t("a.x"));
    let flow = draft.root([act("a", "null")]);
    let mut led = lead(
        &flow,
        &[
            ("start 0", "a#1"),
            ("a#1 ok 1", "1!TypeError; fail TypeError"),
        ],
    );
    assert_eq!(led.line("retry 2"), "a#1");
    assert_eq!(led.line("a#1 ok {\"x\":4}"), "1=4; complete 4");
}

#[test]
fn a_halted_run_may_fail_and_be_retried_again() {
    let flow = flow([act("a", "null"), act("b", "null")]);
    lead(
        &flow,
        &[
            ("start 0", "a#1; b#1"),
            ("a#1 err E", "-b#1; 1!E; fail E"),
            ("retry 2", "b#2; a#2"),
            ("b#2 err F", "-a#2; 1!F; fail F"),
            ("retry 3", "a#3; b#3"),
            ("a#3 ok 1", ""),
            ("b#3 ok 2", r#"1={"a":1,"b":2}; complete {"a":1,"b":2}"#),
            ("retry 4", "ignored"),
        ],
    );
}

#[test]
fn a_fork_starts_attempts_and_children_anew() {
    let flow = flow([act("a", "null"), child("c", "w", "1")]);
    let mut led = lead(&flow, &[("start 0", "a#1; child c(w 1)")]);
    let first = led.state.why(&flow, 9);
    assert_eq!(led.line("fork"), "a#2; child c(w 1)");
    assert_ne!(first, led.state.why(&flow, 9), "the child has another id");
    assert_eq!(led.line("fork"), "ignored");
    assert_eq!(led.line("a#1 ok"), "ignored");
}

#[test]
fn a_copy_of_a_failed_run_can_be_retried() {
    let flow = flow([act("a", "null"), act("b", "a")]);
    lead(
        &flow,
        &[
            ("start 0", "a#1"),
            ("a#1 ok 1", "b#1(1)"),
            ("b#1 err E", "1!E; fail E"),
            ("fork", ""),
            ("retry 10", "b#2(1)"),
            ("b#2 ok 2", "1=2; complete 2"),
            ("fork", "ignored"),
        ],
    );
}

#[test]
fn siblings_of_a_failure_run_their_finally_before_it_travels_on() {
    let mut draft = Draft::new();
    let (inner, finally) = (
        draft.block([act("b", "null")]),
        draft.block([act("f", "null")]),
    );
    let body = draft.block([act("a", "null"), try_("t", inner, vec![], Some(finally))]);
    let handler = draft.block([assign("h", "err.type")]);
    let flow = draft.root([
        try_("o", body, vec![on(&[], Some("err"), handler)], None),
        give("r", "o"),
    ]);
    lead(
        &flow,
        &[
            ("start 0", "o/a#1; o/t/b#1"),
            ("o/a#1 err E", "-o/t/b#1; o/t/:finally/f#1"),
            ("o/t/:finally/f#1 ok", "1=\"E\"; complete \"E\""),
        ],
    );
}

#[test]
fn return_and_break_travel_out_of_nested_blocks_through_finally() {
    let mut draft = Draft::new();
    let leave = draft.block([give("out", "[x, y]")]);
    let quit = draft.block([Step::new("b", StepKind::Break)]);
    let guarded = draft.block([
        if_("c", "x == 2", leave, None),
        if_("d", "y == 1", quit, None).needs(&["c"]),
    ]);
    let finally = draft.block([assign("n", "count + 1").set("count")]);
    let inner = draft.block([try_("t", guarded, vec![], Some(finally))]);
    let outer = draft.block([each("in", "[1,2]", "y", Parallel::One, inner)]);
    let flow = draft.root([
        assign("z", "0").set("count"),
        each("out", "[1,2,3]", "x", Parallel::One, outer),
        give("r", "count").follows(&["out"]),
    ]);
    lead(&flow, &[("start 0", "1=[2,1]; complete [2,1]")]);
}

#[test]
fn try_in_loops_and_loops_in_try() {
    let mut draft = Draft::new();
    let (body, handler) = (
        draft.block([act("a", "x")]),
        draft.block([Step::new("c", StepKind::Continue)]),
    );
    let inner = draft.block([try_("t", body, vec![on(&["Skip"], None, handler)], None)]);
    let attempt = draft.block([each("m", "input", "x", Parallel::One, inner)]);
    let rescue = draft.block([assign("e", "[err.type, err.step]")]);
    let flow = draft.root([
        try_(
            "o",
            attempt,
            vec![on(&["Error"], Some("err"), rescue)],
            None,
        ),
        give("r", "o"),
    ]);
    lead(
        &flow,
        &[
            ("start [1,2]", "o/m/0/t/a#1(1)"),
            ("o/m/0/t/a#1 err Skip", "o/m/1/t/a#1(2)"),
            ("o/m/1/t/a#1 ok 5", "1=[null,5]; complete [null,5]"),
        ],
    );
    lead(
        &flow,
        &[("start [1,2]", "o/m/0/t/a#1(1)"), {
            (
                "o/m/0/t/a#1 err Bad",
                r#"1=["Bad","o/m/0/t/a"]; complete ["Bad","o/m/0/t/a"]"#,
            )
        }],
    );
}

#[test]
fn each_in_each_keeps_its_order_and_its_frames() {
    let mut draft = Draft::new();
    let inner = draft.block([
        act("a", "[x, y]"),
        assign("v", "[x, y, a]").set("var"),
        assign("o", "var"),
    ]);
    let outer = draft.block([each("in", "x", "y", Parallel::Max, inner)]);
    let flow = draft.root([each("out", "input", "x", Parallel::Max, outer)]);
    let run = drive(&flow, vec![json("[[1,2],[],[3]]")], |it| {
        done(it.with.as_list().unwrap()[1].clone())
    });
    assert_eq!(
        run.value(),
        Some(&json("[[[[1,2],1,1],[[1,2],2,2]],[],[[[3],3,3]]]"))
    );
}

#[test]
fn a_parallel_element_has_a_copy_of_the_variables_around_it() {
    let mut draft = Draft::new();
    let body = draft.block([
        assign("add", "total + x").set("total"),
        assign("o", "total"),
    ]);
    let flow = draft.root([
        assign("z", "100").set("total"),
        each("m", "[1,2,3]", "x", Parallel::Max, body),
        give("r", "[m, total]"),
    ]);
    lead(
        &flow,
        &[(
            "start 0",
            "1=[[101,102,103],100]; complete [[101,102,103],100]",
        )],
    );
    let mut draft = Draft::new();
    let body = draft.block([
        assign("add", "total + x").set("total"),
        assign("o", "total"),
    ]);
    let flow = draft.root([
        assign("z", "100").set("total"),
        each("m", "[1,2,3]", "x", Parallel::One, body),
        give("r", "[m, total]"),
    ]);
    lead(
        &flow,
        &[(
            "start 0",
            "1=[[101,103,106],106]; complete [[101,103,106],106]",
        )],
    );
}

#[test]
fn nesting_of_a_thousand_costs_no_stack() {
    let depth = 1_000;
    let mut draft = Draft::new();
    let mut block = draft.block([act("a", "input")]);
    for level in 0..depth {
        block = match level % 4 {
            0 => draft.block([if_("c", "true", block, None)]),
            1 => draft.block([each("e", "[1]", "x", Parallel::One, block)]),
            2 => draft.block([try_("t", block, vec![], None)]),
            _ => draft.block([all("l", &[("b", block)])]),
        };
    }
    let flow = draft.root([if_("c", "true", block, None)]);
    let mut led = Led::new(&flow);
    let dispatched = led.line("start 5");
    let token = dispatched.split('(').next().unwrap().to_owned();
    assert!(token.len() > 2 * depth);
    assert!(
        led.line(&format!("{token} ok 1"))
            .ends_with("complete {\"b\":[1]}")
            || led.status() == Status::Completed
    );
    let mut led = Led::new(&flow);
    led.line("start 5");
    assert!(led.line("cancel").ends_with("1~; cancelled"));
    let mut led = Led::new(&flow);
    led.line("start 5");
    assert!(led.line(&format!("{token} err E")).ends_with("fail E"));
    assert!(led.line("retry 2").starts_with(&token[..token.len() - 1]));
    let definition = flow.definition();
    let stored = lope_definition::Definition::decode(&definition.encode()).unwrap();
    assert_eq!(stored.version(), definition.version());
}

#[test]
fn a_hundred_thousand_elements_open_through_a_window() {
    let mut draft = Draft::new();
    let body = draft.block([act("a", "x")]);
    let flow = draft.root([each("m", "input", "x", Parallel::Max, body)]);
    let items = Value::list((0..100_000).map(Value::Int).collect());
    let (mut seen, mut order) = (0, true);
    let run = drive(&flow, vec![items.clone()], |it| {
        order &= it.with == Value::Int(seen);
        seen += 1;
        done(it.with.clone())
    });
    assert!(order && seen == 100_000);
    assert_eq!(run.value(), Some(&items));
    assert_eq!(run.state.live(), 0);
}

#[test]
fn an_endless_loop_is_a_failure_that_can_be_caught_once() {
    let work = "size(input + input)";
    let input = || vec![Value::str("x".repeat(1_000_000))];
    let mut draft = Draft::new();
    let empty = draft.block([assign("x", work)]);
    let forever = draft.block([while_("w", "true", empty, None)]);
    let handler = draft.block([assign("h", "err.type")]);
    let flow = draft.root([
        try_("t", forever, vec![on(&[], Some("err"), handler)], None),
        give("r", "t"),
    ]);
    let run = drive(&flow, input(), |_| done(1));
    assert_eq!(run.value(), Some(&Value::str("Limit")));

    let mut draft = Draft::new();
    let empty = draft.block([assign("x", work)]);
    let forever = draft.block([while_("w", "true", empty, None)]);
    let swallow = draft.block([]);
    let stubborn = draft.block([try_("t", forever, vec![on(&[], None, swallow)], None)]);
    let flow = draft.root([while_("again", "true", stubborn, None)]);
    let run = drive(&flow, input(), |_| done(1));
    assert!(matches!(run.result(), Some(Settled::Failed(failure)) if &*failure.kind == "Limit"));
    assert_eq!((run.status(), run.state.live()), (Status::Failed, 0));
}

#[test]
fn outputs_leave_the_state_when_nobody_wants_them() {
    let big = Value::str("x".repeat(10_000));
    let mut draft = Draft::new();
    let body = draft.block([
        act("a", "null"),
        act("b", "size(a)"),
        assign("c", "b").set("last"),
    ]);
    let flow = draft.root([
        assign("z", "0").set("last"),
        each("m", "input", "n", Parallel::One, body).needs(&["z"]),
        give("r", "last").needs(&["m"]),
    ]);
    let mut sizes = Vec::new();
    let mut led = Led::new(&flow);
    let mut next = led.line(&format!(
        "start {}",
        Value::list((0..50).map(Value::Int).collect())
    ));
    while let Some(token) = next.split_once('#').map(|(path, _)| path.to_owned()) {
        let mut blobs = Vec::new();
        let size = led.state.clone().encode(&mut blobs).len()
            + blobs.iter().map(|blob| blob.bytes.len()).sum::<usize>();
        let value = if token.ends_with('a') {
            sizes.push(size);
            big.clone()
        } else {
            assert!(
                size > 10_000,
                "the step that read it may still need it: {size}"
            );
            Value::Int(1)
        };
        next = led.line(&format!("{token}#1 ok {value}"));
    }
    assert_eq!(led.status(), Status::Completed);
    let (early, late) = (sizes[10], *sizes[20..].iter().max().unwrap());
    assert!(late < early + 50, "{early} {late}");
    assert!(
        late < 3_000,
        "nobody wants the large output any more: {late}"
    );
}

#[test]
fn results_nobody_wants_are_not_kept() {
    let mut draft = Draft::new();
    let body = draft.block([act("a", "null")]);
    let flow = draft.root([
        each("m", "input", "n", Parallel::One, body),
        give("r", "1").needs(&["m"]),
    ]);
    let mut led = Led::new(&flow);
    led.line(&format!("start {}", Value::list(vec![Value::Null; 300])));
    let before = led.state.clone().encode(&mut Vec::new()).len();
    for round in 0..200 {
        led.line(&format!("m/{round}/a#1 ok {}", Value::str("y".repeat(100))));
    }
    let after = led.state.clone().encode(&mut Vec::new()).len();
    assert!(after < before + 64, "{before} {after}");
}

#[test]
fn a_failure_tells_its_step_and_attempt() {
    let flow = flow([act("a", "null").policy(retries(1))]);
    let led = lead(
        &flow,
        &[
            ("start 0", "a#1"),
            ("a#1 err E", "a#2"),
            ("a#2 err E", "1!E; fail E"),
        ],
    );
    let failure: &Failure = led.state.failure().unwrap();
    assert_eq!(
        (failure.step.as_deref(), failure.attempt),
        (Some("a"), Some(2))
    );
}

#[test]
fn names_that_every_expression_sees() {
    let flow = flow([give(
        "r",
        "[input, run.id, run.attempt, run.started_at, env.HOME]",
    )]);
    let id = build::script::run_id();
    let expected = format!("[5,\"{id}\",1,\"1970-01-01T00:00:00.000Z\",\"x\"]");
    lead(
        &flow,
        &[("start 5", &format!("1={expected}; complete {expected}"))],
    );
}

#[test]
fn secrets_reach_workers_as_references_only() {
    let flow = flow([act("a", "{'token': secrets.api}")]);
    let led = lead(
        &flow,
        &[("start 5", r#"a#1({"token":{"$tag":["secret","api"]}})"#)],
    );
    assert!(
        led.effects
            .iter()
            .any(|it| matches!(it, Effect::Dispatch(_)))
    );
}

#[test]
fn a_policy_of_a_step_that_holds_blocks_forgives_what_happens_in_them() {
    let mut draft = Draft::new();
    let body = draft.block([act("a", "x")]);
    let skip = Policy {
        on_failure: Some(lope_model::policy::OnFailure::Skip),
        ..Policy::default()
    };
    let flow = draft.root([
        each("m", "[1,2]", "x", Parallel::Max, body).policy(skip),
        assign("n", "m"),
        assign("z", "1").follows(&["m"]),
    ]);
    lead(
        &flow,
        &[
            ("start 0", "m/0/a#1(1); m/1/a#1(2)"),
            ("m/1/a#1 err E", r#"-m/0/a#1; 1={"z":1}; complete {"z":1}"#),
        ],
    );
}
