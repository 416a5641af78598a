//! Slots, keys and time limits, moved by hand.

use lope_limits::LimitVerdict;
use lope_model::policy::{CircuitBreaker, RateLimit};
use lope_model::{Epoch, RunId};

use super::*;
use crate::executor::Limits;

fn task(name: &str, limits: Limits) -> Box<Task> {
    let token = Token {
        run: RunId::from_bytes([0; 16]),
        execution: name.into(),
        attempt: 1,
        epoch: Epoch(1),
    };
    Box::new(Task {
        token,
        workflow: "w".into(),
        step: name.into(),
        executor: "action".into(),
        action: name.into(),
        arguments: Value::Null,
        limits,
        idempotency_key: None,
        trace: None,
    })
}

const DONE: Option<&Value> = Some(&Value::Int(1));
const FAILED: Option<&Value> = None;

fn plain(name: &str) -> Box<Task> {
    task(name, Limits::default())
}

fn keyed(name: &str, key: &str, limit: u32) -> Box<Task> {
    task(
        name,
        Limits {
            keyed: Some((key.into(), limit)),
            ..Limits::default()
        },
    )
}

/// What happened, in short: `+a` started, `-a` stopped, `!a` timed out, `?a` was silent, `~a:7`
/// was refused until then, `=a:1` got another's answer, `@a` is announced, `<a` goes back, `%a`
/// does not end.
fn short(commands: &mut Vec<SlotCommand>) -> String {
    let words: Vec<String> = commands
        .drain(..)
        .map(|act| match act {
            SlotCommand::Start(task) => format!("+{}", task.token.execution),
            SlotCommand::Stop { token, .. } => format!("-{}", token.execution),
            SlotCommand::TimedOut {
                token,
                silent: false,
                ..
            } => format!("!{}", token.execution),
            SlotCommand::TimedOut {
                token,
                silent: true,
                ..
            } => format!("?{}", token.execution),
            SlotCommand::Ask(request) => format!("*{}", request.attempt.execution),
            SlotCommand::Release { end, settles } => {
                let what = match &end.result {
                    None => String::new(),
                    Some(Ok(value)) => format!(":{value}"),
                    Some(Err(())) => ":failed".to_owned(),
                };
                let waits = if settles { ":waits" } else { "" };
                format!("/{}{what}{waits}", end.request.attempt.execution)
            }
            SlotCommand::Refuse { token, until, .. } => {
                format!("~{}:{}", token.execution, until.millis())
            }
            SlotCommand::Answer { token, result } => {
                format!("={}:{}", token.execution, result.unwrap_or_default())
            }
            SlotCommand::Announce(token) => format!("@{}", token.execution),
            SlotCommand::Return(token) => format!("<{}", token.execution),
            SlotCommand::Overdue { token, .. } => format!("%{}", token.execution),
        })
        .collect();
    words.join(" ")
}

#[test]
fn a_run_that_is_given_up_leaves_nothing_behind_and_others_go_on() {
    let mut dispatch = SlotScheduler::new(2);
    let mut commands = Vec::new();
    let now = Moment(0);
    let other = |name: &str| {
        let mut task = plain(name);
        task.token.run = RunId::from_bytes([1; 16]);
        task
    };
    for task in [
        plain("a"),
        other("b"),
        plain("c"),
        keyed("d", "k", 1),
        other("e"),
    ] {
        dispatch.submit(now, task, &mut commands);
    }
    assert_eq!(short(&mut commands), "+a +b");
    dispatch.cancel_runs(now, |run| run == RunId::from_bytes([0; 16]), &mut commands);
    assert_eq!(short(&mut commands), "-a");
    dispatch.settled(now, &plain("a").token, FAILED, &mut commands);
    assert_eq!(short(&mut commands), "+e");
    assert_eq!(dispatch.in_flight(), 2);
}

