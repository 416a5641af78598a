//! Histories: journals folded into executions, attempts and times, at any position.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::build;

use lope_definition::{Parallel, Step, StepKind};
use lope_flow::history::{ExecutionStatus, Historian, history};
use lope_flow::law::{Event, Status, drive};
use lope_model::{Policy, Timestamp, Value};

use build::script::lead;
use build::*;

fn rows(journal: &[Event]) -> Vec<(u64, Event)> {
    journal
        .iter()
        .enumerate()
        .map(|(index, event)| (index as u64 + 1, event.clone()))
        .collect()
}

fn statuses(historian: &Historian<'_>) -> Vec<(String, ExecutionStatus)> {
    historian
        .executions()
        .map(|it| (it.id.to_string(), it.status))
        .collect()
}

/// "Failed attempts are in the history with error and times."
#[test]
fn executions_have_attempts_times_and_outcomes_at_every_position() {
    use ExecutionStatus::{Done, Failed, Running, Skipped};
    let mut draft = Draft::new();
    let policy = Policy {
        base_delay: Some(millis(100)),
        ..retries(1)
    };
    let body = draft.block([act("a", "x").policy(policy)]);
    let flow = draft.root([
        each("m", "[7]", "x", Parallel::One, body),
        assign("no", "1").when(e("input > 5")),
        give("r", "m"),
    ]);
    let led = lead(
        &flow,
        &[
            ("start 0", "m/0/a#1(7)"),
            ("m/0/a#1 err E", ""),
            ("at 100", "m/0/a#2(7)"),
            ("m/0/a#2 ok 5", "1=[5]; complete [5]"),
        ],
    );
    let rows = rows(&led.journal);
    let at = |upto| history(&flow, rows.clone(), Some(upto));
    let status = |list: &[(&str, ExecutionStatus)]| -> Vec<(String, ExecutionStatus)> {
        list.iter()
            .map(|(id, status)| ((*id).to_owned(), *status))
            .collect()
    };
    assert_eq!(
        statuses(&at(1)),
        status(&[("m", Running), ("no", Skipped), ("m/0/a", Running)])
    );
    assert_eq!(at(1).status(), Status::Running);
    assert_eq!(at(2).status(), Status::Sleeping);
    let end = at(4);
    assert_eq!(
        statuses(&end),
        status(&[("m", Done), ("no", Skipped), ("m/0/a", Done), ("r", Done)])
    );
    let work = end.execution("m/0/a").unwrap();
    assert_eq!(
        (&*work.step, work.opened_by, work.output.clone()),
        ("m/a", 1, Some(Value::Int(5)))
    );
    assert_eq!(
        (work.opened_at, work.finished_at),
        (Timestamp::from_millis(0), Some(Timestamp::from_millis(100)))
    );
    let attempts: Vec<_> = work
        .attempts
        .iter()
        .map(|it| (it.number, it.status, it.dispatched_at.millis()))
        .collect();
    assert_eq!(attempts, [(1, Failed, 0), (2, Done, 100)]);
    assert_eq!(
        work.attempts[0]
            .failure
            .as_ref()
            .map(|failure| &*failure.kind),
        Some("E")
    );
    assert_eq!(work.attempts[0].worker.as_deref(), Some("w"));
    assert_eq!(end.results().len(), 1);
    let touched = |upto| {
        at(upto)
            .touched()
            .map(|it| it.id.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (touched(1).len(), touched(3), touched(4)),
        (
            3,
            vec!["m/0/a".into()],
            vec!["m".into(), "m/0/a".into(), "r".into()]
        )
    );
}

/// A step's input is what its last attempt was given, evaluated where it was dispatched; a child's is
/// its input, a message's its body, and a region is given all but the heap.
#[test]
fn executions_have_what_they_were_given() {
    let StepKind::Dispatch(mut code) = dispatch(ACTION, "code", "{'request': input}") else {
        panic!("a dispatch is a dispatch");
    };
    code.heap = true;
    let flow = flow([
        act("a", "{'twice': input * 2}").policy(retries(1)),
        child("c", "w", "[input]"),
        send("s", "7", "{'payload': input + 1}"),
        Step::new("code", StepKind::Dispatch(code)),
        assign("plain", "input"),
    ]);
    let mut rows = Vec::new();
    let run = drive(&flow, vec![4.into()], |dispatch| {
        rows.push((dispatch.execution.to_string(), dispatch.with.clone()));
        done(Value::Null)
    });
    let heap = rows.iter().find(|(path, _)| path == "code");
    let heap = heap.and_then(|(_, with)| with.get("heap"));
    assert!(heap.is_some(), "it was given the heap: {rows:?}");
    let history = history(&flow, self::rows(&run.journal), None);
    let input = |path: &str| history.execution(path).unwrap().input.clone();
    let entry = |name: &str, value: i64| Some(Value::map([(name, Value::Int(value))]));
    assert_eq!(input("a"), entry("twice", 8));
    assert_eq!(input("c"), Some(Value::list(vec![4.into()])));
    assert_eq!(input("s"), entry("payload", 5));
    assert_eq!(input("code"), entry("request", 4));
    assert_eq!(input("plain"), None);
}

#[test]
fn lost_refused_cancelled_and_forgiven_are_told_apart() {
    use ExecutionStatus::{Cancelled, Forgiven, Lost, Running};
    let skip = Policy {
        on_failure: Some(lope_model::policy::OnFailure::Skip),
        ..Policy::default()
    };
    let flow = flow([
        act("a", "1"),
        act("b", "2").policy(skip),
        child("c", "w", "3"),
    ]);
    let led = lead(
        &flow,
        &[
            ("start 0", "a#1(1); b#1(2); child c(w 3)"),
            ("refuse a#1 10", ""),
            ("adopt 2", "b#2(2)"),
            ("b#2 err E", ""),
            ("at 10", "a#1(1)"),
            ("cancel", "-a#1; -child c; 1~; cancelled"),
        ],
    );
    let before = history(&flow, rows(&led.journal), Some(5));
    assert_eq!(
        statuses(&before),
        [
            ("a".into(), Running),
            ("b".into(), Forgiven),
            ("c".into(), Running)
        ]
    );
    let end = history(&flow, rows(&led.journal), None);
    assert_eq!(
        statuses(&end),
        [
            ("a".into(), Cancelled),
            ("b".into(), Forgiven),
            ("c".into(), Cancelled)
        ]
    );
    let attempts = |id: &str| {
        end.execution(id)
            .unwrap()
            .attempts
            .iter()
            .map(|it| it.status)
            .collect::<Vec<_>>()
    };
    assert_eq!(attempts("a"), [Lost, Cancelled]);
    assert_eq!(attempts("b")[0], Lost);
    assert_eq!(attempts("c"), [Cancelled]);
    assert!(end.execution("c").unwrap().attempts[0].child.is_some());
}

#[test]
fn a_failed_run_and_its_retry_are_both_there() {
    let flow = flow([act("a", "1"), act("b", "2")]);
    let mut led = lead(
        &flow,
        &[
            ("start 0", "a#1(1); b#1(2)"),
            ("a#1 err E", "-b#1; 1!E; fail E"),
        ],
    );
    let failed = history(&flow, rows(&led.journal), None);
    assert_eq!(
        failed.execution("a").unwrap().status,
        ExecutionStatus::Failed
    );
    assert_eq!(
        failed.execution("b").unwrap().status,
        ExecutionStatus::Cancelled
    );
    led.line("retry 2");
    led.line("a#2 ok 5");
    let again = history(&flow, rows(&led.journal), None);
    assert_eq!(again.execution("a").unwrap().status, ExecutionStatus::Done);
    assert_eq!(
        again.execution("b").unwrap().status,
        ExecutionStatus::Running
    );
}

#[test]
fn a_history_is_bounded() {
    let mut draft = Draft::new();
    let body = draft.block([assign("a", "x")]);
    let flow = draft.root([each("m", "input", "x", Parallel::One, body), act("z", "m")]);
    let mut led = lead(&flow, &[]);
    led.line(&format!(
        "start {}",
        Value::list((0..500).map(Value::Int).collect())
    ));
    let mut historian = Historian::new(&flow).with_limit(20);
    historian.push(1, &led.journal[0]);
    assert_eq!(historian.executions().count(), 20);
    assert_eq!(historian.dropped(), 502 - 20);
    assert_eq!(
        historian.execution("z").unwrap().status,
        ExecutionStatus::Running
    );
}
