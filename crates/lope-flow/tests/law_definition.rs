//! Definitions as data: what is inferred, what is refused and with which words, what a version
//! depends on, and that what was stored by earlier programs still loads.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::build;

use std::fmt::Write as _;

use lope_definition::{
    Block, BlockId, Checkpoint, Definition, Matcher, Parallel, Problem, Rule, Step, StepKind,
};
use lope_expr::{Template, TextLocation};
use lope_flow::law::{Event, EventKind, Plan, State, fold};
use lope_model::policy::{
    Backoff, CircuitBreaker, Fallback, KeyedConcurrency, OnFailure, RateLimit,
};
use lope_model::{Policy, Priority, Span, Value};

use build::*;

fn needs(definition: &Definition, name: &str) -> (Vec<String>, Vec<String>) {
    let step = definition
        .blocks
        .iter()
        .find_map(|block| block.step(name))
        .unwrap();
    let texts = |names: &[std::sync::Arc<str>]| names.iter().map(ToString::to_string).collect();
    (texts(&step.needs), texts(&step.follows))
}

fn problems(definition: &Definition) -> Vec<String> {
    let mut definition = definition.clone();
    definition.infer_needs();
    definition
        .validate()
        .iter()
        .map(Problem::to_string)
        .collect()
}

fn refused(steps: impl IntoIterator<Item = Step>) -> Vec<String> {
    problems(&Draft::new().define(steps))
}

#[test]
fn a_step_needs_what_it_reads_wherever_it_is_written() {
    let mut draft = Draft::new();
    let inner = draft.block([assign("d", "a + x"), assign("e", "d + n")]);
    let mut definition = draft.define([
        each("m", "b", "n", Parallel::Max, inner).needs(&["z"]),
        assign("b", "[a]"),
        assign("x", "1"),
        assign("a", "1"),
        assign("z", "2"),
    ]);
    definition.infer_needs();
    assert_eq!(needs(&definition, "m").0, ["z", "a", "b", "x"]);
    assert_eq!(needs(&definition, "b").0, ["a"]);
    assert_eq!(needs(&definition, "e").0, ["d"]);
    let again = {
        let mut again = definition.clone();
        again.infer_needs();
        again
    };
    assert_eq!(again, definition);
}

#[test]
fn variables_keep_the_order_of_writing() {
    let mut definition = Draft::new().define([
        assign("zero", "0").set("v"),
        act("read", "v"),
        assign("one", "v + 1").set("v"),
        act("late", "v"),
    ]);
    definition.infer_needs();
    assert_eq!(needs(&definition, "read"), (vec![], vec!["zero".into()]));
    assert_eq!(
        needs(&definition, "one"),
        (vec![], vec!["zero".into(), "read".into()])
    );
    assert_eq!(
        needs(&definition, "late"),
        (vec![], vec!["zero".into(), "one".into()])
    );
    let mut ordered = Draft::new().define([
        act("read", "v").needs(&["set"]),
        assign("set", "1").set("v"),
    ]);
    ordered.infer_needs();
    assert_eq!(
        needs(&ordered, "set"),
        (vec![], vec![]),
        "the author said otherwise"
    );
}

#[test]
fn bad_names_are_refused() {
    for (name, message) in [
        (
            "input",
            "'input' is taken by the workflow language: choose another name for the step",
        ),
        (
            "9a",
            "'9a' is not a name for a step: a letter, then letters, digits, '_', '-' or '.', at most 200 bytes",
        ),
        (
            "a/b",
            "'a/b' is not a name for a step: a letter, then letters, digits, '_', '-' or '.', at most 200 bytes",
        ),
    ] {
        assert_eq!(
            refused([assign(name, "1")]),
            [format!("step '{name}': {message}")]
        );
    }
    assert_eq!(
        refused([assign("a", "1").set("env")]),
        ["step 'a': 'env' is taken by the workflow language: choose another name for the variable"]
    );
    assert_eq!(
        refused([assign("a", "1"), assign("a", "2")])[0],
        "step 'a': two steps of this block are called 'a'"
    );
}