#[test]
fn never_more_than_the_slots_and_the_highest_priority_first() {
    let mut slots = SlotScheduler::new(2);
    let mut commands = Vec::new();
    for name in ["a", "b", "c"] {
        slots.submit(Moment(0), plain(name), &mut commands);
    }
    let urgent = task(
        "u",
        Limits {
            priority: Priority::HIGHEST,
            ..Limits::default()
        },
    );
    slots.submit(Moment(0), urgent, &mut commands);
    assert_eq!(short(&mut commands), "+a +b");
    let ran = slots.settled(Moment(1), &plain("a").token, DONE, &mut commands);
    assert_eq!(ran.map(|settled| settled.ran), Some(Span::from_millis(1)));
    assert_eq!(short(&mut commands), "+u");
    let again = slots.settled(Moment(1), &plain("a").token, DONE, &mut commands);
    assert_eq!(again, None, "a second answer does not count");
    assert_eq!((short(&mut commands).as_str(), slots.in_flight()), ("", 2));
}

/// The limits let a task through.
const GRANTED: LimitVerdict = LimitVerdict::Granted { inherited: false };

/// Others hold the key.
fn held(key: &str) -> LimitVerdict {
    LimitVerdict::Held(LimitKey::Permits(key.into()))
}

/// A slot scheduler that is told by hand what the limits say.
struct Play {
    slots: SlotScheduler,
    commands: Vec<SlotCommand>,
}

impl Play {
    fn new(slots: usize) -> Self {
        Self {
            slots: SlotScheduler::new(slots),
            commands: Vec::new(),
        }
    }

    fn submit(&mut self, task: Box<Task>) -> String {
        self.slots.submit(Moment(0), task, &mut self.commands);
        short(&mut self.commands)
    }

    fn answer(&mut self, name: &str, verdict: LimitVerdict) -> String {
        let token = plain(name).token;
        self.slots
            .answered(Moment(0), &token, verdict, &mut self.commands);
        short(&mut self.commands)
    }

    fn settle(&mut self, name: &str, answer: Option<&Value>) -> String {
        let token = plain(name).token;
        self.slots
            .settled(Moment(0), &token, answer, &mut self.commands);
        short(&mut self.commands)
    }

    fn cancel(&mut self, name: &str) -> String {
        let token = plain(name).token;
        self.slots.cancel(Moment(0), &token, &mut self.commands);
        short(&mut self.commands)
    }

    fn ask_again(&mut self) -> String {
        self.slots.ask_again(Moment(0), &mut self.commands);
        short(&mut self.commands)
    }
}

#[test]
fn a_key_that_others_hold_lets_others_pass_and_the_first_that_waits_asks_for_all() {
    let mut play = Play::new(3);
    for (name, does) in [("a1", "*a1"), ("a2", "")] {
        assert_eq!(play.submit(keyed(name, "k", 1)), does);
    }
    assert_eq!(play.answer("a1", GRANTED), "+a1");
    assert_eq!(
        play.submit(keyed("a3", "k", 1)),
        "",
        "behind the one that waits"
    );
    assert_eq!(play.submit(plain("b")), "+b");
    assert_eq!(play.ask_again(), "", "it is at work here");
    assert_eq!(play.submit(keyed("o", "other", 1)), "*o");
    assert_eq!(play.answer("o", held("other")), "");
    assert_eq!(play.ask_again(), "*o", "who has it may be gone");
    assert_eq!(play.cancel("o"), "/o");
    assert_eq!(
        play.cancel("a2"),
        "",
        "one that waits is forgotten without a word"
    );
    assert_eq!(
        play.settle("a1", DONE),
        "/a1:1 *a3",
        "given back and asked for in one turn"
    );
    assert_eq!(play.answer("a3", GRANTED), "+a3");
    assert_eq!(play.slots.in_flight(), 2);
}

