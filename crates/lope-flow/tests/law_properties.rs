//! Properties over thousands of generated workflows and orders of events, with a second interpreter
//! as the judge.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::oracle;

use std::collections::BTreeMap;

use lope_flow::law::{Event, Plan, Progress, Settled, State, Status, fold};
use lope_model::Value;
use proptest::prelude::*;

use oracle::generate::{Taste, generate};
use oracle::interpret::Interpreter;
use oracle::world::{Lived, Mischief};

const EVERYTHING: Mischief = Mischief {
    junk: true,
    crashes: true,
    pauses: true,
    snapshots: true,
    cancel_after: None,
};

/// How many cases are tried: `LOPE_MORE_CASES=100` tries a hundred times as many.
fn cases(normally: u32) -> ProptestConfig {
    let more = std::env::var("LOPE_MORE_CASES")
        .ok()
        .and_then(|more| more.parse::<u32>().ok())
        .unwrap_or(1);
    ProptestConfig {
        cases: normally * more,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// What is compared of a result: values, but of failures only their type, since which of several
/// that fail at once comes first depends on the order.
fn comparable(result: &Settled) -> String {
    match result {
        Settled::Done(value) => format!("done {}", types_only(value)),
        Settled::Failed(failure) => format!("failed {}", failure.kind),
        Settled::Cancelled => "cancelled".into(),
    }
}

fn types_only(value: &Value) -> Value {
    match value {
        Value::List(items) => Value::list(items.iter().map(types_only).collect()),
        Value::Map(map) => match map.get("error").and_then(|error| error.get("type")) {
            Some(kind) if map.len() == 1 => Value::map([("error", kind.clone())]),
            _ => Value::map(
                map.iter()
                    .map(|(key, value)| (key.clone(), types_only(value))),
            ),
        },
        other => other.clone(),
    }
}

fn planned(seed: u64, taste: Taste) -> Plan {
    let definition = generate(seed, taste);
    Plan::new(&definition)
        .unwrap_or_else(|problems| panic!("{problems:#?}\n{}", definition.to_json()))
}

fn expected(plan: &Plan, inputs: &[Value]) -> BTreeMap<String, String> {
    let mut judge = Interpreter::new(plan.definition());
    inputs
        .iter()
        .enumerate()
        .map(|(index, input)| (index.to_string(), comparable(&judge.run(input.clone()))))
        .collect()
}

fn got(lived: &Lived<'_>) -> BTreeMap<String, String> {
    lived
        .results
        .iter()
        .map(|(input, result)| (input.clone(), comparable(result)))
        .collect()
}

fn folded(plan: &Plan, mut state: State, events: &[Event]) -> State {
    for event in events {
        let progress = fold(plan, &mut state, event.clone(), &mut Vec::new());
        assert_eq!(progress, Progress::Done);
    }
    state
}

proptest! {
    #![proptest_config(cases(1_500))]

    /// The law and the judge agree, in whatever order the world answers, however often it stumbles.
    #[test]
    fn the_result_is_that_of_the_second_interpreter(seed in any::<u64>(), order in any::<u64>(), input in 0_i64..100) {
        let plan = planned(seed, Taste::ALL);
        let inputs = [Value::Int(input)];
        let mut lived = Lived::new(&plan, order);
        lived.start(&inputs);
        lived.live(EVERYTHING);
        prop_assert_eq!(got(&lived), expected(&plan, &inputs));
        prop_assert!(lived.state.status().is_final());
        if lived.state.status() != Status::Failed {
            prop_assert_eq!(lived.state.live(), 0);
        }
        prop_assert_eq!(lived.state.next_wake(), None);
    }
}

proptest! {
    #![proptest_config(cases(400))]

    /// "Hydrate: definition from its version (cached), snapshot, journal after it; the fold gives
    /// the same state as before." The fold of the journal is the state, at every cut.
    #[test]
    fn a_snapshot_and_the_rest_are_the_whole(seed in any::<u64>(), order in any::<u64>()) {
        let plan = planned(seed, Taste::ALL);
        let mut lived = Lived::new(&plan, order);
        lived.start(&[Value::Int(7)]);
        lived.live(Mischief { crashes: true, pauses: true, ..Mischief::default() });
        prop_assert_eq!(&folded(&plan, State::new(&plan), &lived.journal), &lived.state);
        let mut before = State::new(&plan);
        for (cut, event) in lived.journal.iter().enumerate() {
            let mut blobs = Vec::new();
            let bytes = before.clone().encode(&mut blobs);
            let blob = |digest| blobs.iter().find(|blob| blob.digest == digest).map(|blob| blob.bytes.clone());
            let read = State::decode(&bytes, blob).unwrap();
            prop_assert_eq!(&read, &before);
            if cut % 7 == 3 {
                prop_assert_eq!(&folded(&plan, read, &lived.journal[cut..]), &lived.state, "cut at {}", cut);
            }
            fold(&plan, &mut before, event.clone(), &mut Vec::new());
        }
    }

    /// Inputs fed at once give what they give one after the other; accumulators see them in order.
    #[test]
    fn inputs_do_not_mix_and_accumulate_in_order(seed in any::<u64>(), order in any::<u64>(), count in 2_i64..6) {
        let plan = planned(seed, Taste::INPUTS);
        let inputs: Vec<Value> = (0..count).map(|number| Value::Int(number * 13 % 7)).collect();
        let mut lived = Lived::new(&plan, order);
        lived.start(&inputs);
        lived.live(EVERYTHING);
        prop_assert_eq!(got(&lived), expected(&plan, &inputs));
        prop_assert_eq!(lived.state.status(), Status::Completed);
        prop_assert_eq!(lived.state.live(), 0);
    }

    /// A cancel always ends a run, and leaves nothing behind.
    #[test]
    fn a_cancel_always_ends(seed in any::<u64>(), order in any::<u64>(), after in 0_usize..40) {
        let plan = planned(seed, Taste::ALL);
        let mut lived = Lived::new(&plan, order);
        lived.start(&[Value::Int(3)]);
        lived.live(Mischief { cancel_after: Some(after), ..EVERYTHING });
        prop_assert!(lived.state.status().is_final(), "{:?}", lived.state.status());
        if lived.state.status() == Status::Cancelled {
            prop_assert_eq!((lived.state.live(), lived.state.load()), (0, (0, 0)));
        }
    }

    /// A forced cancel ends a run at once.
    #[test]
    fn a_forced_cancel_ends_at_once(seed in any::<u64>(), order in any::<u64>()) {
        let plan = planned(seed, Taste::ALL);
        let mut lived = Lived::new(&plan, order);
        lived.start(&[Value::Int(3)]);
        let ended = lived.state.status().is_final();
        let progress = lived.event(lope_flow::law::EventKind::Cancel { force: true });
        prop_assert_eq!(progress == Progress::Ignored, ended);
        prop_assert!(lived.state.status().is_final());
        if !ended {
            prop_assert_eq!((lived.state.status(), lived.state.live()), (Status::Cancelled, 0));
        }
    }

    /// A run that failed goes on where it failed: what is done is not run again, and the result is
    /// what it would have been.
    #[test]
    fn a_retry_goes_on_where_it_failed(seed in any::<u64>(), order in any::<u64>()) {
        let plan = planned(seed, Taste::FRAGILE);
        let mut judge = Interpreter::new(plan.definition());
        judge.mended = true;
        let mended = comparable(&judge.run(Value::Int(5)));
        let mut lived = Lived::new(&plan, order);
        lived.start(&[Value::Int(5)]);
        lived.live(Mischief { snapshots: true, ..Mischief::default() });
        if lived.state.status() == Status::Failed {
            lived.mended = true;
            prop_assert_eq!(lived.retry(), Progress::Done);
            lived.live(Mischief { snapshots: true, ..Mischief::default() });
        }
        prop_assert_eq!(&got(&lived)["0"], &mended);
        prop_assert_eq!(lived.state.live(), 0);
    }

    /// Stored definitions come back as they were and keep their version.
    #[test]
    fn definitions_are_stored_whole(seed in any::<u64>()) {
        let definition = generate(seed, Taste::INPUTS);
        let (bytes, text) = (definition.encode(), definition.to_json());
        let read = lope_definition::Definition::decode(&bytes).unwrap();
        prop_assert_eq!(&read, &definition);
        prop_assert_eq!(&lope_definition::Definition::from_json(&text).unwrap(), &definition);
        prop_assert_eq!(read.version(), definition.version());
        let canonical = definition.canonical();
        prop_assert_eq!(&canonical.canonical(), &canonical);
        prop_assert_eq!(canonical.version(), Plan::new(&definition).unwrap().version());
    }
}
