//! `lope schedules list|show`.

use std::collections::BTreeMap;

use lope::Client;
use lope::describe;
use lope::runs::{RunFilter, RunRecord};
use lope::schedules::{Schedule, ScheduleEntry, ScheduleList, ScheduleRecord, TAG, Timing};
use lope::stores::CreateStore;
use lope::stores::StoreError;
use lope_model::{Span, Timestamp, limit};
use serde_json::{Value as Json, json};

use super::missing;
use crate::clock::wall;
use crate::commands::shown;
use crate::error::{CliResult, Exit};
use crate::format::{age, paint_status};
use crate::home::Settings;
use crate::output::{Output, complain};
use crate::table::{Column, Table, width};

/// Ticks and runs shown with a schedule.
const SHOWN: usize = 5;

pub(super) async fn list(settings: &Settings, output: Output) -> CliResult<Exit> {
    let all = match settings.open(CreateStore::Never).await {
        Ok(client) => {
            let all = client.schedule_list().await;
            client.close().await?;
            all?
        }
        Err(StoreError::Missing { .. }) => ScheduleList::default(),
        Err(error) => return Err(error.into()),
    };
    let ScheduleList {
        records: all,
        damaged,
    } = all;
    let mut table = Table::new([
        Column::cut("SCHEDULE"),
        Column::cut("WORKFLOW"),
        Column::whole("WHEN"),
        Column::cut("IN WORDS"),
        Column::whole("STATUS"),
        Column::whole("NEXT"),
        Column::whole("LAST"),
    ]);
    for ScheduleRecord { entry, running, .. } in &all {
        let ScheduleEntry { schedule, standing } = entry;
        let last = standing
            .last_tick
            .map(|tick| format!("{} ago", age(wall().since(tick))));
        let last = last.map(|last| {
            if *running {
                format!("{last}, running")
            } else {
                last
            }
        });
        table.row(vec![
            schedule.name.clone(),
            schedule.workflow.clone(),
            schedule.timing.to_string(),
            words(&schedule.timing).unwrap_or_default(),
            describe::schedule_status(entry).to_owned(),
            entry
                .due()
                .map_or_else(String::new, |due| format!("in {}", age(due.since(wall())))),
            last.unwrap_or_default(),
        ]);
    }
    let text = if all.is_empty() && damaged.is_empty() {
        "no schedules".to_owned()
    } else {
        table.lines(width()).join("\n")
    };
    output.result(&all.iter().map(describe::schedule).collect(), &text);
    damaged.iter().for_each(|damaged| complain(&damaged.why));
    Ok(Exit::Done)
}

pub(super) async fn show(client: &Client, name: &str, output: Output) -> CliResult<Exit> {
    let record = client.schedule(name).await?.ok_or_else(|| missing(name))?;
    let tags = BTreeMap::from([(TAG.to_owned(), name.to_owned())]);
    let filter = RunFilter {
        tags,
        limit: SHOWN,
        ..RunFilter::default()
    };
    let mut runs = client.list(filter).await?;
    shown::redact_all(client, &mut runs).await;
    client.close().await?;
    let ScheduleEntry { schedule, standing } = &record.entry;
    let upcoming = schedule.upcoming(standing.next.filter(|_| !schedule.paused), SHOWN);
    let mut value = describe::schedule(&record);
    let starts = |tick: &Timestamp| json!({ "tick": tick.to_string(), "at": schedule.start_of(*tick).to_string() });
    value["upcoming"] = upcoming.iter().map(starts).collect();
    value["runs"] = runs.iter().map(describe::run).collect();
    let mut lines = head(&record, &value);
    lines.extend(ticks(schedule, &upcoming));
    lines.extend(youngest(&runs));
    output.document(&value, &lines.join("\n"));
    Ok(Exit::Done)
}

/// When a schedule ticks, in words, if they say more than what was written.
fn words(timing: &Timing) -> Option<String> {
    let words = timing.in_words();
    words.filter(|words| *words != timing.to_string())
}

fn head(record: &ScheduleRecord, value: &Json) -> Vec<String> {
    let ScheduleEntry { schedule, standing } = &record.entry;
    let counts = &standing.counts;
    let tags: Vec<String> = schedule
        .tags
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let trouble = standing
        .trouble
        .as_ref()
        .map(|trouble| format!("{} ({})", trouble.message, trouble.tick));
    let some = |text: String| Some(text).filter(|text| !text.is_empty());
    let waiting = standing.waiting.len();
    let lines = [
        ("schedule", some(schedule.name.clone())),
        ("workflow", some(schedule.workflow.clone())),
        ("when", some(schedule.timing.to_string())),
        ("in words", words(&schedule.timing)),
        (
            "jitter",
            some(schedule.jitter.to_string()).filter(|_| schedule.jitter > Span::ZERO),
        ),
        ("from", schedule.from.map(|from| when(schedule, from))),
        ("until", schedule.until.map(|until| when(schedule, until))),
        (
            "status",
            some(describe::schedule_status(&record.entry).to_owned()),
        ),
        ("overlap", some(schedule.overlap.as_str().to_owned())),
        ("catch-up", some(schedule.catch_up.as_str().to_owned())),
        (
            "input",
            some(value["input"].to_string()).filter(|_| !value["input"].is_null()),
        ),
        (
            "queue",
            some(format!(
                "{}, priority {}",
                schedule.queue,
                schedule.priority.level()
            )),
        ),
        ("tags", some(tags.join(" "))),
        (
            "ticks",
            some(format!(
                "{} fired, {} skipped, {} missed, {} failed",
                counts.fired, counts.skipped, counts.missed, counts.failed
            )),
        ),
        (
            "waiting",
            some(format!("{waiting} of {}", limit::WAITING_TICKS_MAX)).filter(|_| waiting > 0),
        ),
        (
            "last tick",
            standing.last_tick.map(|tick| when(schedule, tick)),
        ),
        ("error", trouble),
    ];
    let shown = lines
        .into_iter()
        .filter_map(|(name, text)| Some((name, text?)));
    shown
        .map(|(name, text)| format!("{name:<10} {text}"))
        .collect()
}

fn ticks(schedule: &Schedule, upcoming: &[Timestamp]) -> Vec<String> {
    let title = (!upcoming.is_empty()).then(|| "\nnext ticks".to_owned());
    let line = |tick: &Timestamp| {
        let starts = schedule.start_of(*tick);
        let jitter = if starts == *tick {
            String::new()
        } else {
            format!(" + {}", starts.since(*tick))
        };
        format!(
            "  {}{jitter}  in {}",
            when(schedule, *tick),
            age(starts.since(wall()))
        )
    };
    title.into_iter().chain(upcoming.iter().map(line)).collect()
}

fn youngest(runs: &[RunRecord]) -> Vec<String> {
    let title = (!runs.is_empty()).then(|| "\nyoungest runs".to_owned());
    let line = |run: &RunRecord| {
        format!(
            "  {}  {}  {} ago",
            run.run,
            paint_status(run.status),
            age(wall().since(run.created_at))
        )
    };
    title.into_iter().chain(runs.iter().map(line)).collect()
}

/// A time as the schedule's own clock shows it.
pub(super) fn when(schedule: &Schedule, at: Timestamp) -> String {
    match &schedule.timing {
        Timing::Cron(cron) => cron.show(at),
        Timing::Every { .. } => at.to_string(),
    }
}
