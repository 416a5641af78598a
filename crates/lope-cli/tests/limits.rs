//! Limits that hold over all runners of a store, seen with the real binary: five processes, each on
//! a queue of its own so that each has its part, on SQLite and on Postgres. What happened is counted
//! outside: in files that the steps write, and by locks that the system holds. And the limit of what
//! may wait for one run.

use crate::fixture;

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fixture::party::until;
use lope::stores::{self, CreateStore};
use lope_engine::codec;
use lope_flow::law::EventKind;
use lope_model::{RunId, limit};
use lope_store::Store;
use lope_store::runs::{Delivered, RunFilter, RunRecord};
use serde_json::Value;

const RUNNERS: usize = 5;

/// A store, and runners on it.
struct Crew {
    folder: tempfile::TempDir,
    url: String,
    /// How long a session lives without a heartbeat: long, where no runner is to be missed.
    lease: &'static str,
    runners: Vec<Child>,
}

impl Crew {
    fn new(url: Option<&str>, lease: &'static str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let own = format!("sqlite:{}", folder.path().join("lope.db").display());
        Self {
            url: url.map_or(own, str::to_owned),
            folder,
            lease,
            runners: Vec::new(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lope"));
        command
            .args(args)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.folder.path())
            .env("LOPE_STORE", &self.url)
            .env("LOPE_ENGINE_LEASE", self.lease);
        command
    }

    fn lope(&self, args: &[&str]) -> String {
        let output = self.command(args).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "lope {args:?}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn deploy(&self, name: &str, text: &str) {
        let file = self.path(&format!("{name}.yaml"));
        std::fs::write(&file, text).unwrap();
        self.lope(&["workflows", "deploy", file.to_str().unwrap()]);
    }

    /// A run in the queue of one runner; its id.
    fn start(&self, workflow: &str, queue: usize) -> String {
        let queue = format!("q{queue}");
        let told = self.lope(&["start", workflow, "--queue", &queue, "--json"]);
        let told: Value = serde_json::from_str(&told).unwrap();
        let id = told["run_id"].as_str().or(told["id"].as_str());
        id.unwrap_or_else(|| panic!("{told}")).to_owned()
    }

    /// One more runner, on one queue.
    fn runner(&mut self, queue: usize) {
        let said = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.path("words"))
            .unwrap();
        let queue = format!("q{queue}");
        let mut command = self.command(&["up", "--queue", &queue]);
        let child = command.stdout(Stdio::null()).stderr(said).spawn().unwrap();
        self.runners.push(child);
    }

    /// `kill -9` of a runner.
    fn kill(&mut self, runner: usize) {
        self.runners[runner].kill().unwrap();
        self.runners[runner].wait().unwrap();
    }

