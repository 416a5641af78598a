//! `kill -9` of the real binary at random moments, under load, with three shapes of workflow: every
//! run ends as it would have without, and no settled step runs again. What the steps themselves
//! wrote down proves it: each attempt appends a line to one file before it does anything else.
//!
//! A few kills here; 300 a store with `LOPE_CHAOS=full`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lope::stores::{self, CreateStore};
use lope_engine::client::{self, RunStartOptions};
use lope_engine::codec;
use lope_flow::law::{EventKind, Plan, Settled};
use lope_model::{RunId, Timestamp, Value};
use lope_store::Store;
use lope_store::runs::RunStatus;

/// After the last kill everything ends within this time.
const PATIENCE: Duration = Duration::from_secs(600);
/// What every step does first.
const NOTE: &str = "echo $LOPE_RUN_ID $LOPE_EXECUTION $LOPE_ATTEMPT >> $KILL_LOG";

/// Three steps in a row, with the numbers after `n`.
const SEQUENCE: &str = "
name: sequence
steps:
  a: { run: 'NOTE; echo $((${{ input }} + 1))' }
  b: { run: 'NOTE; echo $((${{ a }} + 1))' }
  c: { run: 'NOTE; echo $((${{ b }} + 1))' }
  done: { return: ['${{ a }}', '${{ b }}', '${{ c }}'] }
";
/// Six at once, each of which fails when it is tried for the first time.
const FAN_OUT: &str = "
name: fan-out
steps:
  all:
    each: [0, 1, 2, 3, 4, 5]
    as: k
    parallel: max
    steps:
      try: { run: 'NOTE; mkdir $KILL_LOG.$LOPE_RUN_ID.${{ k }} 2>/dev/null && exit 3; echo $((${{ k }} * ${{ input }}))', retries: 3 }
  done: { return: '${{ all }}' }
";
/// Sleeps, waits for a signal, sleeps again, works.
const SLEEPER: &str = "
name: sleeper
steps:
  nap: { sleep: 100ms }
  got: { wait: go, needs: [nap] }
  rest: { sleep: 300ms, needs: [got] }
  work: { run: 'NOTE; echo $((${{ got }} * 2))', needs: [rest] }
  done: { return: '${{ work }}' }
";

fn expected(shape: usize, n: i64) -> Value {
    match shape {
        0 => Value::list((1..=3).map(|more| Value::Int(n + more)).collect()),
        1 => Value::list((0..6).map(|k| Value::Int(k * n)).collect()),
        _ => Value::Int(n * 2),
    }
}

/// Numbers that follow from a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

struct Wanted {
    run: RunId,
    shape: usize,
    n: i64,
    signalled: bool,
}

struct Series {
    folder: tempfile::TempDir,
    url: String,
    store: Store,
    plans: Vec<Arc<Plan>>,
    wanted: Vec<Wanted>,
    /// Runs that `lope run` was asked for: their key, shape and number.
    asked: Vec<(String, usize, i64)>,
    dice: Dice,
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap())
}

impl Series {
    async fn begin(folder: tempfile::TempDir, url: String) -> Self {
        let store = stores::open(&url.parse().unwrap(), CreateStore::IfMissing)
            .await
            .unwrap();
        let mut plans = Vec::new();
        for (number, text) in [SEQUENCE, FAN_OUT, SLEEPER].into_iter().enumerate() {
            let text = text.replace("NOTE", NOTE);
            std::fs::write(folder.path().join(format!("{number}.yaml")), &text).unwrap();
            let definition = lope_definition::yaml::read(&text, "kill.yaml")
                .unwrap_or_else(|bad| panic!("{bad:#?}"));
            let plan = Arc::new(Plan::new(&definition).unwrap());
            client::deploy(&store, &plan).await.unwrap();
            plans.push(plan);
        }
        std::fs::write(folder.path().join("log"), "").unwrap();
        std::fs::write(folder.path().join("config.yaml"), "env: [KILL_LOG]\n").unwrap();
        let seed = u64::from(std::process::id()) * 7_919 + 1;
        println!("seed {seed}");
        Self {
            folder,
            url,
            store,
            plans,
            wanted: Vec::new(),
            asked: Vec::new(),
            dice: Dice(seed),
        }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn lope(&self, arguments: &[&str]) -> Child {
        let said = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.path().join("said"))
            .unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_lope"));
        command
            .args(arguments)
            .env("LOPE_HOME", self.path())
            .env("LOPE_STORE", &self.url);
        command
            .env("KILL_LOG", self.path().join("log"))
            .env("LOPE_ENGINE_LOSS_BUDGET", "1000");
        command
            .env("LOPE_ENGINE_LEASE", "1s")
            .env("LOPE_ENGINE_HEARTBEAT", "300ms")
            .env("LOPE_ENGINE_SWEEP", "200ms");
        command.env("LOPE_ENGINE_EVICT_AFTER", "150ms");
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(said)
            .spawn()
            .unwrap()
    }

