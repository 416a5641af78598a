//! Every field of a policy, observed through real steps: engine, threads, journal. Each test quotes
//! the line it holds.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::fixture;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fixture::{EngineFixture, settings, short_lease};
use lope_definition::{Matcher, Rule};
use lope_engine::client::{self, RunStartOptions};
use lope_engine::executor::Task;
use lope_engine::{Settings, codec};
use lope_flow::law::EventKind;
use lope_model::{Failure, Policy, RunId, Span, Timestamp, Value, failure};

type Answer = Option<Result<Value, Failure>>;

#[allow(clippy::unnecessary_wraps, reason = "the shape of every hand's work")]
fn no(message: &str) -> Answer {
    Some(Err(Failure::new("E", message)))
}

#[allow(clippy::unnecessary_wraps, reason = "the shape of every hand's work")]
fn yes(value: impl Into<Value>) -> Answer {
    Some(Ok(value.into()))
}

/// Fails until the attempt with this number.
fn from_attempt(number: u32) -> impl Fn(&Task) -> Answer {
    move |task| {
        if task.token.attempt < number {
            no("not yet")
        } else {
            yes(i64::from(task.token.attempt))
        }
    }
}

/// Actions in the order in which they were started.
#[derive(Clone, Default)]
struct Order(Arc<Mutex<Vec<String>>>);

impl Order {
    fn note(&self, task: &Task) {
        self.0.lock().unwrap().push(task.action.to_string());
    }

