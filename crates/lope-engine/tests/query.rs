//! Looking at runs from outside, and forking them, on the memory store with a real engine.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lope_engine::QueueLimits;
use lope_engine::client::{self, RunStartOptions};
use lope_engine::executor::{Done, Executor, Task, Token};
use lope_engine::fork::{FORKED_FROM, Fork, Forked, fork};
use lope_engine::query::{self, FoundRun};
use lope_engine::{Engine, Executors, Settings, codec};
use lope_flow::history::ExecutionStatus;
use lope_flow::law::{Plan, Settled};
use lope_model::{Failure, RunId, Timestamp, Value};
use lope_store::Store;
use lope_store::memory::MemoryStore;
use lope_store::runs::{Admitted, RunRecord};

/// Counts its calls; the action `fail` fails while it is told to.
struct TestExecutor {
    calls: Mutex<Vec<String>>,
    failing: AtomicU32,
}

impl Executor for TestExecutor {
    fn start(&self, task: Task, done: Done) {
        self.calls
            .lock()
            .unwrap()
            .push(format!("{}:{}", task.token.execution, task.action));
        let result = match &*task.action {
            "fail" if self.failing.load(Ordering::SeqCst) == 1 => {
                Err(Failure::new("Boom", "told to"))
            }
            _ => Ok(task.arguments.get("v").cloned().unwrap_or_default()),
        };
        done.finish(result, Some("hand".into()));
    }

    fn cancel(&self, _token: &Token) {}
}

struct EngineFixture {
    store: Store,
    test_executor: Arc<TestExecutor>,
    engine: Engine,
}

impl EngineFixture {
    fn new() -> Self {
        let (store, test_executor) = (
            MemoryStore::open(),
            Arc::new(TestExecutor {
                calls: Mutex::default(),
                failing: AtomicU32::new(1),
            }),
        );
        let executor: Arc<dyn Executor> = test_executor.clone();
        let executors: Executors = [(Arc::from("action"), executor)].into_iter().collect();
        let engine = Engine::begin(store.clone(), executors, Settings::default()).unwrap();
        Self {
            store,
            test_executor,
            engine,
        }
    }

    async fn plan(&self, yaml: &str) -> Arc<Plan> {
        let definition = lope_definition::yaml::read(yaml, "test.yaml").unwrap();
        let plan = Arc::new(Plan::new(&definition).unwrap());
        client::deploy(&self.store, &plan).await.unwrap();
        plan
    }

    async fn start(&self, plan: &Plan, key: &str) -> RunId {
        let options = RunStartOptions {
            input: Some(Value::Int(1)),
            key: Some(key.to_owned()),
            ..RunStartOptions::default()
        };
        let (run, admitted) = client::start(
            &self.store,
            plan,
            options,
            &QueueLimits::new(),
            Timestamp::EPOCH,
        )
        .await
        .unwrap();
        assert!(matches!(admitted, Admitted::Created { .. }));
        run
    }

    async fn end(&self, run: RunId) -> RunRecord {
        let waiting = client::wait(&self.store, run);
        tokio::time::timeout(Duration::from_secs(120), waiting)
            .await
            .expect("it ends in time")
            .unwrap()
            .unwrap()
    }

    fn calls(&self) -> Vec<String> {
        std::mem::take(&mut *self.test_executor.calls.lock().unwrap())
    }
}

const THREE: &str = "
name: three
steps:
  a: { action: say, with: { v: 1 } }
  b: { action: say, with: { v: '${{ a + 1 }}' } }
  c: { action: fail, with: { v: '${{ b + 1 }}' } }
  d: { workflow: child, with: '${{ c }}' }
  done: { return: '${{ [a, b, c, d] }}' }
";
const CHILD: &str =
    "{ name: child, steps: { e: { action: say, with: { v: '${{ input * 10 }}' } } } }";