    /// One run of each shape, and the signals that those of the last round wait for.
    async fn load(&mut self) {
        for wanted in self
            .wanted
            .iter_mut()
            .filter(|wanted| wanted.shape == 2 && !wanted.signalled)
        {
            let signal = EventKind::Signal {
                name: "go".into(),
                value: Value::Int(wanted.n),
            };
            client::tell(&self.store, wanted.run, &signal, Some("go".to_owned()))
                .await
                .unwrap();
            wanted.signalled = true;
        }
        for (shape, plan) in self.plans.iter().enumerate() {
            let n = i64::try_from(self.wanted.len()).unwrap();
            let options = RunStartOptions {
                input: Some(Value::Int(n)),
                ..RunStartOptions::default()
            };
            let (run, _) =
                client::start(&self.store, plan, options, &lope::QueueLimits::new(), now())
                    .await
                    .unwrap();
            self.wanted.push(Wanted {
                run,
                shape,
                n,
                signalled: false,
            });
        }
    }

    /// A process that works: mostly `lope up`, now and then `lope run`.
    fn victim(&mut self, round: u64) -> Child {
        if round % 4 != 3 {
            return self.lope(&["up"]);
        }
        let (shape, n) = (
            usize::try_from(self.dice.below(2)).unwrap(),
            i64::try_from(round).unwrap(),
        );
        let key = format!("asked {round}");
        let (file, input) = (self.path().join(format!("{shape}.yaml")), n.to_string());
        self.asked.push((key.clone(), shape, n));
        self.lope(&[
            "run",
            file.to_str().unwrap(),
            "--input",
            &input,
            "--key",
            &key,
        ])
    }

    async fn kill(&mut self, kills: u64) {
        for round in 0..kills {
            self.load().await;
            let mut victim = self.victim(round);
            tokio::time::sleep(Duration::from_millis(self.dice.below(600))).await;
            victim.kill().unwrap();
            victim.wait().unwrap();
        }
        self.load().await;
        self.load().await;
    }

    /// What `lope run` was asked for exists unless it was killed before it began.
    async fn find_asked(&mut self) {
        for (key, shape, n) in std::mem::take(&mut self.asked) {
            if let Some(run) = self.store.runs.find_key(&key).await.unwrap() {
                self.wanted.push(Wanted {
                    run,
                    shape,
                    n,
                    signalled: true,
                });
            }
        }
    }

