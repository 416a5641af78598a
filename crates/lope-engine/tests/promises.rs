//! What holds however often a run is let go and taken up again: children are told of a cancel,
//! messages are sent once, and what is discarded leaves nothing behind.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use lope_engine::client::{self, STOPPED};
use lope_engine::mailbox_send::OutgoingMessage;
use lope_engine::secret::Secrets;
use lope_engine::{Engine, Settings, codec};
use lope_flow::law::EventKind;
use lope_model::{RunId, Value, failure};
use lope_store::runs::{Deliver, Delivered, Reach, RunFilter, RunRecord};
use lope_store::tables::{Append, TableId};

use crate::fixture::{EngineFixture, settings};

fn is_released(record: &RunRecord) -> bool {
    record.owner.is_none() && record.status.as_str() == "waiting"
}

async fn tell(fixture: &EngineFixture, run: RunId, kind: EventKind) {
    client::tell(&fixture.store, run, &kind, None)
        .await
        .unwrap();
}

/// A parent that waits for its child and has left memory with nothing but its first row.
async fn waiting_parent(fixture: &EngineFixture, engine: &Engine) -> (RunId, RunId) {
    let child = "{ name: child, steps: { w: { wait: go } } }";
    let definition = lope_definition::yaml::read(child, "child.yaml").unwrap();
    let plan = lope_flow::law::Plan::new(&definition).unwrap();
    client::deploy(&fixture.store, &plan).await.unwrap();
    let parent = "{ name: parent, steps: { k: { workflow: child } } }";
    let run = fixture.start(engine, parent, Value::Null).await;
    fixture.stands(run, is_released).await;
    let filter = RunFilter {
        parent: Some(run),
        limit: 10,
        ..RunFilter::default()
    };
    let children = fixture.store.runs.list(filter).await.unwrap();
    assert_eq!(children.len(), 1);
    fixture.stands(children[0].run, is_released).await;
    (run, children[0].run)
}

/// A cancelled parent cancels its child, also if it had left memory since it started it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_parent_cancels_its_child() {
    let fixture = EngineFixture::new(|_| None);
    let engine = fixture.engine();
    let (parent, child) = waiting_parent(&fixture, &engine).await;
    tell(&fixture, parent, EventKind::Cancel { force: false }).await;
    assert_eq!(fixture.end(parent).await.status.as_str(), "cancelled");
    assert_eq!(fixture.end(child).await.status.as_str(), "cancelled");
}

static SENT: AtomicU32 = AtomicU32::new(0);

#[allow(clippy::unnecessary_wraps, reason = "the shape of every encoder")]
fn counted(message: OutgoingMessage<'_>) -> Result<Append, String> {
    SENT.fetch_add(1, Ordering::SeqCst);
    Ok(Append {
        table: TableId::INBOX,
        prefix: b"test".to_vec(),
        sequence: b"test".to_vec(),
        value: message.run.as_bytes().to_vec(),
    })
}

/// A message whose step is settled is not sent again, also if the run left memory with nothing but
/// its first row.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_settled_send_happens_once() {
    let fixture = EngineFixture::new(|_| None);
    let engine = fixture.engine_with(Settings {
        mailbox_send: Some(counted),
        ..settings()
    });
    let yaml = "
name: order
steps:
  s: { send: { mailbox: '5', id: order-1, payload: hello } }
  w: { wait: go, needs: [s] }
";
    let run = fixture.start(&engine, yaml, Value::Null).await;
    fixture.stands(run, is_released).await;
    assert_eq!(SENT.load(Ordering::SeqCst), 1);
    let go = EventKind::Signal {
        name: "go".into(),
        value: Value::Null,
    };
    tell(&fixture, run, go).await;
    fixture.result(run).await;
    assert_eq!(SENT.load(Ordering::SeqCst), 1);
    assert_eq!(fixture.gapless(run).await.len(), 2);
}

/// A run that is stopped with what it had not written discarded goes on from what was written,
/// however much that was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_discard_of_much_that_was_unwritten_leaves_a_run_that_goes_on() {
    let fixture = EngineFixture::new(|task| {
        (&*task.action == "large").then(|| Ok(Value::str("x".repeat(3_000))))
    });
    let engine = fixture.engine();
    let yaml = "
name: large
checkpoint: manual
steps:
  a: { each: '${{ range(40) }}', as: n, parallel: max, steps: { go: { action: large } } }
  b: { action: hang, needs: [a] }
