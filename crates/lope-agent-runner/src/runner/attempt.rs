//! One attempt for a step of a round: the agent is chosen, told its task, attended to, and what it came to is written.

use std::convert::Infallible;
use std::path::Path;
use std::time::Instant;

use jiff::tz::TimeZone;
use lope_agents::board::{
    AttemptStart, BoardError, NotBegun, StartedAttempt, TOKEN_VARIABLE, TaskDetail, TaskToken,
};
use lope_agents::law::budget::{BudgetLeft, Exhausted, exhausted, left, micros};
use lope_agents::law::settle::{AttemptEnd, ReviewVerdict, after_limit, goes_on};
use lope_agents::records::{
    AttemptRole, Author, StopReason, TaskAttemptRecord, TaskEventKind, TaskEventRecord, TaskRecord,
};
use lope_agents::settings::{AgentSettings, PromptBy};
use lope_engine::executor::{Done, StartRight, Task};
use lope_model::masks::Masks;
use lope_model::{Failure, Span, Timestamp, Value};
use lope_store::StoreError;
use lope_workers::clock::wall;
use lope_workers::process_tree::{TreeCommand, TreeWork};
use tokio::sync::watch;

use super::TaskRunner;
use super::round_state::{MetLimit, Round};
use crate::adapter::{AgentReader, AgentReport};
use crate::agent_masks::masks_of;
use crate::agent_request::{AgentRequest, failure_kind, result_value};
use crate::invocation::{CallFacts, argv};
use crate::process::{AgentEnd, AgentLaunch, attend};
use crate::prompt::{prompt, verdict};
use crate::task_logs::AttemptLog;
use crate::task_workflow::{self, review_value, step_failure};
use crate::watchdog::AgentLimits;

/// Where logs of attempts are, below those of steps.
const TASK_LOGS: &str = "tasks";
/// Most bytes of a prompt that is given as an argument.
const ARGUMENT_MAX: usize = 100_000;

impl TaskRunner {
    /// Have an agent do a step of a round, and write what came of it before anybody else hears it.
    pub(super) async fn step(
        &self,
        round: &Round,
        task: &Task,
        done: &Done,
        stop: watch::Receiver<Option<StopReason>>,
    ) -> Result<Value, Failure> {
        let request = AgentRequest::read(&task.arguments)?;
        let role = request.role.unwrap_or(AttemptRole::Work);
        let refused = |reason, message: String| {
            let end = task_workflow::ended(role, reason, Some(message));
            step_failure(failure_kind(reason), &end)
        };
        // Whatever its policy says.
        if let Some(reason) = round.must_end(task.token.run) {
            return Err(refused(reason, "the round ends".to_owned()));
        }
        let store = |error: BoardError| refused(StopReason::Startup, error.to_string());
        let id = round.held.task.id;
        let detail = self.board.task_detail(&id.to_string()).await;
        let detail = detail.map_err(store)?;
        let known = self.known_end(round, &task.token, &detail).await;
        if let Some(end) = known.map_err(store)? {
            self.log
                .line(&format!("task {id}: what its agent did is known"));
            return answer(&detail.task, &end);
        }
        let attempts = self.board.attempts(&detail.task.project_path).await;
        let attempts = attempts.map_err(store)?;
        let now = self.board.now().await.map_err(store)?;
        if let Some(used_up) = exhausted(&detail.task, &attempts, &self.board.rules, now) {
            return Err(used_up_before(role, used_up));
        }
        let not_started = |message| refused(StopReason::Startup, message);
        let agent = self.agent(role, request.agent.as_deref());
        let (name, agent) = agent.map_err(not_started)?;
        // Whatever its policy says: asked again at once, the tool refuses again.
        if let Some(end) = round.limited(&name, wall()) {
            return Err(step_failure(failure_kind(end.reason), &end));
        }
        let worktree = self.worktree(&detail, role, &name).await;
        let worktree = worktree.map_err(|error| not_started(error.to_string()))?;
        round.enter(role);
        let start = AttemptStart {
            role,
            agent: name.clone(),
            of: Some((task.token.run, task.token.execution.to_string())),
            worktree,
        };
        let run = task.token.run;
        let log_of = |number| AttemptLog {
            task: id,
            run,
            role,
            number,
        };
        let log = |number| Some(log_of(number).name());
        let begun = self.board.begin_attempt(&round.held, &start, log).await;
        let started = begun.map_err(store)?.map_err(|not_begun| {
            self.log
                .line(&format!("task {id}: not begun: {not_begun:?}"));
            match not_begun {
                NotBegun::LockLost => refused(StopReason::LostLock, "lease lost".to_owned()),
                NotBegun::Decided => refused(StopReason::Cancel, "it was decided".to_owned()),
            }
        })?;
        let call = AgentCall {
            left: left(&detail.task, &attempts, &self.board.rules, now),
            agent: &agent,
            name: &name,
            detail: &detail,
            started: &started,
            request: &request,
            log: log_of(started.attempt.number),
            round,
        };
        self.attempt(&call, done, stop).await
    }

