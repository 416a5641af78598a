//! Reads of other spaces: what a node looks at elsewhere is followed, also through links, after a
//! restart, and while nothing happens in its own space.

use std::sync::Arc;
use std::time::Duration;

use lope_model::Span;
use lope_reactive::hosting::{NoEffects, PoolOptions, SpaceClient, SpacePool};
use lope_reactive::machine::{Arrival, SpaceAction, SpaceCommand, StreamEvent};
use lope_reactive::{CellAddress, Json};
use lope_store::{Store, SystemClock};

use crate::fixture::{cell, json, space};
use crate::host::modules;
use crate::stores::{Place, on_every_store};

const PATIENCE: Duration = Duration::from_secs(120);

on_every_store! {
    a_node_follows_what_it_reads_in_another_space => super::follows;
    nobody_sees_less_than_there_is_in_another_space => super::sees_everything;
}

fn options(owner: &str) -> PoolOptions {
    PoolOptions {
        modules: modules(),
        lease: Span::from_secs(60),
        // Nothing to do for so long is nothing at all: only what it looks at keeps a space hosted.
        idle: Span::from_millis(1),
        ..PoolOptions::new(owner.into())
    }
}

async fn client(store: &Store) -> SpaceClient {
    let (clock, effects) = (Arc::new(SystemClock::default()), Arc::new(NoEffects));
    let opened = SpaceClient::open(Arc::clone(&store.tables), clock, effects, options("sender"));
    opened.await.unwrap()
}

async fn pool(store: &Store, owner: &str) -> SpacePool {
    let (clock, effects) = (Arc::new(SystemClock::default()), Arc::new(NoEffects));
    let started = SpacePool::start(Arc::clone(&store.tables), clock, effects, options(owner));
    started.await.unwrap()
}

async fn ask(client: &SpaceClient, id: &str, at: &CellAddress, action: SpaceAction) {
    let command = SpaceCommand {
        id: id.into(),
        action,
    };
    let arrival = Arrival::Command(command);
    let asked = client.request(&at.space, &arrival);
    let receipt = tokio::time::timeout(PATIENCE, asked)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(receipt.outcome, "handled", "{:?}", receipt.failure);
}

async fn set(client: &SpaceClient, id: &str, at: &str, value: serde_json::Value) {
    let at = cell(at);
    let value = Some(Json::from(value));
    let action = SpaceAction::Set {
        at: at.clone(),
        value,
    };
    ask(client, id, &at, action).await;
}