    fn taken(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

async fn outcomes(fixture: &EngineFixture, run: RunId) -> Vec<Timestamp> {
    let rows = fixture.rows(run).await;
    rows.into_iter()
        .filter(|(_, kind)| matches!(kind, EventKind::Outcome(_)))
        .map(|(at, _)| at)
        .collect()
}

/// "Retries: fails twice then succeeds with retries 3."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retries() {
    let fixture = EngineFixture::new(from_attempt(3));
    let engine = fixture.engine();
    let run = fixture
        .start(
            &engine,
            "name: r\nsteps: { a: { action: x, retries: 3 } }",
            Value::Null,
        )
        .await;
    assert_eq!(
        (fixture.result(run).await, fixture.calls()),
        (Value::Int(3), 3)
    );
}

/// "Backoff and timeout are really applied and survive a crash.": here that they are applied.
/// "Backoff none/linear/exponential with cap": the delays are really waited.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn backoff_and_its_delays() {
    let fixture = EngineFixture::new(|_| no("never"));
    let engine = fixture.engine();
    let rows = [
        ("none", [0, 0, 0]),
        ("linear", [30, 60, 70]),
        ("exponential", [30, 60, 70]),
        ("jitter", [15, 30, 35]),
    ];
    for (word, least) in rows {
        let yaml = format!(
            "name: b\nsteps: {{ a: {{ action: x, retries: 3, backoff: {word}, base_delay: 30ms, max_delay: 70ms }} }}"
        );
        let run = fixture.start(&engine, &yaml, Value::Null).await;
        fixture.failure(run).await;
        let at = outcomes(&fixture, run).await;
        let waited: Vec<u64> = at
            .windows(2)
            .map(|pair| pair[1].since(pair[0]).millis())
            .collect();
        assert!(
            waited.len() == 3 && waited.iter().zip(least).all(|(is, least)| *is >= least),
            "{word}: {waited:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retry_on_and_never_retry_on() {
    let fixture = EngineFixture::new(|task| Some(Err(Failure::new(&task.action, "no"))));
    let engine = fixture.engine();
    for (action, field, calls) in [
        ("Net", "retry_on: [Net]", 3),
        ("Bug", "retry_on: [Net]", 1),
        ("Bug", "never_retry_on: [Bug]", 1),
    ] {
        let before = fixture.calls();
        let yaml = format!("name: t\nsteps: {{ a: {{ action: {action}, retries: 2, {field} }} }}");
        let run = fixture.start(&engine, &yaml, Value::Null).await;
        fixture.failure(run).await;
        assert_eq!(fixture.calls() - before, calls, "{action} {field}");
    }
}

/// "A timed-out attempt is cancelled in its worker and its late answer ignored."
/// "Timeout 10 ms against 500 ms work: fails as timeout and the work is cancelled."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timeout() {
    let fixture = EngineFixture::new(|_| None);
    let engine = fixture.engine();
    let run = fixture
        .start(
            &engine,
            "name: t\nsteps: { a: { action: x, timeout: 10ms } }",
            Value::Null,
        )
        .await;
    assert!(fixture.failure(run).await.is_a(failure::kind::TIMEOUT));
    assert!(
        fixture.test_executor.kept.lock().unwrap().is_empty(),
        "the work was cancelled"
    );
    let late = EngineFixture::slow(Duration::from_millis(60), |_| yes(1));
    let engine = late.engine();
    let yaml = "
name: late
steps:
  a: { action: x, timeout: 10ms, fallback: { value: 7 } }
  b: { action: y, with: '${{ a }}' }
  c: { action: z, with: '${{ b }}' }
  done: { return: ['${{ a }}', '${{ c }}'] }
";
    let run = late.start(&engine, yaml, Value::Null).await;
    assert_eq!(
        late.result(run).await,
        Value::list(vec![Value::Int(7), Value::Int(1)])
    );
    assert_eq!(
        outcomes(&late, run).await.len(),
        3,
        "the late answer leaves no row"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heartbeat() {
    let fixture = EngineFixture::new(|_| None);
    let engine = fixture.engine();
    let run = fixture
        .start(
            &engine,
            "name: h\nsteps: { a: { action: x, heartbeat: 150ms, timeout: 1m } }",
            Value::Null,
        )
        .await;
    let token = fixture.hanging().await;
    // The time that passes is what this is about: it lives through twice its heartbeat, unless this
    // test itself could not beat in time.
    let begun = Instant::now();
    let mut last = begun;
    while begun.elapsed() < Duration::from_millis(300) {
        match fixture.test_executor.kept.lock().unwrap().get(&token) {
            Some(done) => done.alive(),
            None if last.elapsed() >= Duration::from_millis(150) => break,
            None => panic!("given up although it showed signs of life"),
        }
        last = Instant::now();
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let failure = fixture.failure(run).await;
    assert!(
        failure.is_a(failure::kind::TIMEOUT) && failure.message.contains("sign of life"),
        "{failure:?}"
    );
}

/// "Deadline stops new attempts."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deadline() {
    let fixture = EngineFixture::new(|_| no("never"));
    let engine = fixture.engine();
    let yaml =
        "name: d\nsteps: { a: { action: x, retries: 1000, base_delay: 40ms, deadline: 100ms } }";
    let run = fixture.start(&engine, yaml, Value::Null).await;
    let failure = fixture.failure(run).await;
    assert!(failure.is_a(failure::kind::DEADLINE), "{failure:?}");
    assert!((1..=3).contains(&fixture.calls()), "{}", fixture.calls());
}

/// "`on_failure: skip`: the rest goes on, what needed it is skipped."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_failure() {
    let fixture = EngineFixture::new(|task| {
        if &*task.action == "bad" {
            no("no")
        } else {
            yes("fine")
        }
    });
    let engine = fixture.engine();
    let yaml = "
name: s
steps:
  bad: { action: bad, on_failure: skip }
  needs_it: { action: never, with: '${{ bad }}' }
  other: { action: good }
";
    let run = fixture.start(&engine, yaml, Value::Null).await;
    assert_eq!(fixture.end(run).await.status.as_str(), "completed");
    assert_eq!(fixture.calls(), 2, "what needed it was skipped");
}

/// "Fallback value flows downstream; fallback `retry_with` changes the arguments; a fallback is
/// called once, after the retries."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fallback() {
    let fixture = EngineFixture::new(|task| match (&*task.action, &task.arguments) {
        ("spare", _) => yes("spare"),
        (_, Value::Str(text)) if &**text == "plan b" => yes("b"),
        (_, Value::Str(text)) => yes(format!("got {text}")),
        _ => no("no"),
    });
    let engine = fixture.engine();
    let rows = [
        ("{ value: 7 }", "action: x, with: 1", "7", 2),
        ("{ retry_with: plan b }", "action: x, with: 1", "b", 3),
        ("{ action: spare }", "action: x, with: 1", "spare", 3),
    ];
    for (fallback, step, expected, calls) in rows {
        let before = fixture.calls();
        let yaml = format!(
            "name: f\nsteps:\n  a: {{ {step}, retries: 1, fallback: {fallback} }}\n  b: {{ let: '${{{{ string(a) }}}}' }}\n"
        );
        let run = fixture.start(&engine, &yaml, Value::Null).await;
        assert_eq!(
            (fixture.result(run).await, fixture.calls() - before),
            (Value::from(expected), calls),
            "{fallback}"
        );
    }
}

/// "Runtime overrides on `run` win over the workflow's."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overrides() {
    let fixture = EngineFixture::new(from_attempt(3));
    let engine = fixture.engine();
    let rule = Rule::new(
        Matcher::named("a"),
        Policy {
            retries: Some(5),
            ..Policy::default()
        },
    );
    let options = RunStartOptions {
        input: Some(Value::Null),
        policies: vec![rule],
        ..RunStartOptions::default()
    };
    let run = fixture
        .start_with(
            &engine,
            "name: o\nsteps: { a: { action: x, retries: 0 } }",
            options,
        )
        .await;
    assert_eq!(fixture.result(run).await, Value::Int(3));
}

