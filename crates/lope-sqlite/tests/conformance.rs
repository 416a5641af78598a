//! The store in a file keeps every promise, on a clock moved by hand; all handles of a place work on one file, each with a
//! writer and readers of its own, as processes do.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;

use async_trait::async_trait;
use lope_model::{Clock, Span};
use lope_sqlite::{Options, SqliteStore};
use lope_store::conformance::{self, Harness, Place};
use lope_store::{ManualClock, Store};
use tempfile::TempDir;

struct Files;

struct OneFile {
    folder: TempDir,
    clock: Arc<ManualClock>,
}

#[async_trait]
impl Harness for Files {
    async fn fresh(&self) -> Arc<dyn Place> {
        Arc::new(OneFile { folder: tempfile::tempdir().unwrap(), clock: Arc::new(ManualClock::default()) })
    }
}

#[async_trait]
impl Place for OneFile {
    async fn open(&self) -> Store {
        let clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
        SqliteStore::open(Options { clock, ..Options::new(self.folder.path().join("lope.db")) }).unwrap()
    }

    async fn pass(&self, span: Span) {
        self.clock.pass(span);
    }
}

/// "the same suite runs for memory, SQLite, Postgres;"
#[test]
fn sqlite_keeps_every_promise() {
    conformance::run(Files);
}

/// Many openers of a file that is not there yet: one makes it, all work on it.
#[test]
fn a_file_is_made_once_however_many_open_it() {
    for _ in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lope.db");
        let openers: Vec<_> = (0..8)
            .map(|_| {
                let path = path.clone();
                std::thread::spawn(move || SqliteStore::open(Options::new(path)).map(drop))
            })
            .collect();
        for opener in openers {
            opener.join().unwrap().unwrap();
        }
    }
}
