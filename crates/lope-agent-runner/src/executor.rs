//! `agent` steps of any workflow: a prompt goes to an agent of the configuration, its result is the
//! step's output.
//!
//! | failure | why |
//! |---|---|
//! | `NotStarted` | the agent's program cannot be started, or there is no such agent |
//! | `AgentFailed` | it ended with another code than 0, or said that it failed |
//! | `AgentHang` | it was silent for too long and used no processor |
//! | `AgentBudget` | it cost more than the step's `budget`, in dollars |
//! | `UsageLimit` | its tool refuses more work; `detail.reset` says until when, if it is known |

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use lope_agents::law::budget::micros;
use lope_agents::records::StopReason;
use lope_agents::settings::{AgentSettings, AgentsSettings, PromptBy, RunnerSettings};
use lope_engine::executor::{Done, Executor, StartRight, Task, Token};
use lope_model::{Failure, Map, Span, Value, failure, value};
use lope_workers::process_tree::{ProcessTrees, TreeCommand, TreeWork};
use lope_workers::{InheritedEnvironment, Logs};
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::adapter::AgentReader;
use crate::invocation::{CallFacts, argv};
use crate::process::{AgentEnd, AgentOrder, attend};
use crate::runner::zone_of;
use crate::watchdog::AgentLimits;

type StopSender = watch::Sender<Option<StopReason>>;

/// Does `agent` steps.
#[derive(Debug)]
pub struct AgentSteps {
    runtime: Handle,
    kit: Arc<StepKit>,
    running: Arc<Mutex<HashMap<Token, StopSender>>>,
}

#[derive(Debug)]
struct StepKit {
    logs: Logs,
    trees: ProcessTrees,
    environment: InheritedEnvironment,
    agents: AgentsSettings,
    settings: RunnerSettings,
}

impl AgentSteps {
    pub fn new(
        runtime: Handle,
        logs: Logs,
        environment: InheritedEnvironment,
        agents: AgentsSettings,
        settings: RunnerSettings,
    ) -> Self {
        let kit = StepKit {
            trees: ProcessTrees::begin(&runtime),
            logs,
            environment,
            agents,
            settings,
        };
        Self {
            runtime,
            kit: Arc::new(kit),
            running: Arc::default(),
        }
    }
}

impl Executor for AgentSteps {
    fn start(&self, task: Task, done: Done) {
        let (stop, asked) = watch::channel(None);
        lock(&self.running).insert(task.token.clone(), stop);
        let (kit, running) = (Arc::clone(&self.kit), Arc::clone(&self.running));
        self.runtime.spawn(async move {
            let result = kit.run(&task, &done, asked).await;
            lock(&running).remove(&task.token);
            done.finish(result, None);
        });
    }

    fn cancel(&self, token: &Token) {
        if let Some(stop) = lock(&self.running).get(token) {
            stop.send_replace(Some(StopReason::Cancel));
        }
    }
}

fn lock(
    running: &Mutex<HashMap<Token, StopSender>>,
) -> std::sync::MutexGuard<'_, HashMap<Token, StopSender>> {
    running.lock().expect("no panic while the lock is held")
}

impl StepKit {
    async fn run(
        &self,
        task: &Task,
        done: &Done,
        stop: watch::Receiver<Option<StopReason>>,
    ) -> Result<Value, Failure> {
        let request = AgentRequest::read(&task.arguments)?;
        let agent = self.agent(request.agent.as_deref())?;
        let (order, _file) = self.order(task, &request, &agent)?;
        let log = self.logs.begin_masked(&task.token, done.masks());
        done.logged(log.name());
        let heard = |_: &_, has_spoken| {
            if has_spoken {
                done.alive();
            }
        };
        answer(attend(&self.trees, order, log, stop, heard).await)
    }

    fn agent(&self, named: Option<&str>) -> Result<AgentSettings, Failure> {
        let name = named.unwrap_or("default");
        match (self.agents.get(name), named) {
            (Some(agent), _) => Ok(agent.clone()),
            (None, None | Some("default")) => Ok(AgentSettings::usual()),
            (None, Some(name)) => Err(not_started(format!(
                "there is no agent '{name}' under 'agents:' in the configuration"
            ))),
        }
    }

