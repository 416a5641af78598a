//! Agents: how long a claim takes when many want the same task, what it takes to log an agent that
//! says very much, what a runner with twenty agents at work costs, and how long a wake-up takes to
//! decide about two hundred projects.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lope::agents::law::select::TaskQuery;
use lope::agents::settings::{AgentSettings, AgentsSettings, RunnerSettings};
use lope::agents::wake::wake_up;
use lope::agents::{
    AgentBoard, InheritedEnvironment, RoundSettings, RunnerAdmission, RunnerEquipment, RunnerSpec,
    TaskDraft, TaskRunner,
};
use lope::runs::RunStartOptions;
use lope::secrets::ConfiguredSecrets;
use lope::stores::CreateStore;
use lope::{Client, PreparedRun, Runner, workflows};
use lope_model::id::TaskId;
use lope_model::{RunnerId, Span, Value};
use tokio::sync::{Barrier, watch};
use tokio::task::JoinSet;

use crate::error::{BenchError, BenchResult};
use crate::figure::BenchFigure;
use crate::footprint::resident;
use crate::measured_store::MeasuredStore;

/// Who want the same task at once.
const CONTENDERS: usize = 64;
/// Tasks that are claimed before it is measured.
const UNMEASURED: u64 = 3;
/// Agents at work at once.
const AGENTS: usize = 20;
/// How often memory is looked at.
const POLL: Duration = Duration::from_millis(100);
/// Bytes that the agent says at a time, ten times a second.
const PIECE: u64 = 1_000_000;
const PIECES_PER_SECOND: u64 = 10;

/// Projects that a wake-up decides about.
const WOKEN: usize = 200;

/// All of them; `scale` is in percent of the usual work.
pub(crate) async fn agents(scale: u64, store: &MeasuredStore) -> BenchResult<Vec<BenchFigure>> {
    let scaled = |usual: u64| (usual * scale / 100).max(1);
    Ok(vec![
        claims(scaled(100), store).await?,
        output(scaled(20), store).await?,
        at_work(scaled(20), store).await?,
        wakeups(scaled(20), store).await?,
    ])
}

fn broken(error: impl ToString) -> BenchError {
    BenchError::broken(error.to_string())
}

/// Many want one task, again and again: each has a store of its own, as processes have. The first
/// tasks, which are not measured, have each connect and prepare its statements, as a runner has done
/// when it has looked a few times.
async fn claims(rounds: u64, store: &MeasuredStore) -> BenchResult<BenchFigure> {
    let settings = RunnerSettings::default();
    let board = store.client.agents(&settings);
    for round in 0..rounds + UNMEASURED {
        let path = format!("/bench/{round}");
        board.add_project(&path, None).await.map_err(broken)?;
        let task = TaskDraft::new(path, "a task");
        board.add_tasks(vec![task]).await.map_err(broken)?;
    }
    let mut clients = Vec::new();
    for _ in 0..CONTENDERS {
        clients.push(Client::open_store(&store.url, CreateStore::Never).await?);
    }
    let before = store.read().await?;
    let together = Arc::new(Barrier::new(CONTENDERS));
    let mut working = JoinSet::new();
    for client in clients {
        let together = Arc::clone(&together);
        working.spawn(async move { contend(client, rounds, &together).await });
    }
    let mut times = Vec::new();
    let mut won = 0;
    while let Some(done) = working.join_next().await {
        let (own, wins) = done.map_err(broken)??;
        times.extend(own);
        won += wins;
    }
    let cost = before.until(store.read().await?);
    let tasks = rounds + UNMEASURED;
    if won != tasks {
        let message = format!("{won} claims of {tasks} tasks were won");
        return Err(BenchError::broken(message));
    }
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100];
    let millis = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3);
    let figure = BenchFigure {
        bench: "agents: claims",
        store: store.kind.name(),
        unit: "claims",
        units: times.len() as u64,
        cost,
        notes: Vec::new(),
    };
    Ok(figure
        .note("contenders", CONTENDERS.to_string())
        .note("median", millis(at(50)))
        .note("p99", millis(at(99)))
        .note("longest", millis(at(100))))
}

/// One contender: how long each of its claims took, and how many it won.
async fn contend(
    client: Client,
    rounds: u64,
    together: &Barrier,
) -> BenchResult<(Vec<Duration>, u64)> {
    let settings = RunnerSettings::default();
    let board = client.agents(&settings);
    let me = RunnerId::from_uuid(uuid::Uuid::now_v7());
    let mut times = Vec::new();
    let mut won = 0;
    for round in 0..rounds + UNMEASURED {
        let path = format!("/bench/{round}");
        let query = TaskQuery {
            project: Some(&path),
            ..TaskQuery::default()
        };
        together.wait().await;
        let began = Instant::now();
        let claimed = board.claim(&query, me, settings.lock_expiry).await;
        times.extend((round >= UNMEASURED).then(|| began.elapsed()));
        let claimed = claimed.map_err(broken)?;
        won += u64::from(matches!(claimed, lope::agents::ClaimOutcome::Claimed(_)));
    }
    client.close().await?;
    Ok((times, won))
}

