//! Slots, keys and time limits, moved by hand.

use lope_model::policy::RateLimit;
use lope_model::{Epoch, RunId};

use super::*;
use crate::executor::Limits;

fn task(name: &str, limits: Limits) -> Box<Task> {
    let token = Token { run: RunId::from_bytes([0; 16]), execution: name.into(), attempt: 1, epoch: Epoch(1) };
    Box::new(Task {
        token,
        workflow: "w".into(),
        step: name.into(),
        executor: "action".into(),
        action: name.into(),
        arguments: Value::Null,
        limits,
        idempotency_key: None,
    })
}

const DONE: Option<&Value> = Some(&Value::Int(1));
const FAILED: Option<&Value> = None;

fn plain(name: &str) -> Box<Task> {
    task(name, Limits::default())
}

fn keyed(name: &str, key: &str, limit: u32) -> Box<Task> {
    task(name, Limits { keyed: Some((key.into(), limit)), ..Limits::default() })
}

/// A circuit that opens for a second.
fn circuit(name: &str, failures: u32) -> Arc<CircuitBreaker> {
    Arc::new(CircuitBreaker { failures, reset: Span::from_secs(1), name: Some(name.into()) })
}

/// What happened, in short: `+a` started, `-a` stopped, `!a` timed out, `?a` was silent, `~a:1s` was
/// refused for a second, `=a:1` got another's answer.
fn short(acts: &mut Vec<Act>) -> String {
    let words: Vec<String> = acts
        .drain(..)
        .map(|act| match act {
            Act::Start(task) => format!("+{}", task.token.execution),
            Act::Stop { token, .. } => format!("-{}", token.execution),
            Act::TimedOut { token, silent: false, .. } => format!("!{}", token.execution),
            Act::TimedOut { token, silent: true, .. } => format!("?{}", token.execution),
            Act::Refuse { token, wait, .. } => format!("~{}:{wait}", token.execution),
            Act::Answer { token, value } => format!("={}:{value}", token.execution),
        })
        .collect();
    words.join(" ")
}

