//! Every reason, from the facts that lead to it to the words a person reads.

#![allow(
    clippy::too_many_lines,
    reason = "a test tells its story from beginning to end"
)]

use lope_flow::law::Reason;
use lope_model::{Digest, Epoch, Priority, VersionId};
use lope_store::runs::{LiveStatus, Serves};

use super::*;

const NOW: Timestamp = Timestamp::from_millis(1_000_000);

fn runner_id(number: u8) -> RunnerId {
    RunnerId::from_bytes([number; 16])
}

fn record() -> RunRecord {
    RunRecord {
        run: RunId::from_bytes([1; 16]),
        workflow: "w".to_owned(),
        version: VersionId(Digest::of(b"w")),
        key: None,
        status: RunStatus::Live(LiveStatus::Waiting),
        queue: QueueName::default(),
        priority: Priority::default(),
        realm: Realm::default(),
        law: 1,
        tags: BTreeMap::new(),
        parent: None,
        created_at: Timestamp::from_millis(500_000),
        started_at: Some(Timestamp::from_millis(500_000)),
        finished_at: None,
        due: Some(Timestamp::NEVER),
        owner: None,
        epoch: Epoch(1),
        head: 3,
        mail: 0,
        parked: None,
        result: None,
        error: None,
    }
}

fn runner(number: u8, live: bool) -> RunnerRecord {
    RunnerRecord {
        runner: runner_id(number),
        name: "default".to_owned(),
        host: "box".to_owned(),
        pid: 42,
        process: String::new(),
        program: "lope".to_owned(),
        serves: Serves::default(),
        started_at: Timestamp::EPOCH,
        heartbeat_at: Timestamp::from_millis(999_000),
        live,
        ended_at: None,
        owns: 1,
    }
}

fn explain(
    record: &RunRecord,
    reasons: &[Reason],
    runners: &[RunnerRecord],
    waiting_mail: usize,
) -> Vec<Why> {
    let since = BTreeMap::from([(Arc::from("a"), Timestamp::from_millis(400_000))]);
    why(&Sight {
        limits: &BTreeMap::new(),
        secrets: &NeededSecrets::new(),
        record,
        reasons,
        since: &since,
        runners,
        gone: &BTreeSet::from([RunId::from_bytes([6; 16])]),
        at_work: 2,
        stopped_writer: None,
        waiting_mail,
        now: NOW,
    })
}

fn words(all: &[Why]) -> Vec<&'static str> {
    all.iter().map(Why::word).collect()
}

fn owned(by: u8) -> RunRecord {
    RunRecord {
        owner: Some(runner_id(by)),
        due: Some(Timestamp::EPOCH),
        ..record()
    }
}

fn in_flight() -> Reason {
    Reason::InFlight {
        execution: "a".into(),
        attempt: 2,
        action: "send".into(),
    }
}

#[test]
fn what_the_store_says_decides_before_what_the_state_says() {
    let up = [runner(7, true)];
    let due = RunRecord {
        due: Some(Timestamp::from_millis(900_000)),
        head: 1,
        epoch: Epoch(0),
        started_at: None,
        ..record()
    };
    let later = RunRecord {
        due: Some(Timestamp::from_millis(2_000_000)),
        ..due.clone()
    };
    let ended = RunRecord {
        status: RunStatus::Final(FinalStatus::Failed),
        finished_at: Some(NOW),
        ..record()
    };
    let parked = |reason: &str| RunRecord {
        parked: Some(reason.to_owned()),
        ..record()
    };
    let paused = Reason::Paused {
        reason: "Ctrl-C".into(),
    };
    for (record, reasons, runners, expected) in [
        (&ended, vec![], &up[..], vec!["ended"]),
        (&due, vec![paused.clone(), in_flight()], &[], vec!["paused"]),
        (&parked("paused"), vec![paused], &[], vec!["paused"]),
        (&parked(STOPPED), vec![], &[], vec!["paused"]),
        (
            &parked("the journal cannot be read"),
            vec![],
            &up,
            vec!["set_aside"],
        ),
        (&due, vec![in_flight()], &[], vec!["no_runner"]),
        (
            &due,
            vec![in_flight()],
            &[runner(7, false)],
            vec!["no_runner"],
        ),
        (&due, vec![in_flight()], &up, vec!["not_taken"]),
        (&later, vec![in_flight()], &up, vec!["not_due"]),
        (&later, vec![], &[], vec!["not_due", "no_runner"]),
        (&owned(7), vec![in_flight()], &up, vec!["working", "owned"]),
        (
            &owned(7),
            vec![in_flight()],
            &[runner(7, false)],
            vec!["interrupted", "owner_gone", "no_runner"],
        ),
        (&owned(9), vec![], &up, vec!["owner_gone"]),
    ] {
        assert_eq!(
            words(&explain(record, &reasons, runners, 0)),
            expected,
            "{record:?}"
        );
    }
}

