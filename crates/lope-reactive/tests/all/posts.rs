//! What nodes ask of other spaces: it leaves with the wave that asks, arrives once, waits where there
//! is no room and where nobody is, and its receipt comes back.

use std::sync::Arc;
use std::time::Duration;

use lope_model::Span;
use lope_reactive::hosting::{NoEffects, PoolOptions, SpaceClient, SpacePool, StoredReceipt};
use lope_reactive::limit::{BACKLOG_MAX, POSTS_MAX};
use lope_reactive::machine::{
    Arrival, EventOutcome, PostContent, SpaceAction, SpaceCommand, StreamEvent,
};
use lope_reactive::{CellAddress, Json};
use lope_store::{Store, SystemClock};

use crate::fixture::{cell, json, space};
use crate::host::{Host, modules};
use crate::stores::{Place, on_every_store};

const PATIENCE: Duration = Duration::from_secs(120);

on_every_store! {
    what_a_node_asks_of_another_space_is_done_there_once_and_its_receipt_comes_back => super::asked;
    what_another_space_has_no_room_for_waits_and_holds_nobody_up => super::full;
    a_space_is_idle_when_its_queues_are_empty => super::idle;
}

fn alias(path: &[&str]) -> serde_json::Value {
    json!({"$alias": {"path": path}})
}

/// Hands each event on: to a stream, a number, a list and a cell of another space.
fn forwarding() -> serde_json::Value {
    let cells = json!({"to": alias(&["argument", "to"]), "seen": alias(&["internal", "seen"])});
    let handler = "(event, {to, seen}) => { seen.increment(1); to.key('add').send(event); to.key('sum').increment(event); \
        to.key('list').push(event); to.key('list').addUnique(event); to.key('last').set({event}); }";
    json!({
        "initial": {"internal": {"go": {"$stream": true}, "seen": 0}},
        "result": {"go": alias(&["internal", "go"]), "seen": alias(&["internal", "seen"])},
        "nodes": [{"module": {"type": "javascript", "wrapper": "handler", "implementation": handler,
                "argumentSchema": {"properties": {"to": {"asCell": true}, "seen": {"asCell": true}}}},
            "inputs": {"$event": alias(&["internal", "go"]), "$ctx": cells}, "outputs": {}}]
    })
}

/// Adds up what it is sent; will not have 13.
fn adding() -> serde_json::Value {
    let handler =
        "(n, {total}) => { if (n === 13) throw new Error('unlucky'); total.increment(n) }";
    json!({
        "initial": {"internal": {"add": {"$stream": true}, "total": 0}},
        "result": {"add": alias(&["internal", "add"]), "total": alias(&["internal", "total"])},
        "nodes": [{"module": {"type": "javascript", "wrapper": "handler", "implementation": handler,
                "argumentSchema": {"properties": {"total": {"asCell": true}}}},
            "inputs": {"$event": alias(&["internal", "add"]), "$ctx": {"total": alias(&["internal", "total"])}}, "outputs": {}}]
    })
}

fn options(owner: &str) -> PoolOptions {
    PoolOptions {
        modules: modules(),
        lease: Span::from_secs(60),
        ..PoolOptions::new(owner.into())
    }
}

/// A store with somebody who asks.
struct Asker {
    client: SpaceClient,
    store: Store,
}

impl Asker {
    async fn new(place: &Place) -> Self {
        let store = place.open().await;
        let (clock, effects) = (Arc::new(SystemClock::default()), Arc::new(NoEffects));
        let tables = Arc::clone(&store.tables);
        let client = SpaceClient::open(tables, clock, effects, options("asker"));
        Self {
            client: client.await.unwrap(),
            store,
        }
    }

    async fn pool(&self, owner: &str) -> SpacePool {
        let (clock, effects) = (Arc::new(SystemClock::default()), Arc::new(NoEffects));
        let tables = Arc::clone(&self.store.tables);
        let started = SpacePool::start(tables, clock, effects, options(owner));
        started.await.unwrap()
    }

    async fn ask(&self, at: &CellAddress, arrival: Arrival) -> StoredReceipt {
        let asked = self.client.request(&at.space, &arrival);
        let asked = tokio::time::timeout(PATIENCE, asked).await;
        asked.unwrap().unwrap()
    }

    async fn act(&self, at: &str, action: impl FnOnce(CellAddress) -> SpaceAction) {
        let at = cell(at);
        let action = action(at.clone());
        let id = lope_model::Digest::of(format!("{at}{action:?}").as_bytes());
        let id = id.to_string().into();
        let receipt = self.ask(&at, Arrival::Command(SpaceCommand { id, action }));
        let receipt = receipt.await;
        assert_eq!(receipt.outcome, "handled", "{:?}", receipt.failure);
    }

    async fn run(&self, into: &str, recipe: serde_json::Value, argument: serde_json::Value) {
        self.act(into, |result| SpaceAction::Run {
            result,
            recipe: Some(recipe.into()),
            argument: Some(argument.into()),
            strict: true,
        })
        .await;
    }

