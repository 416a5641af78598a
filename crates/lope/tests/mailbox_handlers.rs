//! Messages that start workflow runs and messages that actions handle, killed at every call of the
//! store.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use lope::Client;
use lope::mailbox::frame::{Message, MessageKind};
use lope::mailbox::key::WorkerId;
use lope::mailbox::record::Owner;
use lope::mailbox::time::TimeHooks;
use lope::mailbox::{
    ActionHandler, ConsumerConfig, ConsumerLoop, ConsumerLoopError, Handler, Mailbox,
    NEVER_FAILURE, Until, WorkflowHandler, WorkflowSource, run_key,
};
use lope_definition::yaml;
use lope_engine::client;
use lope_flow::law::Plan;
use lope_model::{Failure, Span, Value};
use lope_store::faults::{InjectedFault, StoreCall, with_faults};
use lope_store::runs::{RunFilter, RunRecord};
use lope_store::{MemoryStore, Store};
use lope_workers::Functions;
use tokio::runtime::Handle;

const MESSAGES: usize = 5;
const SENDER: i64 = 8;

fn plan(text: &str) -> Arc<Plan> {
    Arc::new(Plan::new(&yaml::read(text, "test.yaml").unwrap()).unwrap())
}

fn seven() -> WorkerId {
    WorkerId::new(7).unwrap()
}

/// Work until nothing is left, or until the store dies.
async fn work(
    store: &Store,
    handler: impl Handler + 'static,
) -> Result<ConsumerLoop, ConsumerLoopError> {
    let mut config = ConsumerConfig::new(seven(), Owner::new("desk").unwrap());
    (config.max_batch, config.retry.base) = (2, Span::from_millis(1));
    let init = ConsumerLoop::init(
        Arc::clone(&store.tables),
        Arc::new(handler),
        config,
        TimeHooks::default(),
    );
    let mut worker = init
        .await
        .map_err(|error| ConsumerLoopError::Thread(std::io::Error::other(error)))?;
    worker.run(Until::Idle).await.map(|()| worker)
}

async fn send(store: &Store, id: &str, payload: &str) {
    let message = Message::new(MessageKind::Command, 7, id.as_bytes(), payload.as_bytes());
    let message = Message {
        from_worker: Some(SENDER),
        ..message
    };
    Mailbox::new(Arc::clone(&store.tables))
        .send(&message)
        .await
        .unwrap();
}

async fn send_all(store: &Store) {
    for number in 0..MESSAGES {
        send(store, &format!("m{number}"), &number.to_string()).await;
    }
}

async fn runs(store: &Store) -> Vec<RunRecord> {
    let filter = RunFilter {
        tags: BTreeMap::from([("mailbox".into(), "7".into())]),
        limit: 100,
        ..RunFilter::default()
    };
    store.runs.list(filter).await.unwrap()
}

/// The replies to the sender, as ids with payloads.
async fn replies(store: &Store) -> Vec<(String, String)> {
    let mailbox = Mailbox::new(Arc::clone(&store.tables));
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let queued = mailbox
        .list(WorkerId::new(SENDER).unwrap(), None, 100)
        .await
        .unwrap();
    queued
        .iter()
        .map(|row| row.message().unwrap())
        .map(|row| (text(row.id), text(row.payload)))
        .collect()
}

/// Was each message answered, and once?
async fn is_answered(store: &Store) -> bool {
    let replies = replies(store).await;
    let ids: BTreeMap<&String, &String> =
        replies.iter().map(|(id, payload)| (id, payload)).collect();
    (ids.len(), replies.len()) == (MESSAGES, MESSAGES)
}

/// A store that dies at a call, before it or right after it, and the store behind it.
fn mortal(memory: &MemoryStore, dies_at: u64, carried_out: bool) -> Store {
    let hook = move |call: StoreCall| match (call.number == dies_at, carried_out) {
        (false, _) => InjectedFault::None,
        (true, false) => InjectedFault::CrashBefore,
        (true, true) => InjectedFault::CrashAfter,
    };
    with_faults(memory.handle(), Arc::new(hook))
}

