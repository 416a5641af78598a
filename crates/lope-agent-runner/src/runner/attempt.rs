//! One attempt: the agent is chosen, told its task, attended to, and what it came to is written.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use jiff::tz::TimeZone;
use lope_agents::board::{HeldTask, StartedAttempt, TOKEN_VARIABLE, TaskDetail, TaskToken};
use lope_agents::law::budget::{BudgetLeft, left};
use lope_agents::law::settle::{AttemptEnd, ReviewVerdict};
use lope_agents::records::{
    AttemptRole, Author, StopReason, TaskAttemptRecord, TaskEventKind, TaskEventRecord,
};
use lope_agents::settings::{AgentSettings, PromptBy};
use lope_engine::executor::StartRight;
use lope_model::Span;
use lope_model::masks::Masks;
use lope_workers::process_tree::{TreeCommand, TreeWork};
use tokio::sync::watch;

use super::{RunnerStop, StopWishes, TaskRunner};
use crate::adapter::{AgentReader, AgentReport};
use crate::invocation::{CallFacts, argv};
use crate::process::{AgentEnd, AgentOrder, attend};
use crate::prompt::{prompt, verdict};
use crate::task_logs::TaskLogs;
use crate::watchdog::AgentLimits;

/// Shortest value of a variable that is hidden in logs.
const MASKED_LENGTH: usize = 6;
/// Most bytes of a prompt that is given as an argument.
const ARGUMENT_MAX: usize = 100_000;

impl TaskRunner {
    /// Have an agent work on a task that is ours, and write what came of it.
    pub(super) async fn attempt(
        &self,
        mut held: HeldTask,
        wishes: &mut StopWishes,
    ) -> Result<(), RunnerStop> {
        let begins_until = Instant::now() + self.bearable();
        let detail = self.board.task_detail(&held.task.id.to_string()).await?;
        let attempts = self.board.attempts(&held.task.project_path).await?;
        let now = self.board.now().await?;
        let left = left(&held.task, &attempts, &self.board.rules, now);
        let (name, agent) = self.agent(held.role);
        let task = held.task.id;
        let role = held.role;
        let log = |number| Some(TaskLogs::name(task, role, number));
        let Ok(started) = self.board.begin_attempt(&held, &name, log).await? else {
            self.log
                .line(&format!("task {task}: lease lost before it began"));
            return Ok(());
        };
        let number = started.attempt.number;
        self.log.line(&format!(
            "task {task}: attempt {number} ({role}) by agent '{name}': {}",
            held.task.title
        ));
        let before = detail.events.last().map_or(0, |event| event.number);
        let call = AgentCall {
            agent: &agent,
            name: &name,
            detail: &detail,
            started: &started,
            left,
            begins_until,
        };
        let end = self.agent_end(&call, &mut held, wishes).await;
        let detail = self.board.task_detail(&task.to_string()).await;
        let events = detail.map(|detail| detail.events).unwrap_or_default();
        let said = events.iter().filter(|event| event.number > before);
        let end = conclude(role, &end, &said.collect::<Vec<_>>());
        self.write_end(&started, &end).await
    }

    fn agent(&self, role: AttemptRole) -> (String, AgentSettings) {
        let agents = &self.equipment.agents;
        let names: &[&str] = match role {
            AttemptRole::Work => &["default"],
            AttemptRole::Review => &["reviewer", "default"],
        };
        let known = names
            .iter()
            .find_map(|name| Some(((*name).to_owned(), agents.get(*name)?.clone())));
        known.unwrap_or_else(|| ("default".to_owned(), AgentSettings::usual()))
    }

    async fn agent_end(
        &self,
        call: &AgentCall<'_>,
        held: &mut HeldTask,
        wishes: &mut StopWishes,
    ) -> AgentEnd {
        let (order, masks, file) = match self.order_of(call) {
            Ok(order) => order,
            Err(error) => {
                return AgentEnd {
                    reason: StopReason::Startup,
                    exit_code: None,
                    report: AgentReport::default(),
                    message: Some(format!("its prompt cannot be written: {error}")),
                    wall: Span::ZERO,
                };
            }
        };
        let attempt = &call.started.attempt;
        let log = self
            .logs
            .begin(attempt.task_id, attempt.role, attempt.number, &masks);
        let (stop, asked) = watch::channel(None);
        let end = tokio::select! {
            end = attend(&self.trees, order, log, asked, |_, _| ()) => end,
            never = self.keep(held, &stop, wishes) => match never {},
        };
        drop(file);
        end
    }