    /// `home:go` hands on to `shop:till`, which adds up.
    async fn wire(&self) {
        self.run("shop:adder", adding(), json!({})).await;
        let add = crate::fixture::link("shop:adder/add");
        let till = json!({"add": add, "sum": 0, "list": [1]}).into();
        self.act("shop:till", |at| SpaceAction::Set {
            at,
            value: Some(till),
        })
        .await;
        let to = json!({ "to": crate::fixture::link("shop:till") });
        self.run("go", forwarding(), to).await;
    }

    fn event(id: &str, payload: i64) -> StreamEvent {
        StreamEvent {
            id: id.into(),
            stream: cell("go/go"),
            payload: payload.into(),
        }
    }

    async fn send(&self, id: &str, payload: i64) {
        let event = Arrival::Event(Self::event(id, payload));
        let receipt = self.ask(&cell("go"), event).await;
        assert_eq!(receipt.outcome, "handled", "{:?}", receipt.failure);
    }

    async fn get(&self, at: &str) -> Option<Json> {
        let at = cell(at);
        self.client.space(&at.space).read(&at).await.unwrap()
    }

    async fn shows(&self, at: &str, expected: impl Into<Json>) {
        let expected = Some(expected.into());
        let shown = async {
            while self.get(at).await != expected {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let shown = tokio::time::timeout(PATIENCE, shown).await;
        assert!(shown.is_ok(), "{at}: {:?}", self.get(at).await);
    }

    async fn idle(&self, name: &str) {
        let name = space(name);
        let idle = tokio::time::timeout(PATIENCE, self.client.idle(&name));
        idle.await.unwrap().unwrap();
    }

    /// What the node that hands on was told of the last thing it sent.
    async fn told(&self) -> Option<Json> {
        let reports = self.client.report(&space("home")).await.unwrap();
        reports[0].nodes[0].sent.clone()
    }
}

async fn asked(place: Place) {
    let asker = Asker::new(&place).await;
    asker.wire().await;
    asker.send("one", 5).await;
    asker.send("one", 5).await;
    let shop = asker.client.directory();
    let shop = shop.needing_hosts().await.unwrap();
    assert!(shop.contains(&space("shop")), "nobody is there: it waits");
    assert_eq!(asker.get("shop:till/sum").await, Some(0.into()));
    assert_eq!(asker.told().await, None);
    let pool = asker.pool("pool").await;
    asker.shows("shop:adder/total", 5).await;
    asker.shows("shop:till/sum", 5).await;
    asker.shows("shop:till/list", json!([1, 5])).await;
    asker.shows("shop:till/last", json!({"event": 5})).await;
    asker.idle("shop").await;
    asker.idle("home").await;
    let told = asker.told().await.unwrap();
    assert!(
        told.child("handled").is_some() && told.child("failed").is_none(),
        "{told}"
    );
    asker.send("two", 13).await;
    asker.shows("shop:till/sum", 18).await;
    asker.idle("shop").await;
    asker.idle("home").await;
    assert_eq!(asker.get("shop:adder/total").await, Some(5.into()));
    let reports = asker.client.report(&space("home")).await.unwrap();
    let why = reports[0].failures[0]
        .why
        .child("message")
        .cloned()
        .unwrap();
    let why = why.as_str().unwrap().to_owned();
    assert!(
        why.starts_with("sent to shop/of:") && why.ends_with("/add: unlucky"),
        "{why}"
    );
    asker.send("three", 1).await;
    asker.shows("shop:adder/total", 6).await;
    asker.idle("shop").await;
    asker.idle("home").await;
    pool.stop().await;
    let reports = asker.client.report(&space("home")).await.unwrap();
    assert_eq!(reports[0].failing, 0, "what it sent there since was done");
    assert_eq!(asker.get("go/seen").await, Some(3.into()));
}

async fn full(place: Place) {
    let asker = Asker::new(&place).await;
    asker.wire().await;
    // Nobody hosts the other space: as much as its backlog takes goes there, the rest stays here.
    let events = BACKLOG_MAX as i64 + 40;
    let home = asker.client.space(&space("home"));
    let shop = asker.client.space(&space("shop"));
    for n in 0..events {
        let id = format!("e{n}");
        match n % 100 {
            // Whoever waits hosts the space, and all that waits is handled.
            99 => asker.send(&id, 1).await,
            _ => {
                home.send(&Asker::event(&id, 1)).await.unwrap();
            }
        }
    }
    asker.send("last", 0).await;
    let left = home.posts().await.unwrap();
    // Each event is two messages: one for the stream, one with all changes.
    assert_eq!(left, 2 * 41);
    let now = lope_model::Timestamp::from_millis(0);
    let entry = asker.client.directory().entry(shop.space(), now);
    assert_eq!(entry.await.unwrap().waiting, 2 * BACKLOG_MAX as u64);
    let needing = asker.client.directory().needing_hosts().await.unwrap();
    assert!(needing.contains(&space("home")), "it has to bring the rest");
    let pool = asker.pool("pool").await;
    asker.shows("shop:adder/total", events).await;
    asker.shows("shop:till/sum", events).await;
    asker.idle("shop").await;
    asker.idle("home").await;
    assert!(home.has_empty_queues().await.unwrap() && shop.has_empty_queues().await.unwrap());
    pool.stop().await;
    let needing = asker.client.directory().needing_hosts().await.unwrap();
    assert!(!needing.contains(&space("shop")), "{needing:?}");
}

async fn idle(place: Place) {
    let asker = Asker::new(&place).await;
    asker.idle("nobody").await;
    asker.wire().await;
    let home = asker.client.space(&space("home"));
    for n in 0..20 {
        home.send(&Asker::event(&format!("e{n}"), 1)).await.unwrap();
    }
    // Nobody hosts it: whoever waits does.
    asker.idle("home").await;
    assert_eq!(asker.get("go/seen").await, Some(20.into()));
    assert!(home.has_empty_queues().await.unwrap());
    asker.idle("shop").await;
    assert_eq!(asker.get("shop:adder/total").await, Some(20.into()));
}

/// A stream that is there to send to is not the one whose events are handled.
#[test]
fn a_handler_sends_to_a_stream_of_its_own_space_and_does_not_replace_it() {
    let mut host = Host::scripted();
    let cells = json!({"also": alias(&["internal", "also"]), "n": alias(&["internal", "n"])});
    let handler = |source: &str, stream: &str| {
        json!({"module": {"type": "javascript", "wrapper": "handler", "implementation": source,
                "argumentSchema": {"properties": {"also": {"asStream": true}, "n": {"asCell": true}}}},
            "inputs": {"$event": alias(&["internal", stream]), "$ctx": cells}, "outputs": {}})
    };
    let plain = json!({"module": {"type": "javascript", "implementation": "({z, a}) => { a.send(z) }",
            "argumentSchema": {"properties": {"z": true, "a": {"asStream": true}}}},
        "inputs": {"z": alias(&["internal", "plain"]), "a": alias(&["internal", "also"])}, "outputs": {}});
    let recipe = json!({
        "initial": {"internal": {"go": {"$stream": true}, "also": {"$stream": true}, "plain": {"$stream": true}, "n": 0}},
        "result": alias(&["internal"]),
        "nodes": [handler("(e, {also}) => { if (e === 0) also.set(1); also.send(e) }", "go"), handler("(e, {n}) => { n.set(e) }", "also"), plain]
    });
    host.run(Some(recipe), None, "r").unwrap();
    for (stream, n) in [("r/go", 5), ("r/plain", 6)] {
        assert_eq!(host.send(&cell(stream), n), EventOutcome::Handled);
        let post = host.posts().pop().unwrap();
        assert_eq!(post.to, space("home"));
        let PostContent::Event { stream, payload } = post.content else {
            panic!("an event was sent");
        };
        assert_eq!(payload, n.into());
        assert_eq!(host.send(&stream, payload), EventOutcome::Handled);
        assert_eq!(host.get("r/n"), Some(n.into()));
    }
    let EventOutcome::Failed(failure) = host.send(&cell("r/go"), 0) else {
        panic!("a stream has no value");
    };
    assert_eq!(failure.message, "it is a stream: send events to it");
    assert_eq!(host.get("r/also"), Some(json!({"$stream": true}).into()));
}

/// What a node wrote to another space leaves with its wave; a run that fails sends nothing.
#[test]
fn a_handler_that_fails_asks_nobody_for_anything() {
    let mut host = Host::scripted();
    let handler = "(event, {to}) => { to.send(event); if (event < 0) throw new Error('no') }";
    let recipe = json!({
        "initial": {"internal": {"go": {"$stream": true}}},
        "result": {"go": alias(&["internal", "go"])},
        "nodes": [{"module": {"type": "javascript", "wrapper": "handler", "implementation": handler,
                "argumentSchema": {"properties": {"to": {"asCell": true}}}},
            "inputs": {"$event": alias(&["internal", "go"]), "$ctx": {"to": alias(&["argument", "to"])}}, "outputs": {}}]
    });
    let to = json!({ "to": crate::fixture::link("shop:till/add") });
    host.run(Some(recipe), Some(to), "go").unwrap();
    host.send(&cell("go/go"), -1);
    assert_eq!(host.posts(), []);
    host.send(&cell("go/go"), 2);
    let posts = host.posts();
    assert_eq!(posts.len(), 1, "{posts:?}");
    assert_eq!(posts[0].to, space("shop"));
    // Too many that others have no room for: the handler fails, and goes on when there is room.
    host.machine.note_posts(POSTS_MAX);
    let failed = host.send(&cell("go/go"), 3);
    let text = format!("{failed:?}");
    assert!(text.contains("POSTS_MAX"), "{text}");
    host.machine.note_posts(0);
    host.send(&cell("go/go"), 4);
    assert_eq!(host.posts().len(), 2);
}