/// "Matchers: exact name, glob, kind, predicate; first match wins; unmatched gets defaults; presets
/// compose."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn matchers() {
    let fixture = EngineFixture::new(from_attempt(3));
    let engine = fixture.engine();
    let yaml = "
name: m
policies:
  - { match: { step: exact }, retries: 2 }
  - { match: { step: 'glob*' }, retries: 2 }
  - { match: { kind: action, where: \"${{ step.name == 'asked' }}\" }, retries: 2 }
  - { match: { step: exact }, retries: 0 }
steps:
  exact: { action: x }
  globbed: { action: x }
  asked: { action: x }
  other: { action: x, on_failure: skip }
  composed: { action: x, preset: [once, quick] }
";
    let run = fixture.start(&engine, yaml, Value::Null).await;
    let result = fixture.result(run).await;
    for name in ["exact", "globbed", "asked", "composed"] {
        assert_eq!(result.get(name), Some(&Value::Int(3)), "{name}: {result}");
    }
    assert_eq!(result.get("other"), None, "unmatched: no retries");
}

/// "Priority orders the ready set", and "`concurrency: 1` — strict order, observed."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn priority_and_strict_order() {
    let order = Order::default();
    let noted = order.clone();
    let fixture = EngineFixture::slow(Duration::from_millis(2), move |task| {
        noted.note(task);
        yes(1)
    });
    let engine = fixture.engine();
    let yaml = "
name: p
concurrency: 1
steps:
  first: { action: first, priority: 9 }
  low: { action: low, priority: 1 }
  plain: { action: plain }
  high: { action: high, priority: 8 }
";
    let run = fixture.start(&engine, yaml, Value::Null).await;
    fixture.result(run).await;
    assert_eq!(order.taken(), ["first", "high", "plain", "low"]);
    assert_eq!(fixture.peak(), 1);
}

/// "Never more than N at once, under load, with retries waiting."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn never_more_than_n() {
    let fixture = EngineFixture::slow(Duration::from_millis(1), from_attempt(2));
    let engine = fixture.engine();
    let yaml = "
name: n
concurrency: 4
steps: { all: { each: '${{ input }}', as: n, parallel: max, steps: { a: { action: x, retries: 3, base_delay: 1ms } } } }
";
    let numbers = Value::list((0..100).map(Value::Int).collect());
    let run = fixture.start(&engine, yaml, numbers).await;
    fixture.result(run).await;
    assert_eq!((fixture.peak(), fixture.calls()), (4, 200));
}

/// `concurrency` with a key: at most so many at once among those with an equal key, over all runs;
/// others pass.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrency_by_key() {
    let fixture = EngineFixture::slow(Duration::from_millis(5), |_| yes(1));
    let engine = fixture.engine();
    let yaml = "
name: k
steps:
  all:
    each: '${{ range(0, 10) }}'
    as: n
    parallel: max
    steps: { a: { action: x, concurrency: { limit: 1, key: '${{ input }}' } } }
";
    let mut runs = Vec::new();
    for key in ["a", "a", "b"] {
        runs.push(fixture.start(&engine, yaml, Value::from(key)).await);
    }
    for run in runs {
        fixture.result(run).await;
    }
    assert!(fixture.peak() <= 2, "one for each key: {}", fixture.peak());
    assert_eq!(fixture.calls(), 30);
}

