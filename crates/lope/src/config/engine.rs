//! The engine's settings, one row each: how a text becomes the value, and how the value is shown.

use std::str::FromStr;

use lope_engine::Settings;
use lope_model::{Span, limit};
use lope_store::runs::FinalStatus;

/// One setting of the engine.
pub(super) struct EngineSetting {
    pub(super) name: &'static str,
    pub(super) read: fn(&mut Settings, &str) -> Result<(), String>,
    pub(super) show: fn(&Settings) -> String,
}

/// Most threads that advance runs.
const SHARDS_MAX: usize = 1_024;
/// Shortest lease: below it, scheduling noise looks like death.
const LEASE_MIN: Span = Span::from_millis(100);

/// The names of the settings, in the order in which they are shown.
pub const NAMES: [&str; 15] = [
    "shards",
    "concurrency",
    "max_runs",
    "claim_batch",
    "lease",
    "heartbeat",
    "sweep",
    "evict_after",
    "group_commit_max",
    "payload_max",
    "retention",
    "loss_budget",
    "retention_completed",
    "retention_failed",
    "retention_cancelled",
];

pub(super) const SETTINGS: [EngineSetting; 15] = [
    EngineSetting {
        name: NAMES[0],
        read: |to, text| set(&mut to.shards, number(text, 1, SHARDS_MAX)),
        show: |of| of.shards.to_string(),
    },
    EngineSetting {
        name: NAMES[1],
        read: |to, text| set(&mut to.concurrency, number(text, 1, 1_000_000)),
        show: |of| of.concurrency.to_string(),
    },
    EngineSetting {
        name: NAMES[2],
        read: |to, text| set(&mut to.max_runs, number(text, 1, 100_000_000)),
        show: |of| of.max_runs.to_string(),
    },
    EngineSetting {
        name: NAMES[3],
        read: |to, text| set(&mut to.claim_batch, number(text, 1, limit::CLAIM_MAX)),
        show: |of| of.claim_batch.to_string(),
    },
    EngineSetting {
        name: NAMES[4],
        read: |to, text| set(&mut to.lease, span(text, LEASE_MIN)),
        show: |of| of.lease.to_string(),
    },
    EngineSetting {
        name: NAMES[5],
        read: |to, text| set(&mut to.heartbeat, span(text, Span::from_millis(1))),
        show: |of| of.heartbeat.to_string(),
    },
    EngineSetting {
        name: NAMES[6],
        read: |to, text| set(&mut to.sweep, span(text, Span::from_millis(1))),
        show: |of| of.sweep.to_string(),
    },
    EngineSetting {
        name: NAMES[7],
        read: |to, text| set(&mut to.evict_after, span(text, Span::ZERO)),
        show: |of| of.evict_after.to_string(),
    },
    EngineSetting {
        name: NAMES[8],
        read: |to, text| {
            set(
                &mut to.group_commit_max,
                number(text, 1, limit::COMMIT_ROWS_MAX),
            )
        },
        show: |of| of.group_commit_max.to_string(),
    },
    EngineSetting {
        name: NAMES[9],
        read: |to, text| set(&mut to.payload_max, size(text)),
        show: |of| shown_size(of.payload_max),
    },
    EngineSetting {
        name: NAMES[10],
        read: |to, text| set(&mut to.retention, kept(text)),
        show: |of| {
            of.retention
                .map_or_else(|| FOREVER.to_owned(), |span| span.to_string())
        },
    },
    EngineSetting {
        name: NAMES[11],
        read: |to, text| set(&mut to.loss_budget, whole(text, 0, u32::MAX as usize)),
        show: |of| of.loss_budget.to_string(),
    },
    EngineSetting {
        name: NAMES[12],
        read: |to, text| keep_ended(to, FinalStatus::Completed, text),
        show: |of| shown_ended(of, FinalStatus::Completed),
    },
    EngineSetting {
        name: NAMES[13],
        read: |to, text| keep_ended(to, FinalStatus::Failed, text),
        show: |of| shown_ended(of, FinalStatus::Failed),
    },
    EngineSetting {
        name: NAMES[14],
        read: |to, text| keep_ended(to, FinalStatus::Cancelled, text),
        show: |of| shown_ended(of, FinalStatus::Cancelled),
    },
];

/// The word for a retention without end.
pub(super) const FOREVER: &str = "forever";

pub(super) fn find(name: &str) -> Option<&'static EngineSetting> {
    SETTINGS.iter().find(|row| row.name == name)
}

fn set<T>(target: &mut T, value: Result<T, String>) -> Result<(), String> {
    *target = value?;
    Ok(())
}

fn number(text: &str, least: usize, most: usize) -> Result<usize, String> {
    let read = text
        .parse()
        .ok()
        .filter(|number| (least..=most).contains(number));
    read.ok_or_else(|| format!("'{text}' is not a whole number from {least} to {most}"))
}

pub(super) fn whole(text: &str, least: usize, most: usize) -> Result<u32, String> {
    number(text, least, most).map(|number| u32::try_from(number).unwrap_or(u32::MAX))
}

fn span(text: &str, least: Span) -> Result<Span, String> {
    let span = Span::from_str(text).map_err(|error| error.to_string())?;
    if span < least {
        Err(format!("{span} is too short: at least {least}"))
    } else {
        Ok(span)
    }
}

/// How long something is kept: a span, or for ever.
/// How long runs that ended in one way are kept.
fn keep_ended(to: &mut Settings, status: FinalStatus, text: &str) -> Result<(), String> {
    to.retention_by_status.insert(status, kept(text)?);
    Ok(())
}

fn shown_ended(of: &Settings, status: FinalStatus) -> String {
    let kept = of.retention_by_status.get(&status).unwrap_or(&of.retention);
    kept.map_or_else(|| FOREVER.to_owned(), |span| span.to_string())
}

pub(super) fn kept(text: &str) -> Result<Option<Span>, String> {
    if text == FOREVER {
        return Ok(None);
    }
    span(text, Span::ZERO)
        .map(Some)
        .map_err(|message| format!("{message}, or '{FOREVER}'"))
}

const UNITS: [(&str, usize); 4] = [("MiB", 1 << 20), ("KiB", 1 << 10), ("kB", 1_000), ("B", 1)];

/// A size in bytes, as in `512KiB` or `16MiB`.
fn size(text: &str) -> Result<usize, String> {
    let unit = UNITS.iter().find(|(unit, _)| text.ends_with(unit));
    let (digits, factor) = unit.map_or((text, 1), |(unit, factor)| {
        (&text[..text.len() - unit.len()], *factor)
    });
    let bytes = digits
        .trim()
        .parse::<usize>()
        .ok()
        .and_then(|count| count.checked_mul(factor));
    let read = bytes.filter(|bytes| (limit::INLINE_MAX..=limit::PAYLOAD_MAX).contains(bytes));
    let bounds = || {
        format!(
            "{} to {}",
            shown_size(limit::INLINE_MAX),
            shown_size(limit::PAYLOAD_MAX)
        )
    };
    read.ok_or_else(|| format!("'{text}' is not a size from {}", bounds()))
}

fn shown_size(bytes: usize) -> String {
    let unit = UNITS
        .iter()
        .find(|(_, factor)| bytes.is_multiple_of(*factor));
    unit.map_or_else(
        || bytes.to_string(),
        |(unit, factor)| format!("{}{unit}", bytes / factor),
    )
}