/// A key that is free is asked for by the next that waits when the first cannot begin: its run waits
/// for the end of an attempt that it does not want.
#[test]
fn the_next_asks_when_the_first_that_waits_does_not() {
    let mut play = Play::new(9);
    let other = |name: &str| {
        let mut task = keyed(name, "k", 1);
        task.token.run = RunId::from_bytes([1; 16]);
        task
    };
    assert_eq!(play.submit(plain("w")), "+w");
    for (task, does) in [
        (keyed("a", "k", 1), "*a"),
        (keyed("b", "k", 1), ""),
        (other("c"), ""),
    ] {
        assert_eq!(play.submit(task), does);
    }
    assert_eq!(play.cancel("w"), "-w");
    assert_eq!(play.cancel("a"), "/a *c");
    assert_eq!(play.settle("w", FAILED), "", "c has asked");
}

/// The same when it is given up while it waits for a slot.
#[test]
fn the_next_asks_when_the_first_that_waits_is_given_up() {
    let mut play = Play::new(2);
    assert_eq!(play.submit(keyed("a", "k", 1)), "*a");
    assert_eq!(play.submit(keyed("b", "k", 1)), "");
    assert_eq!(play.submit(keyed("c", "k", 1)), "");
    assert_eq!(play.submit(plain("x")), "+x");
    assert_eq!(play.submit(plain("y")), "");
    let urgent = Limits {
        priority: Priority::HIGHEST,
        ..Limits::default()
    };
    assert_eq!(play.submit(task("u", urgent)), "");
    assert_eq!(play.cancel("a"), "/a +u", "b waits for a slot now");
    assert_eq!(play.cancel("b"), "", "and c does");
    assert_eq!(play.settle("u", DONE), "*c");
}

#[test]
fn where_several_may_be_at_work_under_a_key_the_next_one_tries() {
    let mut play = Play::new(9);
    for name in ["a", "b", "c", "d"] {
        play.submit(keyed(name, "k", 3));
    }
    for name in ["a", "b", "c"] {
        play.answer(name, held("k"));
    }
    assert_eq!(play.ask_again(), "*a");
    assert_eq!(play.answer("a", GRANTED), "+a *b");
    assert_eq!(play.answer("b", GRANTED), "+b *c");
    assert_eq!(play.answer("c", held("k")), "");
    assert!(play.slots.is_held_up());
}

#[test]
fn what_is_given_up_while_it_asks_gives_back_what_it_may_get() {
    let mut play = Play::new(1);
    assert_eq!(play.submit(keyed("a", "k", 1)), "*a");
    assert_eq!(
        play.submit(plain("b")),
        "",
        "the slot is taken while it asks"
    );
    assert_eq!(play.cancel("a"), "/a +b");
    assert_eq!(play.answer("a", GRANTED), "", "too late");
    assert_eq!(play.slots.in_flight(), 1);
}

#[test]
fn what_is_granted_when_the_lease_is_over_is_given_back_and_asked_for_again() {
    let mut play = Play::new(1);
    play.submit(keyed("a", "k", 1));
    let Play { slots, commands } = &mut play;
    slots.renew_lease(Moment(0), Moment(10), commands);
    slots.answered(Moment(10), &plain("a").token, GRANTED, commands);
    assert_eq!(short(commands), "/a");
    slots.renew_lease(Moment(11), Moment(20), commands);
    assert_eq!(short(commands), "*a");
}

/// "Idempotency key: same key, one effect."
#[test]
fn tasks_with_an_equal_key_get_one_answer_and_the_limits_know_it_first() {
    let once = |name: &str| {
        task(
            name,
            Limits {
                once: Some("pay/17".into()),
                ..Limits::default()
            },
        )
    };
    let busy = || LimitVerdict::Held(LimitKey::Outcome("pay/17".into()));
    let mut play = Play::new(9);
    for name in ["a", "b", "c", "d"] {
        play.submit(once(name));
    }
    play.answer("a", GRANTED);
    for name in ["b", "c", "d"] {
        assert_eq!(play.answer(name, busy()), "");
    }
    assert_eq!(
        play.settle("a", FAILED),
        "/a:failed:waits *b",
        "the next one tries"
    );
    assert_eq!(play.answer("b", GRANTED), "+b");
    assert_eq!(play.settle("b", DONE), "/b:1:waits *c");
    let done = || LimitVerdict::Done(Ok(Value::Int(1)));
    assert_eq!(
        play.answer("c", done()),
        "=c:1 *d",
        "and all others get the answer"
    );
    assert_eq!(play.answer("d", done()), "=d:1");
    assert_eq!(play.slots.in_flight(), 0);
}