/// Everything up to its first wait may stand in its first row: when it is due again is when that is
/// over, and not when it may begin.
#[test]
fn a_run_that_has_begun_may_begin_no_more() {
    let until = Timestamp::from_millis(2_000_000);
    let waiting = RunRecord {
        due: Some(until),
        head: 1,
        ..record()
    };
    let signal = Reason::Signal {
        execution: "a".into(),
        signal: "approved".into(),
        until: Some(until),
    };
    let sleeping = Reason::Sleeping {
        execution: "a".into(),
        until,
    };
    for (reason, word) in [(signal, "signal"), (sleeping, "sleeping")] {
        let reasons = [reason];
        let up = explain(&waiting, &reasons, &[runner(7, true)], 0);
        assert_eq!(words(&up), [word]);
        let down = explain(&waiting, &reasons, &[], 0);
        assert_eq!(words(&down), [word, "no_runner"]);
    }
}

/// `runs resume` needs a runner; without one a person goes on with `lope run --resume`, and is told
/// so.
#[test]
fn how_a_paused_run_goes_on_depends_on_who_is_up() {
    let parked = RunRecord {
        parked: Some("paused".to_owned()),
        ..record()
    };
    let serving = RunnerRecord {
        serves: Serves::parse("queue default\nrealm default"),
        ..runner(7, true)
    };
    let gone = RunnerRecord {
        live: false,
        ..serving.clone()
    };
    let hint = |runners: &[RunnerRecord]| {
        explain(&parked, &[], runners, 0)[0]
            .hint(parked.run)
            .unwrap()
    };
    let run = parked.run;
    assert_eq!(hint(&[serving]), format!("lope runs resume {run}"));
    for runners in [vec![], vec![gone], vec![runner(7, true)]] {
        let told = hint(&runners);
        let ways = [
            format!("lope run --resume {run} goes on here"),
            format!("lope runs resume {run} leaves it to a runner"),
        ];
        assert!(ways.iter().all(|way| told.contains(way)), "{told}");
    }
}

#[test]
fn a_run_whose_worker_from_elsewhere_is_gone_says_so() {
    let run = RunRecord {
        realm: Realm::parse("python:app").expect("a good name"),
        ..owned(7)
    };
    let serving = |realms: &str| RunnerRecord {
        serves: Serves::parse(&format!("queue default\nrealm default{realms}")),
        ..runner(7, true)
    };
    let there = explain(&run, &[in_flight()], &[serving("\nrealm python:app")], 0);
    assert_eq!(words(&there), ["working", "owned"]);
    let gone = explain(&run, &[in_flight()], &[serving("")], 0);
    assert_eq!(words(&gone), ["no_worker", "owned"]);
    let said = gone[0].message(NOW);
    assert!(
        said.contains("no worker serves a: the last worker that brought 'python:app'"),
        "{said}"
    );
    let hint = gone[0].hint(run.run).expect("a hint");
    assert!(hint.contains("python -m lope worker"), "{hint}");
}

#[test]
fn mail_that_a_run_has_not_seen_makes_it_due() {
    let due = RunRecord {
        due: Some(NOW),
        ..record()
    };
    let idle = [Reason::Idle];
    let up = [runner(7, true)];
    let rows = [
        (&due, &[][..], &["no_runner", "idle", "mail"][..]),
        (&due, &up, &["not_taken", "idle", "mail"]),
        // It has seen it and has no room for it.
        (&record(), &up, &["idle", "mail"]),
    ];
    for (record, runners, expected) in rows {
        assert_eq!(words(&explain(record, &idle, runners, 2)), expected);
    }
    assert_eq!(
        words(&explain(&owned(7), &[Reason::Idle], &[runner(7, true)], 2)),
        ["idle", "mail", "owned"]
    );
}

/// Also what is paused or set aside has mail that waits: it may be what fills its mailbox.
#[test]
fn mail_of_a_parked_run_is_counted() {
    let up = [runner(7, true)];
    for (parked, word) in [
        ("paused", "paused"),
        (STOPPED, "paused"),
        ("the journal cannot be read", "set_aside"),
    ] {
        let record = RunRecord {
            parked: Some(parked.to_owned()),
            ..record()
        };
        let all = explain(&record, &[], &up, 100_000);
        assert_eq!(words(&all), [word, "mail"]);
        assert_eq!(all[1].message(NOW), "100000 messages wait to be taken up");
    }
}

