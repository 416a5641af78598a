//! What stands in the store at this moment, for Prometheus, beside what the runner counted.

use std::fmt::Write;

use lope::mailbox::{Counting, Depth};
use lope::stores::StoreResult;

use crate::clock;
use crate::context::ServerContext;

/// Runners that are counted.
const RUNNERS: usize = 1_000;

/// One family of values.
struct Gauge {
    name: &'static str,
    about: &'static str,
    /// Labels as they are written, and the value.
    values: Vec<(String, f64)>,
}

/// The gauges as text, without an end mark. Those of a store that is away are left out;
/// `lope_store_up` tells.
pub(super) async fn text(context: &ServerContext) -> String {
    let mut text = String::new();
    let gauges = read(context).await;
    let up = Gauge {
        name: "lope_store_up",
        about: "Whether the store answers",
        values: vec![(String::new(), if gauges.is_ok() { 1.0 } else { 0.0 })],
    };
    for gauge in std::iter::once(up).chain(gauges.unwrap_or_default()) {
        let name = gauge.name;
        let _ = writeln!(text, "# HELP {name} {}.", gauge.about.trim_end_matches('.'));
        let _ = writeln!(text, "# TYPE {name} gauge");
        for (labels, value) in gauge.values {
            let _ = writeln!(text, "{name}{labels} {value}");
        }
    }
    text
}

async fn read(context: &ServerContext) -> StoreResult<Vec<Gauge>> {
    let client = &context.client;
    let counts = client.counts().await?;
    let runs = counts.by_status.iter();
    let runs = runs.map(|(status, count)| (labels(&[("status", *status)]), *count as f64));
    let queues = counts.queues.iter().flat_map(|queue| {
        let states = [
            ("due", queue.due),
            ("later", queue.later),
            ("owned", queue.owned),
            ("parked", queue.parked),
        ];
        let name = queue.queue.to_string();
        states.map(|(state, count)| {
            let labels = labels(&[("queue", name.as_str()), ("state", state)]);
            (labels, count as f64)
        })
    });
    let now = clock::now();
    let ages = counts.queues.iter().map(|queue| {
        let age = queue.oldest.map_or(0, |oldest| now.since(oldest).millis());
        let labels = labels(&[("queue", queue.queue.as_str())]);
        (labels, age as f64 / 1e3)
    });
    let runners = client.runners(RUNNERS).await?;
    let live = runners.iter().filter(|runner| runner.live).count();
    let mut gauges = vec![
        Gauge {
            name: "lope_runs",
            about: "Runs in the store, by status; of ended ones at most 100,000 a status",
            values: runs.collect(),
        },
        Gauge {
            name: "lope_queue_runs",
            about: "Unfinished runs, by queue and by what they wait for",
            values: queues.collect(),
        },
        Gauge {
            name: "lope_queue_oldest_seconds",
            about: "How long the oldest run that is due has waited, by queue",
            values: ages.collect(),
        },
        single("lope_runners", "Runners that live", live as f64),
        single(
            "lope_schedule_lateness_seconds",
            "How long the most overdue schedule has waited for its tick",
            lateness(context).await?,
        ),
    ];
    gauges.extend(mailbox(context).await);
    Ok(gauges)
}

fn single(name: &'static str, about: &'static str, value: f64) -> Gauge {
    let values = vec![(String::new(), value)];
    Gauge {
        name,
        about,
        values,
    }
}

async fn lateness(context: &ServerContext) -> StoreResult<f64> {
    let schedules = context.client.schedules().await?;
    let now = clock::now();
    let due = schedules.iter().filter_map(|it| it.entry.due());
    let late = due.filter(|due| *due < now).map(|due| now.since(due));
    let longest = late.map(lope_model::Span::millis).max().unwrap_or(0);
    Ok(longest as f64 / 1e3)
}

/// The mailbox, as far as counting goes quickly. A store without one has nothing to tell.
async fn mailbox(context: &ServerContext) -> Option<Gauge> {
    let mailbox = context.client.mailbox().await.ok()?;
    let stats = mailbox.stats(1, Counting::Quick).await.ok()?;
    let counted = [
        ("inbox", stats.inbox),
        ("timers", stats.timers),
        ("outbox", stats.outbox),
        ("dead_letters", stats.dead_letters),
    ];
    let values = counted.map(|(table, depth)| {
        let (Depth::Exactly(rows) | Depth::MoreThan(rows) | Depth::AtMost(rows)) = depth;
        (labels(&[("table", table)]), rows as f64)
    });
    Some(Gauge {
        name: "lope_mailbox_messages",
        about: "Messages of the mailbox, by where they are; of many, as far as they are counted",
        values: Vec::from(values),
    })
}

fn labels(pairs: &[(&str, &str)]) -> String {
    let escaped = |text: &str| {
        let text = text.replace('\\', "\\\\").replace('"', "\\\"");
        text.replace('\n', "\\n")
    };
    let pairs = pairs
        .iter()
        .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)));
    format!("{{{}}}", pairs.collect::<Vec<_>>().join(","))
}