#[test]
fn what_is_refused_gives_its_slot_to_others() {
    let limits = Limits {
        rate_limit: Some(Arc::new(RateLimit {
            count: 2,
            per: Span::from_secs(1),
            name: Some("api".into()),
        })),
        ..Limits::default()
    };
    let mut play = Play::new(1);
    assert_eq!(play.submit(task("a", limits)), "*a");
    play.submit(plain("b"));
    let refused = LimitVerdict::Refused {
        until: Timestamp::from_millis(700),
        reason: "it is spent".into(),
    };
    assert_eq!(play.answer("a", refused), "~a:700 +b");
}

#[test]
fn an_attempt_that_runs_out_of_time_counts_against_its_circuit_at_once_and_only_then() {
    let circuit = CircuitBreaker {
        failures: 1,
        reset: Span::from_secs(1),
        name: Some("bank".into()),
    };
    let limits = Limits {
        circuit_breaker: Some(Arc::new(circuit)),
        keyed: Some(("k".into(), 1)),
        timeout: Some(Span::from_millis(50)),
        ..Limits::default()
    };
    let mut play = Play::new(9);
    play.submit(task("a", limits));
    assert_eq!(play.answer("a", GRANTED), "+a");
    play.slots.tick(Moment(50), &mut play.commands);
    assert_eq!(short(&mut play.commands), "/a:failed -a");
    let Play { slots, commands } = &mut play;
    slots.settled(Moment(60), &plain("a").token, FAILED, commands);
    let Some(SlotCommand::TimedOut { ran, .. }) = commands.pop() else {
        panic!("its owner hears of it: {commands:?}");
    };
    assert_eq!(ran, Span::from_millis(60));
    let Some(SlotCommand::Release {
        end,
        settles: false,
    }) = commands.pop()
    else {
        panic!("its permit is free: {commands:?}");
    };
    assert!(end.request.circuit.is_none() && end.request.permit.is_some() && end.result.is_none());
}

#[test]
fn time_limits_count_from_the_start_and_silence_from_the_last_sign_of_life() {
    let mut slots = SlotScheduler::new(1);
    let mut commands = Vec::new();
    let limits = Limits {
        timeout: Some(Span::from_millis(100)),
        heartbeat: Some(Span::from_millis(30)),
        ..Limits::default()
    };
    slots.submit(Moment(0), plain("first"), &mut commands);
    slots.submit(Moment(0), task("t", limits.clone()), &mut commands);
    slots.submit(Moment(0), task("s", limits), &mut commands);
    assert_eq!(short(&mut commands), "+first");
    slots.settled(Moment(1_000), &plain("first").token, DONE, &mut commands);
    assert_eq!(short(&mut commands), "+t");
    for now in [1_020, 1_040, 1_060, 1_080, 1_099] {
        slots.alive(Moment(now), &plain("t").token);
        slots.tick(Moment(now), &mut commands);
    }
    assert_eq!(
        (short(&mut commands).as_str(), slots.next_deadline()),
        ("", Some(Moment(1_100)))
    );
    slots.tick(Moment(1_100), &mut commands);
    assert_eq!(short(&mut commands), "-t");
    slots.settled(Moment(1_100), &plain("t").token, FAILED, &mut commands);
    assert_eq!(short(&mut commands), "!t +s");
    slots.tick(Moment(1_130), &mut commands);
    assert_eq!(short(&mut commands), "-s");
    slots.settled(Moment(1_130), &plain("s").token, FAILED, &mut commands);
    assert_eq!(short(&mut commands), "?s");
    assert_eq!(slots.next_deadline(), None);
}

