//! What a recipe asks of another space, by the real binary on SQLite and on Postgres: done there once,
//! whoever is killed meanwhile, and told of where it was asked; and what is too much for a space.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::fixture::full;
use crate::fixture::spaces::{Onlooker, SpaceRig, on_both_stores};
use crate::stage;

on_both_stores! {
    what_a_recipe_sends_to_another_space_arrives_once_though_runners_are_killed => super::killed;
    what_a_recipe_sends_waits_until_somebody_hosts_the_other_space => super::alone;
    a_document_that_grows_too_large_is_an_error_and_its_space_goes_on => super::bounded;
    spaces_that_feed_each_other_without_end_are_told_back_off_and_stay_responsive => super::endless;
}

/// Hands each event on to a stream of another space, and writes it into a cell there.
const SENDER: &str = "name: sender
initial:
  internal: { count: 0, go: { $stream: true } }
result:
  go: { $alias: internal/go }
  count: { $alias: internal/count }
nodes:
  - module:
      type: javascript
      wrapper: handler
      argumentSchema: { properties: { till: { asCell: true }, last: { asCell: true }, count: { asCell: true } } }
      implementation: \"(n, {till, last, count}) => { count.increment(1); till.send(n); last.set({n}) }\"
    inputs:
      $event: { $alias: internal/go }
      $ctx: { till: { $alias: argument/till }, last: { $alias: argument/last }, count: { $alias: internal/count } }
    outputs: {}
  - module: { type: javascript, implementation: \"({count}) => count * 10\" }
    inputs: { count: { $alias: internal/count } }
    outputs: { $alias: argument/tenfold }
";

/// Adds up what it is sent; refuses what is below 0.
const TILL: &str = "name: till
initial:
  internal: { sum: 0, count: 0, add: { $stream: true } }
result:
  add: { $alias: internal/add }
  sum: { $alias: internal/sum }
  count: { $alias: internal/count }
nodes:
  - module:
      type: javascript
      wrapper: handler
      argumentSchema: { properties: { sum: { asCell: true }, count: { asCell: true } } }
      implementation: \"(n, {sum, count}) => { if (n < 0) throw new Error('no debts'); sum.increment(n); count.increment(1) }\"
    inputs:
      $event: { $alias: internal/add }
      $ctx: { sum: { $alias: internal/sum }, count: { $alias: internal/count } }
    outputs: {}
";

/// Hands each event on to another space without end; counts others, which it keeps.
const PING: &str = "name: ping
initial:
  internal: { count: 0, kept: 0, go: { $stream: true }, keep: { $stream: true } }
result:
  go: { $alias: internal/go }
  keep: { $alias: internal/keep }
  count: { $alias: internal/count }
  kept: { $alias: internal/kept }
nodes:
  - module:
      type: javascript
      wrapper: handler
      argumentSchema: { properties: { other: { asCell: true }, count: { asCell: true } } }
      implementation: \"(n, {other, count}) => { count.increment(1); other.send(n) }\"
    inputs:
      $event: { $alias: internal/go }
      $ctx: { other: { $alias: argument/other }, count: { $alias: internal/count } }
    outputs: {}
  - module:
      type: javascript
      wrapper: handler
      argumentSchema: { properties: { kept: { asCell: true } } }
      implementation: \"(n, {kept}) => { kept.increment(n) }\"
    inputs:
      $event: { $alias: internal/keep }
      $ctx: { kept: { $alias: internal/kept } }
    outputs: {}
";

/// The till in `shop`, the sender in `home`.
fn wire(rig: &SpaceRig) {
    let (sender, till) = (rig.file("sender.yaml", SENDER), rig.file("till.yaml", TILL));
    rig.lope(&["recipes", "run", &till, "--into", "shop/till"]);
    let id = |cell: &str| {
        let said: Value =
            serde_json::from_str(&rig.lope(&["--json", "cells", "set", cell, "0"])).unwrap();
        let cell = said["cell"].as_str().unwrap();
        cell.split_once('/').unwrap().1.to_owned()
    };
    let link = |id: &str, path: Value| json!({ "/": { "link@1": { "space": "shop", "id": id, "path": path } } });
    let till = lope::reactive::EntityId::named("till");
    let argument = json!({
        "till": link(till.as_str(), json!(["add"])),
        "last": link(&id("shop/last"), json!([])),
        "tenfold": link(&id("shop/tenfold"), json!([])),
    });
    rig.lope(&[
        "recipes",
        "run",
        &sender,
        "--into",
        "home/sender",
        "--argument",
        &argument.to_string(),
    ]);
}

fn killed(mut rig: SpaceRig) {
    let (rounds, round) = if full() { (20, 20) } else { (4, 10) };
    wire(&rig);
    let onlooker = Onlooker::new(&rig);
    let send = |n: i64| {
        let id = format!("e{n}");
        (0..2).for_each(|_| onlooker.send("home/sender/go", &id, n));
    };
    let mut dice = 0x9e37_79b9_u64;
    for first in 0..rounds {
        let runner = rig.up(&[]);
        (first * round..(first + 1) * round).for_each(send);
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let wanted = first * round + ((dice >> 33) % round as u64) as i64 + 1;
        onlooker.until("some are counted", "home/sender/count", |count| {
            count.as_i64().unwrap() >= wanted
        });
        std::thread::sleep(Duration::from_millis((dice >> 40) % 100));
        rig.kill(runner);
    }
    rig.up(&[]);
    let events = rounds * round;
    let until = |what, cell, expected: Value| onlooker.until(what, cell, |it| *it == expected);
    until("every one is handed on", "shop/till/count", json!(events));
    until(
        "the last one is written",
        "shop/last",
        json!({ "n": events - 1 }),
    );
    until("a node writes there", "shop/tenfold", json!(events * 10));
    send(events);
    until("one more", "shop/till/count", json!(events + 1));
    assert_eq!(rig.get("shop/till/sum"), json!(events * (events + 1) / 2));
    assert_eq!(rig.get("home/sender/count"), json!(events + 1));
    stage::until("their receipts came back", || {
        sent(&rig)["handled"]["outcome"] == json!("handled")
    });
    assert!(rig.lope(&["store", "check"]).contains("is sound"));
}

/// What became of what the first node of the sender asked for.
fn sent(rig: &SpaceRig) -> Value {
    let told = rig.lope(&["--json", "recipes", "why", "home/sender"]);
    let told: Value = serde_json::from_str(&told).unwrap();
    told["nodes"][0]["sent"].clone()
}

fn alone(rig: SpaceRig) {
    wire(&rig);
    rig.lope(&["streams", "send", "home/sender/go", "5"]);
    assert_eq!(rig.get("shop/till/count"), json!(0), "nobody is there");
    // Any command for the space hosts it, and what waits comes first.
    rig.lope(&["cells", "set", "shop/other", "1"]);
    assert_eq!(rig.get("shop/till/sum"), json!(5));
    assert_eq!(rig.get("shop/last"), json!({ "n": 5 }));
    assert_eq!(rig.get("shop/tenfold"), json!(10));
    rig.lope(&["streams", "send", "home/sender/go", "-5"]);
    rig.lope(&["cells", "set", "shop/other", "2"]);
    rig.lope(&["cells", "set", "home/other", "1"]);
    assert_eq!(rig.get("shop/till/count"), json!(1));
    let failed = &sent(&rig)["failed"];
    assert_eq!(failed["error"]["message"], json!("no debts"), "{failed}");
    let why = rig.lope(&["recipes", "why", "home/sender"]);
    assert!(why.contains("no debts"), "{why}");
    let shown: Value = serde_json::from_str(&rig.lope(&["--json", "recipes", "list"])).unwrap();
    let home = shown
        .as_array()
        .unwrap()
        .iter()
        .find(|it| it["space"] == "home");
    assert_eq!(home.unwrap()["recipes"][0]["failing"], json!(1), "{shown}");
}

/// What is told of the node that hands events on, in words and in JSON.
fn why(rig: &SpaceRig, cell: &str) -> (String, Value) {
    let told = rig.lope(&["--json", "recipes", "why", cell]);
    let told: Value = serde_json::from_str(&told).unwrap();
    let words = rig.lope(&["recipes", "why", cell]);
    (words, told["nodes"][0]["unsettled"].clone())
}

fn endless(mut rig: SpaceRig) {
    let ping = rig.file("ping.yaml", PING);
    for (cell, space, name) in [("home/ping", "shop", "pong"), ("shop/pong", "home", "ping")] {
        let id = lope::reactive::EntityId::named(name);
        let other =
            json!({ "/": { "link@1": { "space": space, "id": id.as_str(), "path": ["go"] } } });
        let argument = json!({ "other": other }).to_string();
        let run = ["recipes", "run", &ping, "--into", cell, "--argument"];
        rig.lope(&[&run[..], &[&argument]].concat());
    }
    let runner = rig.up(&[]);
    rig.lope(&["streams", "send", "home/ping/go", "1"]);
    let onlooker = Onlooker::new(&rig);
    let count = || {
        let counts = ["home/ping/count", "shop/pong/count"];
        let counts = counts.map(|cell| onlooker.get(cell).unwrap().as_i64().unwrap());
        counts.iter().sum::<i64>()
    };
    // A hundred and one are handled at once.
    onlooker.until("one that waited is here", "home/ping/count", |it| {
        it.as_i64() > Some(51)
    });
    stage::until("both have sent what has to wait", || {
        let told = ["home/ping", "shop/pong"].map(|cell| why(&rig, cell).1);
        told.iter()
            .all(|told| told["messages"].as_i64() > Some(100))
    });
    let (started, before) = (Instant::now(), count());
    assert!(before > 100, "{before}");
    for n in 1..=5 {
        for cell in ["home/ping", "shop/pong"] {
            rig.lope(&["streams", "send", &format!("{cell}/keep"), "1"]);
            assert_eq!(rig.get(&format!("{cell}/kept")), json!(n), "at once");
        }
    }
    // Each waits longer than the one before it, up to two seconds.
    let most = started.elapsed().as_millis() as i64 / 250 + 2;
    let more = count() - before;
    assert!(more <= most, "{more} in {:?}", started.elapsed());
    let cycle = ["home/process-of-ping/0", "shop/process-of-pong/0"];
    for cell in ["home/ping", "shop/pong"] {
        let (words, told) = why(&rig, cell);
        assert!(
            words.contains("messages, effects and reads of other spaces follow from each other"),
            "{words}"
        );
        let cycle = format!("around the cycle: {}, {}", cycle[0], cycle[1]);
        assert!(words.contains(&cycle), "{words}");
        assert_eq!(told["runs"], json!(0), "{told}");
    }
    // What waits outlives whoever hosts the spaces.
    rig.kill(runner);
    let before = count();
    assert!(rig.lope(&["store", "check"]).contains("is sound"));
    rig.up(&[]);
    stage::until("it goes on", || count() > before);
    rig.lope(&["recipes", "stop", "home/ping"]);
    rig.lope(&["streams", "send", "shop/pong/keep", "1"]);
    assert_eq!(rig.get("shop/pong/kept"), json!(6));
}

fn bounded(rig: SpaceRig) {
    rig.lope(&["cells", "set", "home/other", "1"]);
    let text = |name: &str| {
        let text = json!("x".repeat(9_000_000)).to_string();
        format!("@{}", rig.file(name, &text))
    };
    let (one, two) = (text("one.json"), text("two.json"));
    rig.lope(&["cells", "set", "home/doc/one", &one]);
    let refused = rig.said(&["cells", "set", "home/doc/two", &two]);
    assert_eq!(refused.code, 1, "{}", refused.err);
    assert!(
        refused.err.contains("more than") && refused.err.contains("DOCUMENT_MAX"),
        "{}",
        refused.err
    );
    rig.lope(&["cells", "set", "home/doc/three", "3"]);
    assert_eq!(rig.get("home/doc/three"), json!(3));
    let two = rig.find("home/doc/two");
    assert_eq!(two, None);
    rig.lope(&["cells", "set", "home/other", "2"]);
    assert!(rig.lope(&["store", "check"]).contains("is sound"));
}
