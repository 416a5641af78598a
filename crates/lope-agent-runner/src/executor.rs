//! `agent` steps of any workflow: a prompt goes to an agent of the configuration, its result is the
//! step's output.
//!
//! | failure | why |
//! |---|---|
//! | `NotStarted` | the agent's program cannot be started, or there is no such agent |
//! | `AgentFailed` | it ended with another code than 0, or said that it failed |
//! | `AgentHang` | it was silent for too long and used no processor |
//! | `AgentBudget` | it cost more than the step's `budget`, in dollars |
//! | `UsageLimit` | its tool refuses more work: the next attempt begins when `detail.reset` says, or after `limitPause` if that is not known, and this one is not counted |

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use lope_agents::law::budget::micros;
use lope_agents::law::settle::after_limit;
use lope_agents::records::StopReason;
use lope_agents::settings::{AgentSettings, AgentsSettings, PromptBy, RunnerSettings};
use lope_engine::executor::{Done, Executor, StartRight, Task, Token};
use lope_model::{Failure, Span, Value};
use lope_workers::clock::wall;
use lope_workers::process_tree::{ProcessTrees, TreeCommand, TreeWork};
use lope_workers::{InheritedEnvironment, Logs};
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::adapter::AgentReader;
use crate::agent_masks::masks_of;
use crate::agent_request::{AgentRequest, bad, failure_kind, result_value};
use crate::invocation::{CallFacts, argv};
use crate::process::{AgentEnd, AgentLaunch, attend};
use crate::runner::zone_of;
use crate::watchdog::AgentLimits;

type StopSender = watch::Sender<Option<StopReason>>;

/// Does `agent` steps.
#[derive(Debug)]
pub struct AgentSteps {
    runtime: Handle,
    settings: Arc<AgentStepSettings>,
    running: Arc<Mutex<HashMap<Token, StopSender>>>,
}

#[derive(Debug)]
struct AgentStepSettings {
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
        let settings = AgentStepSettings {
            trees: ProcessTrees::begin(&runtime),
            logs,
            environment,
            agents,
            settings,
        };
        Self {
            runtime,
            settings: Arc::new(settings),
            running: Arc::default(),
        }
    }
}

impl Executor for AgentSteps {
    fn start(&self, task: Task, done: Done) {
        let (stop, asked) = watch::channel(None);
        lock(&self.running).insert(task.token.clone(), stop);
        let (settings, running) = (Arc::clone(&self.settings), Arc::clone(&self.running));
        self.runtime.spawn(async move {
            let result = settings.run(&task, &done, asked).await;
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

impl AgentStepSettings {
    async fn run(
        &self,
        task: &Task,
        done: &Done,
        stop: watch::Receiver<Option<StopReason>>,
    ) -> Result<Value, Failure> {
        let request = AgentRequest::read(&task.arguments)?;
        let words = request.prompt.as_deref();
        let words = words.ok_or_else(|| {
            bad("an agent needs a prompt; a role alone is for workflows of tasks")
        })?;
        let agent = self.agent(request.agent.as_deref())?;
        let (mut launch, _file) = self.launch(task, &request, words, &agent)?;
        launch.masks = done.masks().and(&launch.masks);
        let log = self.logs.begin_masked(&task.token, &launch.masks);
        done.logged(log.name());
        let heard = |_: &_, has_spoken| {
            if has_spoken {
                done.alive();
            }
        };
        let end = attend(&self.trees, launch, log, stop, heard).await;
        answer(end, self.settings.limit_pause)
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

    fn launch(
        &self,
        task: &Task,
        request: &AgentRequest,
        words: &str,
        agent: &AgentSettings,
    ) -> Result<(AgentLaunch, Option<tempfile::NamedTempFile>), Failure> {
        let facts = CallFacts {
            folder: request.cwd.as_deref().unwrap_or("."),
            session: None,
            cost_left: request.budget,
        };
        let mut argv = argv(agent, &facts);
        let (mut input, mut file) = (None, None);
        match agent.prompt {
            PromptBy::Stdin => input = Some(words.as_bytes().to_vec()),
            PromptBy::Argument => argv.push(words.to_owned()),
            PromptBy::File => {
                let made = prompt_file(words)
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
        let launch = AgentLaunch {
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
            masks: masks_of(&self.environment, agent),
            limits: self.limits(request, agent),
            right: StartRight::Always,
            stop_grace: self.settings.stop_grace,
        };
        Ok((launch, file))
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

fn answer(end: AgentEnd, limit_pause: Span) -> Result<Value, Failure> {
    if end.reason == StopReason::Success {
        return Ok(result_value(end.message.as_deref()));
    }
    let kind = failure_kind(end.reason);
    let words = end.message.unwrap_or_else(|| end.reason.to_string());
    let mut failure = Failure::new(kind, words);
    let reset = end.report.limit.and_then(|limit| limit.reset);
    if end.reason == StopReason::UsageLimit {
        failure.again_at = Some(after_limit(reset, limit_pause, wall()));
    }
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
