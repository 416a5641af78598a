//! Several processes and one store of reactive spaces: runners that die, writers that write at once.

use std::process::{Child, Stdio};

use serde_json::{Value, json};

use crate::fixture::spaces::{SpaceRig, example, on_both_stores, schema};
use crate::stage::until;

on_both_stores! {
    a_hundred_writers_in_ten_processes_lose_nothing => super::writers;
    what_is_read_in_another_space_is_followed => super::elsewhere;
}

/// "two runners on Postgres, one killed: its spaces move and go on"
#[test]
fn of_two_runners_one_is_killed_and_its_spaces_move_and_go_on() {
    let Some(url) = schema("spaces_move") else {
        return;
    };
    let mut rig = SpaceRig::new(Some(&url));
    let spaces: Vec<String> = (0..8).map(|number| format!("s{number}")).collect();
    for space in &spaces {
        let into = format!("{space}/counter");
        rig.lope(&["recipes", "run", &example("counter.yaml"), "--into", &into]);
    }
    // Long enough for a machine that stands still, short enough to be lost in a test.
    let lease = [("LOPE_ENGINE_LEASE", "10s")];
    let first = rig.up(&lease);
    let second = rig.up(&lease);
    let host_of = |rig: &SpaceRig, space: &str| -> Option<String> {
        let listed = rig.lope(&["--json", "recipes", "list", space]);
        let listed: Value = serde_json::from_str(&listed).unwrap();
        listed[0]["host"].as_str().map(str::to_owned)
    };
    let send = |rig: &SpaceRig, space: &str, id: &str| {
        let stream = format!("{space}/counter/add");
        rig.lope(&["streams", "send", &stream, "1", "--id", id, "--no-wait"]);
    };
    for space in &spaces {
        send(&rig, space, "one");
    }
    until("somebody hosts every space", || {
        spaces.iter().all(|space| host_of(&rig, space).is_some())
    });
    // The one that has most of them dies.
    let mut hosts: Vec<String> = spaces
        .iter()
        .filter_map(|space| host_of(&rig, space))
        .collect();
    hosts.sort();
    hosts.dedup();
    let of_process = |host: &str, process: u32| {
        let mark = host.split('/').next().unwrap();
        mark.split(|part: char| !part.is_ascii_digit())
            .any(|part| part == process.to_string())
    };
    let has = |runner: u32| hosts.iter().any(|host| of_process(host, runner));
    let (dead, alive) = if has(rig.process(first)) {
        (first, second)
    } else {
        (second, first)
    };
    assert!(has(rig.process(dead)), "{hosts:?}");
    let process = rig.process(dead);
    rig.kill(dead);
    for space in &spaces {
        send(&rig, space, "two");
        send(&rig, space, "one");
    }
    for space in &spaces {
        let cell = format!("{space}/counter/count");
        until("its space goes on", || rig.find(&cell) == Some(json!(2)));
        assert_eq!(rig.get(&format!("{space}/counter/double")), json!(4));
        let host = host_of(&rig, space);
        assert!(
            host.is_none_or(|host| !of_process(&host, process)),
            "it moved"
        );
    }
    assert!(rig.is_up(alive), "the other one works on");
    assert!(rig.lope(&["store", "check"]).contains("is sound"));
}

/// Ten processes at once, ten writes each, while nobody else hosts the space.
fn writers(rig: SpaceRig) {
    rig.lope(&[
        "recipes",
        "run",
        &example("counter.yaml"),
        "--into",
        "home/counter",
    ]);
    rig.lope(&["cells", "set", "home/log", "[]"]);
    let script = "for i in 0 1 2 3 4; do \"$LOPE\" streams send home/counter/add 1 --id $1-$i && \"$LOPE\" cells set home/log $1$i --append || exit 1; done";
    let script = rig.file("writer.sh", script);
    let writer = |number: usize| -> Child {
        let mut command = rig.command(&[]);
        let environment: Vec<_> = command
            .get_envs()
            .filter_map(|(key, value)| Some((key.to_owned(), value?.to_owned())))
            .collect();
        command = std::process::Command::new("sh");
        command
            .arg(&script)
            .arg((number + 1).to_string())
            .env_clear()
            .envs(environment);
        command
            .env("LOPE", env!("CARGO_BIN_EXE_lope"))
            .current_dir(rig.path(""));
        command
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap()
    };
    let writers: Vec<Child> = (0..10).map(writer).collect();
    for mut writer in writers {
        assert!(writer.wait().unwrap().success());
    }
    assert_eq!(rig.get("home/counter/count"), json!(50));
    assert_eq!(rig.get("home/counter/double"), json!(100));
    let mut log: Vec<i64> = serde_json::from_value(rig.get("home/log")).unwrap();
    log.sort_unstable();
    let mut expected: Vec<i64> = (1..=10)
        .flat_map(|writer| (0..5).map(move |i| format!("{writer}{i}").parse().unwrap()))
        .collect();
    expected.sort_unstable();
    assert_eq!(log, expected, "each of a hundred writes, once");
}

fn elsewhere(mut rig: SpaceRig) {
    rig.lope(&["cells", "set", "shop/price", "4"]);
    let id: Value =
        serde_json::from_str(&rig.lope(&["--json", "cells", "history", "shop/price"])).unwrap();
    let id = id[0]["cell"]
        .as_str()
        .unwrap()
        .split('/')
        .nth(1)
        .unwrap()
        .to_owned();
    let recipe = "result: { out: { $alias: internal/out } }\nnodes:\n  - module: { type: javascript, implementation: '({x}) => x * 2' }\n    inputs: { x: { $alias: argument/x } }\n    outputs: { $alias: internal/out }\n";
    let recipe = rig.file("double.yaml", recipe);
    let argument = json!({ "x": { "/": { "link@1": { "space": "shop", "id": id } } } });
    rig.lope(&[
        "recipes",
        "run",
        &recipe,
        "--into",
        "home/total",
        "--argument",
        &argument.to_string(),
    ]);
    assert_eq!(rig.find("home/total/out"), Some(json!(8)));
    rig.up(&[]);
    rig.lope(&["cells", "set", "shop/price", "5"]);
    until("the other space sees it", || {
        rig.find("home/total/out") == Some(json!(10))
    });
}