#[test]
fn unknown_names_come_with_a_hint_and_a_place() {
    assert_eq!(
        refused([assign("total", "1"), assign("b", "totl + 1")]),
        ["1:1: step 'b': unknown name 'totl' (did you mean 'total'?)"]
    );
    assert_eq!(
        refused([assign("a", "1").set("v"), assign("b", "a")]),
        ["1:1: step 'b': unknown name 'a' (step 'a' sets the variable 'v': use that)"]
    );
    assert_eq!(
        refused([assign("b", "zebra")]),
        ["1:1: step 'b': unknown name 'zebra'"]
    );
    let mut draft = Draft::new();
    let inner = draft.block([assign("hidden", "1")]);
    let outside = draft.define([if_("i", "true", inner, None), assign("b", "hidden")]);
    assert_eq!(problems(&outside), ["1:1: step 'b': unknown name 'hidden'"]);
    assert_eq!(
        refused([assign("a", "a + 1")]),
        ["step 'a': uses its own output, which does not exist yet"]
    );
    assert_eq!(
        refused([act("a", "1").needs(&["bb"]), act("b", "1")]),
        ["step 'a': needs unknown step 'bb' (did you mean 'b'?)"]
    );
    let mut draft = Draft::new();
    draft.rule("snd", retries(1));
    assert_eq!(
        problems(&draft.define([act("send", "1")])),
        ["a policy names step 'snd', which does not exist (did you mean 'send'?)"]
    );
}

#[test]
fn cycles_and_unreachable_steps_are_refused() {
    assert_eq!(
        refused([act("a", "c"), act("b", "a"), act("c", "b")]),
        ["step 'a': needs form a cycle: a → c → b → a"]
    );
    assert_eq!(
        refused([act("a", "1").needs(&["a"])])[0],
        "step 'a': needs itself"
    );
    assert_eq!(
        refused([give("r", "1"), act("a", "1").needs(&["r"])]),
        ["step 'a': can never run: it needs 'r', and 'return' leaves the block"]
    );
    assert_eq!(
        refused([act("a", "1").when(e("false"))]),
        ["step 'a': can never run: its condition is always false"]
    );
    let mut definition = Definition::new("test");
    definition.add_block(Block::default());
    assert_eq!(
        problems(&definition),
        ["block 1 is held by 0 steps instead of 1"]
    );
}

#[test]
fn what_has_no_order_or_nothing_to_leave_is_refused() {
    assert_eq!(
        refused([assign("a", "1").set("v"), assign("b", "2").set("v")]),
        ["step 'b': sets 'v', and so does 'a': one must need the other (add 'needs: [a]')"]
    );
    assert!(
        refused([
            assign("a", "1").set("v"),
            assign("b", "2").set("v").needs(&["a"])
        ])
        .is_empty()
    );
    assert_eq!(
        refused([Step::new("b", StepKind::Break)]),
        ["step 'b': 'break' stands outside a loop"]
    );
    let parallel = |step: Step| {
        let mut draft = Draft::new();
        let body = draft.block([step]);
        problems(&draft.define([each("m", "input", "x", Parallel::Max, body)]))
    };
    assert_eq!(
        parallel(Step::new("b", StepKind::Break)),
        ["step 'm/b': 'break' has no meaning among elements that run at once"]
    );
    assert!(parallel(Step::new("b", StepKind::Continue)).is_empty());
    assert_eq!(
        parallel(state("s", "0", "previous")),
        [
            "step 'm/s': a state has no order among blocks that run at once (apply it to their outputs afterwards)"
        ]
    );
    assert_eq!(
        refused([give("r", "1").set("v")]),
        ["step 'r': 'return' leaves the block and has no output to set"]
    );
    let mut draft = Draft::new();
    let branch = draft.block([Step::new("c", StepKind::Continue)]);
    let body = draft.block([all("q", &[("x", branch)])]);
    let branches = draft.define([each("m", "input", "n", Parallel::One, body)]);
    assert_eq!(
        problems(&branches),
        ["step 'm/q/c': 'continue' cannot leave a branch"]
    );
}