    fn order_of(&self, call: &AgentCall<'_>) -> std::io::Result<AgentParts> {
        let AgentCall {
            agent,
            detail,
            started,
            ..
        } = call;
        let task = &started.held.task;
        let resumed = call.resumed();
        let facts = CallFacts {
            folder: &task.project_path,
            session: resumed.map(|(session, _)| session),
            cost_left: call.left.cost_micros.map(|micros| micros as f64 / 1e6),
        };
        let mut argv = argv(agent, &facts);
        let words = prompt(detail, started.attempt.role);
        let (mut input, mut file) = (None, None);
        match agent.prompt {
            PromptBy::Stdin => input = Some(words.into_bytes()),
            PromptBy::Argument if words.len() <= ARGUMENT_MAX => argv.push(words),
            PromptBy::Argument => {
                return Err(std::io::Error::other("it is too long for an argument"));
            }
            PromptBy::File => {
                let made = tempfile::NamedTempFile::new()?;
                std::fs::write(made.path(), words)?;
                argv.push(made.path().display().to_string());
                file = Some(made);
            }
        }
        let environment = self.environment(agent, started);
        let masks = self.masks(agent);
        let zone = zone_of(&environment);
        let tokens_before = resumed.map_or(0, |(_, tokens)| tokens);
        let order = AgentOrder {
            work: work_of(started),
            command: TreeCommand {
                program: argv.remove(0).into(),
                arguments: argv.into_iter().map(Into::into).collect(),
                environment,
                folder: Some(task.project_path.clone().into()),
                input,
            },
            reader: AgentReader::new(agent.adapter(), zone, tokens_before),
            limits: self.limits(agent, call.left),
            right: StartRight::Until(call.begins_until),
            stop_grace: self.equipment.settings.stop_grace,
        };
        Ok((order, masks, file))
    }

    fn limits(&self, agent: &AgentSettings, left: BudgetLeft) -> AgentLimits {
        let settings = &self.equipment.settings;
        AgentLimits {
            silence: agent.silence.unwrap_or(settings.subprocess_hang_timeout),
            wall: Some(agent.timeout.unwrap_or(settings.task_timeout)),
            wall_left: left.wall_time,
            cost_left: left.cost_micros,
            result_grace: settings.stop_grace,
        }
    }

    /// What is allowed of this program's environment, and what tells the agent whose it is.
    fn environment(
        &self,
        agent: &AgentSettings,
        started: &StartedAttempt,
    ) -> Vec<(std::ffi::OsString, std::ffi::OsString)> {
        let allowed = self.equipment.environment.clone();
        let mut environment = allowed.allow(agent.env.iter().cloned()).for_processes();
        let token = TaskToken::from(&started.held.lock);
        let own = [
            (TOKEN_VARIABLE.to_owned(), token.to_string()),
            ("LOPE_TASK_ID".to_owned(), started.held.task.id.to_string()),
            (
                "LOPE_ATTEMPT".to_owned(),
                started.attempt.number.to_string(),
            ),
        ];
        let all = self.equipment.variables.iter().cloned().chain(own);
        environment.extend(all.map(|(name, value)| (name.into(), value.into())));
        environment
    }

    /// What an agent is given by name may be a secret: its log does not show it.
    fn masks(&self, agent: &AgentSettings) -> Masks {
        let base = self.equipment.environment.clone().for_processes();
        let all = self.equipment.environment.clone();
        let named = all.allow(agent.env.iter().cloned()).for_processes();
        let named = named.into_iter().filter(|pair| !base.contains(pair));
        let values = named.filter_map(|(_, value)| value.into_string().ok());
        let long = values.filter(|value| value.len() >= MASKED_LENGTH);
        Masks::of(long.map(Arc::from))
    }

    /// Write what an attempt came to. As long as the lock is surely ours, a store that is out of
    /// reach is asked again.
    async fn write_end(
        &self,
        started: &StartedAttempt,
        end: &ConcludedAttempt,
    ) -> Result<(), RunnerStop> {
        let begun = Instant::now();
        let task = started.held.task.id;
        loop {
            let written = self
                .board
                .settle(started, &end.end, |attempt| end.measure(attempt))
                .await;
            match written {
                Ok(Ok(settled)) => {
                    let why = settled.reason.as_deref().unwrap_or("well");
                    self.log.line(&format!(
                        "task {task}: {} → {} ({why})",
                        end.end.reason, settled.status
                    ));
                    self.hooks.tell(&settled, &self.log);
                    return Ok(());
                }
                Ok(Err(_)) => {
                    self.log
                        .line(&format!("task {task}: lease lost, nothing is written"));
                    return Ok(());
                }
                Err(error) => {
                    self.log.line(&format!("task {task}: the store: {error}"));
                    if begun.elapsed() >= self.bearable() {
                        return Err(RunnerStop::LeaseLost);
                    }
                    tokio::time::sleep(self.heartbeat() / 4).await;
                }
            }
        }
    }
}

