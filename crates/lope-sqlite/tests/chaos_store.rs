//! Eight processes on one file, and a writer that is killed again and again: a sample here, all of it under `LOPE_CHAOS=full`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use lope_sqlite::{Options, SqliteStore};
use lope_store::conformance::{self, Opening};

/// Leads a copy of this program to `child`.
const CHILD: [&str; 3] = ["child", "--exact", "--nocapture"];

fn open(url: String) -> Opening {
    Box::pin(async move { SqliteStore::open(Options::new(url)).unwrap() })
}

/// Where copies of this program begin; in the parent there is nothing to do.
#[test]
fn child() {
    conformance::child_entry(open);
}

/// "N runners claiming together never share a run (observed with 8 processes)."
#[test]
fn eight_processes_share_one_file() {
    let folder = tempfile::tempdir().unwrap();
    conformance::processes::run(open, folder.path().join("lope.db").to_str().unwrap(), &CHILD);
}

#[test]
fn what_was_acknowledged_outlives_kills() {
    let folder = tempfile::tempdir().unwrap();
    conformance::killed::run(open, folder.path().join("lope.db").to_str().unwrap(), &CHILD);
}