#[test]
fn a_running_task_that_is_cancelled_is_stopped_and_keeps_its_slot_until_it_has_ended() {
    let mut slots = SlotScheduler::new(1);
    let mut commands = Vec::new();
    slots.submit(Moment(0), plain("a"), &mut commands);
    slots.submit(Moment(0), plain("b"), &mut commands);
    slots.cancel(Moment(0), &plain("a").token, &mut commands);
    slots.cancel(Moment(0), &plain("a").token, &mut commands);
    assert_eq!(short(&mut commands), "+a -a");
    let ran = slots.settled(Moment(5), &plain("a").token, DONE, &mut commands);
    assert_eq!(ran, None, "its answer does not count");
    assert_eq!(short(&mut commands), "+b");
}

/// "Whatever a step started is gone when the step is": what follows it begins no earlier.
#[test]
fn nothing_of_a_run_begins_while_an_attempt_that_it_does_not_want_ends() {
    let mut play = Play::new(9);
    for name in ["a", "b"] {
        play.submit(plain(name));
    }
    let mut stranger = plain("stranger");
    stranger.token.run = RunId::from_bytes([1; 16]);
    assert_eq!(play.cancel("a"), "-a");
    assert_eq!(play.cancel("b"), "-b");
    for task in [plain("finally"), keyed("keyed", "k", 1), plain("given up")] {
        assert_eq!(play.submit(task), "");
    }
    assert_eq!(play.submit(stranger), "+stranger", "others do not wait");
    assert_eq!(play.cancel("given up"), "");
    assert_eq!(play.settle("a", FAILED), "");
    assert_eq!(play.settle("b", DONE), "+finally *keyed");
    assert_eq!(play.submit(plain("next")), "+next");
}

#[test]
fn what_does_not_end_is_waited_for_as_long_as_it_is_not_overdue() {
    let mut play = Play::new(9);
    play.submit(plain("a"));
    assert_eq!(play.cancel("a"), "-a");
    assert_eq!(play.submit(plain("finally")), "");
    let overdue = play.slots.next_deadline().unwrap();
    play.slots.tick(overdue, &mut play.commands);
    assert_eq!(short(&mut play.commands), "%a +finally");
    assert_eq!(play.submit(plain("next")), "+next");
    assert_eq!(play.settle("a", FAILED), "");
    assert_eq!(
        (play.slots.in_flight(), play.slots.next_deadline()),
        (2, None)
    );
}

#[test]
fn one_that_ran_out_of_time_and_is_not_wanted_then_is_waited_for_and_not_told() {
    let mut play = Play::new(9);
    let limits = Limits {
        timeout: Some(Span::from_millis(50)),
        ..Limits::default()
    };
    play.submit(task("a", limits));
    play.slots.tick(Moment(50), &mut play.commands);
    assert_eq!(short(&mut play.commands), "-a");
    assert_eq!(play.submit(plain("beside")), "+beside", "its run goes on");
    assert_eq!(play.cancel("a"), "");
    assert_eq!(play.submit(plain("finally")), "");
    assert_eq!(play.settle("a", FAILED), "+finally");
}

/// "`concurrency: 1`, timeout, a process that ignores TERM: three at once."
#[test]
fn a_key_is_free_only_when_the_end_is_confirmed_and_what_does_not_end_is_told_once() {
    let mut slots = SlotScheduler::new(5);
    let mut commands = Vec::new();
    let bounded = |name: &str| {
        task(
            name,
            Limits {
                keyed: Some(("k".into(), 1)),
                timeout: Some(Span::from_millis(100)),
                ..Limits::default()
            },
        )
    };
    slots.submit(Moment(0), bounded("a"), &mut commands);
    slots.submit(Moment(0), bounded("b"), &mut commands);
    slots.answered(Moment(0), &plain("a").token, GRANTED, &mut commands);
    slots.tick(Moment(100), &mut commands);
    assert_eq!(short(&mut commands), "*a +a -a");
    slots.alive(Moment(200), &plain("a").token);
    let overdue = slots.next_deadline().unwrap();
    slots.tick(overdue, &mut commands);
    assert_eq!(
        (short(&mut commands).as_str(), slots.next_deadline()),
        ("!a %a", None),
        "its owner waits no longer"
    );
    slots.settled(overdue, &plain("a").token, FAILED, &mut commands);
    assert_eq!(short(&mut commands), "/a *b");
}