fn agent(script: String) -> AgentsSettings {
    let command = ["sh".to_owned(), "-c".to_owned(), script];
    let agent = AgentSettings {
        command: command.to_vec(),
        ..AgentSettings::usual()
    };
    BTreeMap::from([("default".to_owned(), agent)])
}

/// A task whose agent says ten megabytes a second.
async fn output(seconds: u64, store: &MeasuredStore) -> BenchResult<BenchFigure> {
    let folder = store
        .folder()
        .join(format!("agents-{}", uuid::Uuid::now_v7()));
    let project = folder.join("project");
    std::fs::create_dir_all(&project).map_err(broken)?;
    let project = project.display().to_string();
    let settings = RunnerSettings {
        review: lope::agents::records::ReviewBy::None,
        ..RunnerSettings::default()
    };
    let board = store.client.agents(&settings);
    board.add_project(&project, None).await.map_err(broken)?;
    let pieces = seconds * PIECES_PER_SECOND;
    let script = format!(
        "cat >/dev/null; i=0; while [ $i -lt {pieces} ]; do head -c {PIECE} /dev/zero | tr '\\0' x | fold -w 999; echo; \
         i=$((i + 1)); sleep 0.06; done"
    );
    let task = TaskDraft {
        review: settings.review,
        ..TaskDraft::new(&project, "say much")
    };
    let task = board.add_tasks(vec![task]).await.map_err(broken)?.remove(0);
    let runner = entered(store, &folder, &project, settings, agent(script)).await?;
    let before = store.read().await?;
    let (_stop, stops) = watch::channel(None);
    let mut memory = Memory::begin();
    let ended = tokio::select! {
        ended = runner.run(stops) => ended,
        () = memory.watch() => return Err(BenchError::broken("the watch ended")),
    };
    let cost = before.until(store.read().await?);
    let said = said_by(&board, task.id, &folder.join("logs")).await?;
    std::fs::remove_dir_all(&folder).map_err(broken)?;
    if said != pieces * PIECE {
        let message = format!(
            "{said} of {} bytes are in the log: {ended:?}",
            pieces * PIECE
        );
        return Err(BenchError::broken(message));
    }
    let busy = cost.ours.as_secs_f64() / cost.wall.as_secs_f64();
    let rate = said as f64 / cost.wall.as_secs_f64() / 1e6;
    let figure = BenchFigure {
        bench: "agents: output",
        store: store.kind.name(),
        unit: "megabytes",
        units: said / 1_000_000,
        cost,
        notes: Vec::new(),
    };
    Ok(figure
        .note("a second", format!("{rate:.1} MB, all of it in the log"))
        .note("of a core", format!("{:.1} %", busy * 100.0))
        .note("memory before", Memory::shown(memory.before))
        .note("half way", Memory::shown(memory.half_way()))
        .note("most", Memory::shown(memory.most())))
}

/// How many of the bytes that a task's agent said are in its log.
async fn said_by(board: &AgentBoard, task: TaskId, logs: &Path) -> BenchResult<u64> {
    let detail = board.task_detail(&task.to_string()).await.map_err(broken)?;
    let attempt = detail.attempts.first();
    let attempt = attempt.ok_or_else(|| broken("no agent was started"))?;
    let log = logs.join(attempt.log.as_deref().unwrap_or_default());
    let logged = std::fs::read(&log).map_err(broken)?;
    let said = logged.split(|byte| *byte != b'x').map(<[u8]>::len);
    Ok(said.sum::<usize>() as u64)
}

/// Resident memory as it goes, in KiB.
struct Memory {
    before: Option<u64>,
    seen: Vec<u64>,
}

impl Memory {
    fn begin() -> Self {
        Self {
            before: resident(std::process::id()),
            seen: Vec::new(),
        }
    }

    async fn watch(&mut self) {
        loop {
            tokio::time::sleep(POLL).await;
            self.seen.extend(resident(std::process::id()));
        }
    }

    fn half_way(&self) -> Option<u64> {
        self.seen.get(self.seen.len() / 2).copied()
    }

    fn most(&self) -> Option<u64> {
        self.seen.iter().copied().max()
    }

    fn shown(kibibytes: Option<u64>) -> String {
        kibibytes.map_or("unknown".to_owned(), |kib| {
            format!("{:.0} MB", kib as f64 / 1024.0)
        })
    }
}