#[test]
fn secrets_stay_in_arguments() {
    assert!(refused([act("a", "{'key': secrets.api}")]).is_empty());
    assert_eq!(
        refused([assign("a", "[secrets.api]")]),
        ["1:1: step 'a': the secret 'api' may only be used in arguments that go to a worker"]
    );
}

#[test]
fn impossible_policies_are_refused() {
    let span = |millis| Some(Span::from_millis(millis));
    let silent = || Policy::<Template>::default();
    let rows: Vec<(Policy<Template>, &str)> = vec![
        (
            Policy {
                timeout: span(0),
                ..silent()
            },
            "'timeout: 0s' lets no attempt finish",
        ),
        (
            Policy {
                deadline: span(0),
                ..silent()
            },
            "'deadline: 0s' lets no attempt start",
        ),
        (
            Policy {
                base_delay: span(9),
                max_delay: span(5),
                ..silent()
            },
            "'base_delay' is longer than 'max_delay'",
        ),
        (
            Policy {
                heartbeat: span(9),
                timeout: span(5),
                ..silent()
            },
            "'heartbeat' is longer than 'timeout'",
        ),
        (
            Policy {
                backoff: Some(Backoff::Linear),
                base_delay: span(0),
                ..silent()
            },
            "a backoff with 'base_delay: 0s' never grows",
        ),
        (
            Policy {
                retry_on: Some(vec![]),
                ..silent()
            },
            "'retry_on' names no failure; use 'retries: 0'",
        ),
        (
            Policy {
                retry_on: Some(vec!["E".into()]),
                never_retry_on: Some(vec!["E".into()]),
                ..silent()
            },
            "'E' is in 'retry_on' and in 'never_retry_on'",
        ),
        (
            Policy {
                circuit_breaker: Some(CircuitBreaker {
                    failures: 0,
                    reset: Span::from_secs(1),
                    name: None,
                }),
                ..silent()
            },
            "a circuit breaker needs 1 failure or more to open",
        ),
        (
            Policy {
                rate_limit: Some(RateLimit {
                    count: 0,
                    per: Span::from_secs(1),
                    name: None,
                }),
                ..silent()
            },
            "a rate limit of 0 lets nothing start",
        ),
        (
            Policy {
                concurrency: Some(KeyedConcurrency {
                    limit: 0,
                    key: None,
                }),
                ..silent()
            },
            "'concurrency' of 0 lets nothing start",
        ),
    ];
    for (policy, message) in rows {
        assert_eq!(
            refused([act("a", "1").policy(policy)]),
            [format!("step 'a': {message}")]
        );
    }
    assert_eq!(
        refused([assign("a", "1").policy(retries(1))]),
        ["step 'a': 'retries' means nothing on 'let'"]
    );
    let heartbeat = Policy {
        heartbeat: span(5),
        ..silent()
    };
    assert_eq!(
        refused([child("c", "w", "1").policy(heartbeat)]),
        ["step 'c': 'heartbeat' means nothing on 'workflow'"]
    );
    let skip = Policy {
        on_failure: Some(OnFailure::Skip),
        ..silent()
    };
    assert!(refused([assign("a", "1").policy(skip)]).is_empty());
}

#[test]
fn settings_and_structure_are_checked() {
    let with = |change: &dyn Fn(&mut Definition)| {
        let mut definition = Definition::new("test");
        change(&mut definition);
        problems(&definition)
    };
    assert_eq!(
        with(&|it| it.concurrency = Some(0)),
        ["'concurrency: 0' would never run anything (leave it out for no bound)"]
    );
    assert_eq!(
        with(&|it| it.checkpoint = Checkpoint::EveryN(0)),
        ["'every_n: 0' is no interval (use 'manual' for no checkpoints)"]
    );
    assert_eq!(
        with(&|it| it.name = "".into()),
        ["a workflow's name has 1 to 200 bytes and no control characters"]
    );
    assert_eq!(
        refused([race("q", &[])]),
        ["step 'q': 'race' needs a branch"]
    );
    assert_eq!(
        refused([switch("s", &[], None)]),
        ["step 's': a switch needs a case"]
    );
    let missing = Draft::new().define([if_("i", "true", BlockId(7), None)]);
    assert_eq!(
        Plan::new(&missing).unwrap_err()[0].message,
        "block 7 does not exist"
    );
    let mut draft = Draft::new();
    let function = draft.function(&["n"], []);
    assert_eq!(
        problems(&draft.define([call("f", function, &[("m", "1")])])),
        ["step 'f': the function has no parameter 'm'"]
    );
}