    fn lines(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.path(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    async fn has_lines(&self, name: &str, lines: usize) {
        let what = format!("{lines} lines in {name}");
        until(&what, async || {
            (self.lines(name).len() >= lines).then_some(())
        })
        .await;
    }

    async fn store(&self) -> Store {
        stores::open(&self.url.parse().unwrap(), CreateStore::Never)
            .await
            .unwrap()
    }

    /// All runs, once they have ended.
    async fn ended(&self) -> Vec<RunRecord> {
        let store = self.store().await;
        let ended = async || {
            let filter = RunFilter {
                limit: 1_000,
                ..RunFilter::default()
            };
            let runs = store.runs.list(filter).await.ok()?;
            let all = runs.iter().all(|run| run.finished_at.is_some());
            all.then_some(runs)
        };
        let listed = until("all runs have ended", ended).await;
        let mut runs = Vec::new();
        for run in listed {
            runs.push(store.runs.run(run.run).await.unwrap().unwrap());
        }
        store.upkeep.close().await.unwrap();
        runs
    }

    async fn all_completed(&self) -> Vec<RunRecord> {
        let runs = self.ended().await;
        for run in &runs {
            let words = self.lines("words");
            assert_eq!(run.status.as_str(), "completed", "{run:?}\n{words:?}");
        }
        runs
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        for runner in &mut self.runners {
            // It may have ended already.
            let _ = runner.kill();
            let _ = runner.wait();
        }
    }
}

fn block_on(work: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap()
        .block_on(work);
}

/// Each on SQLite and on Postgres.
macro_rules! on_both {
    ($($name:ident => $work:path;)*) => {
        mod sqlite {
            $(#[test]
            fn $name() {
                super::block_on($work(None));
            })*
        }
        mod postgres {
            $(#[test]
            fn $name() {
                let Some(url) = super::fixture::server() else { return };
                let name = stringify!($name);
                let schema = &name[..name.len().min(20)];
                let url = format!("{url}?schema={schema}_{}", std::process::id());
                super::block_on($work(Some(url)));
            })*
        }
    };
}

on_both! {
    five_runners_and_one_key_have_one_effect => super::one_effect;
    a_key_whose_runner_is_killed_is_executed_by_another => super::killed_in_the_middle;
    a_rate_is_that_of_all_runners_together => super::rate;
    a_queue_s_rate_is_that_of_all_runners_together => super::queue_rate;
    a_key_s_concurrency_holds_over_processes_and_kills => super::concurrency;
    a_circuit_opened_by_one_runner_holds_in_another => super::circuit;
    what_waits_for_a_run_is_bounded_and_the_run_can_be_steered => super::full_mail;
}

/// "five runners and one key → one effect, all get the same outcome"
async fn one_effect(url: Option<String>) {
    let mut crew = Crew::new(url.as_deref(), "60s");
    let line = "echo $LOPE_RUN_ID >> $HOME/effects; sleep 0.5; echo paid by $LOPE_RUN_ID";
    crew.deploy(
        "pay",
        &format!("name: pay\nsteps: {{ a: {{ run: '{line}', idempotency_key: order-1 }} }}\n"),
    );
    for queue in 0..RUNNERS {
        (0..4).for_each(|_| drop(crew.start("pay", queue)));
    }
    (0..RUNNERS).for_each(|queue| crew.runner(queue));
    let runs = crew.all_completed().await;
    assert_eq!((crew.lines("effects").len(), runs.len()), (1, 20));
    let first = &runs[0].result;
    assert!(first.is_some() && runs.iter().all(|run| run.result == *first));
    // Who comes later gets it too, also when every runner was replaced.
    crew.kill(0);
    crew.runner(0);
    crew.start("pay", 0);
    let runs = crew.all_completed().await;
    assert!(runs.iter().all(|run| run.result == *first), "{runs:?}");
    assert_eq!(crew.lines("effects").len(), 1);
}

/// "kill -9 of the runner that executes the key → executed by another"
async fn killed_in_the_middle(url: Option<String>) {
    let mut crew = Crew::new(url.as_deref(), "6s");
    let line = "echo $LOPE_RUN_ID >> $HOME/begun; \
                until [ -e $HOME/go ]; do sleep 0.05; done; echo done by $LOPE_RUN_ID";
    crew.deploy(
        "pay",
        &format!("name: pay\nsteps: {{ a: {{ run: '{line}', idempotency_key: order-1 }} }}\n"),
    );
    let first = crew.start("pay", 0);
    crew.runner(0);
    crew.has_lines("begun", 1).await;
    let others: Vec<String> = (1..RUNNERS).map(|queue| crew.start("pay", queue)).collect();
    (1..RUNNERS).for_each(|queue| crew.runner(queue));
    // They wait for the one at work, and say so.
    for run in &others {
        until("it says what it waits for", async || {
            let why = crew.lope(&["runs", "why", run]);
            let who = format!("held by a of run {first}");
            (why.contains("the idempotency key") && why.contains(&who)).then_some(())
        })
        .await;
    }
    assert_eq!(crew.lines("begun").len(), 1);
    crew.kill(0);
    crew.has_lines("begun", 2).await;
    std::fs::write(crew.path("go"), "").unwrap();
    crew.runner(0);
    let runs = crew.all_completed().await;
    let begun = crew.lines("begun");
    assert!(begun.len() == 2 && begun[0] == first, "{begun:?}");
    assert!(runs.iter().all(|run| run.result == runs[0].result));
}

fn millis() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    since.as_millis() as i64
}

/// Never more than the rate and one burst of it, counted from before the first could begin: a
/// machine that stands still makes it less, never more.
fn is_within(times: &[String], began: i64, (count, per): (i64, i64)) {
    let mut times: Vec<i64> = times.iter().map(|time| time.parse().unwrap()).collect();
    times.sort_unstable();
    for (place, time) in times.iter().enumerate() {
        let allowed = count + (time - began) * count / per;
        assert!(
            (place as i64) < allowed,
            "{place} of {times:?} since {began}"
        );
    }
}

/// "rate 10/s with five runners counted outside within bounds"
async fn rate(url: Option<String>) {
    let mut crew = Crew::new(url.as_deref(), "60s");
    let step = "run: 'date +%s%3N >> $HOME/times', rate_limit: { count: 10, per: 1s, name: api }";
    let each = format!(
        "each: [1, 2, 3, 4, 5, 6, 7, 8], as: n, parallel: max, steps: {{ a: {{ {step} }} }}"
    );
    crew.deploy(
        "call",
        &format!("name: call\nsteps: {{ all: {{ {each} }} }}\n"),
    );
    for queue in 0..RUNNERS {
        crew.start("call", queue);
    }
    let began = millis();
    (0..RUNNERS).for_each(|queue| crew.runner(queue));
    crew.all_completed().await;
    let times = crew.lines("times");
    assert_eq!(times.len(), 40);
    is_within(&times, began, (10, 1_000));
}

/// "rates of queues likewise"
async fn queue_rate(url: Option<String>) {
    let mut crew = Crew::new(url.as_deref(), "60s");
    crew.deploy(
        "call",
        "name: call\nsteps: { a: { run: 'date +%s%3N >> $HOME/times' } }\n",
    );
    let home = crew.path(".lope");
    std::fs::create_dir_all(&home).unwrap();
    let limits = "queues: { q0: { rate: 5/1s } }\n";
    std::fs::write(home.join("config.yaml"), limits).unwrap();
    (0..25).for_each(|_| drop(crew.start("call", 0)));
    let began = millis();
    (0..RUNNERS).for_each(|_| crew.runner(0));
    crew.all_completed().await;
    let times = crew.lines("times");
    assert_eq!(times.len(), 25);
    is_within(&times, began, (5, 1_000));
}

/// "keyed concurrency 1 across processes: never two at once, also after kill -9"
async fn concurrency(url: Option<String>) {
    let mut crew = Crew::new(url.as_deref(), "6s");
    // The lock is the system's: it is free when nothing of the step is left.
    let line = "echo $LOPE_RUN_ID >> $HOME/begun; \
                flock -n -E 7 $HOME/lock sleep 0.1; test $? != 7 || echo two at once >> $HOME/collisions";
    crew.deploy(
        "one",
        &format!(
            "name: one\nsteps: {{ a: {{ run: '{line}', concurrency: {{ limit: 1, key: acme }} }} }}\n"
        ),
    );
    for queue in 0..RUNNERS {
        (0..5).for_each(|_| drop(crew.start("one", queue)));
    }
    (0..RUNNERS).for_each(|queue| crew.runner(queue));
    for victim in 0..2 {
        // Whoever is at work now is killed, if it is this one; the others may not come in between.
        let begun = crew.lines("begun").len();
        crew.has_lines("begun", begun + 2).await;
        crew.kill(victim);
        crew.runner(victim);
    }
    crew.all_completed().await;
    assert_eq!(crew.lines("collisions"), Vec::<String>::new());
    assert!(crew.lines("begun").len() >= 25);
}

/// "circuit opened by one runner holds in another", and `runs why` says who opened it.
async fn circuit(url: Option<String>) {
    let mut crew = Crew::new(url.as_deref(), "60s");
    let circuit = "circuit_breaker: { failures: 2, reset: 1h, name: bank }";
    crew.deploy(
        "bad",
        &format!("name: bad\nsteps: {{ a: {{ run: 'exit 1', {circuit} }} }}\n"),
    );
    crew.deploy(
        "good",
        &format!("name: good\nsteps: {{ a: {{ run: 'echo >> $HOME/called', {circuit} }} }}\n"),
    );
    crew.start("good", 1);
    crew.runner(0);
    crew.runner(1);
    crew.has_lines("called", 1).await;
    let first = crew.start("bad", 0);
    crew.ended().await;
    let second = crew.start("bad", 0);
    crew.ended().await;
    let refused = crew.start("good", 1);
    until("it says why it waits", async || {
        let why = crew.lope(&["runs", "why", &refused]);
        let by = format!("of run {second}");
        (why.contains("the circuit 'bank' is open") && why.contains(&by)).then_some(())
    })
    .await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(crew.lines("called").len(), 1, "{first}");
}

/// "At 100,000 signals a … run can be neither resumed nor cancelled": "Control mail … has room of its
/// own, taking up works in bounded bites, refusal happens at delivery, `why` says what waits."
async fn full_mail(url: Option<String>) {
    let mut crew = Crew::new(url.as_deref(), "60s");
    crew.deploy("asks", "name: asks\nsteps: { w: { wait: go } }\n");
    let [asks, goes_on] = ["other", "go"].map(|name| (crew.start("asks", 0), name));
    let store = crew.store().await;
    for (run, name) in [&asks, &goes_on] {
        let run: RunId = run.parse().unwrap();
        let signal = EventKind::Signal {
            name: (*name).into(),
            value: lope_model::Value::Null,
        };
        for half in 0..2 {
            let ids = (0..limit::MAIL_MAX / 2).map(|number| format!("{half}/{number}"));
            let mail = ids.map(|id| codec::mail(run, id, &signal)).collect();
            let delivered = store.runs.deliver(mail).await.unwrap();
            assert!(delivered.iter().all(|it| *it == Delivered::Accepted));
        }
    }
    store.upkeep.close().await.unwrap();
    let [(asks, _), (goes_on, _)] = [asks, goes_on];
    let signal = ["runs", "signal", &asks, "go"];
    let refused = crew.command(&signal).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(3), "{said}");
    let full = format!("too much waits for run {asks} already");
    let hint = format!("lope runs why {asks}");
    assert!(said.contains(&full) && said.contains(&hint), "{said}");
    let why = crew.lope(&["runs", "why", &asks]);
    assert!(why.contains("100000 messages wait to be taken up"), "{why}");
    for verb in ["pause", "resume", "cancel"] {
        crew.lope(&["runs", verb, &asks]);
    }
    for verb in ["pause", "resume"] {
        crew.lope(&["runs", verb, &goes_on]);
    }
    crew.runner(0);
    let ended = crew.ended().await;
    for (run, status) in [(asks, "cancelled"), (goes_on, "completed")] {
        let found = ended.iter().find(|record| record.run.to_string() == run);
        assert_eq!(found.unwrap().status.as_str(), status, "{ended:?}");
    }
}
