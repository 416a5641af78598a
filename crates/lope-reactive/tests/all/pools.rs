//! Pools of host threads: many spaces, many writers, a host that dies, effects that are recorded
//! once, and nodes that do not run again at a take-up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use lope_model::{Failure, Span};
use lope_reactive::hosting::{
    EffectPerformer, HostIdentity, NoEffects, PoolOptions, RequestedEffect, SpaceClient, SpacePool,
    StoredReceipt,
};
use lope_reactive::limit::WAVE_NODES_MAX;
use lope_reactive::machine::{Arrival, NOT_DEPLOYED, SpaceAction, SpaceCommand, StreamEvent};
use lope_reactive::{CellAddress, Json, SpaceName};
use lope_store::{MemoryStore, Store, SystemClock};
use tokio::task::JoinSet;

use crate::fixture::{cell, json, space};
use crate::host::modules;
use crate::stores::{Place, on_every_store};

/// Long enough for a machine that stands still.
const PATIENCE: Duration = Duration::from_secs(120);

fn options(owner: &str) -> PoolOptions {
    PoolOptions {
        modules: modules(),
        lease: Span::from_secs(60),
        ..PoolOptions::new(owner.into())
    }
}

async fn client(store: &Store, owner: &str) -> SpaceClient {
    let clock = Arc::new(SystemClock::default());
    let effects = Arc::new(NoEffects);
    let opened = SpaceClient::open(Arc::clone(&store.tables), clock, effects, options(owner));
    opened.await.unwrap()
}

async fn pool(store: &Store, options: PoolOptions, effects: Arc<dyn EffectPerformer>) -> SpacePool {
    let clock = Arc::new(SystemClock::default());
    let started = SpacePool::start(Arc::clone(&store.tables), clock, effects, options);
    started.await.unwrap()
}

fn command(id: &str, action: SpaceAction) -> Arrival {
    Arrival::Command(SpaceCommand {
        id: id.into(),
        action,
    })
}

async fn ask(client: &SpaceClient, at: &SpaceName, id: &str, action: SpaceAction) -> StoredReceipt {
    let arrival = command(id, action);
    let asked = client.request(at, &arrival);
    tokio::time::timeout(PATIENCE, asked)
        .await
        .unwrap()
        .unwrap()
}

async fn value(client: &SpaceClient, at: &CellAddress) -> Option<Json> {
    let spaces = client.space(&at.space).load().await.unwrap();
    spaces.begin().get(at)
}

fn doubling() -> Json {
    let alias = |path: [&str; 2]| json!({"$alias": {"path": path}});
    json!({
        "result": {"out": alias(["internal", "out"])},
        "nodes": [{"module": {"type": "native", "implementation": "double"}, "inputs": {"x": alias(["argument", "x"])},
            "outputs": alias(["internal", "out"])}]
    })
    .into()
}

