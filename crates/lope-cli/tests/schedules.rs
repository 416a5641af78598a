//! Schedules from the command line: what the guide says, and what a stranger would try.
//!
//! "Cron (with time zone and DST), interval, jitter, start/end, pause, overlap policy (skip, queue,
//! cancel-other, allow), catch-up policy for missed fires; a fire and its run are one transaction,
//! so two runners never both fire a tick."

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::stage;

use serde_json::{Value, json};
use stage::Home;

const HI: &str = "{ name: hi, steps: { say: { run: 'echo hi' } } }";

#[test]
fn every_command_of_the_guide_prints_what_the_guide_says() {
    assert_eq!(stage::guide("schedules.md"), 2);
}

fn show(home: &Home, name: &str) -> Value {
    home.lope(&["schedules", "show", name, "--json"])
        .done()
        .json()
}

const DAILY: &str = "every day at 03:00 Europe/Berlin";

#[test]
fn a_schedule_is_added_shown_steered_and_removed() {
    let home = Home::new();
    let file = home.file("hi.yaml", HI);
    let said = home
        .lope(&[
            "schedules",
            "add",
            "nightly",
            &file,
            "--cron",
            "0 3 * * *",
            "--zone",
            "europe/berlin",
        ])
        .done();
    assert!(
        said.out
            .starts_with("nightly: hi, 0 3 * * * Europe/Berlin, first at "),
        "{said:?}"
    );
    assert!(said.err.contains("no runner is up"), "{said:?}");
    let args = [
        "schedules",
        "add",
        "often",
        "hi",
        "--every",
        "90s",
        "--jitter",
        "5s",
        "--overlap",
        "cancel-other",
    ];
    let more = [
        "--catch-up",
        "none",
        "--input",
        "{\"n\": 1}",
        "--tag",
        "team=blue",
        "--queue",
        "q",
        "--priority",
        "7",
        "--json",
    ];
    let added = home.lope(&[&args[..], &more[..]].concat()).done().json();
    for (field, value) in [
        ("every", json!("1m30s")),
        ("jitter", json!("5s")),
        ("overlap", json!("cancel-other")),
        ("catch_up", json!("none")),
        ("input", json!({ "n": 1 })),
        ("tags", json!({ "team": "blue" })),
        ("queue", json!("q")),
        ("priority", json!(7)),
        ("status", json!("active")),
        (
            "counts",
            json!({ "fired": 0, "skipped": 0, "missed": 0, "failed": 0 }),
        ),
        ("error", Value::Null),
    ] {
        assert_eq!(added[field], value, "{field}: {added}");
    }
    let shown = show(&home, "nightly");
    assert_eq!(shown["upcoming"].as_array().unwrap().len(), 5, "{shown}");
    let listed = home.lope(&["schedules", "list"]).done().out;
    let nightly = listed.lines().find(|line| line.starts_with("nightly"));
    assert!(
        nightly
            .is_some_and(|line| line.contains("0 3 * * * Europe/Berlin") && line.contains(DAILY)),
        "{listed}"
    );
    // An interval is in words as it is.
    assert_eq!(listed.matches("every 1m30s").count(), 1, "{listed}");
    let told = home.lope(&["schedules", "show", "nightly"]).done().out;
    assert!(told.contains(&format!("in words   {DAILY}")), "{told}");
    let all = home.lope(&["schedules", "list", "--json"]).done().json();
    assert_eq!(all[0]["in_words"], DAILY);
    let names: Vec<&str> = all
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["nightly", "often"]);
    assert_eq!(
        home.lope(&["schedules", "pause", "often", "--json"])
            .done()
            .json()["status"],
        "paused"
    );
    assert_eq!(
        (
            show(&home, "often")["next_at"].clone(),
            show(&home, "often")["upcoming"].clone()
        ),
        (Value::Null, json!([]))
    );
    assert_eq!(
        home.lope(&["schedules", "resume", "often", "--json"])
            .done()
            .json()["status"],
        "active"
    );
    let replaced = [
        "schedules",
        "add",
        "often",
        "hi",
        "--cron",
        "@hourly",
        "--replace",
        "--paused",
        "--json",
    ];
    let replaced = home.lope(&replaced).done().json();
    assert_eq!(
        (&replaced["cron"], &replaced["status"]),
        (&json!("@hourly"), &json!("paused"))
    );
    home.lope(&["schedules", "remove", "often"]).done();
    assert_eq!(home.lope(&["schedules", "show", "often"]).code, 1);
}

#[test]
fn a_runner_fires_and_says_what_went_wrong() {
    let home = Home::new();
    let file = home.file("hi.yaml", HI);
    home.lope(&["workflows", "deploy", &file]).done();
    home.lope(&["schedules", "add", "good", "hi", "--every", "1s"])
        .done();
    let strict = "{ name: strict, input: { type: object }, steps: { a: { let: 1 } } }";
    let loose = home.file(
        "strict.yaml",
        &strict.replace("input: { type: object }, ", ""),
    );
    home.lope(&["schedules", "add", "bad", &loose, "--every", "1s"])
        .done();
    // By the time it fires, its workflow takes no such input any more.
    home.lope(&["workflows", "deploy", &home.file("strict.yaml", strict)])
        .done();
    let mut up = home.command(&["up", "-q"]).spawn().unwrap();
    let _watch = stage::Watch::over(&up);
    stage::until("it fires", || {
        show(&home, "good")["counts"]["fired"].as_u64() >= Some(2)
    });
    stage::until("it says why not", || !show(&home, "bad")["error"].is_null());
    up.kill().unwrap();
    up.wait().unwrap();
    let bad = show(&home, "bad");
    assert!(
        bad["error"]["message"]
            .as_str()
            .unwrap()
            .contains("expected object"),
        "{bad}"
    );
    assert_eq!(bad["counts"]["fired"], 0);
    let said = home.lope(&["schedules", "show", "bad"]).done().out;
    assert!(said.contains("error      the input does not fit"), "{said}");
    let runs = home
        .lope(&["runs", "list", "--tag", "schedule=good", "--json"])
        .done()
        .json();
    let run = &runs[0];
    assert_eq!(run["tags"]["schedule"], "good");
    assert!(
        run["tags"]["tick"].as_str().unwrap() <= run["admitted_at"].as_str().unwrap(),
        "{run}"
    );
    let shown = home
        .lope(&["runs", "show", run["run_id"].as_str().unwrap()])
        .done()
        .out;
    assert!(shown.contains("schedule=good"), "{shown}");
}