/// "fork from any journal position" (behaviours, operations).
#[tokio::test(flavor = "multi_thread")]
async fn a_fork_shares_what_was_settled_and_makes_the_rest_anew() {
    let fixture = EngineFixture::new();
    fixture.test_executor.failing.store(0, Ordering::SeqCst);
    fixture.plan(CHILD).await;
    let plan = fixture.plan(THREE).await;
    let run = fixture.start(&plan, "first").await;
    let record = fixture.end(run).await;
    assert_eq!(fixture.calls(), ["a:say", "b:say", "c:fail", "e:say"]);
    for (at, calls) in [
        (1, vec!["a:say", "b:say", "c:fail", "e:say"]),
        (3, vec!["c:fail", "e:say"]),
        (4, vec!["e:say"]),
    ] {
        let asked = Fork {
            at: Some(at),
            key: None,
        };
        let Forked::Run { run: copy, .. } = fork(&fixture.store, &record, asked, Timestamp::EPOCH)
            .await
            .unwrap()
        else {
            panic!("it can be forked at {at}");
        };
        let ended = fixture.end(copy).await;
        assert_eq!(ended.result, record.result, "forked at {at}");
        assert_eq!(
            (fixture.calls(), &ended.tags[FORKED_FROM]),
            (
                calls.into_iter().map(str::to_owned).collect(),
                &run.to_string()
            )
        );
    }
    let refused = async |at| {
        fork(
            &fixture.store,
            &record,
            Fork { at, key: None },
            Timestamp::EPOCH,
        )
        .await
        .unwrap()
    };
    assert_eq!(
        refused(Some(0)).await,
        Forked::NoSuchRow {
            first: 1,
            last: record.head
        }
    );
    assert_eq!(
        refused(Some(99)).await,
        Forked::NoSuchRow {
            first: 1,
            last: record.head
        }
    );
    assert_eq!(
        refused(None).await,
        Forked::Ended {
            last: record.head - 1
        }
    );
    let taken = Fork {
        at: Some(2),
        key: Some("first".to_owned()),
    };
    assert_eq!(
        fork(&fixture.store, &record, taken, Timestamp::EPOCH)
            .await
            .unwrap(),
        Forked::Exists { run }
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_of_a_failed_run_goes_on_where_it_failed_and_leaves_the_original_alone() {
    let fixture = EngineFixture::new();
    fixture.plan(CHILD).await;
    let plan = fixture.plan(THREE).await;
    let run = fixture.start(&plan, "failed").await;
    let record = fixture.end(run).await;
    assert_eq!(
        (record.status.as_str(), fixture.calls()),
        (
            "failed",
            vec!["a:say".into(), "b:say".into(), "c:fail".into()]
        )
    );
    fixture.test_executor.failing.store(0, Ordering::SeqCst);
    let forked = fork(&fixture.store, &record, Fork::default(), Timestamp::EPOCH)
        .await
        .unwrap();
    let Forked::Run { run: copy, at } = forked else {
        panic!("{forked:?}")
    };
    let ended = fixture.end(copy).await;
    assert_eq!(
        (at, ended.status.as_str(), fixture.calls()),
        (
            record.head,
            "completed",
            vec!["c:fail".into(), "e:say".into()]
        )
    );
    let result = codec::read_result(&ended.result.unwrap()).unwrap();
    assert_eq!(result, Value::list([1, 2, 3, 30].map(Value::Int).to_vec()));
    assert_eq!(
        fixture.store.runs.run(run).await.unwrap().unwrap(),
        record,
        "the original is as it was"
    );
    // The copy of a copy, from a journal that does not begin at 1.
    let copied = fixture.store.runs.run(copy).await.unwrap().unwrap();
    let asked = Fork {
        at: Some(record.head + 2),
        key: None,
    };
    let Forked::Run { run: second, .. } = fork(&fixture.store, &copied, asked, Timestamp::EPOCH)
        .await
        .unwrap()
    else {
        panic!("a copy can be copied");
    };
    assert_eq!(fixture.end(second).await.status.as_str(), "completed");
    fixture
        .engine
        .shutdown(Duration::from_secs(5))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_found_by_id_key_and_beginning_and_its_history_can_be_read_at_any_row() {
    let fixture = EngineFixture::new();
    fixture.test_executor.failing.store(0, Ordering::SeqCst);
    fixture.plan(CHILD).await;
    let plan = fixture.plan(THREE).await;
    let (run, other) = (
        fixture.start(&plan, "k").await,
        fixture.start(&plan, "l").await,
    );
    let record = fixture.end(run).await;
    fixture.end(other).await;
    let text = run.to_string();
    for name in [text.as_str(), "k", &text[..35], &text.to_uppercase()] {
        let found = query::find(&fixture.store, name).await.unwrap();
        assert!(
            matches!(&found, FoundRun::Run(it) if *it == run),
            "{name}: {found:?}"
        );
    }
    assert!(matches!(
        query::find(&fixture.store, &text[..4]).await.unwrap(),
        FoundRun::Several(..)
    ));
    for name in [
        "",
        "nobody",
        "ffff",
        "00000000-0000-0000-0000-000000000000",
        "a\0b",
    ] {
        assert!(
            matches!(
                query::find(&fixture.store, name).await.unwrap(),
                FoundRun::Nothing
            ),
            "{name}"
        );
    }
    let plan = query::plan(&fixture.store, &record).await.unwrap();
    let at = async |row| {
        query::history(&fixture.store, run, &plan, Some(row))
            .await
            .unwrap()
    };
    let status = |history: &lope_flow::history::Historian<'_>, id: &str| {
        history.execution(id).map(|it| it.status)
    };
    assert_eq!(status(&at(1).await, "a"), Some(ExecutionStatus::Running));
    let second = at(2).await;
    assert_eq!(
        (status(&second, "a"), status(&second, "b")),
        (Some(ExecutionStatus::Done), Some(ExecutionStatus::Running))
    );
    let whole = query::history(&fixture.store, run, &plan, None)
        .await
        .unwrap();
    assert_eq!((whole.seq(), whole.results().len()), (record.head, 1));
    assert!(matches!(&whole.results()[0].1, Settled::Done(_)));
    assert_eq!(
        whole.execution("a").unwrap().attempts[0].worker.as_deref(),
        Some("hand")
    );
}