#[test]
fn each_reason_of_the_state_has_plain_words_and_a_hint_where_one_helps() {
    let execution = Arc::<str>::from("a");
    let until = Timestamp::from_millis(1_030_000);
    let failure = |kind: &str| Some(Failure::new(kind, "no luck"));
    let retry = |kind| Reason::Retry {
        execution: execution.clone(),
        attempt: 2,
        at: until,
        failure: failure(kind),
    };
    let child = RunId::from_bytes([5; 16]);
    for (reason, word, says, hint) in [
        (
            Reason::Paused {
                reason: "asked to".into(),
            },
            "paused",
            "asked to",
            Some("resume"),
        ),
        (Reason::Cancelling, "cancelling", "finally", None),
        (Reason::Idle, "idle", "input", Some("feed")),
        (in_flight(), "working", "attempt 2 since", Some("logs")),
        (
            Reason::Ready {
                execution: execution.clone(),
                attempt: 1,
                action: "x".into(),
            },
            "no_slot",
            "free slot",
            None,
        ),
        (
            retry("Flaky"),
            "backing_off",
            "in 30s): attempt 1 failed with Flaky: no luck",
            None,
        ),
        (
            retry(failure::kind::UNKNOWN_ACTION),
            "no_worker",
            "no worker serves a",
            Some("runner"),
        ),
        (
            Reason::Refused {
                execution: execution.clone(),
                attempt: 1,
                until,
                reason: "10/1s".into(),
            },
            "limited",
            "10/1s",
            None,
        ),
        (
            Reason::Sleeping {
                execution: execution.clone(),
                until,
            },
            "sleeping",
            "1970-01-01T00:17:10",
            None,
        ),
        (
            Reason::Signal {
                execution: execution.clone(),
                signal: "go".into(),
                until: None,
            },
            "signal",
            "'go' since 1970-01-01T00:06:40.000Z (10m ago)",
            Some("signal"),
        ),
        (
            Reason::Child {
                execution: execution.clone(),
                child,
            },
            "child",
            "05050505",
            Some("why 0505"),
        ),
        (
            Reason::Child {
                execution: execution.clone(),
                child: RunId::from_bytes([6; 16]),
            },
            "child_gone",
            "a waits for its child run 06060606-0606-0606-0606-060606060606, which was removed",
            Some("lope runs cancel 01010101-"),
        ),
        (
            Reason::Turn {
                execution: execution.clone(),
            },
            "turn",
            "earlier inputs",
            None,
        ),
    ] {
        let all = explain(
            &owned(7),
            std::slice::from_ref(&reason),
            &[runner(7, true)],
            0,
        );
        assert_eq!(words(&all), [word, "owned"], "{reason:?}");
        let message = all[0].message(NOW);
        assert!(message.contains(says), "{message}");
        let told = all[0].hint(record().run);
        assert_eq!(told.is_some(), hint.is_some(), "{told:?}");
        assert!(told.unwrap_or_default().contains(hint.unwrap_or_default()));
    }
}

#[test]
fn every_runner_state_is_told_in_words() {
    let due = RunRecord {
        due: Some(Timestamp::from_millis(900_000)),
        ..record()
    };
    let not_taken = explain(&due, &[], &[runner(7, true)], 0);
    assert!(
        not_taken[0].message(NOW).contains("serve no queue"),
        "{}",
        not_taken[0].message(NOW)
    );
    assert_eq!(
        not_taken[0].hint(due.run).as_deref(),
        Some("lope up --queue default")
    );
    for (serves, says, hint) in [
        (
            "queue mail\nqueue slow\nrealm default",
            "none serves queue 'default'; 1 up, which serve 'mail', 'slow'",
            true,
        ),
        (
            "queue default\nrealm other",
            "none that serves queue 'default' serves realm 'default' (1 up)",
            true,
        ),
        (
            "at most 2 of queue default\nrealm default",
            "queue 'default' is at its limit, 2 of its runs",
            false,
        ),
        (
            "at most 3 of queue default\nrealm default",
            "about to take it",
            false,
        ),
        ("queue default\nrealm default", "about to take it", false),
    ] {
        let up = RunnerRecord {
            serves: Serves::parse(serves),
            ..runner(7, true)
        };
        let told = explain(&due, &[], &[up], 0);
        assert!(
            told[0].message(NOW).contains(says),
            "{}",
            told[0].message(NOW)
        );
        assert_eq!(told[0].hint(due.run).is_some(), hint, "{serves}");
    }
    let owned = explain(&owned(7), &[], &[runner(7, true)], 0);
    assert!(
        owned[0].message(NOW).contains("process 42 on box")
            && owned[0].message(NOW).contains("1s ago")
    );
}

