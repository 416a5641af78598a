//! Every key of a workflow file ends up in the definition as what it means.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;

use lope_definition::yaml::{self, ProblemReport};
use lope_definition::{
    BlockId, Branch, Case, Checkpoint, Definition, DispatchSpec, FailureHandler, Matcher, OnError,
    Parallel, Recipient, Step, StepKind,
};
use lope_expr::{self as expr, Expr, Template};
use lope_model::policy::{
    Backoff, CircuitBreaker, Fallback, KeyedConcurrency, OnFailure, RateLimit,
};
use lope_model::{Policy, Priority, Span, Value, value};

fn read(text: &str) -> Definition {
    yaml::read(text, "test.yaml").unwrap_or_else(|problems| {
        panic!(
            "{}",
            ProblemReport {
                file_name: "test.yaml",
                text,
                problems: &problems
            }
        );
    })
}

/// The definition of a workflow whose step `x` is written so; `a` and `b` are there to be referred
/// to.
fn with_step(step: &str) -> Definition {
    read(&format!(
        "name: t\nsteps:\n  a: {{ let: 1 }}\n  b: {{ let: [1] }}\n  x: {step}\n"
    ))
}

fn step(step: &str) -> Step {
    with_step(step).root().step("x").unwrap().clone()
}

fn kind(text: &str) -> StepKind {
    step(text).kind
}

fn expr(text: &str) -> Expr {
    expr::parse(text).unwrap()
}

fn template(text: &str) -> Template {
    Template::new(expr(text))
}

fn literal(json: &str) -> Template {
    Template::literal(value::from_json(json).unwrap())
}

fn dispatch(executor: &str, action: &str, with: Template) -> StepKind {
    StepKind::Dispatch(DispatchSpec {
        executor: executor.into(),
        action: action.into(),
        with,
        heap: false,
    })
}

fn names(names: &[&str]) -> Vec<Arc<str>> {
    names.iter().map(|name| (*name).into()).collect()
}

const FIRST: BlockId = BlockId(1);
const SECOND: BlockId = BlockId(2);
const THIRD: BlockId = BlockId(3);

#[test]
fn the_top_of_a_file_says_how_the_workflow_is_run() {
    let definition = read(
        "name: welcome\ndescription: hello\ninput: { type: object }\ncheckpoint: { every_n: 10 }\nconcurrency: 16\n\
         retention: 7d\ngrace: 5s\nx-mine: anything\nsteps: { x: { let: 1 } }\n",
    );
    assert_eq!(
        (&*definition.name, definition.description.as_deref()),
        ("welcome", Some("hello"))
    );
    assert_eq!(
        definition.input,
        Value::map([("type", Value::from("object"))])
    );
    assert_eq!(
        (definition.checkpoint, definition.concurrency),
        (Checkpoint::EveryN(10), Some(16))
    );
    assert_eq!(
        (definition.retention, definition.grace),
        (Some(Span::from_secs(604_800)), Some(Span::from_secs(5)))
    );
    for (word, expected) in [
        ("every_step", Checkpoint::EveryStep),
        ("on_complete", Checkpoint::OnComplete),
        ("manual", Checkpoint::Manual),
    ] {
        assert_eq!(
            read(&format!(
                "name: t\ncheckpoint: {word}\nsteps: {{ x: {{ let: 1 }} }}\n"
            ))
            .checkpoint,
            expected
        );
    }
}

#[test]
fn what_must_not_be_shown_is_named_by_paths() {
    let body = "steps: { pay: { run: [pay] }, each: { each: \"${{ input.all }}\", as: one, steps: { send: { let: 1 } } } }\n";
    let read_with = |redact: &str| read(&format!("name: t\nredact: {redact}\n{body}")).redact;
    assert_eq!(
        read_with("[input.card, result, pay.token, each/send]"),
        names(&["input.card", "result", "pay.token", "each/send"])
    );
    assert_eq!(read_with("input"), names(&["input"]));
    // The name of a step may have a dot.
    let dotted = read("name: t\nredact: [pay.v2.token]\nsteps: { pay.v2: { run: [pay] } }\n");
    assert_eq!(dotted.redact, names(&["pay.v2.token"]));
    // A workflow that hides something is another version than one that does not.
    let plain = read(&format!("name: t\n{body}"));
    assert_ne!(
        plain.version(),
        read(&format!("name: t\nredact: input\n{body}")).version()
    );
}