/// "A hanging secret keeps its slot for ever and stops everybody else."
#[test]
fn one_whose_secrets_are_looked_up_has_not_begun_and_gives_its_slot_back_at_once() {
    let secret = |name: &str| {
        task(
            name,
            Limits {
                secrets: Some(["s".into()].into()),
                keyed: Some(("k".into(), 1)),
                timeout: Some(Span::from_millis(100)),
                ..Limits::default()
            },
        )
    };
    let begun = || {
        let mut play = Play::new(1);
        assert_eq!(play.submit(secret("a")), "*a");
        assert_eq!(play.answer("a", GRANTED), "+a");
        assert_eq!(play.submit(plain("b")), "");
        play
    };
    let token = plain("a").token;

    let mut play = begun();
    assert_eq!(play.cancel("a"), "/a +b");
    assert!(!play.slots.revealed(&token), "it is not wanted any more");
    assert_eq!(play.settle("a", FAILED), "", "nobody waits for it");

    let mut play = begun();
    play.slots.tick(Moment(100), &mut play.commands);
    assert_eq!(short(&mut play.commands), "/a !a +b");
    assert!(!play.slots.revealed(&token), "its time is over");

    let mut play = begun();
    play.slots.drain(Moment(0), &mut play.commands);
    assert_eq!(short(&mut play.commands), "<b /a <a");

    let mut play = begun();
    assert_eq!(
        play.settle("a", FAILED),
        "/a:failed +b",
        "there is no such secret"
    );

    let mut play = begun();
    assert!(play.slots.revealed(&token) && play.slots.is_wanted(&token));
    assert_eq!(play.cancel("a"), "-a", "its executor has it");
    assert_eq!(play.settle("a", FAILED), "/a +b");
}

fn announced(name: &str) -> Box<Task> {
    task(
        name,
        Limits {
            announced: true,
            timeout: Some(Span::from_millis(100)),
            ..Limits::default()
        },
    )
}

/// An attempt that is announced begins, and its time with it, when that is durable.
#[test]
fn what_is_announced_begins_when_its_owner_says_so() {
    let mut slots = SlotScheduler::new(1);
    let mut commands = Vec::new();
    slots.submit(Moment(0), announced("a"), &mut commands);
    slots.submit(Moment(0), plain("b"), &mut commands);
    slots.tick(Moment(500), &mut commands);
    assert_eq!(short(&mut commands), "@a");
    slots.announced(Moment(500), &plain("a").token, &mut commands);
    slots.announced(Moment(500), &plain("a").token, &mut commands);
    assert_eq!(
        (short(&mut commands).as_str(), slots.next_deadline()),
        ("+a", Some(Moment(600)))
    );
    slots.settled(Moment(510), &plain("a").token, DONE, &mut commands);
    slots.submit(Moment(510), announced("c"), &mut commands);
    slots.settled(Moment(520), &plain("b").token, DONE, &mut commands);
    slots.cancel(Moment(530), &plain("c").token, &mut commands);
    slots.announced(Moment(540), &plain("c").token, &mut commands);
    assert_eq!(short(&mut commands), "+b @c");
    assert_eq!(slots.in_flight(), 0);
}