    /// One attempt, from the start of its agent to what is written of it.
    async fn attempt(
        &self,
        call: &AgentCall<'_>,
        done: &Done,
        stop: watch::Receiver<Option<StopReason>>,
    ) -> Result<Value, Failure> {
        let attempt = &call.started.attempt;
        let task = attempt.task_id;
        let role = attempt.role;
        self.log.line(&format!(
            "task {task}: attempt {} ({role}) by agent '{}': {}",
            attempt.number, call.name, call.detail.task.title
        ));
        let before = call.detail.events.last().map_or(0, |event| event.number);
        let end = self.agent_end(call, done, stop).await;
        let masks = masks_of(&self.equipment.environment, call.agent);
        self.hide_said(call.started, before, &masks).await;
        let detail = self.board.task_detail(&task.to_string()).await;
        let events = detail.map(|detail| detail.events).unwrap_or_default();
        let said = events.iter().filter(|event| event.number > before);
        let mut end = conclude(role, &end, &said.collect::<Vec<_>>());
        if end.end.reason == StopReason::Budget {
            end.end.reset = call.more_at(end.wall);
        }
        end.hide(&masks);
        if end.end.reason == StopReason::UsageLimit {
            let pause = self.equipment.settings.limit_pause;
            let until = after_limit(end.end.reset, pause, wall());
            let end = end.end.clone();
            call.round.met_limit(call.name, MetLimit { end, until });
        }
        match self.write_attempt(call.started, &mut end).await {
            Some(settled) => answer(&settled, &end.end),
            None => {
                let lost = task_workflow::ended(role, StopReason::LostLock, None);
                Err(step_failure(failure_kind(StopReason::LostLock), &lost))
            }
        }
    }

    /// An agent whose verbs did not find its secrets may have said them.
    async fn hide_said(&self, started: &StartedAttempt, before: i64, masks: &Masks) {
        let task = started.attempt.task_id;
        if let Err(error) = self.board.hide_said(task, before, masks).await {
            self.log.line(&format!(
                "task {task}: what it said may hold secrets: {error}"
            ));
        }
    }

    fn agent(
        &self,
        role: AttemptRole,
        named: Option<&str>,
    ) -> Result<(String, AgentSettings), String> {
        let agents = &self.equipment.agents;
        if let Some(name) = named.filter(|name| *name != "default") {
            let agent = agents.get(name).ok_or_else(|| {
                format!("there is no agent '{name}' under 'agents:' in the configuration")
            })?;
            return Ok((name.to_owned(), agent.clone()));
        }
        let names: &[&str] = match (role, named) {
            (AttemptRole::Review, None) => &["reviewer", "default"],
            (AttemptRole::Review | AttemptRole::Work, _) => &["default"],
        };
        let known = names
            .iter()
            .find_map(|name| Some(((*name).to_owned(), agents.get(*name)?.clone())));
        Ok(known.unwrap_or_else(|| ("default".to_owned(), AgentSettings::usual())))
    }

