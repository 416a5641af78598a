//! Ids of events and commands: the same content under an id takes effect once, other content is refused
//! and never lost without a word. And spaces in which nothing is.

use std::sync::Arc;

use lope_mailbox::Mailbox;
use lope_model::{Clock, Span};
use lope_reactive::hosting::{
    Directory, HostError, LeaseRequest, NoEffects, PoolOptions, SpaceClient, SpaceHost,
};
use lope_reactive::javascript::JavaScript;
use lope_reactive::machine::{Arrival, SpaceAction, SpaceCommand, StreamEvent};
use lope_reactive::{Json, RecipeRunner};
use lope_store::{SystemClock, Tables};

use crate::fixture::{cell, json, space};
use crate::host::modules;
use crate::stores::{Place, on_every_store};

on_every_store! {
    an_id_is_of_one_content_whenever_the_other_comes => super::contents;
    a_space_of_which_nothing_came_is_empty => super::emptiness;
}

fn event(stream: &str, id: &str, payload: impl Into<Json>) -> StreamEvent {
    StreamEvent {
        id: id.into(),
        stream: cell(stream),
        payload: payload.into(),
    }
}

fn command(id: &str, action: SpaceAction) -> Arrival {
    let id = id.into();
    Arrival::Command(SpaceCommand { id, action })
}

fn set(value: i64) -> SpaceAction {
    let (at, value) = (cell("x"), Some(value.into()));
    SpaceAction::Set { at, value }
}

fn counting() -> SpaceAction {
    let alias = |path: [&str; 2]| json!({"$alias": {"path": path}});
    let recipe = json!({
        "initial": {"internal": {"add": {"$stream": true}, "sum": 0}},
        "result": {"add": alias(["internal", "add"]), "sum": alias(["internal", "sum"])},
        "nodes": [{"module": {"type": "javascript", "implementation": "({n, sum}) => { sum.increment(n.by) }",
            "argumentSchema": {"properties": {"n": true, "sum": {"asCell": true}}}},
            "inputs": {"n": alias(["internal", "add"]), "sum": alias(["internal", "sum"])}, "outputs": {}}]
    });
    SpaceAction::Run {
        result: cell("counter"),
        recipe: Some(recipe.into()),
        argument: None,
        strict: true,
    }
}

async fn client(tables: &Arc<dyn Tables>) -> SpaceClient {
    let (clock, effects) = (Arc::new(SystemClock::default()), Arc::new(NoEffects));
    let options = PoolOptions {
        modules: modules(),
        lease: Span::from_secs(60),
        ..PoolOptions::new("asker".into())
    };
    let opened = SpaceClient::open(Arc::clone(tables), clock, effects, options);
    opened.await.unwrap()
}

#[track_caller]
fn assert_other<T: std::fmt::Debug>(done: Result<T, HostError>, id: &str) {
    let Err(error @ HostError::OtherContent { .. }) = done else {
        panic!("{done:?}")
    };
    let said = format!("something else was sent under the id '{id}' before");
    assert_eq!(error.to_string(), said);
    assert!(!error.is_passing());
}

async fn contents(place: Place) {
    let tables = place.open().await.tables;
    let (client, home) = (client(&tables).await, space("home"));
    let request = async |arrival: Arrival| client.request(&home, &arrival).await;
    request(command("run", counting())).await.unwrap();
    let by = |n: i64, more: i64| json!({ "by": n, "a": more, "z": more });
    let sent = |id: &str, n: i64| Arrival::Event(event("counter/add", id, by(n, 1)));
    for _ in 0..2 {
        let receipt = request(sent("one", 5)).await.unwrap();
        assert_eq!(receipt.outcome, "handled");
    }
    assert_other(request(sent("one", 6)).await, "one");
    let elsewhere = Arrival::Event(event("counter/other", "one", by(5, 1)));
    assert_other(request(elsewhere).await, "one");
    assert_other(request(command("one", set(1))).await, "one");
    assert_other(request(command("run", set(1))).await, "run");
    // Who does not wait hears it too, as far as it is known.
    let store = client.space(&home);
    assert_other(store.deliver(&sent("one", 7)).await, "one");
    store.deliver(&sent("one", 5)).await.unwrap();
    // Nobody has handled the first: whoever waits for the second hears it when that is done.
    store
        .send(&event("counter/add", "two", by(10, 1)))
        .await
        .unwrap();
    store
        .send(&event("counter/add", "two", by(10, 1)))
        .await
        .unwrap();
    assert_other(request(sent("two", 11)).await, "two");
    // What came after the receipt, by a way that asks nobody.
    store
        .send(&event("counter/add", "two", by(12, 1)))
        .await
        .unwrap();
    store
        .send(&event("counter/add", "two", by(10, 1)))
        .await
        .unwrap();
    request(sent("three", 100)).await.unwrap();
    let sum = store.read(&cell("counter/sum")).await.unwrap();
    assert_eq!(sum, Some(115.into()), "each once, and nothing else");
    let mailbox = Mailbox::new(tables);
    let dead = mailbox.dead(store.worker(), None, 10).await.unwrap();
    let reasons: Vec<&str> = dead.iter().map(|dead| dead.reason.as_str()).collect();
    let reason = "something else was sent under its id before";
    assert_eq!(reasons, [reason; 2], "not lost without a word");
}

async fn emptiness(place: Place) {
    let tables = place.open().await.tables;
    let client = client(&tables).await;
    let clock = SystemClock::default();
    let is_empty = async |name: &str| {
        let directory = Directory::open(Arc::clone(&tables)).await.unwrap();
        let entry = directory.entry(&space(name), clock.now()).await.unwrap();
        entry.is_empty
    };
    let run = SpaceAction::Run {
        result: cell("shop:nobody"),
        recipe: None,
        argument: None,
        strict: false,
    };
    let receipt = client.request(&space("shop"), &command("run", run)).await;
    assert_eq!(receipt.unwrap().outcome, "failed");
    assert!(
        is_empty("shop").await,
        "it was asked, and nothing came of it"
    );
    let asked = command("set", set(1));
    client.request(&space("home"), &asked).await.unwrap();
    assert!(!is_empty("home").await);
    let waiting = event("yard:doc/stream", "e", 1);
    client.space(&space("yard")).send(&waiting).await.unwrap();
    assert!(!is_empty("yard").await, "something waits for it");
    let mut host = {
        let scripts = Box::new(JavaScript::default());
        let runner = RecipeRunner::new(space("yard"), modules(), scripts);
        let asked = LeaseRequest {
            identity: &"me".into(),
            now: clock.now(),
            span: Span::from_secs(60),
        };
        let taken = SpaceHost::take(client.space(&space("yard")), runner, asked).await;
        taken.unwrap()
    };
    let now = clock.now();
    host.turn(now).await.unwrap();
    host.turn(now.plus(Span::from_secs(31))).await.unwrap();
    assert!(
        !is_empty("yard").await,
        "what nobody handled can be replayed"
    );
}
