//! Runners that host a reactive space are killed again and again, at any moment: each event counts
//! once, each effect is a durable run that is started once, and the cells are in the end what they
//! are without kills. 100 events normally, 2,000 with `LOPE_CHAOS=full`; on SQLite and Postgres.

use std::time::Duration;

use serde_json::{Value, json};

use crate::fixture::full;
use crate::fixture::spaces::{Onlooker, SpaceRig, on_both_stores};

on_both_stores! {
    runners_killed_at_random_count_each_event_once_and_start_each_order_once => super::killed;
}

/// One of so many events is an order, which starts a run.
const ORDERS: u64 = 25;

/// Counts, doubles by a nested recipe, and starts a durable run for each order.
const SHOP: &str = "name: shop
initial:
  internal: { count: 0, orders: [], add: { $stream: true } }
result:
  add: { $alias: internal/add }
  count: { $alias: internal/count }
  twice: { $alias: internal/nested/twice }
  orders: { $alias: internal/done }
nodes:
  - module:
      type: javascript
      argumentSchema: { properties: { n: true, count: { asCell: true }, orders: { asCell: true } } }
      implementation: \"({n, count, orders}) => { count.increment(1); if (n % 25 === 0) orders.push({id: `o${n}`, n}) }\"
    inputs: { n: { $alias: internal/add }, count: { $alias: internal/count }, orders: { $alias: internal/orders } }
    outputs: {}
  - module:
      type: recipe
      implementation:
        result: { twice: { $alias: internal/out } }
        nodes:
          - module: { type: javascript, implementation: \"({x}) => x * 2\" }
            inputs: { x: { $alias: argument/x } }
            outputs: { $alias: internal/out }
    inputs: { x: { $alias: internal/count } }
    outputs: { $alias: internal/nested }
  - module: { type: ref, implementation: map }
    inputs:
      list: { $alias: internal/orders }
      op:
        result: { $alias: internal/order }
        nodes:
          - module: { type: workflow, implementation: pack }
            inputs: { n: { $alias: argument/element/n } }
            outputs: { $alias: internal/order }
    outputs: { $alias: internal/done }
";

const PACK: &str = "name: pack
steps:
  packed: { let: \"${{ input.n * 10 }}\" }
  done: { return: \"${{ packed }}\", needs: [packed] }
";

fn killed(mut rig: SpaceRig) {
    let (events, round) = if full() { (2_000, 100) } else { (100, 25) };
    let (shop, pack) = (rig.file("shop.yaml", SHOP), rig.file("pack.yaml", PACK));
    rig.lope(&["workflows", "deploy", &pack]);
    rig.lope(&["recipes", "run", &shop, "--into", "home/shop"]);
    let onlooker = Onlooker::new(&rig);
    let mut dice = 0x9e37_79b9_u64;
    for first in (0..events).step_by(round) {
        let runner = rig.up(&[]);
        for n in (first..first + round).flat_map(|n| [n, n]) {
            onlooker.send("home/shop/add", &format!("e{n}"), n as i64);
        }
        // At any moment between the first of this round and a while behind the last.
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let wanted = first as u64 + (dice >> 33) % (round as u64) + 1;
        onlooker.until("some are counted", "home/shop/count", |count| {
            count.as_u64().unwrap() >= wanted
        });
        std::thread::sleep(Duration::from_millis((dice >> 40) % 300));
        rig.kill(runner);
    }
    rig.up(&[]);
    let orders = events as u64 / ORDERS;
    onlooker.until("every order is done", "home/shop", |shown| {
        let done = shown["orders"].as_array().unwrap();
        let done = done
            .iter()
            .filter(|order| order["pending"] == json!(false))
            .count();
        shown["count"] == json!(events) && done as u64 == orders
    });
    let shown = rig.get("home/shop");
    assert_eq!(shown["twice"], json!(2 * events));
    let results: Vec<&Value> = shown["orders"]
        .as_array()
        .unwrap()
        .iter()
        .map(|order| &order["result"])
        .collect();
    let expected: Vec<Value> = (0..orders)
        .map(|order| json!(order * ORDERS * 10))
        .collect();
    assert_eq!(results, expected.iter().collect::<Vec<_>>());
    let runs = rig.lope(&["--json", "runs", "list", "--limit", "1000"]);
    let runs: Vec<Value> = serde_json::from_str(&runs).unwrap();
    assert_eq!(runs.len() as u64, orders, "one run an order");
    assert!(rig.lope(&["store", "check"]).contains("is sound"));
}