#[test]
fn a_version_is_what_a_workflow_is_not_where_it_was_written() {
    let draft = |shift: u32| {
        let mut draft = Draft::new();
        let unused_order = if shift > 0 {
            draft.block([assign("y", "2")])
        } else {
            BlockId(0)
        };
        let then = draft.block([assign("x", "1").at(TextLocation::new(9 + shift, 1))]);
        let otherwise = if shift > 0 {
            unused_order
        } else {
            draft.block([assign("y", "2")])
        };
        draft.define([
            if_("c", "input > 1", then, Some(otherwise)).at(TextLocation::new(3 + shift, 4))
        ])
    };
    assert_eq!(
        draft(0).version(),
        draft(5).version(),
        "neither places nor the numbers of blocks count"
    );
    assert_ne!(
        draft(0).version(),
        Definition {
            concurrency: Some(2),
            ..draft(0)
        }
        .version()
    );
    let explicit = Draft::new().define([assign("a", "1"), assign("b", "a").needs(&["a"])]);
    let inferred = Draft::new().define([assign("a", "1"), assign("b", "a")]);
    assert_eq!(
        explicit.version(),
        inferred.version(),
        "a need that is written and one that is inferred are the same"
    );
}

#[test]
fn what_is_no_definition_is_refused() {
    assert!(Definition::decode(b"nonsense").is_err());
    assert!(Definition::from_json("{}").is_err());
    let newer = Definition {
        law: lope_definition::WRITTEN_FOR + 1,
        ..Definition::new("x")
    };
    let error = Definition::decode(&newer.encode()).unwrap_err().to_string();
    assert_eq!(
        error,
        "not a definition: written for law 2, this program knows 1"
    );
    let text = Draft::new()
        .define([if_("i", "true", BlockId(7), None)])
        .to_json();
    assert_eq!(
        Definition::from_json(&text).unwrap_err().to_string(),
        "not a definition: block 7 of 1 is referred to"
    );
}

/// Every kind of step and every field, as it was stored by the first program of law 1.
fn everything() -> Definition {
    everything_to("box")
}