    async fn agent_end(
        &self,
        call: &AgentCall<'_>,
        done: &Done,
        stop: watch::Receiver<Option<StopReason>>,
    ) -> AgentEnd {
        let right = earlier(done.start_right(), call.round.ours_until());
        let (launch, masks, file) = match self.launch_of(call, right) {
            Ok(launch) => launch,
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
        let log = self.logs.begin(call.log, &masks);
        if let Some(name) = &attempt.log {
            done.logged(&format!("{TASK_LOGS}/{name}"));
        }
        let (sessions, told) = watch::channel(None);
        let heard = |report: &AgentReport, has_spoken| {
            if has_spoken {
                done.alive();
            }
            sessions.send_if_modified(|known| {
                let is_new = report.session.is_some() && *known != report.session;
                if is_new {
                    known.clone_from(&report.session);
                }
                is_new
            });
        };
        let end = tokio::select! {
            end = attend(&self.trees, launch, log, stop, heard) => end,
            never = self.note_sessions(call.started, told) => match never {},
        };
        drop(file);
        end
    }

    /// Write an agent's session as soon as it tells it: the next attempt goes on in it, also when
    /// this runner dies.
    async fn note_sessions(
        &self,
        started: &StartedAttempt,
        mut told: watch::Receiver<Option<String>>,
    ) -> Infallible {
        loop {
            if told.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
            let session = told.borrow_and_update().clone();
            let is_work = started.attempt.role == AttemptRole::Work;
            let Some(session) = session.filter(|_| is_work) else {
                continue;
            };
            if let Err(error) = self.board.note_session(started, &session).await {
                self.log
                    .line(&format!("its session cannot be written: {error}"));
            }
        }
    }

    fn launch_of(&self, call: &AgentCall<'_>, right: StartRight) -> std::io::Result<AgentParts> {
        let AgentCall {
            agent,
            detail,
            started,
            ..
        } = call;
        let folder = call.folder();
        let resumed = call.resumed();
        let cost_left = call.cost_left();
        let facts = CallFacts {
            folder: &folder,
            session: resumed.map(|(session, _)| session),
            cost_left: cost_left.map(|micros| micros as f64 / 1e6),
        };
        let mut argv = argv(agent, &facts);
        let first = call.request.prompt.as_deref();
        let words = prompt(detail, started.attempt.role, first);
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
        let masks = masks_of(&self.equipment.environment, agent);
        let zone = zone_of(&environment);
        let tokens_before = resumed.map_or(0, |(_, tokens)| tokens);
        let launch = AgentLaunch {
            work: work_of(started),
            command: TreeCommand {
                program: argv.remove(0).into(),
                arguments: argv.into_iter().map(Into::into).collect(),
                environment,
                folder: Some(folder.into()),
                input,
            },
            reader: AgentReader::new(agent.adapter(), zone, tokens_before),
            masks: masks.clone(),
            limits: self.limits(call),
            right,
            stop_grace: self.equipment.settings.stop_grace,
        };
        Ok((launch, masks, file))
    }

    fn limits(&self, call: &AgentCall<'_>) -> AgentLimits {
        let settings = &self.equipment.settings;
        let silence = call.request.silence.or(call.agent.silence);
        AgentLimits {
            silence: silence.unwrap_or(settings.subprocess_hang_timeout),
            wall: Some(call.agent.timeout.unwrap_or(settings.task_timeout)),
            wall_left: call.left.wall_time,
            cost_left: call.cost_left(),
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

    /// Write what an attempt came to; the task then. As long as the lock is surely ours, a store that
    /// is out of reach is asked again. What a store refuses it will refuse again: then the attempt has
    /// failed, and that is written.
    async fn write_attempt(
        &self,
        started: &StartedAttempt,
        end: &mut ConcludedAttempt,
    ) -> Option<TaskRecord> {
        let begun = Instant::now();
        let task = started.held.task.id;
        let mut is_refused = false;
        loop {
            let written = self
                .board
                .end_attempt(started, &end.end, |attempt| end.measure(attempt))
                .await;
            match written {
                Ok(written) => return written.ok(),
                Err(BoardError::Store(StoreError::Refused { .. })) if is_refused => return None,
                Err(BoardError::Store(StoreError::Refused { message })) => {
                    self.log
                        .line(&format!("task {task}: its end is refused: {message}"));
                    is_refused = true;
                    let words = format!("the store refused what it came to: {message}");
                    end.end = task_workflow::ended(end.end.role, StopReason::Exit, Some(words));
                }
                Err(error) => {
                    self.log.line(&format!("task {task}: the store: {error}"));
                    if begun.elapsed() >= self.bearable() {
                        return None;
                    }
                    tokio::time::sleep(self.heartbeat() / 4).await;
                }
            }
        }
    }
}

type AgentParts = (AgentLaunch, Masks, Option<tempfile::NamedTempFile>);

/// What an agent is started with.
struct AgentCall<'a> {
    agent: &'a AgentSettings,
    name: &'a str,
    detail: &'a TaskDetail,
    started: &'a StartedAttempt,
    /// What its step asks for.
    request: &'a AgentRequest,
    left: BudgetLeft,
    log: AttemptLog,
    round: &'a Round,
}

impl AgentCall<'_> {
    /// Where the agent works.
    fn folder(&self) -> String {
        let project = &self.started.held.task.project_path;
        let own = self.started.attempt.worktree.as_ref().unwrap_or(project);
        let named = self.request.cwd.as_deref();
        let folder = named.map(|named| Path::new(own).join(named));
        folder.map_or_else(|| own.clone(), |folder| folder.display().to_string())
    }

    /// When there is more to use up, if it was the day's budget that ended it after so long.
    fn more_at(&self, wall: Span) -> Option<Timestamp> {
        let of_step = self.request.budget.map(micros);
        let is_of_step = of_step.is_some_and(|most| self.cost_left() == Some(most));
        self.left.until(wall).filter(|_| !is_of_step)
    }

    /// What it may cost, in millionths of a dollar.
    fn cost_left(&self) -> Option<i64> {
        let of_step = self.request.budget.map(micros);
        let both = [of_step, self.left.cost_micros];
        both.into_iter().flatten().min()
    }

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
        let used = tokens.iter().copied().fold(0, i64::saturating_add);
        (!tokens.is_empty()).then_some((session, used))
    }
}