#[test]
fn what_was_announced_when_the_lease_was_over_begins_when_it_is_renewed() {
    let mut slots = SlotScheduler::new(1);
    let mut commands = Vec::new();
    slots.renew_lease(Moment(0), Moment(100), &mut commands);
    slots.submit(Moment(0), announced("a"), &mut commands);
    slots.announced(Moment(100), &plain("a").token, &mut commands);
    assert_eq!(short(&mut commands), "@a");
    slots.renew_lease(Moment(150), Moment(250), &mut commands);
    assert_eq!(short(&mut commands), "+a");
}

/// "One TERM drains what executors have begun and gives the rest back at once."
#[test]
fn whoever_ends_gives_back_what_has_not_begun() {
    let mut slots = SlotScheduler::new(3);
    let mut commands = Vec::new();
    for task in [
        plain("a"),
        announced("b"),
        plain("c"),
        plain("d"),
        keyed("e", "k", 1),
    ] {
        slots.submit(Moment(0), task, &mut commands);
    }
    assert_eq!(short(&mut commands), "+a @b +c");
    slots.drain(Moment(0), &mut commands);
    assert_eq!(short(&mut commands), "<d <e <b");
    slots.submit(Moment(0), plain("f"), &mut commands);
    slots.announced(Moment(0), &plain("b").token, &mut commands);
    slots.returned(Moment(0), &plain("c").token, &mut commands);
    assert_eq!(short(&mut commands), "<f <c");
    let ran = slots.settled(Moment(9), &plain("a").token, DONE, &mut commands);
    let ran = ran.map(|settled| settled.ran);
    assert_eq!((ran, slots.in_flight()), (Some(Span::from_millis(9)), 0));
    assert_eq!(short(&mut commands), "");
}

#[test]
fn signs_of_life_do_not_lift_a_timeout_that_falls_together_with_the_silence() {
    let mut slots = SlotScheduler::new(1);
    let mut commands = Vec::new();
    let span = Some(Span::from_millis(100));
    slots.submit(
        Moment(0),
        task(
            "t",
            Limits {
                timeout: span,
                heartbeat: span,
                ..Limits::default()
            },
        ),
        &mut commands,
    );
    slots.alive(Moment(50), &plain("t").token);
    slots.tick(Moment(100), &mut commands);
    slots.settled(Moment(110), &plain("t").token, FAILED, &mut commands);
    assert_eq!(short(&mut commands), "+t -t !t");
}

/// An executor that takes its time asks again before it begins.
#[test]
fn what_has_its_slot_may_begin_as_long_as_its_session_is_held() {
    let mut slots = SlotScheduler::new(2);
    let mut commands = Vec::new();
    let [first, second] = [1, 2].map(|session| RunnerId::from_bytes([session; 16]));
    let session = Some(first);
    let limits = Limits {
        session,
        ..Limits::default()
    };
    let a = plain("a").token;
    slots.begin_session(Moment(0), first, &mut commands);
    slots.renew_lease(Moment(0), Moment(1_000), &mut commands);
    assert_eq!(slots.begins_until(&a), None);
    slots.submit(Moment(0), task("a", limits), &mut commands);
    assert_eq!(slots.begins_until(&a), Some(Moment(1_000)));
    slots.renew_lease(Moment(500), Moment(1_500), &mut commands);
    assert_eq!(slots.begins_until(&a), Some(Moment(1_500)));
    slots.begin_session(Moment(1_600), second, &mut commands);
    slots.renew_lease(Moment(1_600), Moment(2_600), &mut commands);
    assert_eq!(slots.begins_until(&a), None);
    slots.submit(Moment(1_700), plain("b"), &mut commands);
    let b = plain("b").token;
    assert_eq!(slots.begins_until(&b), Some(Moment(2_600)));
    slots.cancel(Moment(1_800), &b, &mut commands);
    assert_eq!(slots.begins_until(&b), None);
}

