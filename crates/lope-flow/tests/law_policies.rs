//! Policies as a run shows them: retries, backoff, deadlines, fallbacks, skips, refusals, losses,
//! priorities, overrides. The lines quoted are from the list of behaviours that must be observable.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::build;

use lope_definition::{Matcher, Rule, StepPolicy};
use lope_flow::law::{Effect, EventKind, Fed, Notice, Reason, Start, Status};
use lope_model::policy::{Backoff, Fallback, KeyedConcurrency, OnFailure, RateLimit};
use lope_model::{Epoch, Policy, Priority, Value};

use build::script::lead;
use build::*;

fn one(policy: StepPolicy) -> lope_flow::law::Plan {
    flow([act("a", "null").policy(policy), give("r", "a")])
}

/// "Attempts count from 1. Retry increments the attempt and re-queues the same execution."
/// "Retries: fails twice then succeeds with retries 3."
#[test]
fn retries_count_attempts_from_one() {
    let flow = one(retries(3));
    let led = lead(
        &flow,
        &[
            ("start 0", "a#1"),
            ("a#1 err E", "a#2"),
            ("a#1 ok 9", "ignored"),
            ("a#2 err E", "a#3"),
            ("a#3 ok 5", "1=5; complete 5"),
        ],
    );
    let retrying = led
        .effects
        .iter()
        .filter(|it| matches!(it, Effect::Telemetry(Notice::Retrying { .. })))
        .count();
    assert_eq!(retrying, 2);
    lead(
        &one(retries(1)),
        &[
            ("start 0", "a#1"),
            ("a#1 err E", "a#2"),
            ("a#2 err F", "1!F; fail F"),
        ],
    );
}

#[test]
fn backoff_waits_without_a_slot_and_says_why() {
    let policy = Policy {
        backoff: Some(Backoff::Exponential),
        base_delay: Some(millis(100)),
        ..retries(3)
    };
    let flow = one(policy);
    let mut led = lead(&flow, &[("start 0", "a#1"), ("a#1 err E", "")]);
    assert_eq!(
        (led.status(), led.wake(), led.state.load()),
        (Status::Sleeping, Some(100), (0, 0))
    );
    let why = led.state.why(&flow, 9);
    assert!(
        matches!(&why[..], [Reason::Retry { attempt: 2, failure: Some(failure), .. }] if &*failure.kind == "E")
    );
    assert_eq!(led.line("at 99"), "ignored");
    assert_eq!(led.line("at 100"), "a#2");
    assert_eq!(led.line("a#2 err E"), "");
    assert_eq!(led.wake(), Some(300));
    assert_eq!(led.line("cancel"), "1~; cancelled");
}

/// "The law gets an outcome for 'started, not to be counted, again at T'."
#[test]
fn work_that_is_refused_until_a_time_is_tried_again_then_and_not_counted() {
    let flow = one(retries(1));
    let mut led = lead(&flow, &[("start 0", "a#1"), ("a#1 later 500", "")]);
    assert_eq!(
        (led.status(), led.wake(), led.state.load()),
        (Status::Sleeping, Some(500), (0, 0))
    );
    let why = led.state.why(&flow, 9);
    assert!(
        matches!(&why[..], [Reason::Retry { attempt: 2, failure: Some(failure), .. }] if &*failure.kind == "UsageLimit")
    );
    for (line, expected) in [
        ("a#1 ok 1", "ignored"),
        ("at 499", "ignored"),
        ("at 500", "a#2"),
        ("a#2 later 600", ""),
        ("at 600", "a#3"),
        ("a#3 err E", "a#4"),
        ("a#4 later 400", "a#5"),
        ("a#5 err E", "1!E; fail E"),
    ] {
        assert_eq!(led.line(line), expected, "{line}");
    }
}

#[test]
fn types_decide_what_is_retried() {
    let never = Policy {
        never_retry_on: Some(vec!["Fatal".into()]),
        ..retries(5)
    };
    lead(
        &one(never.clone()),
        &[("start 0", "a#1"), ("a#1 err Fatal", "1!Fatal; fail Fatal")],
    );
    lead(&one(never), &[("start 0", "a#1"), ("a#1 err Other", "a#2")]);
    let only = Policy {
        retry_on: Some(vec!["Net".into()]),
        ..retries(5)
    };
    lead(
        &one(only),
        &[
            ("start 0", "a#1"),
            ("a#1 err Net", "a#2"),
            ("a#2 err E", "1!E; fail E"),
        ],
    );
}

/// "Deadline stops new attempts."
#[test]
fn a_deadline_stops_new_attempts() {
    let policy = Policy {
        base_delay: Some(millis(100)),
        deadline: Some(millis(150)),
        ..retries(9)
    };
    lead(
        &one(policy),
        &[
            ("start 0", "a#1"),
            ("a#1 err E", ""),
            ("at 100", "a#2"),
            ("a#2 err E", "1!Deadline; fail Deadline"),
        ],
    );
}