fn run(result: &CellAddress, recipe: Json, x: i64) -> SpaceAction {
    SpaceAction::Run {
        result: result.clone(),
        recipe: Some(recipe),
        argument: Some(json!({ "x": x }).into()),
        strict: true,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_writers_at_once_lose_nothing_though_nobody_hosts_the_space() {
    let store = MemoryStore::open();
    let client = client(&store, "writers").await;
    let writers = (0..100).map(|number| {
        let client = client.clone();
        tokio::spawn(async move {
            let action = SpaceAction::Increment {
                at: cell("sum"),
                by: 1.into(),
            };
            ask(&client, &space("home"), &format!("w{number}"), action).await
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        assert_eq!(writer.await.unwrap().outcome, "handled");
    }
    assert_eq!(value(&client, &cell("sum")).await, Some(100.into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sender_that_waits_handles_a_full_backlog_that_nobody_hosts() {
    let store = MemoryStore::open();
    let client = client(&store, "sender").await;
    let counting = json!({
        "initial": {"internal": {"stream": {"$stream": true}, "sum": 0}},
        "result": {"send": {"$alias": {"path": ["internal", "stream"]}}, "sum": {"$alias": {"path": ["internal", "sum"]}}},
        "nodes": [{"module": {"type": "javascript", "implementation": "({n, sum}) => { sum.increment(n) }", "argumentSchema": {"properties": {"n": true, "sum": {"asCell": true}}}},
            "inputs": {"n": {"$alias": {"path": ["internal", "stream"]}}, "sum": {"$alias": {"path": ["internal", "sum"]}}}, "outputs": {}}]
    });
    let result = cell("counter");
    let started = ask(
        &client,
        &result.space,
        "run",
        run(&result, counting.into(), 0),
    )
    .await;
    assert_eq!(started.outcome, "handled");
    let event = |id: String| StreamEvent {
        id: id.as_str().into(),
        stream: cell("counter/send"),
        payload: 1.into(),
    };
    let space = client.space(&result.space);
    for number in 0..256 {
        space.send(&event(format!("e{number}"))).await.unwrap();
    }
    let more = Arrival::Event(event("more".to_owned()));
    let sent = client.request(&result.space, &more);
    let sent = tokio::time::timeout(PATIENCE, sent).await.unwrap().unwrap();
    assert_eq!(sent.outcome, "handled");
    assert_eq!(value(&client, &cell("counter/sum")).await, Some(257.into()));
}

on_every_store! {
    one_pool_hosts_a_thousand_spaces => super::a_thousand_spaces;
    an_effect_that_cannot_begin_yet_is_asked_for_again_when_it_can => super::late;
}

/// "1,000 spaces on one runner": each runs a recipe of its own, and none sees another.
async fn a_thousand_spaces(place: Place) {
    const SPACES: i64 = 1_000;
    let store = place.open().await;
    let client = client(&store, "sender").await;
    let mut posting = JoinSet::new();
    for number in 0..SPACES {
        let at = cell(&format!("s{number}:result"));
        let arrival = command("run", run(&at, doubling(), number));
        let space = client.space(&at.space);
        posting.spawn(async move { space.deliver(&arrival).await });
        if posting.len() >= 64 {
            posting.join_next().await.unwrap().unwrap().unwrap();
        }
    }
    while let Some(posted) = posting.join_next().await {
        posted.unwrap().unwrap();
    }
    let pool = pool(&store, options("pool"), Arc::new(NoEffects)).await;
    let waited = async {
        for number in 0..SPACES {
            let store = client.space(&space(&format!("s{number}")));
            while store.receipt("run").await.unwrap().is_none() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    };
    tokio::time::timeout(5 * PATIENCE, waited).await.unwrap();
    pool.stop().await;
    let listed = client.directory().spaces().await.unwrap();
    assert_eq!(listed.len(), SPACES as usize);
    for number in 0..SPACES {
        let out = value(&client, &cell(&format!("s{number}:result/out"))).await;
        assert_eq!(out, Some((number * 2).into()), "space {number}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_spaces_of_a_host_that_is_gone_move_at_once_and_nothing_runs_again() {
    let store = MemoryStore::open();
    let client = client(&store, "sender").await;
    let first = pool(&store, options("first"), Arc::new(NoEffects)).await;
    let result = cell("result");
    ask(&client, &result.space, "run", run(&result, doubling(), 4)).await;
    // It dies: nothing is given back, its lease is long.
    std::mem::forget(first);
    let identity = HostIdentity::new("second", |owner| owner.starts_with("first"));
    let second = PoolOptions {
        modules: modules(),
        ..PoolOptions::new(identity)
    };
    let second = pool(&store, second, Arc::new(NoEffects)).await;
    second.wake(&result.space);
    ask(
        &client,
        &result.space,
        "other",
        SpaceAction::Set {
            at: cell("other"),
            value: Some(1.into()),
        },
    )
    .await;
    second.stop().await;
    assert_eq!(value(&client, &cell("result/out")).await, Some(8.into()));
    let report = client.report(&result.space).await.unwrap();
    let node = &report[0].nodes[0];
    assert_eq!((node.runs, node.live), (1, true), "its inputs are the same");
    assert_eq!(node.pending, None);
}

/// Doubles what it is asked for; counts.
#[derive(Default)]
struct Doubling(AtomicUsize);

#[async_trait::async_trait]
impl EffectPerformer for Doubling {
    async fn perform(&self, effect: &RequestedEffect) -> Option<Result<Json, Failure>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        let x = effect.request.as_int().unwrap_or(0);
        Some(Ok((x * 2).into()))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_effect_that_was_left_pending_is_performed_by_the_next_host_and_recorded_once() {
    let store = MemoryStore::open();
    let client = client(&store, "sender").await;
    let alias = |path: [&str; 2]| json!({"$alias": {"path": path}});
    let recipe: Json = json!({
        "result": alias(["internal", "out"]),
        "nodes": [{"module": {"type": "ref", "implementation": "effect"},
            "inputs": {"name": "double", "request": alias(["argument", "x"])}, "outputs": alias(["internal", "out"])}]
    })
    .into();
    let result = cell("result");
    ask(&client, &result.space, "run", run(&result, recipe, 21)).await;
    assert_eq!(
        value(&client, &cell("result/pending")).await,
        Some(true.into())
    );
    let entry = client.directory().needing_hosts().await.unwrap();
    assert!(
        entry.contains(&result.space),
        "it needs a host though nothing waits"
    );
    let performer = Arc::new(Doubling::default());
    let effects: Arc<dyn EffectPerformer> = Arc::clone(&performer) as _;
    let pool = pool(&store, options("pool"), effects).await;
    let waited = async {
        while value(&client, &cell("result/result")).await != Some(42.into()) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waited).await.unwrap();
    pool.stop().await;
    assert_eq!(performer.0.load(Ordering::Relaxed), 1);
    assert_eq!(
        value(&client, &cell("result/pending")).await,
        Some(false.into())
    );
    let needing = client.directory().needing_hosts().await.unwrap();
    assert!(needing.is_empty(), "{needing:?}");
}

/// Cannot begin before it is told that it can.
#[derive(Default)]
struct Late {
    can: AtomicBool,
    asked: AtomicUsize,
}

#[async_trait::async_trait]
impl EffectPerformer for Late {
    async fn perform(&self, _: &RequestedEffect) -> Option<Result<Json, Failure>> {
        if !self.can.load(Ordering::Relaxed) {
            return Some(Err(Failure::new(NOT_DEPLOYED, "not yet")));
        }
        self.asked.fetch_add(1, Ordering::Relaxed);
        Some(Ok("done".into()))
    }

    async fn can_begin(&self, _: &RequestedEffect) -> bool {
        self.can.load(Ordering::Relaxed)
    }
}

async fn late(place: Place) {
    let store = place.open().await;
    let client = client(&store, "sender").await;
    let alias = |path: [&str; 2]| json!({"$alias": {"path": path}});
    let recipe: Json = json!({
        "result": alias(["internal", "out"]),
        "nodes": [{"module": {"type": "ref", "implementation": "effect"},
            "inputs": {"name": "late", "request": alias(["argument", "x"])}, "outputs": alias(["internal", "out"])}]
    })
    .into();
    let result = cell("result");
    ask(&client, &result.space, "run", run(&result, recipe, 1)).await;
    let late = Arc::new(Late::default());
    let options = options("late");
    let pool = pool(
        &store,
        options,
        Arc::clone(&late) as Arc<dyn EffectPerformer>,
    )
    .await;
    let becomes = async |key: &str, expected: Json| {
        let mut changes = client.watch();
        let at = cell(&format!("result/{key}"));
        let looking = async {
            while value(&client, &at).await.as_ref() != Some(&expected) {
                let _ = tokio::time::timeout(Duration::from_millis(100), changes.changed()).await;
            }
        };
        tokio::time::timeout(PATIENCE, looking).await.unwrap();
    };
    becomes("error/message", "not yet".into()).await;
    let pending = value(&client, &cell("result/pending")).await;
    assert_eq!(pending, Some(true.into()), "it waits");
    late.can.store(true, Ordering::Relaxed);
    becomes("result", "done".into()).await;
    assert_eq!(value(&client, &cell("result/error")).await, None);
    assert_eq!(late.asked.load(Ordering::Relaxed), 1, "once");
    pool.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_asks_a_space_that_nobody_hosts_waits_until_all_of_many_waves_is_up_to_date() {
    let store = MemoryStore::open();
    let client = client(&store, "asker").await;
    let alias = |path: [&str; 2]| json!({"$alias": {"path": path}});
    let count = WAVE_NODES_MAX + 500;
    let nodes = (0..count).map(|number| {
        json!({"module": {"type": "native", "implementation": "double"}, "inputs": {"x": alias(["argument", "x"])},
            "outputs": alias(["internal", &format!("n{number}")])})
    });
    let nodes: Vec<_> = nodes.collect();
    let recipe = json!({ "result": {"$alias": {"path": ["internal"]}}, "nodes": nodes });
    let result = cell("wide");
    let arrival = command("run", run(&result, recipe.into(), 4));
    let receipt = client.request(&result.space, &arrival).await.unwrap();
    assert_eq!(receipt.outcome, "handled");
    let spaces = client.space(&result.space).load().await.unwrap();
    let all = spaces.begin().get(&result).unwrap();
    let is_current = |number: &usize| all.child(&format!("n{number}")) == Some(&8.into());
    let current = (0..count).filter(is_current).count();
    assert_eq!(current, count, "everything that depends on it");
}
