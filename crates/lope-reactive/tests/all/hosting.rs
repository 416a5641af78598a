//! Spaces on stores: leases, fencing, events through the mailbox.

use std::sync::Arc;

use lope_mailbox::Mailbox;
use lope_model::{Span, Timestamp};
use lope_reactive::hosting::{HostError, LeaseRequest, SpaceHost, SpaceStore};
use lope_reactive::javascript::JavaScript;
use lope_reactive::machine::{SpaceOutput, StreamEvent};
use lope_reactive::runner::RecipeRun;
use lope_reactive::{CellAddress, Json, Recipe, RecipeRunner, Schema, Spaces};
use lope_store::{MemoryStore, SystemClock, Tables};

use crate::fixture::{cell, json, space};
use crate::host::modules;

const LEASE: Span = Span::from_secs(15);

fn alias(path: &[&str]) -> serde_json::Value {
    json!({"$alias": {"path": path}})
}

/// Counts what it is sent, keeps a log, shows the sum doubled by a nested recipe and the log's
/// length by a script; starts a child per hundred.
fn recipe() -> Recipe {
    let doubling = json!({
        "result": {"out": alias(&["internal", "out"])},
        "nodes": [{"module": {"type": "native", "implementation": "double"}, "inputs": {"x": alias(&["argument", "x"])},
            "outputs": alias(&["internal", "out"])}]
    });
    let handler = "({n, log, sum}) => { log.push(n); sum.increment(n) }";
    let children = "({sum, child}) => Array.from({length: Math.floor(sum / 100)}, (_, i) => run(child, {x: i}, i))";
    let document = json!({
        "initial": {"internal": {"stream": {"$stream": true}, "sum": 0, "log": []}},
        "result": {"send": alias(&["internal", "stream"]), "sum": alias(&["internal", "sum"]), "log": alias(&["internal", "log"]),
            "twice": alias(&["internal", "nested", "out"]), "length": alias(&["internal", "length"]), "children": alias(&["internal", "children"])},
        "nodes": [
            {"module": {"type": "javascript", "implementation": handler,
                "argumentSchema": {"properties": {"n": true, "log": {"asCell": true}, "sum": {"asCell": true}}}},
             "inputs": {"n": alias(&["internal", "stream"]), "log": alias(&["internal", "log"]), "sum": alias(&["internal", "sum"])}, "outputs": {}},
            {"module": {"type": "recipe", "implementation": doubling}, "inputs": {"x": alias(&["internal", "sum"])}, "outputs": alias(&["internal", "nested"])},
            {"module": {"type": "javascript", "implementation": "({log}) => log.length"}, "inputs": {"log": alias(&["internal", "log"])},
             "outputs": alias(&["internal", "length"])},
            {"module": {"type": "javascript", "implementation": children}, "inputs": {"sum": alias(&["internal", "sum"]), "child": doubling},
             "outputs": alias(&["internal", "children"])}
        ]
    });
    Recipe::parse(&document.into()).unwrap()
}

fn runner() -> RecipeRunner {
    RecipeRunner::new(space("home"), modules(), Box::new(JavaScript::default()))
}

async fn store_of(tables: &Arc<dyn Tables>) -> Result<SpaceStore, HostError> {
    SpaceStore::open(Arc::clone(tables), space("home")).await
}

async fn take(
    tables: &Arc<dyn Tables>,
    now: Timestamp,
) -> Result<SpaceHost<RecipeRunner>, HostError> {
    let asked = LeaseRequest {
        identity: &"me".into(),
        now,
        span: LEASE,
    };
    SpaceHost::take(store_of(tables).await?, runner(), asked).await
}

fn event(id: &str, n: i64) -> StreamEvent {
    StreamEvent {
        id: id.into(),
        stream: cell("result/send"),
        payload: n.into(),
    }
}

/// Starts the recipe and gives the space back.
async fn prepare(tables: &Arc<dyn Tables>) {
    prepare_at(tables, Timestamp::from_millis(0)).await;
}

async fn prepare_at(tables: &Arc<dyn Tables>, now: Timestamp) {
    let mut host = take(tables, now).await.unwrap();
    let mut transaction = host.machine().spaces().begin();
    host.machine()
        .program()
        .run(
            &mut transaction,
            RecipeRun::at(&cell("result")).recipe(&recipe()),
        )
        .unwrap();
    host.edit(1, transaction);
    let told = host.turn(now).await.unwrap();
    assert!(
        told.contains(&SpaceOutput::Edited {
            ticket: 1,
            outcome: Ok(1)
        }),
        "{told:?}"
    );
    host.release().await.unwrap();
}