    fn order(
        &self,
        task: &Task,
        request: &AgentRequest,
        agent: &AgentSettings,
    ) -> Result<(AgentOrder, Option<tempfile::NamedTempFile>), Failure> {
        let facts = CallFacts {
            folder: request.cwd.as_deref().unwrap_or("."),
            session: None,
            cost_left: request.budget,
        };
        let mut argv = argv(agent, &facts);
        let (mut input, mut file) = (None, None);
        match agent.prompt {
            PromptBy::Stdin => input = Some(request.prompt.clone().into_bytes()),
            PromptBy::Argument => argv.push(request.prompt.clone()),
            PromptBy::File => {
                let made = prompt_file(&request.prompt)
                    .map_err(|error| not_started(format!("its prompt: {error}")))?;
                argv.push(made.path().display().to_string());
                file = Some(made);
            }
        }
        let allowed = self.environment.clone().allow(agent.env.iter().cloned());
        let mut environment = allowed.for_processes();
        let token = &task.token;
        let own = [
            ("LOPE_RUN_ID", token.run.to_string()),
            ("LOPE_EXECUTION", token.execution.to_string()),
            ("LOPE_ATTEMPT", token.attempt.to_string()),
        ];
        environment.extend(own.map(|(name, value)| (name.into(), value.into())));
        let order = AgentOrder {
            work: TreeWork {
                name: format!("{}/{}", token.run, token.execution),
                attempt: token.attempt,
                epoch: token.epoch.0,
            },
            reader: AgentReader::new(agent.adapter(), zone_of(&environment), 0),
            command: TreeCommand {
                program: argv.remove(0).into(),
                arguments: argv.into_iter().map(Into::into).collect(),
                environment,
                folder: request.cwd.clone().map(Into::into),
                input,
            },
            limits: self.limits(request, agent),
            right: StartRight::Always,
            stop_grace: self.settings.stop_grace,
        };
        Ok((order, file))
    }

    /// How long it may take is the step's `timeout`, which the engine judges.
    fn limits(&self, request: &AgentRequest, agent: &AgentSettings) -> AgentLimits {
        let silence = request.silence.or(agent.silence);
        AgentLimits {
            silence: silence.unwrap_or(self.settings.subprocess_hang_timeout),
            wall: None,
            wall_left: None,
            cost_left: request.budget.map(micros),
            result_grace: self.settings.stop_grace,
        }
    }
}

fn prompt_file(words: &str) -> std::io::Result<tempfile::NamedTempFile> {
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), words)?;
    Ok(file)
}

/// What a step asks for.
#[derive(Debug)]
struct AgentRequest {
    prompt: String,
    agent: Option<String>,
    cwd: Option<String>,
    /// In dollars.
    budget: Option<f64>,
    silence: Option<Span>,
}

impl AgentRequest {
    fn read(arguments: &Value) -> Result<Self, Failure> {
        let map = arguments
            .as_map()
            .ok_or_else(|| bad("the arguments of an agent must be a map"))?;
        let text = |key| map.get(key).and_then(Value::as_str).map(str::to_owned);
        Ok(Self {
            prompt: text("prompt").ok_or_else(|| bad("an agent needs a prompt"))?,
            agent: text("agent"),
            cwd: text("cwd"),
            budget: budget(map)?,
            silence: silence(map)?,
        })
    }
}

fn budget(map: &Map) -> Result<Option<f64>, Failure> {
    let dollars = match map.get("budget") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Int(dollars)) => *dollars as f64,
        Some(Value::Float(dollars)) => *dollars,
        Some(_) => return Err(bad("'budget' is a number of dollars")),
    };
    if dollars.is_finite() && dollars > 0.0 {
        Ok(Some(dollars))
    } else {
        Err(bad("'budget' is more than nothing"))
    }
}

fn silence(map: &Map) -> Result<Option<Span>, Failure> {
    let span = match map.get("silence") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Int(millis)) => u64::try_from(*millis).ok().map(Span::from_millis),
        Some(Value::Str(text)) => text.parse::<Span>().ok(),
        Some(_) => None,
    };
    let span = span.filter(|span| *span > Span::ZERO);
    span.map(Some)
        .ok_or_else(|| bad("'silence' is a duration, as in 15m"))
}

fn answer(end: AgentEnd) -> Result<Value, Failure> {
    let kind = match end.reason {
        StopReason::Success => {
            let text = end.message.unwrap_or_default();
            let read = value::from_json(&text);
            return Ok(read.unwrap_or_else(|_| Value::from(text)));
        }
        StopReason::Startup => "NotStarted",
        StopReason::Hang => "AgentHang",
        StopReason::Budget => "AgentBudget",
        StopReason::UsageLimit => "UsageLimit",
        StopReason::Timeout => failure::kind::TIMEOUT,
        StopReason::Cancel | StopReason::Drain | StopReason::LostLock => failure::kind::CANCELLED,
        StopReason::RunnerDeath => failure::kind::WORKER_LOST,
        StopReason::Exit => "AgentFailed",
    };
    let words = end.message.unwrap_or_else(|| end.reason.to_string());
    let mut failure = Failure::new(kind, words);
    let reset = end.report.limit.and_then(|limit| limit.reset);
    let number = |number: i64| Value::Int(number);
    failure.detail = Value::map([
        (
            "code",
            end.exit_code
                .map_or(Value::Null, |code| number(i64::from(code))),
        ),
        (
            "reset",
            reset.map_or(Value::Null, |time| Value::from(time.to_string())),
        ),
        (
            "session",
            end.report.session.map_or(Value::Null, Value::from),
        ),
    ]);
    Err(failure)
}

fn not_started(message: String) -> Failure {
    Failure::new("NotStarted", message)
}

fn bad(message: &str) -> Failure {
    Failure::new("BadArguments", message)
}
