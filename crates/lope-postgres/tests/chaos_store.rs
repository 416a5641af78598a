//! Eight processes on one database, and a writer that is killed again and again: a sample here, all
//! of it under `LOPE_CHAOS=full`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::fixture;

use lope_conformance::Opening;
use lope_postgres::{PostgresOptions, PostgresStore};

/// Leads a copy of this program to `child`.
const CHILD: [&str; 3] = ["chaos_store::child", "--exact", "--nocapture"];

fn open(url: String) -> Opening {
    Box::pin(async move {
        PostgresStore::open(PostgresOptions::new(&url).unwrap())
            .await
            .unwrap()
    })
}

fn database() -> Option<String> {
    let server = fixture::server()?;
    Some(
        tokio::runtime::Runtime::new()
            .unwrap()
            .block_on(fixture::database(&server)),
    )
}

/// Where copies of this program begin; in the parent there is nothing to do.
#[test]
fn child() {
    lope_conformance::child_entry(open);
}

/// "N runners claiming together never share a run (observed with 8 processes)."
#[test]
fn eight_processes_share_one_database() {
    let Some(url) = database() else { return };
    lope_conformance::processes::run(open, &url, &CHILD);
}

#[test]
fn what_was_acknowledged_outlives_kills() {
    let Some(url) = database() else { return };
    lope_conformance::killed::run(open, &url, &CHILD);
}