/// Puts documents into a space, in one wave.
pub(crate) async fn save_as_it_is(tables: &Arc<dyn Tables>, spaces: &Spaces) {
    let now = Timestamp::from_millis(0);
    let mut host = take(tables, now).await.unwrap();
    let mut transaction = host.machine().spaces().begin();
    for (id, value) in spaces.snapshot().documents(&space("home")) {
        let at = CellAddress::document(space("home"), id.clone());
        lope_cells::write::store_as_is(&mut transaction, &at, value).unwrap();
    }
    host.edit(1, transaction);
    host.turn(now).await.unwrap();
    host.release().await.unwrap();
}

async fn shown(tables: &Arc<dyn Tables>) -> Json {
    let spaces = store_of(tables).await.unwrap().load().await.unwrap();
    let shown = spaces
        .begin()
        .project(&cell("result"), &Schema::any())
        .unwrap();
    shown.to_json(&cell("result"))
}

fn memory() -> MemoryStore {
    MemoryStore::new(Arc::new(SystemClock::default()))
}

#[tokio::test]
async fn a_space_has_one_host_and_a_former_one_writes_nothing() {
    let tables = memory().handle().tables;
    prepare(&tables).await;
    let start = Timestamp::from_millis(0);
    let mut first = take(&tables, start).await.unwrap();
    let refused = take(&tables, start).await.unwrap_err();
    assert!(refused.is_passing());
    assert!(
        matches!(refused, HostError::Held { owner, until } if owner == "me" && until == start.plus(LEASE))
    );
    first
        .renew(start.plus(Span::from_secs(10)), LEASE)
        .await
        .unwrap();
    assert!(
        take(&tables, start.plus(LEASE)).await.is_err(),
        "it was renewed"
    );
    let later = start.plus(Span::from_secs(25));
    let mut second = take(&tables, later).await.unwrap();
    store_of(&tables)
        .await
        .unwrap()
        .send(&event("e0-0", 5))
        .await
        .unwrap();
    assert!(
        matches!(first.turn(later).await, Err(HostError::Lost)),
        "fenced by the epoch"
    );
    assert!(matches!(
        first.renew(later, LEASE).await,
        Err(HostError::Lost)
    ));
    second.turn(later).await.unwrap();
    assert_eq!(shown(&tables).await.child("sum"), Some(&5.into()), "once");
    second.release().await.unwrap();
    take(&tables, later).await.unwrap();
}

#[tokio::test]
async fn an_event_that_nobody_handles_and_a_message_that_is_none_are_dead_letters() {
    let tables = memory().handle().tables;
    prepare(&tables).await;
    let store = store_of(&tables).await.unwrap();
    let nobody = StreamEvent {
        stream: cell("nobody/s"),
        ..event("lost", 1)
    };
    store.send(&nobody).await.unwrap();
    let now = Timestamp::from_millis(0);
    let mut host = take(&tables, now).await.unwrap();
    host.turn(now).await.unwrap();
    assert_eq!(store.receipt("lost").await.unwrap(), None, "it waits");
    let later = now.plus(lope_reactive::limit::HANDLER_WAIT);
    host.turn(later).await.unwrap();
    assert_eq!(
        store.receipt("lost").await.unwrap().unwrap().outcome,
        "no handler"
    );
    let mailbox = Mailbox::new(Arc::clone(&tables));
    mailbox
        .put(store.worker(), 9_999, b"junk".to_vec())
        .await
        .unwrap();
    host.turn(later).await.unwrap();
    let dead = mailbox.dead(store.worker(), None, 10).await.unwrap();
    let reasons: Vec<&str> = dead.iter().map(|dead| dead.reason.as_str()).collect();
    assert_eq!(
        reasons,
        ["nobody handled its stream", "it is no event of this space"]
    );
    assert!(
        mailbox
            .list(store.worker(), None, 10)
            .await
            .unwrap()
            .is_empty()
    );
}

/// The dead letters of the space go back into its inbox.
async fn replay(tables: &Arc<dyn Tables>, store: &SpaceStore) -> usize {
    let mailbox = Mailbox::new(Arc::clone(tables));
    mailbox.replay_all(store.worker(), 10).await.unwrap()
}

