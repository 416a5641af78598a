//! Eight processes on one file, and a writer that is killed again and again: a sample here, all of
//! it under `LOPE_CHAOS=full`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use lope_conformance::Opening;
use lope_sqlite::{SqliteOptions, SqliteStore};

/// Leads a copy of this program to `child`.
const CHILD: [&str; 3] = ["chaos_store::child", "--exact", "--nocapture"];

fn open(url: String) -> Opening {
    Box::pin(async move { SqliteStore::open(SqliteOptions::new(url)).unwrap() })
}

/// Where copies of this program begin; in the parent there is nothing to do.
#[test]
fn child() {
    lope_conformance::child_entry(open);
}

/// "N runners claiming together never share a run (observed with 8 processes)."
#[test]
fn eight_processes_share_one_file() {
    let folder = tempfile::tempdir().unwrap();
    lope_conformance::processes::run(
        open,
        folder.path().join("lope.db").to_str().unwrap(),
        &CHILD,
    );
}

#[test]
fn what_was_acknowledged_outlives_kills() {
    let folder = tempfile::tempdir().unwrap();
    lope_conformance::killed::run(
        open,
        folder.path().join("lope.db").to_str().unwrap(),
        &CHILD,
    );
}