/// A process that stood still finds its lease over before it starts what waited for a slot.
#[test]
fn nothing_starts_when_the_lease_is_over_and_what_waited_starts_when_it_is_renewed() {
    let mut slots = SlotScheduler::new(1);
    let mut commands = Vec::new();
    slots.renew_lease(Moment(0), Moment(1_000), &mut commands);
    slots.submit(Moment(0), plain("a"), &mut commands);
    slots.submit(Moment(0), plain("b"), &mut commands);
    assert_eq!(short(&mut commands), "+a");
    let a = plain("a").token;
    slots.settled(Moment(1_000), &a, DONE, &mut commands);
    slots.submit(Moment(1_000), plain("c"), &mut commands);
    assert_eq!(short(&mut commands), "");
    slots.renew_lease(Moment(1_500), Moment(2_500), &mut commands);
    assert_eq!(short(&mut commands), "+b");
}

/// A process that begins again as another runner: what its shards had submitted for the old one
/// does not start under the lease of the new one, nor does what they submit before they know.
#[test]
fn nothing_of_an_ended_session_starts_in_the_next() {
    let mut slots = SlotScheduler::new(1);
    let mut commands = Vec::new();
    let of = |name: &str, session: u8, announced: bool| {
        let session = Some(RunnerId::from_bytes([session; 16]));
        task(
            name,
            Limits {
                announced,
                session,
                ..Limits::default()
            },
        )
    };
    let [first, second] = [1, 2].map(|session| RunnerId::from_bytes([session; 16]));
    slots.begin_session(Moment(0), first, &mut commands);
    slots.renew_lease(Moment(0), Moment(1_000), &mut commands);
    slots.submit(Moment(0), of("a", 1, true), &mut commands);
    slots.submit(Moment(0), of("b", 1, false), &mut commands);
    assert_eq!(short(&mut commands), "@a");
    slots.begin_session(Moment(900), second, &mut commands);
    slots.renew_lease(Moment(950), Moment(2_000), &mut commands);
    slots.announced(Moment(950), &plain("a").token, &mut commands);
    slots.submit(Moment(960), of("c", 1, false), &mut commands);
    assert_eq!(short(&mut commands), "");
    slots.submit(Moment(970), of("d", 2, false), &mut commands);
    assert_eq!(
        (short(&mut commands).as_str(), slots.in_flight()),
        ("+d", 1)
    );
}

/// What waits, asks, is announced or has its secrets looked up goes back when its run is paused, also
/// what comes then; what its executor has begun goes on, and what is with one that has not begun it
/// may not begin.
#[test]
fn of_a_paused_run_nothing_begins() {
    let run = RunId::from_bytes([0; 16]);
    let mut play = Play::new(4);
    let secret = Limits {
        secrets: Some(["s".into()].into()),
        ..Limits::default()
    };
    assert_eq!(play.submit(plain("a")), "+a");
    assert_eq!(play.submit(announced("b")), "@b");
    assert_eq!(play.submit(keyed("c", "k", 1)), "*c");
    assert_eq!(play.submit(task("d", secret)), "+d");
    assert_eq!(play.submit(plain("e")), "");
    let mut other = plain("o");
    other.token.run = RunId::from_bytes([1; 16]);
    assert_eq!(play.submit(other), "");
    let begun = plain("a").token;
    assert!(play.slots.begins_until(&begun).is_some());
    play.slots.pause(Moment(0), run, true, &mut play.commands);
    let mut said: Vec<String> = short(&mut play.commands)
        .split(' ')
        .map(str::to_owned)
        .collect();
    said.sort_unstable();
    assert_eq!(said, ["+o", "/c", "<b", "<c", "<d", "<e"]);
    assert!(play.slots.is_wanted(&begun), "it is at work");
    assert_eq!(
        play.slots.begins_until(&begun),
        None,
        "nobody begins it now"
    );
    assert_eq!(play.submit(plain("f")), "<f");
    play.slots.pause(Moment(0), run, false, &mut play.commands);
    assert!(play.slots.begins_until(&begun).is_some());
    assert_eq!(play.submit(plain("e")), "+e");
}