#[test]
fn a_run_that_is_given_up_leaves_nothing_behind_and_others_go_on() {
    let (mut dispatch, mut acts, now) = (Dispatch::new(2), Vec::new(), Moment(0));
    let other = |name: &str| {
        let mut task = plain(name);
        task.token.run = RunId::from_bytes([1; 16]);
        task
    };
    for task in [plain("a"), other("b"), plain("c"), keyed("d", "k", 1), other("e")] {
        dispatch.submit(now, task, &mut acts);
    }
    assert_eq!(short(&mut acts), "+a +b");
    dispatch.cancel_runs(now, |run| run == RunId::from_bytes([0; 16]), &mut acts);
    assert_eq!(short(&mut acts), "-a +e");
    assert_eq!(dispatch.in_flight(), 2);
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
    let ran = slots.settled(Moment(1), &plain("a").token, DONE, &mut acts);
    assert_eq!(ran, Some(Span::from_millis(1)));
    assert_eq!(short(&mut acts), "+u");
    let again = slots.settled(Moment(1), &plain("a").token, DONE, &mut acts);
    assert_eq!(again, None, "a second answer does not count");
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
    slots.settled(Moment(0), &keyed("a1", "k", 1).token, DONE, &mut acts);
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
    slots.settled(Moment(1_000), &plain("first").token, DONE, &mut acts);
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

/// "Circuit breaker opens, half-opens, closes."
#[test]
fn a_circuit_opens_lets_one_probe_through_and_closes() {
    let (mut slots, mut acts) = (Dispatch::new(9), Vec::new());
    let circuit = circuit("bank", 2);
    let guarded = |name: &str| task(name, Limits { circuit_breaker: Some(circuit.clone()), ..Limits::default() });
    for name in ["a", "b"] {
        slots.submit(Moment(0), guarded(name), &mut acts);
        slots.settled(Moment(0), &guarded(name).token, FAILED, &mut acts);
    }
    assert_eq!(short(&mut acts), "+a +b");
    slots.submit(Moment(400), guarded("c"), &mut acts);
    assert_eq!(short(&mut acts), "~c:600ms", "open");
    slots.submit(Moment(1_000), guarded("c"), &mut acts);
    slots.submit(Moment(1_000), guarded("d"), &mut acts);
    assert_eq!(short(&mut acts), "+c ~d:1s", "half open: one probe");
    slots.settled(Moment(1_100), &guarded("c").token, FAILED, &mut acts);
    slots.submit(Moment(1_200), guarded("c"), &mut acts);
    assert_eq!(short(&mut acts), "~c:900ms", "the probe failed: open again");
    slots.submit(Moment(2_100), guarded("c"), &mut acts);
    slots.settled(Moment(2_200), &guarded("c").token, DONE, &mut acts);
    slots.submit(Moment(2_200), guarded("d"), &mut acts);
    slots.submit(Moment(2_200), guarded("e"), &mut acts);
    assert_eq!(short(&mut acts), "+c +d +e", "closed");
}

#[test]
fn an_attempt_that_runs_out_of_time_counts_against_its_circuit() {
    let (mut slots, mut acts) = (Dispatch::new(9), Vec::new());
    let circuit = circuit("bank", 1);
    let limits = Limits { circuit_breaker: Some(circuit), timeout: Some(Span::from_millis(50)), ..Limits::default() };
    slots.submit(Moment(0), task("a", limits.clone()), &mut acts);
    slots.tick(Moment(50), &mut acts);
    slots.submit(Moment(50), task("b", limits), &mut acts);
    assert_eq!(short(&mut acts), "+a -a !a ~b:1s");
}

#[test]
fn a_rate_gives_each_its_time_and_lets_it_through_then() {
    let (mut slots, mut acts) = (Dispatch::new(9), Vec::new());
    let rate = Arc::new(RateLimit { count: 2, per: Span::from_secs(1), name: Some("api".into()) });
    let limited = |name: &str| task(name, Limits { rate_limit: Some(rate.clone()), ..Limits::default() });
    for name in ["a", "b", "c", "d", "e"] {
        slots.submit(Moment(0), limited(name), &mut acts);
    }
    assert_eq!(short(&mut acts), "+a +b ~c:1s ~d:1s ~e:2s");
    slots.submit(Moment(999), limited("c"), &mut acts);
    assert_eq!(short(&mut acts), "~c:1ms", "too early keeps its place");
    for name in ["f", "c", "d"] {
        slots.submit(Moment(1_000), limited(name), &mut acts);
    }
    assert_eq!(short(&mut acts), "~f:1s +c +d", "a late comer does not take a booked start");
    slots.submit(Moment(2_000), limited("e"), &mut acts);
    assert_eq!(short(&mut acts), "+e");
}

#[test]
fn a_rate_that_refuses_does_not_spend_the_probe_of_a_circuit() {
    let (mut slots, mut acts) = (Dispatch::new(9), Vec::new());
    let circuit = circuit("x", 1);
    let rate = Arc::new(RateLimit { count: 1, per: Span::from_secs(3), name: Some("x".into()) });
    let both = Limits { circuit_breaker: Some(circuit), rate_limit: Some(rate), ..Limits::default() };
    slots.submit(Moment(0), task("a", both.clone()), &mut acts);
    slots.settled(Moment(0), &plain("a").token, FAILED, &mut acts);
    slots.submit(Moment(1_000), task("b", both.clone()), &mut acts);
    assert_eq!(short(&mut acts), "+a ~b:2s", "refused by the rate");
    slots.submit(Moment(3_000), task("b", both), &mut acts);
    assert_eq!(short(&mut acts), "+b", "it is the probe");
}

/// "Idempotency key: same key, one effect."
#[test]
fn tasks_with_an_equal_key_have_one_effect() {
    let (mut slots, mut acts) = (Dispatch::new(1), Vec::new());
    let once = |name: &str| task(name, Limits { once: Some("pay/17".into()), ..Limits::default() });
    for name in ["a", "b", "c"] {
        slots.submit(Moment(0), once(name), &mut acts);
    }
    assert_eq!(short(&mut acts), "+a");
    slots.cancel(Moment(0), &once("c").token, &mut acts);
    slots.settled(Moment(0), &once("a").token, FAILED, &mut acts);
    assert_eq!(short(&mut acts), "+b", "a failure is no effect: the next one tries");
    slots.submit(Moment(0), plain("x"), &mut acts);
    slots.submit(Moment(0), once("d"), &mut acts);
    slots.settled(Moment(0), &once("b").token, DONE, &mut acts);
    slots.settled(Moment(0), &plain("x").token, DONE, &mut acts);
    assert_eq!(short(&mut acts), "+x =d:1");
    slots.submit(Moment(9), once("e"), &mut acts);
    assert_eq!((short(&mut acts).as_str(), slots.in_flight()), ("=e:1", 0));
}

#[test]
fn signs_of_life_do_not_lift_a_timeout_that_falls_together_with_the_silence() {
    let (mut slots, mut acts) = (Dispatch::new(1), Vec::new());
    let span = Some(Span::from_millis(100));
    slots.submit(Moment(0), task("t", Limits { timeout: span, heartbeat: span, ..Limits::default() }), &mut acts);
    slots.alive(Moment(50), &plain("t").token);
    slots.tick(Moment(100), &mut acts);
    assert_eq!(short(&mut acts), "+t -t !t");
}
