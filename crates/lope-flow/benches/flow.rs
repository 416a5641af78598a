//! What the law costs: per event of a sequential run, per element of a fan-out, per event of a
//! replay, and what state weighs.
//!
//! Whole passes, the best of a few, in time on the processor where the system tells it (so that a
//! busy machine counts less): `cargo xtask bench flow`. Figures depend on the machine; the ratios
//! (first to last tenth, small to large) should not.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lope_definition::{Block, Definition, OnError, Parallel, Step, StepKind};
use lope_expr::{Fuel, Template, eval, parse};
use lope_flow::law::{Effect, Event, EventKind, Fed, Outcome, Plan, Settled, Start, State, fold};
use lope_model::{Epoch, Map, RunId, Timestamp, Value};

const EVENTS: u64 = 1_000_000;

fn main() {
    sequential();
    fan_out();
    replay();
    expression();
}

/// Time that this thread has spent working.
fn now() -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = told
        .as_deref()
        .and_then(|text| text.split(' ').next())
        .and_then(|nanos| nanos.parse().ok());
    nanos.map_or_else(|| BEGAN.elapsed(), Duration::from_nanos)
}

static BEGAN: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);

fn template(text: &str) -> Template {
    Template::new(parse(text).expect("the expressions here are right"))
}

fn plan(definition: &Definition) -> Plan {
    Plan::new(definition).unwrap_or_else(|problems| panic!("{problems:?}"))
}

/// A loop of one action: an outcome leads to the next dispatch.
fn rounds() -> Plan {
    let mut definition = Definition::new("rounds");
    let work = Step::action("work", "work", template("n"));
    let count = Step::new(
        "count",
        StepKind::Let {
            value: template("n + 1"),
        },
    )
    .set("n")
    .needs(&["work"]);
    let block = definition.add_block(Block::of(vec![work, count]));
    let zero = Step::new(
        "zero",
        StepKind::Let {
            value: template("0"),
        },
    )
    .set("n");
    let rounds = Step::new(
        "rounds",
        StepKind::While {
            when: parse("n < input").expect("it is right"),
            block,
            max: None,
        },
    );
    definition.root_mut().steps = vec![zero, rounds];
    plan(&definition)
}

fn fan() -> Plan {
    let mut definition = Definition::new("fan");
    let block = definition.add_block(Block::of(vec![Step::action("work", "work", template("x"))]));
    let (over, item, index) = (template("input"), "x".into(), None);
    let each = StepKind::Each {
        over,
        item,
        index,
        parallel: Parallel::Max,
        block,
        on_error: OnError::Fail,
        open: false,
    };
    definition.root_mut().steps = vec![Step::new("fan", each)];
    plan(&definition)
}

fn start(input: Value) -> Event {
    let run = RunId::from_parts(Timestamp::EPOCH, [1; 10]);
    let input = Some(Fed::new("1", input));
    let start = Start {
        run,
        law: lope_flow::LAW,
        seed: 1,
        epoch: Epoch(1),
        open: false,
        env: Value::Null,
        input,
    };
    Event::new(Timestamp::EPOCH, EventKind::Start(Box::new(start)))
}

fn outcome(execution: &Arc<str>, attempt: u32) -> Event {
    Event::new(
        Timestamp::EPOCH,
        EventKind::Outcome(Box::new(Outcome {
            execution: Arc::clone(execution),
            attempt,
            epoch: Epoch(1),
            result: Settled::Done(Value::Int(1)),
            started_at: None,
            worker: None,
            log: None,
        })),
    )
}

fn size(state: &State) -> usize {
    let mut blobs = Vec::new();
    state.clone().encode(&mut blobs).len()
        + blobs.iter().map(|blob| blob.bytes.len()).sum::<usize>()
}

/// Answers every dispatch until nothing is left; calls `at` before each tenth, `row` with each
/// event.
fn answer_all(
    plan: &Plan,
    state: &mut State,
    events: u64,
    mut at: impl FnMut(u64, &State),
    mut row: impl FnMut(&Event),
) {
    let mut effects = Vec::new();
    let mut pending: std::collections::VecDeque<(Arc<str>, u32)> =
        std::collections::VecDeque::new();
    let mut done = 0;
    let mut event = None;
    loop {
        for effect in effects.drain(..) {
            if let Effect::Dispatch(dispatch) = effect {
                pending.push_back((dispatch.execution, dispatch.attempt));
            }
        }
        if done % (events / 10).max(1) == 0 {
            at(done, state);
        }
        if let Some((execution, attempt)) = pending.pop_front() {
            event.replace(outcome(&execution, attempt));
        } else if done == 0 {
            effects.extend(state.outstanding(plan));
            done += 1;
            continue;
        }
        let Some(event) = event.take() else { return };
        row(&event);
        fold(plan, state, event, &mut effects);
        done += 1;
    }
}

