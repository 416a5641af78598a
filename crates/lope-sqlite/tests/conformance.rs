//! The store in a file keeps every promise, on a clock moved by hand; all handles of a place work
//! on one file, each with a writer and readers of its own, as processes do.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;

use async_trait::async_trait;
use lope_conformance::{Harness, StoreSite};
use lope_model::{Clock, RunId, Span};
use lope_sqlite::{SqliteOptions, SqliteStore};
use lope_store::{ManualClock, Store};
use rusqlite::Connection;
use tempfile::TempDir;

struct Files;

struct OneFile {
    folder: TempDir,
    clock: Arc<ManualClock>,
}

#[async_trait]
impl Harness for Files {
    async fn fresh(&self) -> Arc<dyn StoreSite> {
        Arc::new(OneFile {
            folder: tempfile::tempdir().unwrap(),
            clock: Arc::new(ManualClock::default()),
        })
    }

    fn can_be_damaged(&self) -> bool {
        true
    }
}

#[async_trait]
impl StoreSite for OneFile {
    async fn open(&self) -> Store {
        let clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
        SqliteStore::open(SqliteOptions {
            clock,
            ..SqliteOptions::new(self.folder.path().join("lope.db"))
        })
        .unwrap()
    }

    async fn pass(&self, span: Span) {
        self.clock.pass(span);
    }

    async fn damage(&self, run: RunId) {
        let db = Connection::open(self.folder.path().join("lope.db")).unwrap();
        let damage = "UPDATE runs SET version = x'00' WHERE run_id = ?1";
        assert_eq!(db.execute(damage, [run.as_bytes()]).unwrap(), 1);
    }

    async fn take_away(&self) {
        let file = self.folder.path().join("lope.db");
        std::fs::rename(&file, self.folder.path().join("away.db")).unwrap();
    }
}

/// "the same suite runs for memory, SQLite, Postgres;"
#[test]
fn sqlite_keeps_every_promise() {
    assert_eq!(lope_conformance::run(Files).left_out, [""; 0]);
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
                std::thread::spawn(move || SqliteStore::open(SqliteOptions::new(path)).map(drop))
            })
            .collect();
        for opener in openers {
            opener.join().unwrap().unwrap();
        }
    }
}