/// Everything, with a message to this mailbox.
fn everything_to(mailbox: &str) -> Definition {
    let mut draft = Draft::new();
    let blocks: Vec<BlockId> = (0..9)
        .map(|index| draft.block([act(&format!("a{index}"), "input")]))
        .collect();
    let body = draft.block([
        act("work", "[x, i]"),
        Step::new("stop", StepKind::Break)
            .when(e("x == 3"))
            .needs(&["work"]),
    ]);
    let turn = draft.block([
        assign("inc", "n + 1").set("n"),
        Step::new("on", StepKind::Continue).needs(&["inc"]),
    ]);
    let function = draft.function(&["p"], [give("back", "p * 2")]);
    let policy = Policy {
        retries: Some(3),
        backoff: Some(Backoff::Jitter),
        base_delay: Some(Span::from_millis(500)),
        max_delay: Some(Span::from_secs(30)),
        retry_on: Some(vec!["Net".into()]),
        never_retry_on: Some(vec!["Fatal".into()]),
        timeout: Some(Span::from_secs(20)),
        deadline: Some(Span::from_secs(600)),
        heartbeat: Some(Span::from_secs(5)),
        on_failure: Some(OnFailure::Skip),
        fallback: Some(Fallback::Action {
            name: "other".into(),
            with: Some(t("error.type")),
        }),
        priority: Some(Priority::HIGHEST),
        idempotency_key: Some(t("'k' + string(input)")),
        circuit_breaker: Some(CircuitBreaker {
            failures: 5,
            reset: Span::from_secs(60),
            name: Some("api".into()),
        }),
        rate_limit: Some(RateLimit {
            count: 10,
            per: Span::from_secs(1),
            name: None,
        }),
        concurrency: Some(KeyedConcurrency {
            limit: 2,
            key: Some(t("input")),
        }),
        executor: Some("python".into()),
        durable: Some(true),
        loss_budget: Some(4),
    };
    draft.0.policies = vec![
        Rule::new(
            Matcher {
                kind: Some("http".into()),
                action: Some("g*".into()),
                ..Matcher::default()
            },
            retries(1),
        ),
        Rule::new(
            Matcher {
                predicate: Some(e("step.kind == 'run'")),
                ..Matcher::named("r*")
            },
            retries(2),
        ),
        Rule::new(Matcher::of_paths(vec!["dispatch".into()]), retries(4)),
    ];
    draft.0.description = Some("everything".into());
    draft.0.input = json(r#"{"type":"integer"}"#);
    draft.0.checkpoint = Checkpoint::EveryN(10);
    draft.0.concurrency = Some(16);
    draft.0.retention = Some(Span::from_secs(86_400));
    draft.0.grace = Some(Span::from_secs(5));
    let handlers = vec![on(&["E", "F"], Some("err"), blocks[3])];
    let mut detached = child("kid", "other", "input");
    if let StepKind::Workflow { detach, .. } = &mut detached.kind {
        *detach = true;
    }
    let mut definition = draft.define([
        action(
            "dispatch",
            "send_email",
            "{'to': input, 'key': secrets.mail}",
        )
        .policy(policy)
        .at(TextLocation::new(3, 5)),
        Step::new("script", dispatch("js", "js", "{'source': '1'}")),
        Step::new("get", dispatch("http", "get", "{'url': 'http://x'}")),
        assign("zero", "0").set("n"),
        if_("cond", "input > 1", blocks[0], Some(blocks[1])),
        switch("cases", &[("input == 1", blocks[2])], Some(blocks[4])),
        each("loop", "[1, 2]", "x", Parallel::One, body),
        collecting(each("fan", "[1, 2]", "x", Parallel::Upto(4), blocks[5])),
        while_("rounds", "n < 3", turn, Some(9)),
        try_("guard", blocks[6], handlers, Some(blocks[7])),
        sleep("nap", "'5m'"),
        Step::new(
            "day",
            StepKind::Until {
                time: t("'2026-01-01T00:00:00Z'"),
            },
        ),
        wait("signal", "go", Some("'1h'"), Some("null")),
        detached,
        send("mail", mailbox, "{'payload': input}"),
        state("sum", "0", "previous + value").needs(&["zero"]),
        race("first", &[("only", blocks[8])]),
        call("twice", function, &[("p", "input")]),
        raise("never", "{'type': 'Never'}").when(e("input == 77")),
        give("end", "[dispatch, n]").needs(&[
            "rounds", "loop", "fan", "guard", "nap", "day", "first", "cond", "get",
        ]),
    ]);
    definition.root_mut().collect = Some(t("twice"));
    definition
}

/// Golden files of every law. `LOPE_BLESS=1` writes those that are not there; they are never
/// changed afterwards.
fn golden(name: &str, make: impl FnOnce() -> String) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    if !path.exists() && std::env::var_os("LOPE_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, make()).unwrap();
    }
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a text takes everything");
        text
    })
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<char> = text.chars().filter(|c| !c.is_whitespace()).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(&pair.iter().collect::<String>(), 16).unwrap())
        .collect()
}

#[test]
fn definitions_of_law_1_still_load() {
    let bytes = unhex(&golden("definition_law1.hex", || {
        hex(&everything().encode())
    }));
    let text = golden("definition_law1.json", || everything().to_json());
    let version = golden("definition_law1.version", || {
        everything().version().to_string()
    });
    let stored = Definition::decode(&bytes).unwrap();
    assert_eq!(stored, everything());
    assert_eq!(Definition::from_json(&text).unwrap(), everything());
    assert_eq!(stored.version().to_string(), version.trim());
    assert_eq!(
        stored.root().steps[0].at.line,
        3,
        "places are stored beside what counts"
    );
    Plan::new(&stored).unwrap();
}