    /// A runner that nobody kills works everything off.
    async fn work_off(&mut self) {
        let (mut runner, began) = (self.lope(&["up"]), Instant::now());
        loop {
            let counts = self.store.runs.counts().await.unwrap();
            let over: u64 = ["completed", "failed", "cancelled"]
                .iter()
                .filter_map(|word| counts.by_status.get(word))
                .sum();
            // The last sleepers have not been signalled: they stay.
            let waiting = self
                .wanted
                .iter()
                .filter(|wanted| wanted.shape == 2 && !wanted.signalled)
                .count() as u64;
            if over + waiting >= self.wanted.len() as u64 {
                break;
            }
            assert!(
                began.elapsed() < PATIENCE,
                "not everything ends: {counts:?}"
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        runner.kill().unwrap();
        runner.wait().unwrap();
    }

    /// Results are as expected, journals without gaps, executions settled once; no attempt ran
    /// twice, and none after the one that settled its execution.
    async fn verify(&self) -> String {
        let mut ran: BTreeMap<(RunId, String), Vec<u32>> = BTreeMap::new();
        let log = std::fs::read_to_string(self.path().join("log")).unwrap();
        for line in log.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [run, execution, attempt] = words[..] else {
                panic!("a torn line: {line}")
            };
            ran.entry((run.parse().unwrap(), execution.to_owned()))
                .or_default()
                .push(attempt.parse().unwrap());
        }
        let (mut steps, mut adopted) = (0, 0);
        for wanted in self
            .wanted
            .iter()
            .filter(|wanted| wanted.signalled || wanted.shape != 2)
        {
            let record = self.store.runs.run(wanted.run).await.unwrap().unwrap();
            let result = record
                .result
                .as_deref()
                .map(|bytes| codec::read_result(bytes).unwrap());
            assert!(matches!(record.status, RunStatus::Final(_)), "{record:?}");
            assert_eq!(result, Some(expected(wanted.shape, wanted.n)), "{record:?}");
            let (settled, adoptions) = self.settled(wanted.run).await;
            adopted += adoptions;
            for (execution, attempt) in settled {
                let attempts = &ran[&(wanted.run, execution.clone())];
                let distinct: BTreeSet<u32> = attempts.iter().copied().collect();
                let place = format!(
                    "{} {execution}: settled by attempt {attempt}, ran {attempts:?}",
                    wanted.run
                );
                assert_eq!(
                    distinct.len(),
                    attempts.len(),
                    "an attempt ran twice: {place}"
                );
                assert!(
                    distinct.contains(&attempt),
                    "settled without having run: {place}"
                );
                assert!(
                    distinct.last() <= Some(&attempt),
                    "ran again after it was settled: {place}"
                );
                steps += 1;
            }
        }
        let mut told = String::new();
        let runs = self.wanted.len();
        write!(
            told,
            "{runs} runs, {steps} steps settled, {} attempts, {adopted} adoptions",
            log.lines().count()
        )
        .unwrap();
        told
    }

    /// The attempt that settled each execution, and how often the run was adopted.
    async fn settled(&self, run: RunId) -> (BTreeMap<String, u32>, u32) {
        let rows = self.store.runs.journal(run, 0, 1_000).await.unwrap();
        assert!(
            rows.iter().zip(1..).all(|(row, seq)| row.seq == seq),
            "{run}: a gap"
        );
        assert!(
            rows.windows(2).all(|two| two[0].at <= two[1].at),
            "{run}: time goes back"
        );
        let (mut settled, mut adopted) = (BTreeMap::new(), 0);
        for row in &rows {
            match codec::kind_of(row).unwrap() {
                EventKind::Outcome(outcome) if matches!(outcome.result, Settled::Done(_)) => {
                    let before = settled.insert(outcome.execution.to_string(), outcome.attempt);
                    assert_eq!(before, None, "{run}: {} settled twice", outcome.execution);
                }
                EventKind::Adopted { .. } => adopted += 1,
                _ => {}
            }
        }
        (settled, adopted)
    }
}

fn kills() -> u64 {
    if std::env::var("LOPE_CHAOS").is_ok_and(|chaos| chaos == "full") {
        300
    } else {
        6
    }
}

fn run_series(folder: tempfile::TempDir, url: String) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let began = Instant::now();
        let mut series = Series::begin(folder, url).await;
        series.kill(kills()).await;
        series.find_asked().await;
        series.work_off().await;
        let told = series.verify().await;
        println!(
            "{} kills in {:.0} s: {told}",
            kills(),
            began.elapsed().as_secs_f64()
        );
        assert_eq!(series.store.upkeep.check().await.unwrap(), []);
        series.store.upkeep.close().await.unwrap();
    });
}

#[test]
fn killed_on_sqlite_every_run_ends_as_it_would_have() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("lope.db").display());
    run_series(folder, url);
}

#[test]
fn killed_on_postgres_every_run_ends_as_it_would_have() {
    let Ok(server) = std::env::var("LOPE_TEST_POSTGRES") else {
        println!("left out: LOPE_TEST_POSTGRES names no server");
        return;
    };
    let parameter = if server.contains('?') { '&' } else { '?' };
    let url = format!(
        "{server}{parameter}schema=chaos_kill_{}",
        std::process::id()
    );
    run_series(tempfile::tempdir().unwrap(), url);
}
