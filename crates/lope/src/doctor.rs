//! `lope doctor`: is everything there that work needs? Facts are gathered in `facts`; what they
//! mean is decided here, purely.
//!
//! Nothing is changed. Each check says one line: ok, a warning, or a failure with a hint.

mod facts;

use lope_model::{Span, Timestamp};
use lope_store::StoreError;
use lope_store::runs::{QueueCount, RunRecord, RunnerRecord};
use lope_store::store::Finding;
use lope_why::is_set_aside;

use crate::agents::{ROUND_ENGINE, TASK_QUEUE};

pub use facts::{StoreFacts, home, inspect, python, space};

/// How a check ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Health {
    Ok,
    Warn,
    Fail,
}

/// What a Postgres server should not have switched off, and what comes of it.
const NOT_OFF: [(&str, Health, &str); 4] = [
    (
        "fsync",
        Health::Fail,
        "a crash of the machine may lose or damage everything",
    ),
    (
        "full_page_writes",
        Health::Fail,
        "a crash of the machine may damage pages",
    ),
    (
        "synchronous_commit",
        Health::Warn,
        "a crash of the server may lose what was acknowledged",
    ),
    (
        "autovacuum",
        Health::Warn,
        "the queue grows slow without it",
    ),
];

/// One line of the report.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HealthCheck {
    pub check: &'static str,
    pub health: Health,
    pub message: String,
    pub hint: Option<String>,
}

/// Less room than this is a failure, and less than `SPACE_LOW` a warning.
const SPACE_MIN: u64 = 100 * 1024 * 1024;
const SPACE_LOW: u64 = 1024 * 1024 * 1024;
/// How far clocks may be apart.
const SKEW: Span = Span::from_secs(5);
/// No clock that is right is before this: 2025.
const LONG_AGO: Timestamp = Timestamp::from_millis(1_735_689_600_000);
/// Fewest connections that a server should allow.
const CONNECTIONS_MIN: u64 = 20;
/// Most findings told one by one.
const TOLD: usize = 5;

impl Health {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

impl HealthCheck {
    pub fn ok(check: &'static str, message: impl Into<String>) -> Self {
        Self {
            check,
            health: Health::Ok,
            message: message.into(),
            hint: None,
        }
    }

    pub fn warn(check: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            check,
            health: Health::Warn,
            message: message.into(),
            hint: Some(hint.into()),
        }
    }

    pub fn fail(check: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            check,
            health: Health::Fail,
            message: message.into(),
            hint: Some(hint.into()),
        }
    }
}

/// Could the store be opened?
pub fn opened(url: &str, error: Option<&StoreError>) -> HealthCheck {
    match error {
        None => HealthCheck::ok("store", format!("{url} is there")),
        Some(StoreError::Missing { .. }) => HealthCheck::warn(
            "store",
            format!("{url} is not there yet"),
            "'lope run' or 'lope store migrate' creates it",
        ),
        Some(error @ StoreError::Version { hint, .. }) => {
            HealthCheck::fail("store", error.to_string(), hint.clone())
        }
        Some(error @ (StoreError::Unavailable { .. } | StoreError::Unknown { .. })) => {
            HealthCheck::fail(
                "store",
                error.to_string(),
                "a server: is it running, and is the address right? A file: the message names who holds it",
            )
        }
        Some(error @ StoreError::Full { .. }) => {
            HealthCheck::fail("store", error.to_string(), "free some space")
        }
        Some(error @ StoreError::ReadOnly { .. }) => HealthCheck::fail(
            "store",
            error.to_string(),
            "check the permissions of the file and of its folder",
        ),
        Some(
            error @ (StoreError::Corrupt { .. } | StoreError::Refused { .. } | StoreError::Closed),
        ) => HealthCheck::fail(
            "store",
            error.to_string(),
            "restore a backup made with 'lope store backup'",
        ),
    }
}

/// Is what the store holds sound?
pub fn integrity(findings: &[Finding]) -> Vec<HealthCheck> {
    if findings.is_empty() {
        let message = "schema, journal, leases and mail agree";
        return vec![HealthCheck::ok("sound", message)];
    }
    let told = findings.iter().take(TOLD).map(|it| {
        let message = format!("{}: {}", it.rule, it.message);
        HealthCheck::fail("sound", message, it.hint.clone())
    });
    told.collect()
}

/// Is there room where the store is?
pub fn room(folder: &str, free: u64) -> HealthCheck {
    let message = format!("{} MB free in {folder}", free / (1024 * 1024));
    match free {
        0..SPACE_MIN => HealthCheck::fail(
            "disk",
            message,
            "free some space: a full disk stops all work",
        ),
        SPACE_MIN..SPACE_LOW => {
            HealthCheck::warn("disk", message, "free some space, or 'lope store prune'")
        }
        SPACE_LOW.. => HealthCheck::ok("disk", message),
    }
}