/// A journal of law 1 in its stored form folds to the same digests, row by row, and to the same
/// snapshot.
#[test]
fn journals_of_law_1_still_fold_the_same() {
    journals_still_fold_the_same(1, "box");
}

/// The same for law 2; its messages have a mailbox that there can be, and its detached child is
/// said to be there.
#[test]
fn journals_of_law_2_still_fold_the_same() {
    journals_still_fold_the_same(2, "7");
}

/// The same for law 3, whose dispatches are announced.
#[test]
fn journals_of_law_3_still_fold_the_same() {
    journals_still_fold_the_same(3, "7");
}

fn journals_still_fold_the_same(law: u32, mailbox: &str) {
    let plan = plan(&everything_to(mailbox));
    let rows = golden(&format!("journal_law{law}.txt"), || bless_journal(&plan));
    let mut state = State::new(&plan);
    let mut count = 0;
    for row in rows.lines() {
        let (digest, body) = row.split_once(' ').unwrap();
        let event = Event::decode(&unhex(body), |_| None).unwrap();
        fold(&plan, &mut state, event, &mut Vec::new());
        assert_eq!(format!("{:016x}", state.digest()), digest, "row {count}");
        count += 1;
    }
    assert!(
        count > 20 && state.status().is_final(),
        "{count} {:?}",
        state.status()
    );
    assert_eq!(state.law(), law);
    let snapshot = golden(&format!("snapshot_law{law}.hex"), || {
        hex(&middle(&plan, &rows).clone().encode(&mut Vec::new()))
    });
    assert_eq!(
        State::decode(&unhex(&snapshot), |_| None).unwrap(),
        middle(&plan, &rows)
    );
}

fn middle(plan: &Plan, rows: &str) -> State {
    let mut state = State::new(plan);
    for row in rows.lines().take(8) {
        let event = Event::decode(&unhex(row.split_once(' ').unwrap().1), |_| None).unwrap();
        fold(plan, &mut state, event, &mut Vec::new());
    }
    state
}

fn bless_journal(plan: &Plan) -> String {
    let mut led = build::script::Led::new(plan);
    let mut lines = vec![
        "start 5".to_owned(),
        "pause".into(),
        "resume".into(),
        "signal go 1".into(),
    ];
    lines.extend(["sent dispatch#1", "refuse script#1 1000", "adopt 2"].map(String::from));
    let mut next = 0;
    while next < lines.len() {
        let effects = led.line(&lines[next].clone());
        for effect in effects
            .split("; ")
            .filter(|effect| effect.contains('#') && !effect.starts_with('-'))
        {
            let token = effect.split('(').next().unwrap().to_owned();
            lines.push(format!("{token} ok {}", lines.len()));
        }
        if effects.contains("child kid(") {
            lines.push("child kid ok".to_owned());
        }
        next += 1;
        if next == lines.len()
            && let Some(wake) = led.wake()
        {
            lines.push(format!("at {wake}"));
        }
        assert!(lines.len() < 500);
    }
    let mut state = State::new(plan);
    let mut rows = String::new();
    for event in &led.journal {
        fold(plan, &mut state, event.clone(), &mut Vec::new());
        writeln!(
            rows,
            "{:016x} {}",
            state.digest(),
            hex(&event.clone().encode(&mut Vec::new()))
        )
        .expect("a text takes everything");
    }
    rows
}