/// "Fallback value flows downstream; fallback `retry_with` changes the arguments; a fallback is
/// called once, after the retries."
#[test]
fn fallbacks() {
    let value = Policy {
        fallback: Some(Fallback::Value(t("[error.type, input]"))),
        ..retries(1)
    };
    lead(
        &one(value),
        &[
            ("start 7", "a#1"),
            ("a#1 err E", "a#2"),
            ("a#2 err F", r#"1=["F",7]; complete ["F",7]"#),
        ],
    );
    let with = Policy {
        fallback: Some(Fallback::RetryWith(t("{'again': error.message}"))),
        ..Policy::default()
    };
    let flow = one(with);
    let fell = [("start 7", "a#1"), ("a#1 err E", r#"a#2({"again":"no"})"#)];
    lead(&flow, &[fell[0], fell[1], ("a#2 ok 3", "1=3; complete 3")]);
    lead(&flow, &[fell[0], fell[1], ("a#2 err F", "1!F; fail F")]);
    let action = Policy {
        fallback: Some(Fallback::Action {
            name: "other".into(),
            with: None,
        }),
        ..Policy::default()
    };
    let flow = build::flow([act("a", "5").policy(action), give("r", "a")]);
    let led = lead(
        &flow,
        &[
            ("start 7", "a#1(5)"),
            ("a#1 err E", "a#2(5)"),
            ("a#2 ok 3", "1=3; complete 3"),
        ],
    );
    let actions: Vec<&str> = led
        .effects
        .iter()
        .filter_map(|it| match it {
            Effect::Dispatch(it) => Some(&*it.action),
            _ => None,
        })
        .collect();
    assert_eq!(actions, ["a", "other"]);
    let broken = Policy {
        fallback: Some(Fallback::Value(t("error.nothing"))),
        ..Policy::default()
    };
    lead(
        &one(broken),
        &[
            ("start 7", "a#1"),
            ("a#1 err E", "1!KeyError; fail KeyError"),
        ],
    );
}

/// "`on_failure: skip`: the rest goes on, what needed it is skipped."
#[test]
fn on_failure_skip() {
    let skip = || Policy {
        on_failure: Some(OnFailure::Skip),
        ..Policy::default()
    };
    let flow = flow([
        act("a", "null").policy(skip()),
        assign("b", "a"),
        act("c", "null"),
    ]);
    lead(
        &flow,
        &[
            ("start 0", "a#1; c#1"),
            ("a#1 err E", ""),
            ("c#1 ok 1", r#"1={"c":1}; complete {"c":1}"#),
        ],
    );
    let inline = build::flow([
        assign("x", "1 / input").policy(skip()),
        assign("y", "x"),
        assign("z", "2"),
    ]);
    lead(&inline, &[("start 0", r#"1={"z":2}; complete {"z":2}"#)]);
    let mut draft = Draft::new();
    let body = draft.block([raise("no", "'no'")]);
    let block = draft.root([
        if_("c", "true", body, None).policy(skip()),
        assign("d", "c"),
        assign("z", "2"),
    ]);
    lead(&block, &[("start 0", r#"1={"z":2}; complete {"z":2}"#)]);
}

/// "Runtime overrides on `run` win over the workflow's."
#[test]
fn overrides_that_come_with_an_input_win() {
    let flow = one(retries(0));
    let mut led = build::script::Led::new(&flow);
    let mut fed = Fed::new("1", Value::Null);
    fed.policies = vec![
        Rule::new(Matcher::named("a"), retries(1)),
        Rule::new(Matcher::default(), retries(7)),
    ];
    let start = Start {
        run: build::script::run_id(),
        law: lope_flow::LAW,
        seed: 1,
        epoch: Epoch(1),
        open: false,
        env: Value::Null,
        input: Some(fed.clone()),
    };
    assert_eq!(led.event(EventKind::Start(Box::new(start))), "a#1");
    assert_eq!(led.line("a#1 err E"), "a#2");
    assert_eq!(led.line("a#2 err E"), "1!E; fail E");
    let mut led = lead(&flow, &[("open", "")]);
    let skip = Policy {
        on_failure: Some(OnFailure::Skip),
        ..Policy::default()
    };
    fed.policies = vec![Rule::new(Matcher::named("a"), skip)];
    assert_eq!(led.event(EventKind::Input(Box::new(fed))), "a#1");
    assert_eq!(led.line("a#1 err E"), "1=null");
}

/// "Priority orders the ready set."
#[test]
fn priority_orders_the_ready_set() {
    let mut draft = Draft::new();
    draft.concurrency(1);
    let urgent = Policy {
        priority: Some(Priority::HIGHEST),
        ..Policy::default()
    };
    let lazy = Policy {
        priority: Some(Priority::LOWEST),
        ..Policy::default()
    };
    let flow = draft.root([
        act("low", "null").policy(lazy),
        act("one", "null"),
        act("high", "null").policy(urgent),
        act("two", "null"),
    ]);
    lead(
        &flow,
        &[
            ("start 0", "high#1"),
            ("high#1 ok", "one#1"),
            ("one#1 ok", "two#1"),
            ("two#1 ok", "low#1"),
            {
                (
                    "low#1 ok",
                    r#"1={"low":null,"one":null,"high":null,"two":null}; complete {"low":null,"one":null,"high":null,"two":null}"#,
                )
            },
        ],
    );
}

/// "`concurrency: 1` — strict order, observed." "Never more than N at once, under load, with
/// retries waiting."
#[test]
fn concurrency_bounds_what_is_in_flight() {
    let mut draft = Draft::new();
    draft.concurrency(1);
    let flow = draft.root([act("a", "null").policy(retries(1)), act("b", "null")]);
    lead(
        &flow,
        &[
            ("start 0", "a#1"),
            ("a#1 err E", "b#1"),
            ("b#1 ok 1", "a#2"),
            { ("a#2 ok 2", r#"1={"a":2,"b":1}; complete {"a":2,"b":1}"#) },
        ],
    );
}

#[test]
fn a_refused_attempt_keeps_its_number_and_waits() {
    let flow = one(Policy {
        deadline: Some(millis(1_000)),
        ..retries(3)
    });
    let mut led = lead(&flow, &[("start 0", "a#1"), ("refuse a#1 500", "")]);
    assert_eq!((led.status(), led.wake()), (Status::Sleeping, Some(500)));
    assert!(
        matches!(&led.state.why(&flow, 9)[..], [Reason::Refused { reason, .. }] if &**reason == "busy")
    );
    assert_eq!(led.line("a#1 ok 1"), "ignored");
    assert_eq!(led.line("at 500"), "a#1");
    assert_eq!(led.line("refuse a#1 2000"), "1!Deadline; fail Deadline");
}

/// "A run taken over after its runner died gets one journal event `adopted`: every execution in
/// flight starts a new attempt, counted against its own budget of losses (default 20), after which
/// it fails as `RunnerLost`."
#[test]
fn attempts_lost_with_their_runner_have_a_budget_of_their_own() {
    let flow = one(Policy {
        loss_budget: Some(2),
        ..Policy::default()
    });
    lead(
        &flow,
        &[
            ("start 0", "a#1"),
            ("sent a#1", ""),
            ("adopt 2", "a#2"),
            ("adopt 2", "ignored"),
            ("a#1 ok 1", "ignored"),
            ("sent a#2", ""),
            ("adopt 3", "a#3"),
            ("sent a#3", ""),
            ("adopt 4", "1!RunnerLost; fail RunnerLost"),
        ],
    );
    let flow = one(Policy::default());
    let mut led = lead(&flow, &[("start 0", "a#1"), ("adopt 2", "a#2")]);
    for epoch in 3..23 {
        led.line(&format!("sent a#{}", epoch - 1));
        assert_eq!(led.line(&format!("adopt {epoch}")), format!("a#{epoch}"));
    }
    led.line("sent a#22");
    assert_eq!(led.line("adopt 23"), "1!RunnerLost; fail RunnerLost");
}

/// "Only an attempt that an executor had begun counts as lost": where nobody can know, it does not
/// count, and is announced from then on; what is known not to have begun keeps its number.
#[test]
fn what_never_began_is_not_lost() {
    let flow = one(Policy::default());
    let mut led = lead(&flow, &[("start 0", "a#1"), ("adopt 2", "a#2")]);
    for epoch in 3..60 {
        assert_eq!(led.line(&format!("adopt {epoch}")), "a#2");
    }
    assert_eq!(led.line("sent a#2"), "");
    assert_eq!(led.line("return a#2"), "");
    assert_eq!(led.line("adopt 60"), "a#2");
    let bounded = one(Policy {
        loss_budget: Some(0),
        ..Policy::default()
    });
    lead(
        &bounded,
        &[
            ("start 0", "a#1"),
            ("adopt 2", "a#1"),
            ("sent a#1", ""),
            ("return a#1", ""),
            ("adopt 3", "a#1"),
            ("sent a#1", ""),
            ("adopt 4", "1!RunnerLost; fail RunnerLost"),
        ],
    );
}

#[test]
fn adoption_touches_only_what_is_in_flight() {
    let mut draft = Draft::new();
    draft.concurrency(1);
    let flow = draft.root([
        act("a", "null"),
        act("b", "null"),
        sleep("s", "5"),
        child("c", "w", "1"),
    ]);
    let mut led = lead(
        &flow,
        &[("start 0", "a#1; child c(w 1)"), ("adopt 5", "b#1")],
    );
    assert_eq!(
        led.line("b#1 ok 1"),
        "a#2",
        "what was ready goes first, what was lost queues again"
    );
    let outstanding = led.state.outstanding(&flow);
    assert!(
        matches!(&outstanding[..], [Effect::Dispatch(it)] if &*it.execution == "a" && it.epoch == Epoch(5))
    );
}

/// "Worker lost, machine lost and user error are different types with different default policies."
#[test]
fn a_lost_worker_is_tried_again_though_the_policy_is_silent() {
    let mut led = lead(
        &one(Policy::default()),
        &[("start 0", "a#1"), ("a#1 err WorkerLost", "")],
    )
    .line("at 1000");
    assert_eq!(led, "a#2");
    led = lead(&one(retries(0)), &[("start 0", "a#1")]).line("a#1 err WorkerLost");
    assert_eq!(led, "1!WorkerLost; fail WorkerLost");
}

#[test]
fn a_child_is_retried_under_another_id_and_timed_by_the_law() {
    let step = child("c", "w", "1").policy(Policy {
        timeout: Some(millis(50)),
        ..retries(1)
    });
    let flow = flow([step, give("r", "c")]);
    let mut led = lead(&flow, &[("start 0", "child c(w 1)")]);
    let first = led.state.why(&flow, 1);
    assert_eq!(led.line("at 50"), "-child c; child c(w 1)");
    assert_ne!(first, led.state.why(&flow, 1), "another child");
    assert_eq!(led.line("child c err E"), "1!E; fail E");
    let fallback = Policy {
        fallback: Some(Fallback::Action {
            name: "x".into(),
            with: None,
        }),
        ..Policy::default()
    };
    let flow = build::flow([child("c", "w", "1").policy(fallback), give("r", "c")]);
    lead(
        &flow,
        &[
            ("start 0", "child c(w 1)"),
            ("child c err E", "c#2(1)"),
            ("c#2 ok 4", "1=4; complete 4"),
        ],
    );
}

#[test]
fn dispatchers_get_what_they_must_know() {
    let policy = Policy {
        timeout: Some(millis(20)),
        heartbeat: Some(millis(5)),
        idempotency_key: Some(t("'order-' + string(input)")),
        rate_limit: Some(RateLimit {
            count: 3,
            per: millis(100),
            name: None,
        }),
        concurrency: Some(KeyedConcurrency {
            limit: 2,
            key: Some(t("input")),
        }),
        executor: Some("python".into()),
        durable: Some(true),
        ..Policy::default()
    };
    let led_flow = one(policy);
    let led = lead(&led_flow, &[("start 7", "a#1")]);
    let Some(Effect::Dispatch(it)) = led
        .effects
        .iter()
        .find(|it| matches!(it, Effect::Dispatch(_)))
    else {
        panic!("nothing was dispatched")
    };
    assert_eq!(
        (it.handling.timeout, it.handling.heartbeat),
        (Some(millis(20)), Some(millis(5)))
    );
    assert_eq!(it.idempotency_key, Some(Value::str("order-7")));
    assert_eq!(it.concurrency, Some((2, Value::Int(7))));
    assert_eq!(
        it.handling.rate_limit.as_ref().unwrap().name.as_deref(),
        Some("a")
    );
    assert_eq!(
        (&*it.executor, &*it.action, &*it.input, it.handling.durable),
        ("python", "a", "1", true)
    );
}

/// "Matchers: exact name, glob, kind, predicate; first match wins; unmatched gets defaults; presets
/// compose."
#[test]
fn rules_of_the_workflow_reach_their_steps() {
    let mut draft = Draft::new();
    draft.rule("send*", retries(1));
    let body = draft.block([act("send_one", "x")]);
    let flow = draft.root([
        each("m", "input", "x", lope_definition::Parallel::One, body),
        act("pay", "m"),
    ]);
    lead(
        &flow,
        &[
            ("start [1]", "m/0/send_one#1(1)"),
            ("m/0/send_one#1 err E", "m/0/send_one#2(1)"),
            ("m/0/send_one#2 ok 2", "pay#1([2])"),
            ("pay#1 err E", "1!E; fail E"),
        ],
    );
}

#[test]
fn jitter_is_the_same_on_replay_and_within_bounds() {
    let policy = Policy {
        backoff: Some(Backoff::Jitter),
        base_delay: Some(millis(1_000)),
        ..retries(9)
    };
    let flow = one(policy);
    let wakes: Vec<Option<i64>> = (0..2)
        .map(|_| lead(&flow, &[("start 0", "a#1"), ("a#1 err E", "")]).wake())
        .collect();
    assert_eq!(wakes[0], wakes[1]);
    assert!((500..=1_000).contains(&wakes[0].unwrap()));
}