async fn entered(
    store: &MeasuredStore,
    folder: &Path,
    project: &str,
    settings: RunnerSettings,
    agents: AgentsSettings,
) -> BenchResult<Arc<TaskRunner>> {
    let environment = InheritedEnvironment::default();
    let engine = store.client.round_engine(RoundSettings {
        engine: store.engine.clone(),
        secrets: Arc::new(ConfiguredSecrets::new(BTreeMap::new(), |_| None)),
        env: Value::Null,
        logs: folder.join("logs"),
        environment: environment.clone(),
    })?;
    let spec = RunnerSpec {
        id: RunnerId::from_uuid(uuid::Uuid::now_v7()),
        project: project.to_owned(),
        section: None,
        task: None,
        until_idle: true,
        lock_expiry: settings.lock_expiry,
    };
    let board = store.client.agents(&settings);
    let equipment = RunnerEquipment {
        engine,
        settings,
        agents,
        environment,
        variables: Vec::new(),
        task_logs: folder.join("logs"),
        worktrees: folder.join("worktrees"),
        runner_logs: folder.join("runners"),
        is_shown: false,
    };
    match TaskRunner::enter(board, spec, equipment)
        .await
        .map_err(broken)?
    {
        RunnerAdmission::Admitted(runner) => Ok(runner),
        RunnerAdmission::Full(_) => Err(BenchError::broken("the project is new")),
    }
}

/// Twenty agents that say something every second.
async fn at_work(seconds: u64, store: &MeasuredStore) -> BenchResult<BenchFigure> {
    let folder: PathBuf = store
        .folder()
        .join(format!("agents-{}", uuid::Uuid::now_v7()));
    let script = format!(
        "cat >/dev/null; i=0; while [ $i -lt {seconds} ]; do echo at work; sleep 1; i=$((i + 1)); done"
    );
    let text = format!(
        "name: agents\nsteps:\n  all:\n    each: '${{{{ input }}}}'\n    as: number\n    parallel: {AGENTS}\n    \
         steps:\n      work: {{ agent: 'Work.' }}\n"
    );
    let plan = workflows::read(&text, "agents.yaml").map_err(|problems| {
        BenchError::broken(format!("the workflow is not right: {problems:?}"))
    })?;
    let runner = Runner::builder()
        .client(&store.client)
        .shared_settings(store.engine.clone())
        .agents(agent(script), RunnerSettings::default())
        .workers(folder.clone())
        .without_telemetry()
        .build()
        .await?;
    store.client.deploy(&plan).await?;
    let options = RunStartOptions {
        input: Some(Value::list(vec![Value::Null; AGENTS])),
        ..RunStartOptions::default()
    };
    let before = store.read().await?;
    let prepared = PreparedRun::new(&plan, options, runner.client().queue_limits())?;
    let (run, _) = runner.start(prepared).await?;
    let record = store.client.wait(run).await?;
    let cost = before.until(store.read().await?);
    runner.give_back(Duration::from_secs(5)).await?;
    let status = record.map(|record| record.status.to_string());
    if status.as_deref() != Some("completed") {
        return Err(BenchError::broken(format!("run {run} is {status:?}")));
    }
    std::fs::remove_dir_all(&folder).map_err(broken)?;
    let busy = cost.ours.as_secs_f64() / cost.wall.as_secs_f64();
    let figure = BenchFigure {
        bench: "agents: at work",
        store: store.kind.name(),
        unit: "agents",
        units: AGENTS as u64,
        cost,
        notes: Vec::new(),
    };
    Ok(figure
        .note("of a core", format!("{:.2} %", busy * 100.0))
        .note("for", Span::from_secs(seconds).to_string()))
}

/// Wake-ups over projects in each of which a task waits; no runner is started.
async fn wakeups(rounds: u64, store: &MeasuredStore) -> BenchResult<BenchFigure> {
    let home = store
        .folder()
        .join(format!("agents-{}", uuid::Uuid::now_v7()));
    let board = store.client.agents(&RunnerSettings::default());
    let paths: Vec<String> = (0..WOKEN).map(|it| format!("/bench/woken/{it}")).collect();
    for path in &paths {
        board.add_project(path, None).await.map_err(broken)?;
    }
    let tasks = paths.iter().map(|path| TaskDraft::new(path, "a task"));
    board.add_tasks(tasks.collect()).await.map_err(broken)?;
    let before = store.read().await?;
    let mut times = Vec::new();
    for _ in 0..rounds {
        let began = Instant::now();
        let woken = wake_up(&board, paths.clone(), &home).await;
        times.push(began.elapsed().as_secs_f64() * 1e3);
        let woken = woken.map_err(broken)?;
        let started = woken.map_or(0, |woken| woken.start.len());
        if started != WOKEN {
            let message = format!("runners would be started for {started} of {WOKEN} projects");
            return Err(BenchError::broken(message));
        }
    }
    let cost = before.until(store.read().await?);
    std::fs::remove_dir_all(&home).map_err(broken)?;
    let figure = BenchFigure {
        bench: "agents: wake-ups",
        store: store.kind.name(),
        unit: "wake-ups",
        units: rounds,
        cost,
        notes: Vec::new(),
    };
    let (figure, ..) = figure.note("projects", WOKEN.to_string()).times(times);
    Ok(figure)
}