#[test]
fn large_values_are_stored_apart_and_only_once() {
    let plan = flow([act("a", "[input, input]"), act("b", "input").needs(&["a"])]);
    let big = Value::str("x".repeat(9_000));
    let mut led = build::script::lead(&plan, &[]);
    led.line(&format!("start {big}"));
    let mut blobs = Vec::new();
    let bytes = led.state.clone().encode(&mut blobs);
    assert!(
        bytes.len() < 2_000 && blobs.len() == 2,
        "{} {}",
        bytes.len(),
        blobs.len()
    );
    let stored = lope_flow::law::Stored::<State>::read(&bytes).unwrap();
    assert_eq!(stored.needs().len(), 2);
    let error = stored.load(|_| None).unwrap_err().to_string();
    assert!(error.contains("is missing"), "{error}");
    let sly = Value::tag("$blob", Value::str(blobs[0].digest.to_string()));
    let event = Event::new(
        led.state.at(),
        EventKind::Signal {
            name: "x".into(),
            value: sly,
        },
    );
    let mut own = Vec::new();
    let row = event.clone().encode(&mut own);
    let blob = |digest| {
        own.iter()
            .find(|blob| blob.digest == digest)
            .map(|blob| blob.bytes.clone())
    };
    assert_eq!(
        Event::decode(&row, blob).unwrap(),
        event,
        "a value that looks like a reference is none"
    );
}

/// "every journal event kind round-trips;"
#[test]
fn every_kind_of_event_is_read_as_it_was_written() {
    let (run, epoch) = (build::script::run_id(), lope_model::Epoch(3));
    let (execution, until): (std::sync::Arc<str>, _) =
        ("m/0/a".into(), lope_model::Timestamp::from_millis(77));
    let start = |law| {
        let input = Some(lope_flow::law::Fed::new("1", json("[1, null]")));
        let start = lope_flow::law::Start {
            run,
            law,
            seed: 9,
            epoch,
            open: true,
            env: json(r#"{"A":"b"}"#),
            input,
        };
        EventKind::Start(Box::new(start))
    };
    let outcome = |result| {
        let (started_at, worker, log) = (Some(until), Some("w".into()), Some("l".into()));
        let execution = execution.clone();
        EventKind::Outcome(Box::new(lope_flow::law::Outcome {
            execution,
            attempt: 2,
            epoch,
            result,
            started_at,
            worker,
            log,
        }))
    };
    let failed = lope_flow::law::Settled::failed(lope_model::Failure::new("E", "no"));
    let kinds = [
        start(1),
        start(2),
        EventKind::Input(Box::new(lope_flow::law::Fed::new("2", json("{}")))),
        outcome(lope_flow::law::Settled::Done(json("1.5"))),
        outcome(failed.clone()),
        EventKind::Timer,
        EventKind::Signal {
            name: "go".into(),
            value: json("true"),
        },
        EventKind::Child {
            execution: execution.clone(),
            child: run,
            result: failed,
        },
        EventKind::Child {
            execution: execution.clone(),
            child: run,
            result: lope_flow::law::Settled::Cancelled,
        },
        EventKind::Cancel { force: true },
        EventKind::Pause {
            reason: Some("lunch".into()),
        },
        EventKind::Resume,
        EventKind::Adopted {
            epoch,
            budget: Some(2),
        },
        EventKind::Refused {
            execution: execution.clone(),
            attempt: 1,
            epoch,
            until,
            reason: "busy".into(),
        },
        EventKind::Dispatched {
            execution,
            attempt: 1,
            epoch,
        },
        EventKind::Retry { epoch },
        EventKind::Close,
        EventKind::Forked { run, epoch },
    ];
    let words: std::collections::BTreeSet<&str> = kinds.iter().map(EventKind::word).collect();
    assert_eq!(words.len(), 15, "each kind is here: {words:?}");
    for kind in kinds {
        let event = Event {
            met: Some(5),
            ..Event::new(until, kind)
        };
        assert_eq!(
            Event::decode(&event.clone().encode(&mut Vec::new()), |_| None).unwrap(),
            event
        );
    }
}

#[test]
fn bytes_that_are_no_snapshot_are_refused() {
    for bytes in [&b""[..], b"\x02abc", b"\x01abc", b"\x01"] {
        assert!(State::decode(bytes, |_| None).is_err());
    }
    assert!(Event::decode(b"abc", |_| None).is_err());
}