/// "Circuit breaker opens, half-opens, closes."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn circuit_breaker() {
    let fixture = EngineFixture::new(from_attempt(3));
    let engine = fixture.engine();
    let yaml = "name: c\nsteps: { a: { action: x, retries: 5, circuit_breaker: { failures: 1, reset: 60ms } } }";
    let run = fixture.start(&engine, yaml, Value::Null).await;
    assert_eq!(
        fixture.result(run).await,
        Value::Int(3),
        "closed again, after a probe that failed and one that did not"
    );
    let rows = fixture.rows(run).await;
    let refused = rows.iter().filter_map(|(at, kind)| match kind {
        EventKind::Refused { until, reason, .. } => {
            Some((until.since(*at).millis(), reason.to_string()))
        }
        _ => None,
    });
    let refused: Vec<(u64, String)> = refused.collect();
    assert!(
        refused.len() >= 2 && refused.iter().all(|(wait, _)| *wait <= 60),
        "{refused:?}"
    );
    assert_eq!(refused[0].1, "the circuit 'x' is open");
    let mut opens = Timestamp::EPOCH;
    for (at, kind) in &rows {
        match kind {
            EventKind::Refused { until, .. } => opens = *until,
            EventKind::Outcome(_) => assert!(*at >= opens, "nothing passes an open circuit"),
            _ => {}
        }
    }
    let calls = fixture.calls();
    let next = fixture
        .start(
            &engine,
            "name: c2\nsteps: { a: { action: y, with: 1 } }",
            Value::Null,
        )
        .await;
    fixture.end(next).await;
    assert_eq!(
        fixture.calls(),
        calls + 1,
        "other actions have other circuits"
    );
}

/// `rate_limit`: at most `count` starts in every `per`, over all runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rate_limit() {
    let fixture = EngineFixture::new(|_| yes(1));
    let engine = fixture.engine();
    let yaml = "
name: l
steps: { all: { each: '${{ range(0, 4) }}', as: n, parallel: max, steps: { a: { action: x, rate_limit: 3/400ms } } } }
";
    let runs = [
        fixture.start(&engine, yaml, Value::Null).await,
        fixture.start(&engine, yaml, Value::Null).await,
    ];
    let mut starts = Vec::new();
    for run in runs {
        fixture.result(run).await;
        let refused = fixture
            .gapless(run)
            .await
            .iter()
            .filter(|event| &***event == "refused")
            .count();
        assert!(
            refused <= 8,
            "each is told its time, and keeps it: {refused}"
        );
        let outcomes = fixture.rows(run).await.into_iter();
        starts.extend(outcomes.filter_map(|(_, kind)| match kind {
            EventKind::Outcome(outcome) => outcome.started_at,
            _ => None,
        }));
    }
    starts.sort_unstable();
    // A start is written down a little after it was allowed; on a slow day much later.
    let close = starts
        .windows(4)
        .filter(|four| four[3].since(four[0]).millis() < 200)
        .count();
    assert_eq!((starts.len(), close), (8, 0), "{starts:?}");
}

/// "Idempotency key: same key, one effect."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idempotency_key() {
    let fixture = EngineFixture::slow(Duration::from_millis(5), |task| {
        yes(task.idempotency_key.clone().unwrap())
    });
    let engine = fixture.engine();
    let yaml = "
name: i
steps: { all: { each: [1, 2, 3], as: n, parallel: max, steps: { a: { action: pay, idempotency_key: '${{ input }}' } } } }
";
    let runs = [
        fixture.start(&engine, yaml, Value::from("k1")).await,
        fixture.start(&engine, yaml, Value::from("k2")).await,
    ];
    for (run, key) in runs.into_iter().zip(["k1", "k2"]) {
        assert_eq!(
            fixture.result(run).await,
            Value::list(vec![Value::from(key); 3])
        );
    }
    assert_eq!(fixture.calls(), 2, "one effect for each key");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn executor() {
    let fixture = EngineFixture::new(|task| yes(task.executor.to_string()));
    let engine = fixture.engine();
    let run = fixture
        .start(
            &engine,
            "name: e\nsteps: { a: { action: x, executor: special } }",
            Value::Null,
        )
        .await;
    assert_eq!(fixture.result(run).await, Value::from("special"));
    let run = fixture
        .start(
            &engine,
            "name: e2\nsteps: { a: { action: x, executor: nobody } }",
            Value::Null,
        )
        .await;
    assert!(
        fixture
            .failure(run)
            .await
            .message
            .contains("no executor for 'nobody'")
    );
}