async fn shows(client: &SpaceClient, at: &str, expected: i64) {
    let at = cell(at);
    let shown = async {
        let store = client.space(&at.space);
        while store.read(&at).await.unwrap() != Some(expected.into()) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let shown = tokio::time::timeout(PATIENCE, shown).await;
    assert!(shown.is_ok(), "{at} does not become {expected}");
}

async fn follows(place: Place) {
    let store = place.open().await;
    let client = client(&store).await;
    // The price is in a document of `shop` that a cell of `shop` links to.
    let price = cell("shop:price");
    set(&client, "1", "shop:price", json!({"x": 4})).await;
    let link = json!({"/": {"link@1": {"id": price.id.as_str(), "path": ["x"]}}});
    set(&client, "2", "shop:offer", json!({ "x": link })).await;
    let alias = |path: [&str; 2]| json!({"$alias": {"path": path}});
    let recipe = json!({
        "result": {"out": alias(["internal", "out"])},
        "nodes": [{"module": {"type": "native", "implementation": "double"}, "inputs": {"x": alias(["argument", "x"])},
            "outputs": alias(["internal", "out"])}]
    });
    let offer = cell("shop:offer");
    let far = json!({"/": {"link@1": {"space": "shop", "id": offer.id.as_str(), "path": ["x"]}}});
    let result = cell("result");
    let run = SpaceAction::Run {
        result: result.clone(),
        recipe: Some(recipe.into()),
        argument: Some(json!({ "x": far }).into()),
        strict: true,
    };
    ask(&client, "run", &result, run).await;
    shows(&client, "result/out", 8).await;
    let needing = client.directory().needing_hosts().await.unwrap();
    assert!(
        needing.contains(&space("home")),
        "it is to see what changes elsewhere"
    );
    let first = pool(&store, "first").await;
    set(&client, "3", "shop:price/x", json!(5)).await;
    shows(&client, "result/out", 10).await;
    set(&client, "4", "shop:offer/x", json!(7)).await;
    shows(&client, "result/out", 14).await;
    first.stop().await;
    // Changed while nobody hosts the space that looks.
    set(&client, "5", "shop:offer/x", json!(9)).await;
    let second = pool(&store, "second").await;
    shows(&client, "result/out", 18).await;
    second.stop().await;
    let runs = client.report(&space("home")).await.unwrap()[0].nodes[0].runs;
    let third = pool(&store, "third").await;
    set(&client, "6", "home:other", json!(1)).await;
    third.stop().await;
    let report = client.report(&space("home")).await.unwrap();
    assert_eq!(
        report[0].nodes[0].runs, runs,
        "nothing changed elsewhere: nothing runs again"
    );
    writes_to_itself_alone(&client).await;
}

async fn writes_to_itself_alone(client: &SpaceClient) {
    let arrival = Arrival::Command(SpaceCommand {
        id: "7".into(),
        action: SpaceAction::Set {
            at: cell("shop:price/x"),
            value: Some(1.into()),
        },
    });
    let home = space("home");
    let failed = client.request(&home, &arrival);
    let failed = tokio::time::timeout(PATIENCE, failed)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(failed.outcome, "failed");
    assert_eq!(
        client
            .space(&space("shop"))
            .read(&cell("shop:price/x"))
            .await
            .unwrap(),
        Some(5.into())
    );
}

/// The first run of a computation, and every event of a handler, sees what another space holds,
/// though nobody of its own space has looked there before.
async fn sees_everything(place: Place) {
    let store = place.open().await;
    let client = client(&store).await;
    set(&client, "1", "shop:price", json!({"x": 4, "deep": 3})).await;
    let price = cell("shop:price");
    let far = |path: &str| {
        let at = json!({"space": "shop", "id": price.id.as_str(), "path": [path]});
        json!({"/": {"link@1": at}})
    };
    // What leads there is a document of `shop` too.
    set(&client, "2", "shop:offer", json!({ "x": far("x") })).await;
    let offer = cell("shop:offer");
    let offered =
        json!({"/": {"link@1": {"space": "shop", "id": offer.id.as_str(), "path": ["x"]}}});
    let alias = |path: [&str; 2]| json!({"$alias": {"path": path}});
    let node = |function: &str, inputs: serde_json::Value, to: &str| json!({"module": {"type": "native", "implementation": function}, "inputs": inputs, "outputs": alias(["internal", to])});
    let recipe = json!({
        "initial": {"internal": {"stream": {"$stream": true}, "sum": 0}},
        "result": {"out": alias(["internal", "out"]), "send": alias(["internal", "stream"]), "sum": alias(["internal", "sum"])},
        "nodes": [
            node("double", json!({"x": alias(["argument", "x"])}), "out"),
            node("add", json!({"x": alias(["internal", "stream"]), "y": alias(["internal", "sum"])}), "sum")
        ]
    });
    let result = cell("result");
    let run = SpaceAction::Run {
        result: result.clone(),
        recipe: Some(recipe.into()),
        argument: Some(json!({ "x": offered }).into()),
        strict: true,
    };
    ask(&client, "run", &result, run).await;
    shows(&client, "result/out", 8).await;
    let home = client.space(&space("home"));
    let history = home.history().await.unwrap();
    let held = history
        .iter()
        .filter(|change| change.at.path.to_string() == "/internal/out");
    let held: Vec<Option<Json>> = held.map(|change| change.value.clone()).collect();
    assert_eq!(held, [Some(8.into())], "nothing else before");
    let pool = pool(&store, "first").await;
    for (number, price) in [(0, 5), (1, 6)] {
        // Another cell each time, changed just before: it is not what was seen last.
        let at = ["deep", "deeper"][number];
        let id = |what: &str| format!("{what}{number}");
        set(
            &client,
            &id("price"),
            &format!("shop:price/{at}"),
            json!(price),
        )
        .await;
        let event = Arrival::Event(StreamEvent {
            id: id("event").into(),
            stream: cell("result/send"),
            payload: far(at).into(),
        });
        let home = space("home");
        let receipt = client.request(&home, &event);
        let receipt = tokio::time::timeout(PATIENCE, receipt).await;
        assert_eq!(receipt.unwrap().unwrap().outcome, "handled");
    }
    shows(&client, "result/sum", 11).await;
    pool.stop().await;
}
