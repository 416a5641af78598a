//! Gathering what the doctor judges: the home folder, the disk, the store, Python. Reads only.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use lope_model::Timestamp;
use lope_store::StoreResult;
use lope_store::runs::{LiveStatus, QueueCount, RunFilter, RunRecord, RunStatus};

use super::{HealthCheck, clock, integrity, opened, python_version, room, runners, server, stuck};
use crate::stores::{self, CreateStore, StoreUrl};

/// Most runners and runs looked at.
const PAGE: usize = 1_000;
/// How long Python may take to say its version.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a look at the store gave, as lines.
pub type StoreFacts = Vec<HealthCheck>;

/// Can the home folder be written, or made?
pub fn home(folder: &Path) -> HealthCheck {
    let there = nearest(folder);
    let writable = rustix::fs::access(
        &there,
        rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK,
    )
    .is_ok();
    let shown = folder.display();
    match (there.is_dir() && writable, folder.exists()) {
        (true, true) => HealthCheck::ok("home", format!("{shown} can be written")),
        (true, false) => {
            HealthCheck::ok("home", format!("{shown} is not there yet and can be made"))
        }
        (false, _) => HealthCheck::fail(
            "home",
            format!("{shown} cannot be written"),
            "give another folder: --home DIR or LOPE_HOME",
        ),
    }
}

/// How much room there is where a file is or will be.
pub fn space(path: &Path) -> Option<HealthCheck> {
    let folder = nearest(path);
    let found = rustix::fs::statvfs(&folder).ok()?;
    Some(room(
        &folder.display().to_string(),
        found.f_bavail.saturating_mul(found.f_frsize),
    ))
}

/// The path, or the nearest folder around it that exists.
fn nearest(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    absolute
        .ancestors()
        .find(|path| path.exists())
        .map_or_else(|| PathBuf::from("/"), Path::to_owned)
}

/// Everything about a store.
pub async fn inspect(url: &StoreUrl, now: Timestamp) -> StoreFacts {
    let store = match stores::open(url, CreateStore::Never).await {
        Ok(store) => store,
        Err(error) => return vec![opened(&url.to_string(), Some(&error))],
    };
    let mut lines = vec![opened(&url.to_string(), None)];
    let looked = async {
        lines.extend(integrity(&store.upkeep.check().await?));
        let known = store.runs.runners(PAGE).await?;
        let statuses = vec![RunStatus::Live(LiveStatus::Paused)];
        let paused = store
            .runs
            .list(RunFilter {
                statuses,
                limit: PAGE,
                ..RunFilter::default()
            })
            .await?;
        let youngest = store
            .runs
            .list(RunFilter {
                limit: 1,
                ..RunFilter::default()
            })
            .await?;
        lines.extend(postgres(url).await?);
        let heartbeats = known
            .iter()
            .filter(|runner| runner.live)
            .map(|runner| runner.heartbeat_at);
        let others = heartbeats.chain(youngest.iter().map(|run| run.created_at));
        lines.push(clock(now, store.upkeep.reading().await?.now, others));
        let queues = store.runs.queues().await?;
        lines.extend(runners(&known, &queues));
        lines.extend(stuck(&paused, damaged(&paused, &queues)));
        store.upkeep.close().await
    };
    if let Err(error) = looked.await {
        lines.push(opened(&url.to_string(), Some(&error)));
    }
    lines
}

/// How many were set aside that are not among the paused: a store does so with a row that cannot be
/// read. Not known if there are more paused ones than were listed.
fn damaged(paused: &[RunRecord], queues: &[QueueCount]) -> u64 {
    let parked: u64 = queues.iter().map(|queue| queue.parked).sum();
    let listed = paused.iter().filter(|it| it.parked.is_some()).count() as u64;
    let most = if paused.len() < PAGE { parked } else { 0 };
    most.saturating_sub(listed)
}

async fn postgres(url: &StoreUrl) -> StoreResult<Vec<HealthCheck>> {
    let StoreUrl::Postgres(address) = url else {
        return Ok(Vec::new());
    };
    let options = lope_postgres::PostgresOptions::existing(address)?;
    Ok(server(&lope_postgres::server_settings(&options).await?))
}

/// Which Python is in `PATH`.
pub async fn python() -> HealthCheck {
    let mut command = tokio::process::Command::new("python3");
    let asked = command
        .arg("--version")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let said = match tokio::time::timeout(PATIENCE, asked).await {
        Ok(Ok(output)) if output.status.success() => {
            Some(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        _ => None,
    };
    python_version(said.as_deref())
}