type AgentParts = (AgentOrder, Masks, Option<tempfile::NamedTempFile>);

/// What an agent is started with.
struct AgentCall<'a> {
    agent: &'a AgentSettings,
    name: &'a str,
    detail: &'a TaskDetail,
    started: &'a StartedAttempt,
    left: BudgetLeft,
    /// The task is surely ours until then.
    begins_until: Instant,
}

impl AgentCall<'_> {
    /// The session that work goes on with, and what was used in it so far. A review begins anew.
    fn resumed(&self) -> Option<(&str, i64)> {
        if self.started.attempt.role == AttemptRole::Review {
            return None;
        }
        let session = self.detail.task.session.as_deref()?;
        let own = self.detail.attempts.iter().filter(|attempt| {
            attempt.role == AttemptRole::Work
                && attempt.agent == self.name
                && attempt.session.as_deref() == Some(session)
        });
        let tokens: Vec<i64> = own.map(|attempt| attempt.tokens).collect();
        (!tokens.is_empty()).then(|| (session, tokens.iter().sum()))
    }
}

/// What an attempt came to, with what was measured.
struct ConcludedAttempt {
    end: AttemptEnd,
    exit_code: Option<i32>,
    wall: Span,
    cost_micros: i64,
    tokens: i64,
}

impl ConcludedAttempt {
    fn measure(&self, attempt: &mut TaskAttemptRecord) {
        attempt.exit_code = self.exit_code.map(i64::from);
        attempt.wall_ms = self.wall.millis().cast_signed().max(1);
        attempt.cost_micros = self.cost_micros;
        attempt.tokens = self.tokens;
    }
}

/// What an attempt came to: how its process ended, and what the agent said about its task.
fn conclude(role: AttemptRole, end: &AgentEnd, said: &[&TaskEventRecord]) -> ConcludedAttempt {
    let word = |kind: TaskEventKind| {
        let mut own = said.iter().rev();
        let event = own.find(|event| event.kind == kind && event.author == Author::Agent);
        event.map(|event| event.message.clone())
    };
    let (done, failed) = (word(TaskEventKind::Done), word(TaskEventKind::Failed));
    let is_split = word(TaskEventKind::Split).is_some() && done.is_none();
    let mut reason = end.reason;
    let mut message = end.message.clone();
    let mut found = None;
    match (role, reason) {
        (AttemptRole::Work, StopReason::Success | StopReason::Exit) if failed.is_some() => {
            (reason, message) = (StopReason::Exit, failed);
        }
        (AttemptRole::Work, StopReason::Success | StopReason::Hang) if done.is_some() => {
            reason = StopReason::Success;
            message = done.filter(|words| !words.is_empty()).or(message);
        }
        (AttemptRole::Review, StopReason::Success) => {
            found = match (&done, &failed) {
                (_, Some(_)) => Some(ReviewVerdict::Rejected),
                (Some(_), None) => Some(ReviewVerdict::Approved),
                (None, None) => message.as_deref().and_then(verdict),
            };
            message = failed
                .or(done)
                .filter(|words| !words.is_empty())
                .or(message);
        }
        (_, _) => {}
    }
    ConcludedAttempt {
        end: AttemptEnd {
            role,
            reason,
            reset: end.report.limit.and_then(|limit| limit.reset),
            verdict: found,
            message,
            session: end
                .report
                .session
                .clone()
                .filter(|_| role == AttemptRole::Work),
            is_split,
        },
        exit_code: end.exit_code,
        wall: end.wall,
        cost_micros: end.report.cost_micros,
        tokens: end.report.tokens,
    }
}

fn work_of(started: &StartedAttempt) -> TreeWork {
    TreeWork {
        name: format!("task/{}", started.held.task.id),
        attempt: u32::try_from(started.attempt.number).unwrap_or(u32::MAX),
        epoch: started.attempt.epoch.cast_unsigned(),
    }
}

/// The zone in which an agent's tool says times.
pub(crate) fn zone_of(environment: &[(std::ffi::OsString, std::ffi::OsString)]) -> TimeZone {
    let named = environment.iter().find(|(name, _)| name == "TZ");
    let named = named.map(|(_, value)| value.to_string_lossy().trim_start_matches(':').to_owned());
    let of_machine = || {
        let link = std::fs::read_link(Path::new("/etc/localtime")).ok()?;
        let path = link.to_str()?.to_owned();
        path.split_once("zoneinfo/")
            .map(|(_, name)| name.to_owned())
    };
    let name = named.or_else(of_machine);
    let zone = name.and_then(|name| TimeZone::get(&name).ok());
    zone.unwrap_or(TimeZone::UTC)
}
