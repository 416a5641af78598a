//! Slots, keys and time limits, moved by hand.

use lope_model::{Epoch, RunId, Span, Value};

use super::*;
use crate::executor::Limits;

fn task(name: &str, limits: Limits) -> Task {
    let token = Token { run: RunId::from_bytes([0; 16]), execution: name.into(), attempt: 1, epoch: Epoch(1) };
    Task {
        token,
        workflow: "w".into(),
        step: name.into(),
        executor: "action".into(),
        action: name.into(),
        arguments: Value::Null,
        limits,
        idempotency_key: None,
    }
}

fn plain(name: &str) -> Task {
    task(name, Limits::default())
}

fn keyed(name: &str, key: &str, limit: u32) -> Task {
    task(name, Limits { keyed: Some((key.into(), limit)), ..Limits::default() })
}

/// What happened, in short: `+a` started, `-a` stopped, `!a` timed out, `?a` was silent.
fn short(acts: &mut Vec<Act>) -> String {
    let words: Vec<String> = acts
        .drain(..)
        .map(|act| match act {
            Act::Start(task) => format!("+{}", task.token.execution),
            Act::Stop { token, .. } => format!("-{}", token.execution),
            Act::TimedOut { token, silent: false } => format!("!{}", token.execution),
            Act::TimedOut { token, silent: true } => format!("?{}", token.execution),
        })
        .collect();
    words.join(" ")
}

#[test]
fn never_more_than_the_slots_and_the_highest_priority_first() {
    let (mut slots, mut acts) = (Dispatch::new(2), Vec::new());
    for name in ["a", "b", "c"] {
        slots.submit(Moment(0), plain(name), &mut acts);
    }
    let urgent = task("u", Limits { priority: Priority::HIGHEST, ..Limits::default() });
    slots.submit(Moment(0), urgent, &mut acts);
    assert_eq!(short(&mut acts), "+a +b");
    assert!(slots.settled(Moment(1), &plain("a").token, &mut acts));
    assert_eq!(short(&mut acts), "+u");
    assert!(!slots.settled(Moment(1), &plain("a").token, &mut acts), "a second answer does not count");
    assert_eq!((short(&mut acts).as_str(), slots.in_flight()), ("", 2));
}

#[test]
fn a_key_at_its_limit_lets_others_pass() {
    let (mut slots, mut acts) = (Dispatch::new(3), Vec::new());
    for task in [keyed("a1", "k", 1), keyed("a2", "k", 1), keyed("a3", "k", 1), plain("b")] {
        slots.submit(Moment(0), task, &mut acts);
    }
    assert_eq!(short(&mut acts), "+a1 +b");
    slots.cancel(Moment(0), &keyed("a2", "k", 1).token, &mut acts);
    assert_eq!(short(&mut acts), "", "one that waits is forgotten without a word");
    slots.settled(Moment(0), &keyed("a1", "k", 1).token, &mut acts);
    assert_eq!(short(&mut acts), "+a3");
}

#[test]
fn time_limits_count_from_the_start_and_silence_from_the_last_sign_of_life() {
    let (mut slots, mut acts) = (Dispatch::new(1), Vec::new());
    let limits =
        Limits { timeout: Some(Span::from_millis(100)), heartbeat: Some(Span::from_millis(30)), ..Limits::default() };
    slots.submit(Moment(0), plain("first"), &mut acts);
    slots.submit(Moment(0), task("t", limits.clone()), &mut acts);
    slots.submit(Moment(0), task("s", limits), &mut acts);
    assert_eq!(short(&mut acts), "+first");
    slots.settled(Moment(1_000), &plain("first").token, &mut acts);
    assert_eq!(short(&mut acts), "+t");
    for now in [1_020, 1_040, 1_060, 1_080, 1_099] {
        slots.alive(Moment(now), &plain("t").token);
        slots.tick(Moment(now), &mut acts);
    }
    assert_eq!((short(&mut acts).as_str(), slots.next_deadline()), ("", Some(Moment(1_100))));
    slots.tick(Moment(1_100), &mut acts);
    assert_eq!(short(&mut acts), "-t !t +s");
    slots.tick(Moment(1_130), &mut acts);
    assert_eq!((short(&mut acts).as_str(), slots.next_deadline()), ("-s ?s", None));
}

#[test]
fn a_running_task_that_is_cancelled_is_stopped_and_gives_its_slot_back() {
    let (mut slots, mut acts) = (Dispatch::new(1), Vec::new());
    slots.submit(Moment(0), plain("a"), &mut acts);
    slots.submit(Moment(0), plain("b"), &mut acts);
    slots.cancel(Moment(0), &plain("a").token, &mut acts);
    assert_eq!(short(&mut acts), "+a -a +b");
}