#[tokio::test]
async fn a_dead_letter_that_is_replayed_is_handled_once() {
    let tables = memory().handle().tables;
    let store = store_of(&tables).await.unwrap();
    store.send(&event("six", 6)).await.unwrap();
    let mut now = Timestamp::from_millis(0);
    let mut host = take(&tables, now).await.unwrap();
    for _ in 0..2 {
        host.turn(now).await.unwrap();
        now = now.plus(lope_reactive::limit::HANDLER_WAIT);
        host.turn(now).await.unwrap();
        let receipt = store.receipt("six").await.unwrap().unwrap();
        assert!(receipt.is_dead(), "nobody handles it, the second time too");
        assert_eq!(replay(&tables, &store).await, 1);
    }
    host.release().await.unwrap();
    prepare_at(&tables, now).await;
    assert_eq!(shown(&tables).await.child("sum"), Some(&6.into()));
    let receipt = store.receipt("six").await.unwrap().unwrap();
    assert_eq!(receipt.outcome, "handled");
    assert_eq!(
        replay(&tables, &store).await,
        0,
        "it is no dead letter any more"
    );
    store.send(&event("six", 6)).await.unwrap();
    take(&tables, now).await.unwrap().turn(now).await.unwrap();
    assert_eq!(shown(&tables).await.child("sum"), Some(&6.into()), "once");
}

#[tokio::test]
async fn an_event_that_waits_already_is_not_refused() {
    let tables = memory().handle().tables;
    prepare(&tables).await;
    let store = store_of(&tables).await.unwrap();
    let mut numbers = Vec::new();
    for number in 0..256 {
        numbers.push(store.send(&event(&format!("e{number}"), 1)).await.unwrap());
    }
    assert_eq!(store.send(&event("e7", 1)).await.unwrap(), numbers[7]);
    let now = Timestamp::from_millis(0);
    take(&tables, now).await.unwrap().turn(now).await.unwrap();
    assert_eq!(shown(&tables).await.child("sum"), Some(&256.into()));
}

#[tokio::test]
async fn a_sender_beyond_the_backlog_is_refused_and_may_try_again() {
    let tables = memory().handle().tables;
    prepare(&tables).await;
    let store = store_of(&tables).await.unwrap();
    for number in 0..256 {
        store.send(&event(&format!("e{number}"), 1)).await.unwrap();
    }
    let refused = store.send(&event("more", 1)).await.unwrap_err();
    assert!(refused.is_passing() && matches!(refused, HostError::Backlog { .. }));
    let other = StreamEvent {
        stream: cell("result/other"),
        ..event("other", 1)
    };
    store.send(&other).await.unwrap();
    let now = Timestamp::from_millis(0);
    let mut host = take(&tables, now).await.unwrap();
    host.turn(now).await.unwrap();
    store.send(&event("more", 1)).await.unwrap();
    host.turn(now).await.unwrap();
    assert_eq!(shown(&tables).await.child("sum"), Some(&257.into()));
}

#[tokio::test]
async fn a_thousand_spaces_on_one_store_do_not_mix() {
    let tables = memory().handle().tables;
    let now = Timestamp::from_millis(0);
    let doubling = Recipe::parse(&Json::from(json!({
        "result": {"out": alias(&["internal", "out"])},
        "nodes": [{"module": {"type": "native", "implementation": "double"}, "inputs": {"x": alias(&["argument", "x"])},
            "outputs": alias(&["internal", "out"])}]
    })))
    .unwrap();
    let mut hosts = Vec::new();
    for number in 0..1_000_i64 {
        let name = space(&format!("s{number}"));
        let store = SpaceStore::open(Arc::clone(&tables), name.clone())
            .await
            .unwrap();
        let runner = RecipeRunner::new(name.clone(), modules(), Box::new(JavaScript::default()));
        let asked = LeaseRequest {
            identity: &"me".into(),
            now,
            span: LEASE,
        };
        let mut host = SpaceHost::take(store, runner, asked).await.unwrap();
        let mut transaction = host.machine().spaces().begin();
        let result = cell(&format!("s{number}:result"));
        let argument = Json::from(json!({"x": number}));
        let run = RecipeRun::at(&result);
        host.machine()
            .program()
            .run(&mut transaction, run.recipe(&doubling).argument(&argument))
            .unwrap();
        host.edit(0, transaction);
        hosts.push(host);
    }
    for host in &mut hosts {
        host.turn(now).await.unwrap();
        assert!(host.is_idle(now));
    }
    for number in [0, 1, 10, 100, 999_i64] {
        let store = SpaceStore::open(Arc::clone(&tables), space(&format!("s{number}")))
            .await
            .unwrap();
        let spaces = store.load().await.unwrap();
        let out = spaces.begin().get(&cell(&format!("s{number}:result/out")));
        assert_eq!(out, Some((number * 2).into()));
    }
}