";
    let run = fixture.start(&engine, yaml, Value::Null).await;
    fixture.hanging().await;
    engine.discard(run);
    let record = fixture.stands(run, |record| record.parked.is_some()).await;
    assert_eq!(record.parked.as_deref(), Some(STOPPED));
    assert_eq!(fixture.calls(), 41);
    tell(&fixture, run, EventKind::Resume).await;
    fixture.stands(run, |record| record.owner.is_some()).await;
    fixture.hanging().await;
    assert_eq!(fixture.calls(), 82, "all is made again");
}

/// Many signals in one call; all must be accepted.
async fn flood(fixture: &EngineFixture, run: RunId, count: usize) {
    let signal = EventKind::Signal {
        name: "x".into(),
        value: Value::Null,
    };
    let mail = (0..count).map(|number| codec::mail(run, format!("x{number}"), &signal));
    let delivered = fixture.store.runs.deliver(mail.collect()).await.unwrap();
    assert!(delivered.iter().all(|it| *it == Delivered::Accepted));
}

/// "Mail that an older runner cannot decode is marked taken": it stays for a program that can read
/// it, and is in nobody's way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mail_that_cannot_be_read_stays_and_the_rest_is_read() {
    let fixture = EngineFixture::new(|_| None);
    let engine = fixture.engine();
    let yaml = "{ name: w, steps: { a: { wait: go }, b: { wait: more, needs: [a] } } }";
    let run = fixture.start(&engine, yaml, Value::Null).await;
    let strange = Deliver {
        run,
        id: "strange".to_owned(),
        kind: "of-tomorrow".to_owned(),
        body: vec![0xc1],
        reach: Reach::Live,
        reserved: false,
    };
    let delivered = fixture.store.runs.deliver(vec![strange]).await.unwrap();
    assert_eq!(delivered, [Delivered::Accepted]);
    let signal = |name: &str| EventKind::Signal {
        name: name.into(),
        value: Value::Null,
    };
    tell(&fixture, run, signal("go")).await;
    fixture.stands(run, |record| record.head == 2).await;
    fixture.stands(run, is_released).await;
    let loaded = fixture.store.runs.load(&[run]).await.unwrap().remove(0);
    let waiting: Vec<String> = loaded.unwrap().mail.into_iter().map(|it| it.id).collect();
    assert_eq!(waiting, ["strange"]);
    tell(&fixture, run, signal("more")).await;
    fixture.result(run).await;
}

/// Pause a run, until it has left memory.
async fn pause(fixture: &EngineFixture, run: RunId) {
    tell(fixture, run, EventKind::Pause { reason: None }).await;
    fixture
        .stands(run, |record| {
            record.owner.is_none() && record.parked.is_some()
        })
        .await;
}

/// "At 100,000 signals a paused run can be neither resumed nor cancelled; above about 50,000 taking
/// it up breaks a limit and sets it aside."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_whose_mail_is_full_is_taken_up_and_cancelled() {
    let fixture = EngineFixture::new(|_| None);
    let engine = fixture.engine();
    let run = fixture
        .start(
            &engine,
            "{ name: w, steps: { w: { wait: go } } }",
            Value::Null,
        )
        .await;
    pause(&fixture, run).await;
    flood(&fixture, run, 100_000).await;
    tell(&fixture, run, EventKind::Cancel { force: false }).await;
    assert_eq!(fixture.end(run).await.status.as_str(), "cancelled");
}

/// The same run resumed: it reads its mail bite by bite, and what it waits for is behind all of it.
/// What finds no room is refused when it is delivered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_whose_mail_is_full_is_resumed_and_finds_what_it_waits_for() {
    let fixture = EngineFixture::new(|_| None);
    let engine = fixture.engine();
    let yaml = "{ name: w, steps: { w: { wait: go } } }";
    let run = fixture.start(&engine, yaml, Value::Null).await;
    pause(&fixture, run).await;
    flood(&fixture, run, 99_999).await;
    let go = EventKind::Signal {
        name: "go".into(),
        value: Value::Int(7),
    };
    for expected in [Delivered::Accepted, Delivered::Full] {
        let delivered = client::tell(&fixture.store, run, &go, None).await.unwrap();
        assert_eq!(delivered, expected);
    }
    tell(&fixture, run, EventKind::Resume).await;
    assert_eq!(fixture.result(run).await, Value::Int(7));
}