/// "a workflow per message (`on message → start run`, dedupe by message id)", "each through the
/// same kill test"
#[tokio::test]
async fn killed_at_every_call_each_message_starts_one_run() {
    let plan = plan("name: order\nsteps: { done: { return: '${{ input }}' } }");
    let mut deaths = 0;
    for carried_out in [false, true] {
        for dies_at in 0.. {
            let memory = MemoryStore::new(Arc::new(lope_store::SystemClock::default()));
            let store = memory.handle();
            client::deploy(&store, &plan).await.unwrap();
            send_all(&store).await;
            let handler = |store: Store| {
                WorkflowHandler::new(Client::new(store), WorkflowSource::Plan(Arc::clone(&plan)))
            };
            let dying = mortal(&memory, dies_at, carried_out);
            let lived = work(&dying, handler(dying.clone())).await.is_ok();
            work(&store, handler(store.clone())).await.unwrap();
            let mut keys: Vec<String> = runs(&store)
                .await
                .into_iter()
                .filter_map(|run| run.key)
                .collect();
            keys.sort();
            let expected: Vec<String> = (0..MESSAGES)
                .map(|number| run_key(seven(), format!("m{number}").as_bytes()))
                .collect();
            assert_eq!(keys, expected, "death at call {dies_at}");
            assert!(is_answered(&store).await, "death at call {dies_at}");
            if lived {
                break;
            }
            deaths += 1;
        }
    }
    println!("{deaths} deaths");
    assert!(deaths > 20, "the calls were too few to die at");
}