fn sequential() {
    let plan = rounds();
    let mut state = State::new(&plan);
    fold(
        &plan,
        &mut state,
        start(Value::Int(EVENTS as i64)),
        &mut Vec::new(),
    );
    let (mut laps, mut sizes, mut last) = (Vec::new(), Vec::new(), now());
    let at = |done: u64, state: &State| {
        if done > 0 {
            laps.push(now().saturating_sub(last));
        }
        if !state.status().is_final() {
            sizes.push(size(state));
        }
        last = now();
    };
    answer_all(&plan, &mut state, EVENTS, at, |_| {});
    let per = |lap: Duration| lap.as_nanos() as f64 / (EVENTS / 10) as f64;
    let total: f64 =
        laps.iter().take(10).map(|lap| per(*lap)).sum::<f64>() / laps.len().min(10) as f64;
    println!("sequential: {EVENTS} events, {total:.0} ns an event (aim: 2,000)");
    println!(
        "  first tenth {:.0} ns, last tenth {:.0} ns",
        per(laps[0]),
        per(laps[laps.len().min(10) - 1])
    );
    println!(
        "  state: {} bytes early, {} bytes late",
        sizes[1],
        sizes[sizes.len() - 1]
    );
}

fn fan_out() {
    let plan = fan();
    let per_element = |width: i64| {
        let items = Value::list((0..width).map(Value::Int).collect());
        let passes = 200_000 / width;
        let best = (0..5).map(|_| {
            let began = now();
            for _ in 0..passes {
                let mut state = State::new(&plan);
                fold(&plan, &mut state, start(items.clone()), &mut Vec::new());
                answer_all(&plan, &mut state, width as u64, |_, _| {}, |_| {});
                assert!(state.status().is_final());
            }
            now().saturating_sub(began)
        });
        best.min()
            .map_or(0.0, |best| best.as_nanos() as f64 / (width * passes) as f64)
    };
    let (small, large) = (per_element(1_000), per_element(100_000));
    println!(
        "fan-out: {small:.0} ns an element of 1,000, {large:.0} ns of 100,000: {:.2} times (aim: 1.5)",
        large / small
    );
}

fn replay() {
    let plan = rounds();
    let mut state = State::new(&plan);
    let first = start(Value::Int(100_000));
    fold(&plan, &mut state, first.clone(), &mut Vec::new());
    let mut journal = vec![first];
    answer_all(
        &plan,
        &mut state,
        100_000,
        |_, _| {},
        |event| journal.push(event.clone()),
    );
    let rows: Vec<Vec<u8>> = journal
        .iter()
        .map(|event| event.clone().encode(&mut Vec::new()))
        .collect();
    let bytes: usize = rows.iter().map(Vec::len).sum();
    let began = now();
    let mut again = State::new(&plan);
    let mut effects = Vec::new();
    for row in &rows {
        let event = Event::decode(row, |_| None).expect("a row that was written can be read");
        fold(&plan, &mut again, event, &mut effects);
        effects.clear();
    }
    let took = now().saturating_sub(began);
    assert_eq!(again.digest(), state.digest());
    println!(
        "replay: {} rows ({} bytes each) read and folded in {:.0} ms (aim: 500)",
        rows.len(),
        bytes / rows.len(),
        took.as_secs_f64() * 1_000.0
    );
}

fn expression() {
    let expr = parse("x.total > 100 && y == \"a\"").expect("it is right");
    let mut names = Map::new();
    names.insert("x".into(), Value::map([("total", Value::Int(150))]));
    names.insert("y".into(), Value::str("a"));
    let rounds = 1_000_000;
    let best = (0..5).map(|_| {
        let began = now();
        for _ in 0..rounds {
            let mut fuel = Fuel::default();
            black_box(eval(black_box(&expr), &names, &mut fuel).expect("it holds"));
        }
        now().saturating_sub(began)
    });
    let nanos = best
        .min()
        .map_or(0.0, |best| best.as_nanos() as f64 / f64::from(rounds));
    println!("expression: {nanos:.0} ns (aim: 1,000)");
}