#[test]
fn who_holds_a_key_is_told_by_name() {
    let holder = |number: u8| Holder {
        runner: runner_id(number),
        attempt: lope_limits::AttemptRef {
            run: RunId::from_bytes([9; 16]),
            execution: "pay".into(),
            attempt: 1,
            epoch: lope_model::Epoch(4),
        },
        since: Timestamp::from_millis(700_000),
    };
    let limit = BlockingLimit {
        key: LimitKey::Permits("pay/acme".into()),
        holders: vec![holder(2), holder(7)],
        until: None,
    };
    let limits = BTreeMap::from([(Arc::from("a"), limit)]);
    let found = why(&Sight {
        record: &owned(1),
        reasons: &[in_flight()],
        since: &BTreeMap::new(),
        limits: &limits,
        secrets: &NeededSecrets::new(),
        runners: &[runner(1, true), runner(2, true)],
        gone: &BTreeSet::new(),
        at_work: 0,
        stopped_writer: None,
        waiting_mail: 0,
        now: NOW,
    });
    let held = found.iter().find(|why| why.word() == "held").unwrap();
    let run = RunId::from_bytes([9; 16]);
    let message = held.message(NOW);
    assert!(
        message.starts_with(&format!(
            "a waits for the concurrency key 'pay/acme', held by pay of run {run} on runner {} ('default', process 42 \
             on box) since ",
            runner_id(2)
        )) && message.contains(&format!("on runner {} since", runner_id(7))),
        "{message}"
    );
    assert_eq!(held.hint(run), Some(format!("lope runs why {run}")));
}

#[test]
fn a_step_whose_secrets_may_be_looked_up_says_so() {
    let said = |names: &[&str]| {
        let names: Arc<[Arc<str>]> = names.iter().map(|name| Arc::from(*name)).collect();
        let secrets = NeededSecrets::from([(Arc::from("a"), names)]);
        let found = why(&Sight {
            record: &owned(7),
            reasons: &[in_flight()],
            since: &BTreeMap::new(),
            limits: &BTreeMap::new(),
            secrets: &secrets,
            runners: &[runner(7, true)],
            gone: &BTreeSet::new(),
            at_work: 0,
            stopped_writer: None,
            waiting_mail: 0,
            now: NOW,
        });
        found[0].message(NOW)
    };
    for (names, expected) in [
        (&[][..], ""),
        (&["tok"], ", or its secret is looked up (tok)"),
        (&["key", "tok"], ", or its secrets are looked up (key, tok)"),
    ] {
        let whole = format!("a is at work, or waits there for a slot{expected}: 'send', attempt 2");
        assert_eq!(said(names), whole);
    }
}

#[test]
fn only_a_run_at_rest_must_have_the_children_that_it_waits_for() {
    let child = RunId::from_bytes([5; 16]);
    let waits = [
        in_flight(),
        Reason::Child {
            execution: "b".into(),
            child,
        },
    ];
    assert_eq!(awaited(&record(), &waits), BTreeSet::from([child]));
    assert!(awaited(&record(), &[in_flight()]).is_empty());
    assert!(awaited(&owned(1), &waits).is_empty());
    let fresh = RunRecord {
        started_at: None,
        ..record()
    };
    assert!(awaited(&fresh, &waits).is_empty());
}

#[test]
fn what_is_told_of_an_execution_follows_from_the_record_of_its_run() {
    use lope_flow::history::{Execution, ExecutionStatus};

    let ended = Timestamp::from_millis(900_000);
    let live = |started_at| RunRecord {
        started_at,
        ..record()
    };
    let over = RunRecord {
        status: RunStatus::Final(FinalStatus::Failed),
        finished_at: Some(ended),
        ..record()
    };
    let (running, done) = (ExecutionStatus::Running, ExecutionStatus::Done);
    for (record, status, told) in [
        (&live(None), running, None),
        (&live(None), done, None),
        (&live(Some(NOW)), running, Some((running, None))),
        (&live(Some(NOW)), done, Some((done, None))),
        (
            &over,
            running,
            Some((ExecutionStatus::Cancelled, Some(ended))),
        ),
        (&over, done, Some((done, None))),
    ] {
        let execution = Execution {
            id: "a".into(),
            step: "a".into(),
            status,
            opened_at: Timestamp::EPOCH,
            opened_by: 1,
            finished_at: None,
            input: None,
            output: None,
            failure: None,
            attempts: Vec::new(),
        };
        let found = as_told(record, &execution);
        let found = found.map(|it| (it.status, it.finished_at));
        assert_eq!(found, told, "{:?} {status:?}", record.status);
    }
}