#[tokio::test]
async fn the_payload_is_the_input_and_the_sender_learns_the_run() {
    let store = MemoryStore::open();
    let plan = plan("name: order\nsteps: { done: { return: '${{ input }}' } }");
    client::deploy(&store, &plan).await.unwrap();
    for (id, payload) in [
        ("a", r#"{"sum": 3}"#),
        ("again", "1"),
        ("again", "2"),
        ("bad", "{oops"),
        ("none", ""),
    ] {
        send(&store, id, payload).await;
    }
    let worker = work(
        &store,
        WorkflowHandler::new(Client::new(store.clone()), WorkflowSource::Plan(plan)),
    )
    .await
    .unwrap();
    let counts = worker.counters().read();
    assert_eq!((counts.successes, counts.dead_letters), (4, 1));
    let runs = runs(&store).await;
    assert_eq!(runs.len(), 3, "one id, one run");
    let replies = replies(&store).await;
    let run = runs
        .iter()
        .find(|run| run.key.as_deref() == Some("mailbox:7:a"))
        .unwrap();
    assert!(
        replies.contains(&("re:a".to_owned(), run.run.to_string())),
        "{replies:?}"
    );
    let dead = Mailbox::new(Arc::clone(&store.tables))
        .dead(seven(), None, 9)
        .await
        .unwrap();
    assert!(
        dead[0].reason.starts_with("failed: the payload is "),
        "{}",
        dead[0].reason
    );
}

/// A message whose payload the workflow does not take starts nothing.
#[tokio::test]
async fn a_payload_that_does_not_fit_is_a_dead_letter() {
    let store = MemoryStore::open();
    let plan = plan(
        "{ name: order, input: { type: object, required: [sum] }, steps: { done: { return: 1 } } }",
    );
    client::deploy(&store, &plan).await.unwrap();
    send(&store, "good", r#"{"sum": 3}"#).await;
    send(&store, "bad", "{}").await;
    let handler = WorkflowHandler::new(Client::new(store.clone()), WorkflowSource::Plan(plan));
    work(&store, handler).await.unwrap();
    let keys: Vec<_> = runs(&store).await.into_iter().map(|run| run.key).collect();
    assert_eq!(keys, [Some("mailbox:7:good".to_owned())]);
    let mailbox = Mailbox::new(Arc::clone(&store.tables));
    let dead = mailbox.dead(seven(), None, 9).await.unwrap();
    assert_eq!(dead.len(), 1);
    assert!(
        dead[0].reason.contains("does not fit workflow 'order'"),
        "{}",
        dead[0].reason
    );
}

#[tokio::test]
async fn a_name_means_what_is_deployed_last_and_one_that_nobody_deployed_stops_the_worker() {
    let store = MemoryStore::open();
    send(&store, "a", "1").await;
    let handler = || {
        WorkflowHandler::new(
            Client::new(store.clone()),
            WorkflowSource::Latest("order".into()),
        )
    };
    let error = work(&store, handler()).await.unwrap_err();
    assert!(
        error
            .to_string()
            .contains("no workflow 'order' is deployed"),
        "{error}"
    );
    let (first, second) = (
        plan("name: order\nsteps: { a: { let: 1 } }"),
        plan("name: order\nsteps: { a: { let: 2 } }"),
    );
    client::deploy(&store, &first).await.unwrap();
    work(&store, handler()).await.unwrap();
    client::deploy(&store, &second).await.unwrap();
    send(&store, "b", "1").await;
    work(&store, handler()).await.unwrap();
    let version = |key: &str, runs: &[RunRecord]| {
        runs.iter()
            .find(|run| run.key.as_deref() == Some(key))
            .map(|run| run.version)
    };
    let runs = runs(&store).await;
    assert_eq!(version("mailbox:7:a", &runs), Some(first.version()));
    assert_eq!(version("mailbox:7:b", &runs), Some(second.version()));
}

/// An action that notes what it is given, and fails as its message asks it to.
fn action(seen: &Arc<Mutex<Vec<Value>>>) -> ActionHandler {
    let functions = Functions::new(Handle::current());
    let seen = Arc::clone(seen);
    functions.add("handle", move |arguments| {
        let message = arguments.get("message").cloned().unwrap_or(Value::Null);
        seen.lock().unwrap().push(message.clone());
        async move {
            match (
                message.get("payload").and_then(Value::as_str),
                message.get("attempt").and_then(Value::as_int),
            ) {
                (Some("never"), _) => Err(Failure::new(NEVER_FAILURE, "no")),
                (Some("later"), Some(1)) => Err(Failure::new("ConnectionError", "not yet")),
                (Some("panic"), Some(1)) => panic!("once"),
                _ => Ok(Value::str("done")),
            }
        }
    });
    ActionHandler {
        executor: Arc::new(functions),
        kind: "action".into(),
        action: "handle".into(),
        timeout: None,
    }
}

#[tokio::test]
async fn an_action_gets_the_message_and_its_failures_are_tried_again() {
    let (store, seen) = (MemoryStore::open(), Arc::default());
    for (id, payload) in [
        ("a", r#"{"sum": 3}"#),
        ("b", "never"),
        ("c", "later"),
        ("d", "panic"),
    ] {
        send(&store, id, payload).await;
    }
    let worker = work(&store, action(&seen)).await.unwrap();
    let counts = worker.counters().read();
    assert_eq!(
        (counts.successes, counts.dead_letters, counts.requeues),
        (3, 1, 2)
    );
    let first = seen.lock().unwrap()[0].clone();
    let of = |name: &str| first.get(name).cloned().unwrap();
    assert_eq!(
        (of("id"), of("kind"), of("worker")),
        (Value::str("a"), Value::str("command"), Value::Int(7))
    );
    assert_eq!(of("payload").get("sum"), Some(&Value::Int(3)));
    let dead = Mailbox::new(Arc::clone(&store.tables))
        .dead(seven(), None, 9)
        .await
        .unwrap();
    assert_eq!(
        (dead[0].seq, dead[0].reason.as_str()),
        (2, "failed: Never: no")
    );
    assert!(
        replies(&store)
            .await
            .contains(&("re:a".into(), r#""done""#.into()))
    );
}

#[tokio::test]
async fn an_action_that_nobody_serves_stops_the_worker_and_one_that_is_slow_is_cancelled() {
    let store = MemoryStore::open();
    send(&store, "a", "1").await;
    let functions = Functions::new(Handle::current());
    functions.add("slow", |_| std::future::pending());
    let executor: Arc<Functions> = Arc::new(functions);
    let handler = |action: &str| ActionHandler {
        executor: executor.clone(),
        kind: "action".into(),
        action: action.into(),
        timeout: Some(Span::from_millis(5)),
    };
    let error = work(&store, handler("nobody")).await.unwrap_err();
    assert!(
        error.to_string().contains("serves the action 'nobody'"),
        "{error}"
    );
    work(&store, handler("slow")).await.unwrap();
    let dead = Mailbox::new(Arc::clone(&store.tables))
        .dead(seven(), None, 9)
        .await
        .unwrap();
    assert_eq!(
        (dead[0].attempts, dead[0].reason.as_str()),
        (4, "busy: Timeout: it took longer than 5ms")
    );
}

/// The same kill test for actions: each message is answered once, however often its action had to
/// be called.
#[tokio::test]
async fn killed_at_every_call_each_message_is_answered_once() {
    for carried_out in [false, true] {
        for dies_at in 0.. {
            let memory = MemoryStore::new(Arc::new(lope_store::SystemClock::default()));
            let (store, seen) = (memory.handle(), Arc::default());
            send_all(&store).await;
            let lived = work(&mortal(&memory, dies_at, carried_out), action(&seen))
                .await
                .is_ok();
            work(&store, action(&seen)).await.unwrap();
            assert!(is_answered(&store).await, "death at call {dies_at}");
            assert!(seen.lock().unwrap().len() >= MESSAGES);
            if lived {
                break;
            }
        }
    }
}
