//! Adding a schedule: everything that is said is judged before anything is stored.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::http::StatusCode;
use lope::PreparedRun;
use lope::describe;
use lope::runs::RunStartOptions;
use lope::schedules::{CatchUp, Overlap, Schedule, ScheduleRecord, Timing};
use lope_model::{Priority, QueueName, Span, Timestamp, Value};
use serde::Deserialize;

use super::find::no_workflow;
use crate::api_error::ApiError;
use crate::call::{ApiCall, later};
use crate::context::ServerContext;
use crate::endpoint::{Answer, ApiResult, Endpoint};
use crate::reply;

pub(crate) const ENDPOINTS: &[Endpoint] =
    &[
        Endpoint::post("/api/schedules", "addSchedule", |context, call| {
            Box::pin(add(context, call))
        })
        .about("Start a deployed workflow again and again, by a cron expression or at an interval.")
        .does(&["schedules add"])
        .takes("ScheduleRequest")
        .answers(Answer::Created("Schedule")),
    ];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScheduleRequest {
    name: String,
    workflow: String,
    cron: Option<String>,
    zone: Option<String>,
    every: Option<String>,
    jitter: Option<String>,
    from: Option<String>,
    until: Option<String>,
    #[serde(default)]
    overlap: Overlap,
    #[serde(default)]
    catch_up: CatchUp,
    #[serde(default)]
    input: Value,
    queue: Option<String>,
    priority: Option<i64>,
    #[serde(default)]
    tags: BTreeMap<String, String>,
    #[serde(default)]
    paused: bool,
    #[serde(default)]
    replace: bool,
}

async fn add(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let request: ScheduleRequest = call.body()?;
    let client = &context.client;
    let name = request.name.clone();
    let replace = request.replace;
    let schedule = request.schedule(&context, client.now().await?)?;
    if !replace && client.has_schedule(&name).await? {
        return Err(taken(&name));
    }
    let plan = client.latest_plan(&schedule.workflow).await?;
    let plan = plan.ok_or_else(|| no_workflow(&schedule.workflow))?;
    PreparedRun::validate(&plan, &options(&schedule))?;
    let entry = if replace {
        client.put_schedule(schedule).await?
    } else {
        let added = client.add_schedule(schedule).await?;
        added.ok_or_else(|| taken(&name))?
    };
    let record = ScheduleRecord {
        entry,
        last_run: None,
        running: false,
    };
    Ok(reply::json_with(
        StatusCode::CREATED,
        &describe::schedule(&record),
    ))
}

fn taken(name: &str) -> ApiError {
    ApiError::conflict(format!("there is a schedule '{name}' already"))
        .hint("\"replace\": true writes over it")
}

/// How each run is started.
fn options(schedule: &Schedule) -> RunStartOptions {
    RunStartOptions {
        input: Some(schedule.input.clone()),
        priority: Some(schedule.priority),
        queue: schedule.queue.clone(),
        tags: schedule.tags.clone(),
        env: schedule.env.clone(),
        ..RunStartOptions::default()
    }
}

impl ScheduleRequest {
    fn schedule(self, context: &ServerContext, now: Timestamp) -> Result<Schedule, ApiError> {
        let bad =
            |name: &str, error: &dyn std::fmt::Display| ApiError::bad(format!("{name}: {error}"));
        let time = |name: &str, text: &Option<String>| {
            text.as_deref().map(|text| later(name, text)).transpose()
        };
        let (from, until) = (time("from", &self.from)?, time("until", &self.until)?);
        let jitter = self.jitter.as_deref().map(str::parse::<Span>).transpose();
        let queue = self.queue.as_deref().map(QueueName::parse).transpose();
        let queue = queue
            .map_err(|error| bad("queue", &error))?
            .unwrap_or_default();
        let priority = self.priority.map(Priority::new).transpose();
        let priority = priority.map_err(|error| bad("priority", &error))?;
        let priority = context.config.engine.priority(&queue, priority);
        let schedule = Schedule {
            timing: self.timing(from, now)?,
            name: self.name,
            workflow: self.workflow,
            input: self.input,
            jitter: jitter
                .map_err(|error| bad("jitter", &error))?
                .unwrap_or_default(),
            from,
            until,
            overlap: self.overlap,
            catch_up: self.catch_up,
            priority,
            queue,
            tags: self.tags,
            env: context.env.clone(),
            paused: self.paused,
            added_at: now,
        };
        let valid = schedule.validate(now);
        valid.map_err(|error| ApiError::bad(error.to_string()).hint(error.hint()))?;
        Ok(schedule)
    }

    fn timing(&self, from: Option<Timestamp>, now: Timestamp) -> Result<Timing, ApiError> {
        let timing = match (&self.cron, &self.every) {
            (Some(expression), None) => {
                Timing::cron(expression, self.zone.as_deref().unwrap_or("UTC"))
            }
            (None, Some(every)) => {
                let every: Span = every
                    .parse()
                    .map_err(|error| ApiError::bad(format!("every: {error}")))?;
                Timing::every(every, from.unwrap_or(now.plus(every)))
            }
            _ => return Err(ApiError::bad("body: give either 'cron' or 'every'")),
        };
        timing.map_err(|error| ApiError::bad(error.to_string()).hint(error.hint()))
    }
}
