//! How large the program is, how much memory an idle runner holds, how soon `lope up` is ready on a
//! store that exists.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::error::{BenchError, BenchResult};
use crate::figure::{BenchFigure, Cost};
use crate::measured_store::MeasuredStore;

/// How long a runner rests before its memory is looked at.
const REST: Duration = Duration::from_secs(3);

pub(crate) fn footprint(store: &MeasuredStore) -> BenchResult<BenchFigure> {
    let broken = |error: std::io::Error| {
        BenchError::broken(format!("the runner cannot be measured: {error}"))
    };
    let program = std::env::current_exe().map_err(broken)?;
    let size = std::fs::metadata(&program).map_err(broken)?.len();
    let began = Instant::now();
    let mut command = Command::new(&program);
    command
        .args(["up", "--store", store_text(store)?.as_str()])
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut runner = command.spawn().map_err(broken)?;
    let mut line = String::new();
    let said = runner
        .stderr
        .take()
        .map(BufReader::new)
        .map(|mut said| said.read_line(&mut line));
    let ready = began.elapsed();
    std::thread::sleep(REST);
    let memory = resident(runner.id());
    runner.kill().and_then(|()| runner.wait()).map_err(broken)?;
    said.transpose().map_err(broken)?;
    let cost = Cost {
        wall: ready,
        ..Cost::default()
    };
    let figure = BenchFigure {
        bench: "footprint",
        store: store.kind.name(),
        unit: "starts",
        units: 1,
        cost,
        notes: vec![],
    };
    Ok(figure
        .note("ready in", format!("{:.0} ms", ready.as_secs_f64() * 1e3))
        .note(
            "memory",
            memory.map_or("unknown".to_owned(), |kib| {
                format!("{:.1} MB", kib as f64 / 1024.0)
            }),
        )
        .note(
            "program",
            format!("{:.1} MB", size as f64 / 1024.0 / 1024.0),
        ))
}

pub(crate) fn store_text(store: &MeasuredStore) -> BenchResult<String> {
    match &store.url {
        lope::stores::StoreUrl::Postgres(url) => Ok(url.clone()),
        lope::stores::StoreUrl::Sqlite(_) => Ok(store.url.to_string()),
        lope::stores::StoreUrl::Memory => Err(BenchError::input(
            "a store in memory cannot be opened by another process",
        )),
    }
}

/// Resident memory of a process in KiB.
pub(crate) fn resident(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find(|line| line.starts_with("VmRSS:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

pub(crate) fn megabytes(kibibytes: Option<u64>) -> String {
    kibibytes.map_or("unknown".to_owned(), |kib| {
        format!("{:.0} MB", kib as f64 / 1024.0)
    })
}