#[test]
fn work_for_workers_carries_its_arguments() {
    assert_eq!(
        kind("{ action: go }"),
        dispatch("action", "go", literal("{}"))
    );
    assert_eq!(
        kind("{ action: go, with: { n: 1 } }"),
        dispatch("action", "go", literal(r#"{"n":1}"#))
    );
    assert_eq!(
        kind("{ action: go, with: \"${{ a }}\" }"),
        dispatch("action", "go", template("a"))
    );
    assert_eq!(
        kind("{ run: [echo, 5], cwd: /tmp, env: { A: b }, stdin: text }"),
        dispatch(
            "run",
            "run",
            literal(r#"{"argv":["echo",5],"cwd":"/tmp","env":{"A":"b"},"stdin":"text"}"#)
        )
    );
    assert_eq!(
        kind("{ run: echo hi }"),
        dispatch("run", "run", literal(r#"{"command":"echo hi"}"#))
    );
    assert_eq!(
        kind("{ run: echo hi, shell: bash }"),
        dispatch(
            "run",
            "run",
            literal(r#"{"command":"echo hi","shell":"bash"}"#)
        )
    );
    let js = "\"() => `${{a: 1}}`\"";
    assert_eq!(
        kind(&format!("{{ js: {js}, with: {{ n: 1 }} }}")),
        dispatch(
            "js",
            "js",
            literal(r#"{"source":"() => `${{a: 1}}`","with":{"n":1}}"#)
        ),
        "JavaScript is not a template"
    );
    assert_eq!(
        kind("{ http: \"https://a.b\" }"),
        dispatch("http", "http", literal(r#"{"url":"https://a.b"}"#))
    );
    assert_eq!(
        kind("{ http: { method: PUT, url: u, headers: { h: v }, body: [1], accept: 404 } }"),
        dispatch(
            "http",
            "http",
            literal(r#"{"method":"PUT","url":"u","headers":{"h":"v"},"body":[1],"accept":[404]}"#)
        )
    );
    assert_eq!(
        kind("{ http: { url: u }, accept: [4xx] }"),
        dispatch("http", "http", literal(r#"{"url":"u","accept":["4xx"]}"#))
    );
    assert_eq!(
        kind("{ agent: mend it }"),
        dispatch("agent", "agent", literal(r#"{"prompt":"mend it"}"#))
    );
    assert_eq!(
        kind("{ agent: { prompt: p, agent: fast, cwd: /x }, budget: 5, silence: 10m }"),
        dispatch(
            "agent",
            "agent",
            literal(r#"{"budget":5,"silence":"10m","prompt":"p","agent":"fast","cwd":"/x"}"#)
        )
    );
}

#[test]
fn values_times_and_signals() {
    assert_eq!(
        kind("{ let: \"${{ a + 1 }}\" }"),
        StepKind::Let {
            value: template("a + 1")
        }
    );
    assert_eq!(
        kind("{ let: { deep: [1, { n: null }] } }"),
        StepKind::Let {
            value: literal(r#"{"deep":[1,{"n":null}]}"#)
        }
    );
    assert_eq!(
        kind("{ sleep: 5m }"),
        StepKind::Sleep {
            span: literal("\"5m\"")
        }
    );
    assert_eq!(
        kind("{ sleep: 1.5 }"),
        StepKind::Sleep {
            span: literal("1.5")
        }
    );
    assert_eq!(
        kind("{ until: 2030-01-01T00:00:00Z }"),
        StepKind::Until {
            time: literal("\"2030-01-01T00:00:00Z\"")
        }
    );
    assert_eq!(
        kind("{ wait: ok, timeout: 2d, default: no }"),
        StepKind::Wait {
            signal: literal("\"ok\""),
            timeout: Some(literal("\"2d\"")),
            default: Some(literal("\"no\""))
        }
    );
    assert_eq!(
        step("{ wait: ok, timeout: 2d }").policy,
        Policy::default(),
        "the timeout is the wait's, not a policy"
    );
    assert_eq!(
        kind("{ state: { init: 0, next: \"${{ previous + value }}\", value: \"${{ a }}\" } }"),
        StepKind::State {
            init: literal("0"),
            next: template("previous + value"),
            value: Some(template("a")),
            action: None
        }
    );
}

#[test]
fn blocks_are_read_wherever_they_stand() {
    let block = "{ s: { let: 1 } }";
    assert_eq!(
        kind(&format!("{{ if: a > 0, steps: {block}, else: {block} }}")),
        StepKind::If {
            when: expr("a > 0"),
            then: FIRST,
            otherwise: Some(SECOND)
        }
    );
    assert_eq!(
        kind(&format!(
            "{{ switch: [{{ when: a == 1, steps: {block} }}, {{ when: true, steps: {block} }}], else: {block} }}"
        )),
        StepKind::Switch {
            cases: vec![
                Case {
                    when: expr("a == 1"),
                    block: FIRST
                },
                Case {
                    when: Expr::literal(true),
                    block: SECOND
                }
            ],
            otherwise: Some(THIRD)
        }
    );
    assert_eq!(
        kind(&format!("{{ while: a < 3, max: 9, steps: {block} }}")),
        StepKind::While {
            when: expr("a < 3"),
            block: FIRST,
            max: Some(9)
        }
    );
    assert_eq!(
        kind(&format!(
            "{{ try: {block}, catch: [{{ match: [A, B], as: e, steps: {block} }}], finally: {block} }}"
        )),
        StepKind::Try {
            block: FIRST,
            handlers: vec![FailureHandler {
                matches: names(&["A", "B"]),
                name: Some("e".into()),
                block: SECOND
            }],
            finally: Some(THIRD)
        }
    );
    let branches = vec![
        Branch {
            name: "l".into(),
            block: FIRST,
        },
        Branch {
            name: "r".into(),
            block: SECOND,
        },
    ];
    assert_eq!(
        kind(&format!("{{ race: {{ l: {block}, r: {block} }} }}")),
        StepKind::Race {
            branches: branches.clone()
        }
    );
    assert_eq!(
        kind(&format!(
            "{{ all: {{ l: {block}, r: {block} }}, on_error: collect }}"
        )),
        StepKind::All {
            branches,
            on_error: OnError::Collect
        }
    );
}

#[test]
fn loops_know_their_elements() {
    let block = "steps: { s: { let: 1 } }";
    let each = |over, item: &str, index: Option<&str>, parallel, on_error| StepKind::Each {
        over,
        item: item.into(),
        index: index.map(Into::into),
        parallel,
        block: FIRST,
        on_error,
        open: false,
    };
    assert_eq!(
        kind(&format!("{{ each: \"${{{{ b }}}}\", {block} }}")),
        each(template("b"), "item", None, Parallel::One, OnError::Fail)
    );
    assert_eq!(
        kind(&format!(
            "{{ each: [1, 2], as: n, index: i, parallel: 10, on_error: collect, {block} }}"
        )),
        each(
            literal("[1,2]"),
            "n",
            Some("i"),
            Parallel::Upto(10),
            OnError::Collect
        )
    );
    assert_eq!(
        kind(&format!("{{ each: [1], parallel: max, {block} }}")),
        each(literal("[1]"), "item", None, Parallel::Max, OnError::Fail)
    );
    assert_eq!(
        kind(&format!("{{ each: [1], parallel: 1, {block} }}")),
        each(literal("[1]"), "item", None, Parallel::One, OnError::Fail)
    );
}

#[test]
fn collect_belongs_to_its_block() {
    let each = with_step("{ each: [1], as: n, steps: { s: { let: 1 } }, collect: \"${{ n }}\" }");
    assert_eq!(each.block(FIRST).collect, Some(template("n")));
    let tried =
        with_step("{ try: { steps: { s: { let: 1 } }, collect: 7 }, finally: { t: { let: 1 } } }");
    assert_eq!(
        (&tried.block(FIRST).collect, tried.block(FIRST).steps.len()),
        (&Some(literal("7")), 1)
    );
    assert_eq!(tried.block(SECOND).collect, None);
}

#[test]
fn others_are_called_and_blocks_are_left() {
    assert_eq!(
        kind("{ workflow: child, with: { n: 1 }, detach: true }"),
        StepKind::Workflow {
            workflow: literal("\"child\""),
            with: literal(r#"{"n":1}"#),
            detach: true
        }
    );
    assert_eq!(
        kind("{ send: { mailbox: w, payload: 1, kind: event, dedupe: true, id: k } }"),
        StepKind::Send {
            to: Recipient::Mailbox,
            target: literal("\"w\""),
            body: literal(r#"{"payload":1,"id":"k","kind":"event","dedupe":true}"#)
        }
    );
    assert_eq!(
        kind("{ send: { run: r, signal: s, value: 5 } }"),
        StepKind::Send {
            to: Recipient::Run,
            target: literal("\"r\""),
            body: literal(r#"{"signal":"s","value":5}"#)
        }
    );
    assert_eq!(
        kind("{ return: \"${{ a }}\" }"),
        StepKind::Return {
            value: template("a")
        }
    );
    assert_eq!(
        kind("{ raise: { type: T, message: m } }"),
        StepKind::Raise {
            error: literal(r#"{"type":"T","message":"m"}"#)
        }
    );
    assert_eq!(
        kind("{ raise: no }"),
        StepKind::Raise {
            error: literal("\"no\"")
        }
    );
    let looped = with_step("{ each: [1], steps: { s: break, t: { continue: } } }");
    let kinds: Vec<&StepKind> = looped
        .block(FIRST)
        .steps
        .iter()
        .map(|step| &step.kind)
        .collect();
    assert_eq!(kinds, [&StepKind::Break, &StepKind::Continue]);
}

#[test]
fn needs_are_inferred_and_added_to() {
    assert_eq!(step("{ let: \"${{ a }}\" }").needs, names(&["a"]));
    assert_eq!(step("{ let: 1, needs: b }").needs, names(&["b"]));
    let after = step("{ let: \"${{ a }}\", follows: [b] }");
    assert_eq!((after.needs, after.follows), (names(&["a"]), names(&["b"])));
    let both = step("{ let: \"${{ a }}\", when: size(b) > 0, set: v }");
    assert_eq!((both.needs.len(), both.set.as_deref()), (2, Some("v")));
    assert_eq!(both.when, Some(expr("size(b) > 0")));
    assert_eq!(
        step("{ if: true, steps: { s: { each: \"${{ b }}\", steps: { t: { let: 1 } } } } }").needs,
        names(&["b"])
    );
}

#[test]
fn conditions_may_be_bare() {
    for text in [
        "when: a > 0",
        "when: \"${{ a > 0 }}\"",
        "when: >\n      a\n      > 0",
    ] {
        let definition = read(&format!(
            "name: t\nsteps:\n  a: {{ let: 1 }}\n  x:\n    let: 1\n    {text}\n"
        ));
        assert_eq!(
            definition.root().step("x").unwrap().when,
            Some(expr("a > 0")),
            "{text}"
        );
    }
}

#[test]
fn texts_keep_the_type_of_one_expression_and_join_others() {
    assert_eq!(
        kind("{ let: \"${{ b }}\" }"),
        StepKind::Let {
            value: template("b")
        }
    );
    assert_eq!(
        kind("{ let: \"$${{ b }}\" }"),
        StepKind::Let {
            value: literal("\"${{ b }}\"")
        }
    );
    let StepKind::Let { value } = kind("{ let: \"n = ${{ a }}!\" }") else {
        panic!("a let")
    };
    assert_eq!(
        value.eval(
            &lope_model::Map::from_iter([("a".into(), Value::Int(5))]),
            &mut expr::Fuel::default()
        ),
        Ok(Value::from("n = 5!"))
    );
}

const fn secs(secs: u64) -> Span {
    Span::from_secs(secs)
}

#[test]
fn every_policy_field_may_stand_on_a_step() {
    let policy = step(
        "{ action: go, retries: 3, backoff: exponential, base_delay: 1s, max_delay: 30s, retry_on: [A], never_retry_on: B, \
         timeout: 20s, deadline: 60s, heartbeat: 5s, on_failure: skip, fallback: { value: 7 }, priority: 9, \
         idempotency_key: \"${{ a }}\", circuit_breaker: { failures: 5, reset: 60s, name: c }, rate_limit: { count: 10, per: 1s }, \
         concurrency: { limit: 2, key: k }, executor: python, durable: true, loss_budget: 4 }",
    )
    .policy;
    let expected = Policy {
        retries: Some(3),
        backoff: Some(Backoff::Exponential),
        base_delay: Some(secs(1)),
        max_delay: Some(secs(30)),
        retry_on: Some(names(&["A"])),
        never_retry_on: Some(names(&["B"])),
        timeout: Some(secs(20)),
        deadline: Some(secs(60)),
        heartbeat: Some(secs(5)),
        on_failure: Some(OnFailure::Skip),
        fallback: Some(Fallback::Value(literal("7"))),
        priority: Some(Priority::HIGHEST),
        idempotency_key: Some(template("a")),
        circuit_breaker: Some(CircuitBreaker {
            failures: 5,
            reset: Span::from_secs(60),
            name: Some("c".into()),
        }),
        rate_limit: Some(RateLimit {
            count: 10,
            per: Span::from_secs(1),
            name: None,
        }),
        concurrency: Some(KeyedConcurrency {
            limit: 2,
            key: Some(literal("\"k\"")),
        }),
        executor: Some("python".into()),
        durable: Some(true),
        loss_budget: Some(4),
    };
    assert_eq!(policy, expected);
}

#[test]
fn policies_have_short_forms_and_presets() {
    let short = step("{ action: go, rate_limit: 10/1s, concurrency: 3, retry_on: A }").policy;
    assert_eq!(
        short.rate_limit,
        Some(RateLimit {
            count: 10,
            per: Span::from_secs(1),
            name: None
        })
    );
    assert_eq!(
        short.concurrency,
        Some(KeyedConcurrency {
            limit: 3,
            key: None
        })
    );
    assert_eq!(short.retry_on, Some(names(&["A"])));
    let preset = step("{ action: go, preset: [network, optional], retries: 1 }").policy;
    assert_eq!(
        (preset.retries, preset.timeout, preset.on_failure),
        (Some(1), Some(secs(30)), Some(OnFailure::Skip))
    );
    let with = step("{ action: go, fallback: { retry_with: { n: 1 } } }")
        .policy
        .fallback;
    assert_eq!(with, Some(Fallback::RetryWith(literal(r#"{"n":1}"#))));
    let other = step("{ action: go, fallback: { action: other, with: \"${{ error.message }}\" } }")
        .policy
        .fallback;
    assert_eq!(
        other,
        Some(Fallback::Action {
            name: "other".into(),
            with: Some(template("error.message"))
        })
    );
}

#[test]
fn rules_match_by_name_kind_action_and_predicate() {
    let definition = read(
        "name: t\npolicies:\n  - match: { step: \"s*\", kind: run, action: go, where: step.path == \"s\" }\n    retries: 1\n  \
         - match: \"x*\"\n    retries: 2\n  - retries: 3\nsteps: { x: { action: go } }\n",
    );
    let matchers: Vec<&Matcher> = definition
        .policies
        .iter()
        .map(|rule| &rule.matcher)
        .collect();
    let full = Matcher {
        step: Some("s*".into()),
        kind: Some("run".into()),
        action: Some("go".into()),
        predicate: Some(expr("step.path == \"s\"")),
        steps: None,
    };
    assert_eq!(
        matchers,
        [&full, &Matcher::named("x*"), &Matcher::default()]
    );
    let retries: Vec<Option<u32>> = definition
        .policies
        .iter()
        .map(|rule| rule.policy.retries)
        .collect();
    assert_eq!(retries, [Some(1), Some(2), Some(3)]);
}

#[test]
fn anchors_and_merges_repeat_what_was_written() {
    let definition = read(
        "name: t\nx-a: &a { retries: 5, timeout: 1s }\nx-b: &b { timeout: 2s, durable: true }\nsteps:\n  \
         x: { action: go, <<: [*a, *b], retries: 1 }\n  y: { action: go, with: &w [1, 2] }\n  z: { let: *w }\n",
    );
    let policy = &definition.root().step("x").unwrap().policy;
    assert_eq!(
        (policy.retries, policy.timeout, policy.durable),
        (Some(1), Some(secs(1)), Some(true))
    );
    assert_eq!(
        definition.root().step("z").unwrap().kind,
        StepKind::Let {
            value: literal("[1,2]")
        }
    );
}

#[test]
fn places_are_kept_for_later_messages_and_do_not_change_the_version() {
    let one = read("name: t\nsteps:\n  x: { let: 1 }\n");
    let two = read("# moved\nname: t\nsteps:\n\n  x:\n    let: 1\n");
    let place = |definition: &Definition| {
        let at = definition.root().steps[0].at;
        (at.line, at.column)
    };
    assert_eq!((place(&one), place(&two)), ((3, 3), (5, 3)));
    assert_eq!(one.version(), two.version());
}

#[test]
fn json_is_yaml_too() {
    let definition =
        read(r#"{"name": "t", "steps": {"x": {"run": ["echo", "${{ input }}"], "retries": 2}}}"#);
    assert_eq!(definition.root().steps[0].policy.retries, Some(2));
}