/// What an attempt came to, with what was measured.
pub(super) struct ConcludedAttempt {
    pub(super) end: AttemptEnd,
    exit_code: Option<i32>,
    wall: Span,
    cost_micros: i64,
    tokens: i64,
}

impl ConcludedAttempt {
    fn hide(&mut self, masks: &Masks) {
        if let Some(message) = &mut self.end.message {
            *message = masks.hide(message);
        }
    }

    fn measure(&self, attempt: &mut TaskAttemptRecord) {
        attempt.exit_code = self.exit_code.map(i64::from);
        attempt.wall_ms = self.wall.millis().cast_signed().max(1);
        attempt.cost_micros = self.cost_micros;
        attempt.tokens = self.tokens;
    }
}

/// What an attempt came to: how its process ended, and what the agent said about its task.
pub(super) fn conclude(
    role: AttemptRole,
    end: &AgentEnd,
    said: &[&TaskEventRecord],
) -> ConcludedAttempt {
    let word = |kind: TaskEventKind| {
        let mut own = said.iter().rev();
        let event = own.find(|event| event.kind == kind && event.author == Author::Agent);
        event.map(|event| event.message.clone())
    };
    let (done, failed) = (word(TaskEventKind::Done), word(TaskEventKind::Failed));
    // What was said last counts.
    let last = |kind: TaskEventKind| {
        let own = said
            .iter()
            .filter(|it| it.kind == kind && it.author == Author::Agent);
        own.map(|event| event.number).max()
    };
    let is_split = last(TaskEventKind::Split) > last(TaskEventKind::Done);
    let mut reason = end.reason;
    let mut message = end.message.clone();
    let mut found = None;
    match (role, reason) {
        (AttemptRole::Work, StopReason::Success | StopReason::Exit) if failed.is_some() => {
            (reason, message) = (StopReason::Exit, failed);
        }
        (AttemptRole::Work, StopReason::Success | StopReason::Hang | StopReason::UsageLimit)
            if done.is_some() =>
        {
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

/// A budget that was used up before an agent was started.
fn used_up_before(role: AttemptRole, used_up: Exhausted) -> Failure {
    let end = AttemptEnd {
        reset: used_up.until,
        ..task_workflow::ended(role, StopReason::Budget, Some(used_up.reason))
    };
    step_failure(failure_kind(StopReason::Budget), &end)
}

/// What a step answers when its attempt has ended so.
fn answer(task: &TaskRecord, end: &AttemptEnd) -> Result<Value, Failure> {
    if !goes_on(task, end) {
        // The engine would try again what was lost with its worker; here the board decides.
        let kind = match end.reason {
            StopReason::RunnerDeath => "AgentLost",
            reason => failure_kind(reason),
        };
        return Err(step_failure(kind, end));
    }
    let words = end.message.as_deref();
    Ok(end.verdict.map_or_else(
        || result_value(words),
        |verdict| review_value(verdict, words),
    ))
}

/// A right that ends with another.
fn earlier(right: StartRight, end: Instant) -> StartRight {
    match right {
        StartRight::Always => StartRight::Until(end),
        StartRight::Until(before) => StartRight::Until(before.min(end)),
        StartRight::Over => StartRight::Over,
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