/// Do the clocks agree? `others` are readings of clocks that should not be ahead of ours.
pub fn clock(
    now: Timestamp,
    store: Timestamp,
    others: impl Iterator<Item = Timestamp>,
) -> HealthCheck {
    let hint = "set the clock of this machine (a time service keeps it right)";
    if now < LONG_AGO {
        return HealthCheck::fail("clock", format!("this machine's clock says {now}"), hint);
    }
    let apart = |other: Timestamp| {
        if other > now {
            other.since(now)
        } else {
            now.since(other)
        }
    };
    if apart(store) > SKEW {
        let message = format!(
            "this machine's clock and the store's are {} apart",
            apart(store)
        );
        return HealthCheck::warn("clock", message, hint);
    }
    match others.max().filter(|latest| *latest > now.plus(SKEW)) {
        Some(latest) => {
            let message = format!(
                "the store has times {} ahead of this machine's clock",
                latest.since(now)
            );
            HealthCheck::warn("clock", message, hint)
        }
        None => HealthCheck::ok("clock", format!("{now}")),
    }
}

/// Who works, and does anything wait for them?
pub fn runners(runners: &[RunnerRecord], queues: &[QueueCount]) -> Vec<HealthCheck> {
    let live = runners.iter().filter(|runner| runner.live).count();
    // What becomes of a task is done by the runner of its project.
    let ours = queues.iter().filter(|it| it.queue.as_str() != TASK_QUEUE);
    let due: u64 = ours.map(|queue| queue.due).sum();
    let mut verdicts = Vec::new();
    verdicts.push(match (live, due) {
        (0, 0) => HealthCheck::ok("runners", "none is up, and no run is due"),
        (0, 1) => HealthCheck::warn("runners", "none is up, and 1 run is due", "lope up"),
        (0, due) => HealthCheck::warn(
            "runners",
            format!("none is up, and {due} runs are due"),
            "lope up",
        ),
        (live, 1) => HealthCheck::ok("runners", format!("{live} up; 1 run due")),
        (live, due) => HealthCheck::ok("runners", format!("{live} up; {due} runs due")),
    });
    for gone in runners
        .iter()
        .filter(|runner| !runner.live && runner.owns > 0)
        .take(TOLD)
    {
        let runs = if gone.owns == 1 {
            "1 run".to_owned()
        } else {
            format!("{} runs", gone.owns)
        };
        let RunnerRecord { runner, host, .. } = gone;
        let message = format!("runner {runner} on {host} is gone and has {runs}");
        let hint = if gone.name == ROUND_ENGINE {
            "lope runners wakeup: the next runner of its project goes on"
        } else {
            "lope up: a runner takes over what others left behind"
        };
        verdicts.push(HealthCheck::warn("runners", message, hint));
    }
    verdicts
}

/// Runs that wait for a person. `paused` are those that are paused, `damaged` is how many were set
/// aside besides.
pub fn stuck(paused: &[RunRecord], damaged: u64) -> Vec<HealthCheck> {
    let aside = |record: &&RunRecord| record.parked.as_deref().is_some_and(is_set_aside);
    let stuck: Vec<&RunRecord> = paused.iter().filter(aside).collect();
    if stuck.is_empty() && damaged == 0 {
        let message = format!("no run was set aside; {} paused", paused.len());
        return vec![HealthCheck::ok("stuck", message)];
    }
    let told = stuck.iter().take(TOLD).map(|record| {
        let reason = record.parked.as_deref().unwrap_or_default();
        let RunRecord { run, workflow, .. } = record;
        let message = format!("run {run} of '{workflow}' was set aside: {reason}");
        HealthCheck::warn("stuck", message, format!("lope runs why {run}"))
    });
    let damaged = (damaged > 0).then(|| {
        let message = format!("damaged runs that were set aside: {damaged}");
        HealthCheck::warn("stuck", message, "lope store check names them")
    });
    told.chain(damaged).collect()
}

/// Is there a Python that workers could run on? `found` is what `--version` said.
pub fn python_version(found: Option<&str>) -> HealthCheck {
    let hint = "install Python 3.10 or newer if you want Python actions";
    let Some(said) = found else {
        return HealthCheck::warn("python", "no python3 in PATH", hint);
    };
    let number = said.trim().trim_start_matches("Python ").to_owned();
    let mut parts = number
        .split('.')
        .map(|part| part.parse::<u32>().unwrap_or(0));
    let version = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    if version >= (3, 10) {
        return HealthCheck::ok("python", format!("Python {number}"));
    }
    HealthCheck::warn("python", format!("'{}' is too old", said.trim()), hint)
}

/// Is a Postgres server set up to keep what it acknowledges?
pub fn server(settings: &[(String, String)]) -> Vec<HealthCheck> {
    let said = |name: &str| {
        settings
            .iter()
            .find(|(known, _)| known == name)
            .map_or("", |(_, value)| value)
    };
    let mut verdicts = Vec::new();
    for (name, health, why) in NOT_OFF {
        if said(name) == "off" {
            let message = format!("{name} is off: {why}");
            let hint = Some(format!("set {name} = on"));
            verdicts.push(HealthCheck {
                check: "postgres",
                health,
                message,
                hint,
            });
        }
    }
    if said("max_connections")
        .parse::<u64>()
        .is_ok_and(|most| most < CONNECTIONS_MIN)
    {
        let message = format!(
            "the server allows only {} connections",
            said("max_connections")
        );
        verdicts.push(HealthCheck::warn(
            "postgres",
            message,
            "raise max_connections",
        ));
    }
    if verdicts.is_empty() {
        verdicts.push(HealthCheck::ok(
            "postgres",
            format!("version {}, settings are safe", said("server_version")),
        ));
    }
    verdicts
}

#[cfg(test)]
mod tests;
