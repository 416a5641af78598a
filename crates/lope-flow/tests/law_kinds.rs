//! Tables: one row an event, for every kind of step, error paths included.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::build;

use lope_definition::{Parallel, Step, StepKind};
use lope_flow::law::Status;

use build::script::lead;
use build::*;

#[test]
fn action() {
    let flow = flow([act("a", "{'x': input}"), give("r", "a + 1")]);
    lead(
        &flow,
        &[
            ("a#1 ok 1", "ignored"),
            ("at 5", "ignored"),
            ("start 5", r#"a#1({"x":5})"#),
            ("start 5", "ignored"),
            ("a#2 ok 1", "ignored"),
            ("b#1 ok 1", "ignored"),
            ("at 10", "ignored"),
            ("resume", "ignored"),
            ("adopt 1", "ignored"),
            ("close", "ignored"),
            ("retry 1", "ignored"),
            ("input 2 5", "ignored"),
            ("sent a#1", ""),
            ("signal x 1", ""),
            ("a#1 ok 6", "1=7; complete 7"),
            ("a#1 ok 6", "ignored"),
            ("cancel", "ignored"),
            ("signal x 1", "ignored"),
        ],
    );
    lead(
        &flow,
        &[
            ("start 5", r#"a#1({"x":5})"#),
            ("a#1 err E", "1!E; fail E"),
            ("a#1 ok 1", "ignored"),
        ],
    );
    lead(
        &flow,
        &[
            ("start 5", r#"a#1({"x":5})"#),
            ("a#1 ok \"x\"", "1!TypeError; fail TypeError"),
        ],
    );
    lead(
        &flow,
        &[
            ("start 5", r#"a#1({"x":5})"#),
            ("cancel", "-a#1; 1~; cancelled"),
            ("a#1 ok 1", "ignored"),
        ],
    );
    lead(
        &flow,
        &[
            ("start 5", r#"a#1({"x":5})"#),
            ("cancel!", "-a#1; 1~; cancelled"),
        ],
    );
}

#[test]
fn arguments_that_fail_to_evaluate_fail_the_step() {
    lead(
        &flow([act("a", "input.x")]),
        &[("start 5", "1!TypeError; fail TypeError")],
    );
    lead(
        &flow([act("a", "input.x")]),
        &[("start {}", "1!KeyError; fail KeyError")],
    );
}

#[test]
fn let_is_done_in_place() {
    lead(
        &flow([assign("x", "input + 1"), assign("y", "x * 2")]),
        &[("start 5", "1=12; complete 12")],
    );
    lead(
        &flow([assign("x", "1 / input")]),
        &[("start 0", "1!ZeroDivisionError; fail ZeroDivisionError")],
    );
}

#[test]
fn needs_and_conditions() {
    let gated = flow([
        act("a", "null"),
        act("b", "null").needs(&["a"]),
        act("c", "null").needs(&["a"]),
        { act("d", "[b, c]") },
    ]);
    lead(
        &gated,
        &[
            ("start 0", "a#1"),
            ("a#1 ok", "b#1; c#1"),
            ("c#1 ok 2", ""),
            ("b#1 ok 1", "d#1([1,2])"),
            ("d#1 ok 3", "1=3; complete 3"),
        ],
    );
    let skipping = flow([
        act("a", "null").when(e("input > 5")),
        act("b", "a"),
        act("c", "null").follows(&["a"]),
        assign("d", "1").needs(&["b"]),
    ]);
    lead(
        &skipping,
        &[
            ("start 1", "c#1"),
            ("c#1 ok 7", r#"1={"c":7}; complete {"c":7}"#),
        ],
    );
    lead(
        &skipping,
        &[
            ("start 9", "a#1"),
            ("a#1 ok 1", "b#1(1); c#1"),
            ("b#1 ok", ""),
            { ("c#1 ok 2", r#"1={"c":2,"d":1}; complete {"c":2,"d":1}"#) },
        ],
    );
    lead(
        &flow([act("a", "null").when(e("input"))]),
        &[("start 1", "1!TypeError; fail TypeError")],
    );
}

#[test]
fn a_workflow_of_nothing_ends_at_once() {
    lead(&flow([]), &[("start 1", "1=null; complete null")]);
}

#[test]
fn if_and_switch() {
    let mut draft = Draft::new();
    let (then, otherwise) = (
        draft.block([act("a", "input")]),
        draft.block([act("a", "0 - input")]),
    );
    let both = draft.root([if_("c", "input > 1", then, Some(otherwise)), give("r", "c")]);
    lead(
        &both,
        &[("start 2", "c/a#1(2)"), ("c/a#1 ok 5", "1=5; complete 5")],
    );
    lead(
        &both,
        &[
            ("start 1", "c/:else/a#1(-1)"),
            ("c/:else/a#1 ok 5", "1=5; complete 5"),
        ],
    );
    lead(
        &both,
        &[
            ("start 1", "c/:else/a#1(-1)"),
            ("c/:else/a#1 err E", "1!E; fail E"),
        ],
    );
    lead(
        &both,
        &[
            ("start 1", "c/:else/a#1(-1)"),
            ("cancel", "-c/:else/a#1; 1~; cancelled"),
        ],
    );
    lead(&both, &[("start []", "1!TypeError; fail TypeError")]);

    let mut draft = Draft::new();
    let then = draft.block([act("a", "input")]);
    let alone = draft.root([if_("c", "input > 1", then, None), give("r", "[c]")]);
    lead(&alone, &[("start 1", "1=[null]; complete [null]")]);

    let mut draft = Draft::new();
    let (one, two, other) = (
        draft.block([act("a", "1")]),
        draft.block([act("a", "2")]),
        draft.block([]),
    );
    let switch = draft.root([switch(
        "s",
        &[("input == 1", one), ("input > 0", two)],
        Some(other),
    )]);
    lead(
        &switch,
        &[
            ("start 1", "s/0/a#1(1)"),
            ("s/0/a#1 ok 5", "1=5; complete 5"),
        ],
    );
    lead(
        &switch,
        &[("start 2", "s/1/a#1(2)"), ("s/1/a#1 err E", "1!E; fail E")],
    );
    lead(&switch, &[("start 0", "1=null; complete null")]);
    lead(&switch, &[("start \"x\"", "1!TypeError; fail TypeError")]);
}

#[test]
fn each_in_sequence() {
    let mut draft = Draft::new();
    let body = draft.block([act("a", "[x, i]")]);
    let flow = draft.root([each("m", "input", "x", Parallel::One, body), give("r", "m")]);
    lead(
        &flow,
        &[
            ("start [7,8]", "m/0/a#1([7,0])"),
            ("m/0/a#1 ok 1", "m/1/a#1([8,1])"),
            ("m/0/a#1 ok 1", "ignored"),
            ("m/1/a#1 ok 2", "1=[1,2]; complete [1,2]"),
        ],
    );
    lead(&flow, &[("start []", "1=[]; complete []")]);
    lead(&flow, &[("start {\"k\":1}", "m/0/a#1([\"k\",0])")]);
    lead(&flow, &[("start 5", "1!TypeError; fail TypeError")]);
    lead(
        &flow,
        &[
            ("start [7,8]", "m/0/a#1([7,0])"),
            ("m/0/a#1 err E", "1!E; fail E"),
        ],
    );
    lead(
        &flow,
        &[
            ("start [7,8]", "m/0/a#1([7,0])"),
            ("cancel", "-m/0/a#1; 1~; cancelled"),
        ],
    );
}

#[test]
fn each_in_parallel() {
    let mut draft = Draft::new();
    let body = draft.block([act("a", "x")]);
    let flow = draft.root([each("m", "input", "x", Parallel::Upto(2), body)]);
    lead(
        &flow,
        &[
            ("start [7,8,9]", "m/0/a#1(7); m/1/a#1(8)"),
            ("m/1/a#1 ok 2", "m/2/a#1(9)"),
            ("m/2/a#1 ok 3", ""),
            ("m/0/a#1 ok 1", "1=[1,2,3]; complete [1,2,3]"),
        ],
    );
    let fails = [
        ("start [7,8,9]", "m/0/a#1(7); m/1/a#1(8)"),
        ("m/1/a#1 err E", "-m/0/a#1; 1!E; fail E"),
    ];
    lead(&flow, &fails);
    lead(
        &flow,
        &[fails[0], ("cancel", "-m/0/a#1; -m/1/a#1; 1~; cancelled")],
    );

    let mut draft = Draft::new();
    let body = draft.block([act("a", "x")]);
    let flow = draft.root([collecting(each("m", "input", "x", Parallel::Max, body))]);
    lead(
        &flow,
        &[
            ("start [7,8]", "m/0/a#1(7); m/1/a#1(8)"),
            ("m/0/a#1 err E", ""),
            (
                "m/1/a#1 ok 2",
                "1=[{\"error\":{\"type\":\"E\",\"message\":\"no\",\"step\":\"m/0/a\",\"attempt\":1}},2]; complete \
                 [{\"error\":{\"type\":\"E\",\"message\":\"no\",\"step\":\"m/0/a\",\"attempt\":1}},2]",
            ),
        ],
    );
}

#[test]
fn while_counts_its_rounds() {
    let mut draft = Draft::new();
    let body = draft.block([act("a", "n"), assign("inc", "a + n").set("n")]);
    let flow = draft.root([
        assign("z", "0").set("n"),
        while_("w", "n < input", body, Some(3)),
        give("r", "[w, n]"),
    ]);
    lead(
        &flow,
        &[
            ("start 2", "w/0/a#1(0)"),
            ("w/0/a#1 ok 1", "w/1/a#1(1)"),
            ("w/1/a#1 ok 1", "1=[2,2]; complete [2,2]"),
        ],
    );
    lead(&flow, &[("start 0", "1=[0,0]; complete [0,0]")]);
    lead(
        &flow,
        &[("start 2", "w/0/a#1(0)"), ("w/0/a#1 err E", "1!E; fail E")],
    );
    lead(
        &flow,
        &[
            ("start 2", "w/0/a#1(0)"),
            ("cancel", "-w/0/a#1; 1~; cancelled"),
        ],
    );
    lead(
        &flow,
        &[
            ("start 99", "w/0/a#1(0)"),
            ("w/0/a#1 ok 1", "w/1/a#1(1)"),
            ("w/1/a#1 ok 1", "w/2/a#1(2)"),
            ("w/2/a#1 ok 1", "1!Limit; fail Limit"),
        ],
    );
    lead(&flow, &[("start \"x\"", "1!TypeError; fail TypeError")]);
}

/// "Exhausted: the step fails and its error travels to the nearest handler that names its type or a
/// base of it, else fails the run."
#[test]
fn try_handles_by_type_and_always_runs_finally() {
    let mut draft = Draft::new();
    let (body, handler) = (
        draft.block([act("a", "null")]),
        draft.block([act("h", "err.type")]),
    );
    let (other, finally) = (
        draft.block([raise("x", "{'type': 'Z', 'message': 'z'}")]),
        draft.block([act("f", "null")]),
    );
    let handlers = vec![
        on(&["E", "G"], Some("err"), handler),
        on(&["F"], None, other),
    ];
    let flow = draft.root([try_("t", body, handlers, Some(finally)), give("r", "t")]);
    lead(
        &flow,
        &[
            ("start 0", "t/a#1"),
            ("t/a#1 ok 5", "t/:finally/f#1"),
            ("t/:finally/f#1 ok", "1=5; complete 5"),
        ],
    );
    lead(
        &flow,
        &[
            ("start 0", "t/a#1"),
            ("t/a#1 err E", "t/:catch0/h#1(\"E\")"),
            ("t/:catch0/h#1 ok 6", "t/:finally/f#1"),
            ("t/:finally/f#1 ok 1", "1=6; complete 6"),
        ],
    );
    let failing = [("start 0", "t/a#1"), ("t/a#1 err X", "t/:finally/f#1")];
    lead(
        &flow,
        &[failing[0], failing[1], ("t/:finally/f#1 ok", "1!X; fail X")],
    );
    lead(
        &flow,
        &[
            failing[0],
            failing[1],
            ("t/:finally/f#1 err Y", "1!Y; fail Y"),
        ],
    );
    lead(
        &flow,
        &[
            failing[0],
            ("t/a#1 err F", "t/:finally/f#1"),
            ("t/:finally/f#1 ok", "1!Z; fail Z"),
        ],
    );
    lead(
        &flow,
        &[
            failing[0],
            ("t/a#1 err G", "t/:catch0/h#1(\"G\")"),
            ("t/:catch0/h#1 err Q", "t/:finally/f#1"),
            { ("t/:finally/f#1 ok", "1!Q; fail Q") },
        ],
    );
    lead(
        &flow,
        &[
            failing[0],
            ("cancel", "-t/a#1; t/:finally/f#1"),
            ("t/:finally/f#1 ok", "1~; cancelled"),
        ],
    );
    lead(
        &flow,
        &[
            failing[0],
            ("cancel", "-t/a#1; t/:finally/f#1"),
            ("cancel", "-t/:finally/f#1; 1~; cancelled"),
        ],
    );
    lead(
        &flow,
        &[
            failing[0],
            ("cancel", "-t/a#1; t/:finally/f#1"),
            ("at 29999", "ignored"),
            { ("at 30000", "-t/:finally/f#1; 1~; cancelled") },
        ],
    );
    lead(
        &flow,
        &[
            failing[0],
            failing[1],
            ("cancel", ""),
            ("t/:finally/f#1 ok", "1~; cancelled"),
        ],
    );
    lead(&flow, &[failing[0], ("cancel!", "-t/a#1; 1~; cancelled")]);
}

#[test]
fn sleep_and_until() {
    let flow = flow([sleep("s", "input"), give("r", "'up'").needs(&["s"])]);
    for (input, wake) in [("\"5s\"", 5_000), ("2", 2_000), ("0.25", 250)] {
        let mut led = lead(&flow, &[(&*format!("start {input}"), "")]);
        assert_eq!((led.status(), led.wake()), (Status::Sleeping, Some(wake)));
        assert_eq!(led.line(&format!("at {}", wake - 1)), "ignored");
        assert_eq!(led.line(&format!("at {wake}")), "1=\"up\"; complete \"up\"");
    }
    lead(
        &flow,
        &[("start \"soon\"", "1!ValueError; fail ValueError")],
    );
    lead(&flow, &[("start []", "1!TypeError; fail TypeError")]);
    lead(&flow, &[("start 0", "1=\"up\"; complete \"up\"")]);
    let led = lead(
        &flow,
        &[
            ("start 5", ""),
            ("cancel", "1~; cancelled"),
            ("at 5000", "ignored"),
        ],
    );
    assert_eq!(led.wake(), None);
    let until = build::flow([Step::new("u", StepKind::Until { time: t("input") })]);
    lead(
        &until,
        &[
            ("start \"1970-01-01T00:00:03Z\"", ""),
            ("at 3000", "1=null; complete null"),
        ],
    );
    lead(&until, &[("start 0", "1=null; complete null")]);
    lead(
        &until,
        &[("start \"later\"", "1!ValueError; fail ValueError")],
    );
}

#[test]
fn wait_takes_a_signal_early_or_late_or_times_out() {
    let flow = flow([wait("w", "go", None, None), give("r", "w")]);
    let led = lead(&flow, &[("start 0", "")]);
    assert_eq!(led.status(), Status::Waiting);
    lead(
        &flow,
        &[
            ("start 0", ""),
            ("signal stop 1", ""),
            ("signal go 5", "1=5; complete 5"),
        ],
    );
    lead(&flow, &[("start 0", ""), ("cancel", "1~; cancelled")]);
    let late = build::flow([
        act("a", "null"),
        wait("w", "go", Some("'10s'"), None).needs(&["a"]),
        give("r", "w"),
    ]);
    lead(
        &late,
        &[
            ("start 0", "a#1"),
            ("signal go 5", ""),
            ("signal go 6", ""),
            ("a#1 ok", "1=5; complete 5"),
        ],
    );
    let waiting = [("start 0", "a#1"), ("a#1 ok", "")];
    let mut led = lead(&late, &waiting);
    assert_eq!((led.status(), led.wake()), (Status::Waiting, Some(10_000)));
    assert_eq!(led.line("at 10000"), "1!Timeout; fail Timeout");
    lead(
        &late,
        &[
            waiting[0],
            waiting[1],
            ("signal go 1", "1=1; complete 1"),
            ("at 10000", "ignored"),
        ],
    );
    let default = build::flow([wait("w", "go", Some("1"), Some("input")), give("r", "w")]);
    lead(&default, &[("start 7", ""), ("at 1000", "1=7; complete 7")]);
}

#[test]
fn one_signal_wakes_one_waiter_in_order() {
    let flow = flow([wait("a", "go", None, None), wait("b", "go", None, None)]);
    lead(
        &flow,
        &[
            ("start 0", ""),
            ("signal go 1", ""),
            ("signal go 2", r#"1={"a":1,"b":2}; complete {"a":1,"b":2}"#),
        ],
    );
}

#[test]
fn workflow_starts_a_child_and_waits_for_it() {
    let flow = flow([child("c", "other", "input"), give("r", "c")]);
    let started = ("start 5", "child c(other 5)");
    let led = lead(&flow, &[started]);
    assert_eq!(led.status(), Status::Waiting);
    lead(&flow, &[started, ("child c ok 6", "1=6; complete 6")]);
    lead(&flow, &[started, ("child c err E", "1!E; fail E")]);
    lead(
        &flow,
        &[started, ("child c gone", "1!Cancelled; fail Cancelled")],
    );
    lead(&flow, &[started, ("cancel", "-child c; 1~; cancelled")]);
    let mut detached = child("c", "other", "input");
    if let StepKind::Workflow { detach, .. } = &mut detached.kind {
        *detach = true;
    }
    let id = build::script::run_id().child("c").to_string();
    let ends = format!("1=\"{id}\"; complete \"{id}\"");
    let flow = build::flow([detached]);
    lead(&flow, &[("start1 5", &format!("child c(other 5); {ends}"))]);
    let led = lead(&flow, &[started]);
    assert_eq!(
        led.state.unconfirmed(&flow).len(),
        1,
        "who takes the run up starts it again"
    );
    lead(&flow, &[started, ("child c ok", &ends)]);
    lead(
        &flow,
        &[
            started,
            (
                "child c err UnknownWorkflow",
                "1!UnknownWorkflow; fail UnknownWorkflow",
            ),
        ],
    );
    lead(
        &flow,
        &[
            started,
            ("cancel", "1~; cancelled"),
            ("child c ok", "ignored"),
        ],
    );
}

/// A run that fails while a detached child is on its way starts the same child when it goes on.
#[test]
fn a_detached_child_is_started_once() {
    let mut detached = child("c", "other", "input");
    if let StepKind::Workflow { detach, .. } = &mut detached.kind {
        *detach = true;
    }
    let flow = flow([detached, act("a", "null")]);
    let mut led = lead(
        &flow,
        &[
            ("start 5", "a#1; child c(other 5)"),
            ("a#1 err E", "1!E; fail E"),
        ],
    );
    let first = led.state.unconfirmed(&flow);
    assert!(
        first.is_empty(),
        "it is not on its way while the run has failed"
    );
    assert_eq!(led.line("retry 2"), "a#2; child c(other 5)");
    assert_eq!(
        led.state.unconfirmed(&flow)[0].child,
        build::script::run_id().child("c")
    );
}

#[test]
fn send_goes_out_with_the_event() {
    let flow = flow([send("s", "7", "{'payload': input}"), give("r", "s")]);
    lead(
        &flow,
        &[("start 5", r#"send 7 {"payload":5}; 1=null; complete null"#)],
    );
    let bad = build::flow([Step::new(
        "s",
        StepKind::Send {
            to: lope_definition::Recipient::Run,
            target: t("input"),
            body: t("1"),
        },
    )]);
    lead(&bad, &[("start 5", "1!TypeError; fail TypeError")]);
}

/// What cannot be sent fails its step, which a handler may catch. Under the first law it went out
/// all the same.
#[test]
fn a_send_that_cannot_be_done_fails_its_step() {
    let wrong = flow([send("s", "box", "{'payload': input}"), give("r", "s")]);
    lead(&wrong, &[("start 5", "1!BadRecipient; fail BadRecipient")]);
    lead(
        &wrong,
        &[(
            "start1 5",
            r#"send box {"payload":5}; 1=null; complete null"#,
        )],
    );
    let mut draft = Draft::new();
    let (body, handler) = (
        draft.block([send("s", "box", "{'payload': 1}")]),
        draft.block([assign("told", "e.message")]),
    );
    let caught = draft.root([try_(
        "t",
        body,
        vec![on(&["BadRecipient"], Some("e"), handler)],
        None,
    )]);
    let mut led = build::script::Led::new(&caught);
    assert!(
        led.line("start 5")
            .contains("complete \"'box' is not a mailbox"),
        "{:?}",
        led.effects
    );
}

#[test]
fn race_takes_the_first_and_cancels_the_others() {
    let mut draft = Draft::new();
    let (quick, slow) = (
        draft.block([act("a", "null")]),
        draft.block([act("b", "null")]),
    );
    let timeout = draft.block([
        sleep("s", "10"),
        raise("late", "{'type': 'Late'}").needs(&["s"]),
    ]);
    let flow = draft.root([race(
        "r",
        &[("quick", quick), ("slow", slow), ("timeout", timeout)],
    )]);
    let started = ("start 0", "r/quick/a#1; r/slow/b#1");
    let wins = r#"1={"winner":"slow","output":5}; complete {"winner":"slow","output":5}"#;
    lead(
        &flow,
        &[
            started,
            ("r/slow/b#1 ok 5", &format!("-r/quick/a#1; {wins}")),
            ("r/quick/a#1 ok 1", "ignored"),
        ],
    );
    lead(
        &flow,
        &[started, ("r/quick/a#1 err E", "-r/slow/b#1; 1!E; fail E")],
    );
    lead(
        &flow,
        &[
            started,
            ("at 10000", "-r/quick/a#1; -r/slow/b#1; 1!Late; fail Late"),
        ],
    );
    lead(
        &flow,
        &[
            started,
            ("cancel", "-r/quick/a#1; -r/slow/b#1; 1~; cancelled"),
        ],
    );
}

#[test]
fn a_loser_with_finally_runs_it_before_the_race_is_over() {
    let mut draft = Draft::new();
    let (inner, finally) = (
        draft.block([act("b", "null")]),
        draft.block([act("f", "null")]),
    );
    let quick = draft.block([act("a", "null")]);
    let slow = draft.block([try_("t", inner, vec![], Some(finally))]);
    let flow = draft.root([race("r", &[("quick", quick), ("slow", slow)])]);
    lead(
        &flow,
        &[
            ("start 0", "r/quick/a#1; r/slow/t/b#1"),
            ("r/quick/a#1 ok 1", "-r/slow/t/b#1; r/slow/t/:finally/f#1"),
            (
                "r/slow/t/:finally/f#1 ok",
                r#"1={"winner":"quick","output":1}; complete {"winner":"quick","output":1}"#,
            ),
        ],
    );
}

#[test]
fn all_waits_for_every_branch() {
    let mut draft = Draft::new();
    let (one, two) = (
        draft.block([act("a", "null")]),
        draft.block([act("b", "null")]),
    );
    let flow = draft.root([all("p", &[("x", one), ("y", two)]), give("r", "p")]);
    let started = ("start 0", "p/x/a#1; p/y/b#1");
    lead(
        &flow,
        &[
            started,
            ("p/y/b#1 ok 2", ""),
            ("p/x/a#1 ok 1", r#"1={"x":1,"y":2}; complete {"x":1,"y":2}"#),
        ],
    );
    lead(
        &flow,
        &[started, ("p/y/b#1 err E", "-p/x/a#1; 1!E; fail E")],
    );
    lead(
        &flow,
        &[started, ("cancel", "-p/x/a#1; -p/y/b#1; 1~; cancelled")],
    );
    let mut draft = Draft::new();
    let (one, two) = (
        draft.block([raise("a", "'no'")]),
        draft.block([act("b", "null")]),
    );
    let flow = draft.root([
        collecting(all("p", &[("x", one), ("y", two)])),
        give("r", "[p.x.error.type, p.y]"),
    ]);
    lead(
        &flow,
        &[
            ("start 0", "p/y/b#1"),
            ("p/y/b#1 ok 2", r#"1=["Error",2]; complete ["Error",2]"#),
        ],
    );
}

#[test]
fn return_raise_break_and_continue_leave_their_blocks() {
    let mut draft = Draft::new();
    let stop = draft.block([Step::new("b", StepKind::Break)]);
    let skip = draft.block([Step::new("c", StepKind::Continue)]);
    let body = draft.block([
        if_("stop", "x == 3", stop, None),
        if_("skip", "x == 1", skip, None).needs(&["stop"]),
        assign("v", "x * 10").needs(&["skip"]),
    ]);
    let loops = draft.root([each("m", "input", "x", Parallel::One, body), give("r", "m")]);
    lead(
        &loops,
        &[("start [0,1,2,3,4]", "1=[0,null,20]; complete [0,null,20]")],
    );

    let flow = flow([act("a", "null"), act("b", "null"), give("r", "a")]);
    lead(
        &flow,
        &[
            ("start 0", "a#1; b#1"),
            ("a#1 ok 1", "-b#1; 1=1; complete 1"),
            ("b#1 ok", "ignored"),
        ],
    );
    let raised = build::flow([raise(
        "x",
        "{'type': 'Mine', 'message': input, 'bases': ['Base']}",
    )]);
    lead(&raised, &[("start \"m\"", "1!Mine; fail Mine")]);
    lead(
        &build::flow([raise("x", "input")]),
        &[("start 5", "1!TypeError; fail TypeError")],
    );
    lead(
        &build::flow([raise("x", "input")]),
        &[("start \"m\"", "1!Error; fail Error")],
    );
}

#[test]
fn call_runs_a_function_in_a_frame_of_its_own() {
    let mut draft = Draft::new();
    let function = draft.function(&["n"], []);
    let base = draft.block([give("one", "1")]);
    let step = [
        if_("end", "n <= 1", base, None),
        call("rest", function, &[("n", "n - 1")]).needs(&["end"]),
        give("r", "n * rest"),
    ];
    draft.0.block_mut(function).steps = step.into();
    let flow = draft.root([call("f", function, &[("n", "input")]), give("r", "f")]);
    lead(&flow, &[("start 5", "1=120; complete 120")]);
    lead(
        &flow,
        &[(
            "start 20",
            "1=2432902008176640000; complete 2432902008176640000",
        )],
    );
    lead(
        &flow,
        &[("start 30", "1!OverflowError; fail OverflowError")],
    );
    lead(&flow, &[("start 100000", "1!Limit; fail Limit")]);
}
