//! The example workflows check clean and fold to their expected results with a scripted world.
//!
//! `examples/expected/NAME.json` holds one case or a list of them: `input` (or `inputs`), the
//! outcome of the attempts of each step by path (one, or one after the other; the last is
//! repeated), children by workflow, signals, and what is expected: `result` (or `results`),
//! `status`, `error`, the arguments that were `dispatched`, the children `started`, what was
//! `sent`, and when the run ended (`ends_at`; time starts at 1970 and jumps).

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use lope_definition::{Recipient, yaml};
use lope_flow::law::{
    Dispatch, Driven, Plan, Send, Settled, StartChild, Status, World, drive_with,
};
use lope_model::{Failure, Value};
use serde_json::{Value as Json, json};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

/// The names of all examples.
fn examples() -> Vec<String> {
    let entries = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let files = entries.filter(|path| path.extension().is_some_and(|ext| ext == "yaml"));
    let mut names: Vec<String> = files
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    names
}

fn read(name: &str) -> (String, lope_definition::Definition) {
    let file_name = format!("examples/{name}.yaml");
    let text = std::fs::read_to_string(folder().join(format!("{name}.yaml"))).unwrap();
    match yaml::read(&text, &file_name) {
        Ok(definition) => (text, definition),
        Err(problems) => panic!(
            "{}",
            yaml::ProblemReport {
                file_name: &file_name,
                text: &text,
                problems: &problems
            }
        ),
    }
}

/// Answers as an expectation says, and remembers what was asked.
#[derive(Default)]
struct Script {
    case: Json,
    dispatched: BTreeMap<String, Vec<Json>>,
    started: BTreeMap<String, Vec<Json>>,
    sent: Vec<Json>,
}

impl Script {
    fn answer(&self, group: &str, key: &str, nth: usize) -> Settled {
        match &self.case[group][key] {
            Json::Array(several) => settled(
                several
                    .get(nth)
                    .or(several.last())
                    .expect("a list of outcomes is not empty"),
            ),
            Json::Null => panic!("the expectation has no {group} for '{key}'"),
            one => settled(one),
        }
    }
}

impl World for Script {
    fn attempt(&mut self, dispatch: &Dispatch) -> Settled {
        let asked = self
            .dispatched
            .entry(dispatch.step.to_string())
            .or_default();
        asked.push(to_json(&dispatch.with));
        let nth = asked.len() - 1;
        self.answer("attempts", &dispatch.step, nth)
    }

    fn child(&mut self, child: &StartChild) -> Settled {
        let asked = self.started.entry(child.workflow.to_string()).or_default();
        asked.push(to_json(&child.input));
        let nth = asked.len() - 1;
        if child.detached {
            Settled::Done(Value::Null)
        } else {
            self.answer("children", &child.workflow, nth)
        }
    }

    fn signal(&mut self, name: &str) -> Option<Value> {
        self.case["signals"].get(name).map(from_json)
    }

    fn sent(&mut self, send: &Send) {
        let to = match send.to {
            Recipient::Mailbox => "mailbox",
            Recipient::Run => "run",
        };
        self.sent
            .push(json!({ "to": to, "target": &*send.target, "body": to_json(&send.body) }));
    }
}

fn settled(outcome: &Json) -> Settled {
    match outcome.get("fail") {
        Some(failure) => Settled::failed(Failure::new(
            failure["type"].as_str().expect("a failure has a type"),
            failure["message"].as_str().unwrap_or_default(),
        )),
        None => Settled::Done(from_json(&outcome["done"])),
    }
}

fn to_json(value: &Value) -> Json {
    serde_json::from_str(&lope_model::value::to_json(value)).unwrap()
}

fn from_json(value: &Json) -> Value {
    lope_model::value::from_json(&value.to_string()).unwrap()
}

fn fold(name: &str, case: &Json) {
    let (_, definition) = read(name);
    let plan = Plan::new(&definition).unwrap_or_else(|problems| panic!("{name}: {problems:?}"));
    let inputs = match case.get("inputs").and_then(Json::as_array) {
        Some(inputs) => inputs.iter().map(from_json).collect(),
        None => vec![from_json(&case["input"])],
    };
    let mut script = Script {
        case: case.clone(),
        ..Script::default()
    };
    let driven = drive_with(&plan, inputs, &mut script);
    check_end(name, case, &driven);
    for (group, found) in [
        ("dispatched", &script.dispatched),
        ("started", &script.started),
    ] {
        for (key, expected) in case[group].as_object().into_iter().flatten() {
            assert_eq!(
                found.get(key).map(|found| json!(found)).as_ref(),
                Some(expected),
                "{name}: {group} '{key}'"
            );
        }
    }
    assert_eq!(
        json!(script.sent),
        case.get("sent").cloned().unwrap_or_else(|| json!([])),
        "{name}: sent"
    );
}

fn check_end(name: &str, case: &Json, driven: &Driven) {
    let failed = case["status"] == "failed";
    assert_eq!(
        driven.status(),
        if failed {
            Status::Failed
        } else {
            Status::Completed
        },
        "{name}: {:?}",
        driven.results
    );
    if let Some(ends_at) = case["ends_at"].as_str() {
        assert_eq!(
            driven.journal.last().unwrap().at.to_string(),
            ends_at,
            "{name}: end"
        );
    }
    if let Some(results) = case.get("results") {
        let found: Vec<Json> = driven
            .results
            .iter()
            .map(|(_, result)| result_of(result))
            .collect();
        assert_eq!(&json!(found), results, "{name}");
    } else if failed {
        let Some(Settled::Failed(failure)) = driven.result() else {
            panic!("{name}: no failure")
        };
        let found = json!({ "type": &*failure.kind, "message": failure.message });
        assert_eq!(found, case["error"], "{name}");
    } else {
        assert_eq!(
            driven.result().map(result_of).as_ref(),
            case.get("result"),
            "{name}"
        );
    }
}

fn result_of(result: &Settled) -> Json {
    match result {
        Settled::Done(value) => to_json(value),
        Settled::Failed(failure) => json!({ "error": failure.message }),
        Settled::Cancelled => json!("cancelled"),
    }
}

#[test]
fn every_example_folds_to_its_expected_result() {
    let names = examples();
    assert!(names.len() >= 30, "only {} examples", names.len());
    for name in names {
        let file = folder().join(format!("expected/{name}.json"));
        let text = std::fs::read_to_string(&file)
            .unwrap_or_else(|_| panic!("{} is missing", file.display()));
        match serde_json::from_str(&text).unwrap() {
            Json::Array(cases) => cases.iter().for_each(|case| fold(&name, case)),
            case => fold(&name, &case),
        }
    }
}

#[test]
fn every_example_says_what_it_shows_and_is_named_after_it() {
    for name in examples() {
        let (text, definition) = read(&name);
        assert!(text.starts_with("# "), "{name} has no comment at its top");
        assert_eq!(&*definition.name, name);
    }
}