/// "A child's end to a full parent is lost": it has room of its own, and is read first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_a_child_reaches_a_parent_whose_mail_is_full() {
    let fixture = EngineFixture::new(|_| None);
    let engine = fixture.engine();
    let (parent, child) = waiting_parent(&fixture, &engine).await;
    pause(&fixture, parent).await;
    flood(&fixture, parent, 100_000).await;
    let go = EventKind::Signal {
        name: "go".into(),
        value: Value::Int(7),
    };
    tell(&fixture, child, go).await;
    assert_eq!(fixture.result(child).await, Value::Int(7));
    tell(&fixture, parent, EventKind::Resume).await;
    assert_eq!(fixture.result(parent).await, Value::Int(7));
}

/// "Beyond 10,000 buffered signals they are dropped although delivery said accepted": those for
/// which there is no room wait where they are, and one that is waited for passes them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signals_that_nobody_wants_yet_wait_and_hide_none_that_is_wanted() {
    let fixture = EngineFixture::new(|_| None);
    let engine = fixture.engine();
    let run = fixture
        .start(
            &engine,
            "{ name: w, steps: { w: { wait: go } } }",
            Value::Null,
        )
        .await;
    flood(&fixture, run, 12_000).await;
    let left = async || {
        let loaded = fixture.store.runs.load(&[run]).await.unwrap().remove(0);
        loaded.unwrap().mail.len()
    };
    while left().await > 2_000 {
        tokio::task::yield_now().await;
    }
    fixture.stands(run, is_released).await;
    assert_eq!(left().await, 2_000);
    let go = EventKind::Signal {
        name: "go".into(),
        value: Value::Null,
    };
    tell(&fixture, run, go).await;
    assert_eq!(fixture.end(run).await.status.as_str(), "completed");
}

/// A result that no store could take fails its run with a word about it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_that_is_too_large_is_a_failure() {
    let fixture = EngineFixture::new(|_| Some(Ok(Value::str("x".repeat(9 * 1_024 * 1_024)))));
    let engine = fixture.engine();
    let yaml = "
name: large
steps:
  a: { action: large }
  done: { return: '${{ [a, a] }}', needs: [a] }
";
    let run = fixture.start(&engine, yaml, Value::Null).await;
    let failure = fixture.failure(run).await;
    assert!(failure.is_a(failure::kind::LIMIT), "{failure:?}");
}

/// Knows one secret, panics at another, and takes its time over a third until it is let.
#[derive(Debug, Default)]
struct Moody {
    is_let: Mutex<bool>,
    /// How often the third was asked for.
    slow: Mutex<usize>,
    notification: Condvar,
}

impl Secrets for Moody {
    fn value(&self, name: &str) -> Result<String, String> {
        assert_ne!(name, "bad", "not today");
        if name == "slow" {
            *self.slow.lock().unwrap() += 1;
        }
        let mut is_let = self.is_let.lock().unwrap();
        while name == "slow" && !*is_let {
            is_let = self.notification.wait(is_let).unwrap();
        }
        Ok("s3cret".to_owned())
    }
}

/// "A panicking or slow `Secrets`: the dispatcher goes on."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_that_panic_or_take_their_time_hold_nobody_else_up() {
    let fixture = EngineFixture::new(|_| Some(Ok(Value::Int(1))));
    let moody = Arc::new(Moody::default());
    let engine = fixture.engine_with(Settings {
        secrets: Some(Arc::clone(&moody) as Arc<dyn Secrets>),
        concurrency: 1_000,
        ..settings()
    });
    let with = |secret: &str| {
        format!(
            "{{ name: {secret}, steps: {{ a: {{ action: x, with: '${{{{ secrets.{secret} }}}}' }} }} }}"
        )
    };
    let slow = fixture.start(&engine, &with("slow"), Value::Null).await;
    // More than are looked up at a time.
    let mut many = Vec::new();
    for _ in 0..300 {
        many.push(fixture.start(&engine, &with("slow"), Value::Null).await);
    }
    while *moody.slow.lock().unwrap() < 32 {
        tokio::task::yield_now().await;
    }
    let bad = fixture.start(&engine, &with("bad"), Value::Null).await;
    let failure = fixture.failure(bad).await;
    assert!(failure.message.contains("not today"), "{failure:?}");
    let good = fixture.start(&engine, &with("good"), Value::Null).await;
    assert_eq!(fixture.end(good).await.status.as_str(), "completed");
    *moody.is_let.lock().unwrap() = true;
    moody.notification.notify_all();
    for run in many.into_iter().chain([slow]) {
        assert_eq!(fixture.end(run).await.status.as_str(), "completed");
    }
}