/// "Execution mode `durable` also journals each dispatch (step, attempt, policy without functions),
/// so that what was dispatched and not completed can be listed."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn durable() {
    let fixture = EngineFixture::new(|task| {
        if &*task.action == "hang" {
            None
        } else {
            yes(1)
        }
    });
    let engine = fixture.engine();
    let yaml = "
name: d
policies: [{ durable: true }]
steps:
  a: { action: quick }
  b: { action: hang, needs: [a] }
";
    let run = fixture.start(&engine, yaml, Value::Null).await;
    let token = fixture.hanging().await;
    assert_eq!(
        client::dispatched(&fixture.store, run).await.unwrap(),
        [(Arc::from("b"), 1)]
    );
    let done = fixture
        .test_executor
        .kept
        .lock()
        .unwrap()
        .remove(&token)
        .unwrap();
    done.finish(Ok(Value::Null), None);
    fixture.end(run).await;
    assert_eq!(client::dispatched(&fixture.store, run).await.unwrap(), []);
    let events = fixture.gapless(run).await;
    let events: Vec<&str> = events.iter().map(|event| &**event).collect();
    assert_eq!(
        events,
        ["start", "dispatched", "outcome", "dispatched", "outcome"]
    );
}

/// "every execution in flight starts a new attempt, counted against its own budget of losses
/// (default 20), after which it fails as `RunnerLost`."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loss_budget() {
    for (own, of_settings) in [("loss_budget: 1", 20), ("retries: 0", 1)] {
        let fixture = EngineFixture::new(|_| None);
        let engine = || {
            fixture.engine_with(Settings {
                loss_budget: of_settings,
                ..short_lease()
            })
        };
        let mut now = engine();
        let yaml = format!("name: l\nsteps: {{ a: {{ action: x, {own} }} }}");
        let run = fixture.start(&now, &yaml, Value::Null).await;
        for attempt in 1..=2 {
            while fixture.hanging().await.attempt < attempt {
                tokio::task::yield_now().await;
            }
            drop(now);
            fixture.test_executor.kept.lock().unwrap().clear();
            now = engine();
        }
        let failure = fixture.failure(run).await;
        assert!(
            failure.is_a(failure::kind::RUNNER_LOST),
            "{own}: {failure:?}"
        );
    }
}

/// "A panicking or killed task does not take the runner down and becomes a failed attempt."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_is_a_failed_attempt() {
    let fixture = EngineFixture::new(|task| {
        if task.token.attempt == 1 {
            panic!("on purpose")
        } else {
            yes(2)
        }
    });
    let engine = fixture.engine();
    let run = fixture
        .start(&engine, "name: x\nsteps: { a: { action: x } }", Value::Null)
        .await;
    assert_eq!(
        fixture.result(run).await,
        Value::Int(2),
        "a lost worker is tried again"
    );
}

/// Everything is bounded: an answer that is too large is a failure of the step, never a stuck run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_is_too_large_fails_its_step() {
    let fixture = EngineFixture::new(|_| yes("x".repeat(70_000)));
    let engine = fixture.engine_with(Settings {
        payload_max: 65_536,
        ..settings()
    });
    let run = fixture
        .start(
            &engine,
            "name: big\nsteps: { a: { action: x } }",
            Value::Null,
        )
        .await;
    let failure = fixture.failure(run).await;
    assert!(
        failure.is_a(failure::kind::LIMIT) && failure.message.contains("65536"),
        "{failure:?}"
    );
}

/// "Start time, worker and log reference ride in the outcome row."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outcome_tells_when_and_by_whom() {
    let fixture = EngineFixture::new(|_| yes(1));
    let engine = fixture.engine();
    let run = fixture
        .start(&engine, "name: w\nsteps: { a: { action: x } }", Value::Null)
        .await;
    fixture.result(run).await;
    let rows = fixture.store.runs.journal(run, 0, 10).await.unwrap();
    let Ok(EventKind::Outcome(outcome)) = codec::kind_of(&rows[1]) else {
        panic!("{rows:?}")
    };
    let started = outcome.started_at.unwrap();
    assert!(
        started >= rows[0].at.minus(Span::from_millis(1)) && started <= rows[1].at,
        "{started} {rows:?}"
    );
    assert_eq!(outcome.worker.as_deref(), Some("hand"));
}
