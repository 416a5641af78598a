//! Actions in Python: how many a second end to end on SQLite, how long a fan-out of 10,000 takes, and how long one action
//! takes when all is idle. `cargo xtask bench python`.
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot go on fails")]

use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant, SystemTime};

use lope::engine::client::{self, StartOptions};
use lope::engine::executor::{Done, Executor, Limits, Outcome, Outcomes, Task, Token};
use lope::engine::{Engine, Settings};
use lope::flow::law::Plan;
use lope::model::{Epoch, RunId, Timestamp, Value};
use lope::store::runs::{FinalStatus, RunStatus};
use lope::stores::{self, Create, StoreUrl};
use lope_workers::pool::{Pool, PoolSettings, Program};
use lope_workers::{Functions, Logs};

const ACTIONS: &str = "from lope import action\n\n@action\nasync def noop(n: int) -> int:\n    return n\n";
const FAN: &str = "
name: fan
steps:
  all: { each: '${{ input }}', as: n, parallel: max, steps: { noop: { action: noop, with: { n: '${{ n }}' } } } }
";
const PROCESSES: usize = 2;
/// Round trips that are measured one by one.
const TRIPS: usize = 2_000;

struct Ear(mpsc::Sender<Outcome>);

impl Outcomes for Ear {
    fn settle(&self, outcome: Outcome) {
        let _ = self.0.send(outcome);
    }

    fn alive(&self, _: &Token) {}
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(measure());
}

async fn measure() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("bench_actions.py"), ACTIONS).unwrap();
    let pool = Arc::new(pool(folder.path()));
    pool.ready().await.expect("Python with the package's needs: run this by `cargo xtask bench python`");
    let trips = Arc::clone(&pool);
    let trips = tokio::task::spawn_blocking(move || round_trips(&trips)).await.unwrap();
    println!(
        "round trip of one action, idle     median {:>8.0?}   99th of 100 {:>8.0?}",
        trips[TRIPS / 2],
        trips[TRIPS * 99 / 100]
    );
    for (what, url) in [("memory", StoreUrl::Memory), ("SQLite", StoreUrl::Sqlite(folder.path().join("bench.db")))] {
        let bench = Bench::begin(&url, &pool, folder.path()).await;
        bench.fan(1, 1_000).await;
        for (runs, each) in [(1, 10_000), (20, 2_000)] {
            let took = bench.fan(runs, each).await;
            let rate = f64::from(runs * each) / took.as_secs_f64();
            println!(
                "{runs:>3} runs of {each:>6} actions on {what}   {:>8.2} s   {rate:>8.0} actions/s",
                took.as_secs_f64()
            );
        }
        bench.engine.shutdown(Duration::from_secs(1)).await.unwrap();
    }
    pool.close().await;
}

fn pool(folder: &Path) -> Pool {
    let python = std::env::var_os("LOPE_TEST_PYTHON").map_or_else(|| PathBuf::from("python3"), PathBuf::from);
    let mut program = Program::python(python, &["bench_actions".to_owned()], &[folder.to_owned()]);
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python");
    program.environment.push(("PYTHONPATH".into(), package.into()));
    let settings = PoolSettings { processes: PROCESSES, program, ..PoolSettings::default() };
    Pool::begin(settings, tokio::runtime::Handle::current(), Logs::at(folder.join("logs"))).unwrap()
}

/// One action after the other, each when the one before it was answered; sorted.
fn round_trips(pool: &Pool) -> Vec<Duration> {
    let (sender, outcomes) = mpsc::channel();
    let ear: Arc<dyn Outcomes> = Arc::new(Ear(sender));
    let mut took: Vec<Duration> = (0..TRIPS)
        .map(|n| {
            let token =
                Token { run: RunId::from_bytes([1; 16]), execution: n.to_string().into(), attempt: 1, epoch: Epoch(1) };
            let task = Task {
                token: token.clone(),
                workflow: "w".into(),
                step: "s".into(),
                executor: "action".into(),
                action: "noop".into(),
                arguments: Value::map([("n", Value::Int(n as i64))]),
                limits: Limits::default(),
                idempotency_key: None,
            };
            let begun = Instant::now();
            pool.start(task, Done::new(token, Arc::clone(&ear)));
            outcomes.recv().unwrap().result.unwrap();
            begun.elapsed()
        })
        .collect();
    took.sort_unstable();
    took
}

struct Bench {
    store: lope::store::Store,
    engine: Engine,
    plan: Arc<Plan>,
}

impl Bench {
    async fn begin(url: &StoreUrl, pool: &Arc<Pool>, folder: &Path) -> Self {
        let runtime = tokio::runtime::Handle::current();
        let functions = Functions::new(runtime.clone());
        let mut executors = lope::executors::standard(&runtime, folder.join("logs"), functions).unwrap();
        executors.insert("action".into(), Arc::clone(pool) as Arc<dyn Executor>);
        let store = stores::open(url, Create::IfMissing).await.unwrap();
        let engine = Engine::begin(store.clone(), executors, Settings::default()).unwrap();
        let definition = lope::flow::yaml::read(FAN, "fan.yaml").unwrap();
        let plan = Arc::new(Plan::new(&definition).unwrap());
        client::deploy(&store, &plan).await.unwrap();
        engine.know(Arc::clone(&plan));
        Self { store, engine, plan }
    }

    async fn fan(&self, runs: u32, each: u32) -> Duration {
        let input = Value::list((0..i64::from(each)).map(Value::Int).collect());
        let mut started = Vec::new();
        let begun = Instant::now();
        for _ in 0..runs {
            let options = StartOptions { input: Some(input.clone()), ..StartOptions::default() };
            let admit = client::admission(&self.plan, options, wall());
            started.push(admit.run);
            self.engine.admit(admit, &self.plan).await.unwrap();
        }
        for run in started {
            self.ended(run).await;
        }
        begun.elapsed()
    }

    async fn ended(&self, run: RunId) {
        loop {
            let record = self.store.runs.run(run).await.unwrap().unwrap();
            if let RunStatus::Final(status) = record.status {
                return assert_eq!(status, FinalStatus::Completed);
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

fn wall() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap())
}
