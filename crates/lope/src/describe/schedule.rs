//! Schedules as JSON.

use lope_model::Span;
use lope_schedule::store::ScheduleRecord;
use lope_schedule::timing::Timing;
use lope_schedule::{Schedule, ScheduleEntry, ScheduleState};
use serde_json::{Value, json};

use super::time;

/// A schedule with what is known of it.
pub fn schedule(record: &ScheduleRecord) -> Value {
    let ScheduleRecord {
        entry,
        last_run,
        running,
    } = record;
    let ScheduleState {
        next,
        waiting,
        last_tick,
        counts,
        trouble,
    } = &entry.standing;
    let mut value = said(&entry.schedule);
    let next = next.filter(|_| !entry.schedule.paused);
    let known = json!({
        "status": schedule_status(entry),
        "next_tick": next.map(time),
        "next_at": entry.due().map(time),
        "waiting": waiting.iter().copied().map(time).collect::<Vec<_>>(),
        "last_tick": last_tick.map(time),
        "last_run_id": last_run,
        "running": running,
        "counts": counts,
        "error": trouble.as_ref().map(|trouble| {
            json!({ "tick": time(trouble.tick), "at": time(trouble.at), "message": trouble.message })
        }),
    });
    if let (Value::Object(value), Value::Object(known)) = (&mut value, known) {
        value.extend(known);
    }
    value
}

/// `active`, `paused`, or `ended` if no tick will come.
pub fn schedule_status(entry: &ScheduleEntry) -> &'static str {
    match (entry.schedule.paused, entry.standing.next) {
        (true, _) => "paused",
        (false, None) if !entry.waits() => "ended",
        (false, _) => "active",
    }
}

fn said(schedule: &Schedule) -> Value {
    let (cron, zone, every) = match &schedule.timing {
        Timing::Cron(cron) => (Some(cron.expression()), Some(cron.zone()), None),
        Timing::Every { every, .. } => (None, None, Some(every.to_string())),
    };
    json!({
        "name": schedule.name,
        "workflow": schedule.workflow,
        "cron": cron,
        "zone": zone,
        "every": every,
        "in_words": schedule.timing.in_words(),
        "jitter": Some(schedule.jitter).filter(|jitter| *jitter > Span::ZERO).map(|jitter| jitter.to_string()),
        "from": schedule.from.map(time),
        "until": schedule.until.map(time),
        "overlap": schedule.overlap.as_str(),
        "catch_up": schedule.catch_up.as_str(),
        "input": schedule.input,
        "queue": schedule.queue,
        "priority": schedule.priority.level(),
        "tags": schedule.tags,
        "added_at": time(schedule.added_at),
    })
}
