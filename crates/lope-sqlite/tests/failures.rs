//! What goes wrong with a file, each as an error of its kind; what was acknowledged stays, and the
//! process goes on where it can.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::ground;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use ground::{Ground, admit, claim, commit, hold, register, rows};
use lope_model::Span;
use lope_sqlite::{
    Access, CreateFile, SCHEMA_VERSION, SqliteOptions, SqliteStore, migrate, schema_version,
};
use lope_store::runs::RunFilter;
use lope_store::{Store, StoreError};
use rusqlite::Connection;

fn open(options: SqliteOptions) -> Result<Store, StoreError> {
    SqliteStore::open(options)
}

#[test]
fn a_missing_or_empty_file_is_missing_and_is_not_made() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lope.db");
    for options in [
        SqliteOptions::existing(&path),
        SqliteOptions::read_only(&path),
    ] {
        assert!(matches!(open(options), Err(StoreError::Missing { .. })));
    }
    assert!(matches!(
        schema_version(&path),
        Err(StoreError::Missing { .. })
    ));
    assert!(matches!(migrate(&path), Err(StoreError::Missing { .. })));
    assert!(!path.exists());
    std::fs::write(&path, b"").unwrap();
    assert!(matches!(
        open(SqliteOptions::existing(&path)),
        Err(StoreError::Missing { .. })
    ));
    let elsewhere = folder.path().join("no/such/folder/lope.db");
    assert!(matches!(
        open(SqliteOptions::new(elsewhere)),
        Err(StoreError::Missing { .. })
    ));
}

#[tokio::test]
async fn the_files_of_a_store_are_private() {
    let ground = Ground::new().await;
    register(&ground.store, Span::from_secs(60)).await;
    let mut seen = 0;
    for entry in std::fs::read_dir(ground.folder.path()).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        let wanted = if entry.file_type().unwrap().is_dir() {
            0o700
        } else {
            0o600
        };
        assert_eq!(mode, wanted, "{}", entry.path().display());
        seen += 1;
    }
    assert!(
        seen >= 5,
        "database, log, its index, lock files, the runners' folder: {seen}"
    );
}

#[tokio::test]
async fn a_store_opened_for_looking_reads_and_never_writes() {
    let ground = Ground::new().await;
    let run = admit(&ground.store, 1).await[0];
    let looking = open(SqliteOptions::read_only(ground.path())).unwrap();
    assert_eq!(looking.runs.run(run).await.unwrap().unwrap().head, 1);
    let refused = looking.runs.admit(vec![ground::admission()]).await;
    assert!(
        matches!(refused, Err(StoreError::ReadOnly { .. })),
        "{refused:?}"
    );
    let later = admit(&ground.store, 1).await[0];
    assert!(
        looking.runs.run(later).await.unwrap().is_some(),
        "it sees what others write"
    );
    assert_eq!(looking.upkeep.check().await.unwrap(), vec![]);
}

/// Permissions do not bind root, so as root the test runs itself again as nobody.
#[tokio::test]
async fn a_file_that_may_not_be_written_is_read_only() {
    const PLACE: &str = "LOPE_TEST_UNWRITABLE";
    if let Some(path) = std::env::var_os(PLACE) {
        return look_at_unwritable(Path::new(&path)).await;
    }
    let ground = Ground::new().await;
    admit(&ground.store, 1).await;
    ground.store.upkeep.close().await.unwrap();
    let path = ground.path();
    Connection::open(&path)
        .unwrap()
        .execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")
        .unwrap();
    for entry in std::fs::read_dir(ground.folder.path()).unwrap() {
        let entry = entry.unwrap().path();
        std::fs::set_permissions(&entry, std::fs::Permissions::from_mode(0o444)).unwrap();
    }
    std::fs::set_permissions(ground.folder.path(), std::fs::Permissions::from_mode(0o555)).unwrap();
    if rustix::process::geteuid().is_root() {
        use std::os::unix::process::CommandExt;
        let mut again = Command::new(std::env::current_exe().unwrap());
        again
            .args([
                "--exact",
                "failures::a_file_that_may_not_be_written_is_read_only",
            ])
            .env(PLACE, &path)
            .uid(65_534)
            .gid(65_534);
        let output = again.output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stdout)
        );
    } else {
        look_at_unwritable(&path).await;
    }
    std::fs::set_permissions(ground.folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
}

async fn look_at_unwritable(path: &Path) {
    let refused = open(SqliteOptions::new(path));
    assert!(
        matches!(refused, Err(StoreError::ReadOnly { .. })),
        "{refused:?}"
    );
    let looking = open(SqliteOptions::read_only(path)).unwrap();
    assert_eq!(looking.runs.counts().await.unwrap().by_status["queued"], 1);
}

#[test]
fn what_is_no_database_is_corrupt() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lope.db");
    std::fs::write(
        &path,
        "this is a shopping list, not a database ".repeat(200),
    )
    .unwrap();
    for options in [SqliteOptions::new(&path), SqliteOptions::read_only(&path)] {
        assert!(matches!(open(options), Err(StoreError::Corrupt { .. })));
    }
    assert!(
        std::fs::read_to_string(&path)
            .unwrap()
            .starts_with("this is a shopping list"),
        "and is left alone"
    );
}

#[test]
fn a_database_of_another_program_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.db");
    Connection::open(&path)
        .unwrap()
        .execute_batch("CREATE TABLE recipes (name TEXT)")
        .unwrap();
    assert!(matches!(
        open(SqliteOptions::new(&path)),
        Err(StoreError::Refused { .. })
    ));
    assert!(matches!(migrate(&path), Err(StoreError::Refused { .. })));
}

#[tokio::test]
async fn a_damaged_page_is_found_by_check_and_corrupt_to_read() {
    let ground = Ground::new().await;
    let runner = register(&ground.store, Span::from_secs(60)).await;
    let run = admit(&ground.store, 1).await[0];
    let claimed = claim(&ground.store, runner).await;
    for batch in 0..20 {
        commit(
            &ground.store,
            hold(
                runner,
                &claimed[0],
                rows(batch * 100 + 2, batch * 100 + 101, 1_000),
            ),
        )
        .await;
    }
    ground.store.upkeep.close().await.unwrap();
    let path = ground.path();
    Connection::open(&path)
        .unwrap()
        .execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")
        .unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2 / 4096 * 4096;
    bytes[middle..middle + 4096 * 8].fill(0xff);
    std::fs::write(&path, bytes).unwrap();
    let store = open(SqliteOptions::new(&path)).unwrap();
    let findings = store.upkeep.check().await.unwrap();
    assert!(
        findings.iter().all(|finding| finding.rule == "file") && !findings.is_empty(),
        "{findings:?}"
    );
    let loaded = store.runs.load(&[run]).await;
    assert!(
        matches!(loaded, Err(StoreError::Corrupt { .. })),
        "{loaded:?}"
    );
}

#[tokio::test]
async fn a_store_of_another_version_is_refused_with_what_mends_it() {
    let ground = Ground::new().await;
    ground.store.upkeep.close().await.unwrap();
    let set = |version: i64| {
        let db = Connection::open(ground.path()).unwrap();
        db.execute(
            "UPDATE meta SET value = ?1 WHERE key = 'schema_version'",
            [version.to_string()],
        )
        .unwrap();
    };
    for (found, mended_by) in [
        (SCHEMA_VERSION + 1, "newer lope"),
        (SCHEMA_VERSION - 1, "lope store migrate"),
    ] {
        set(found);
        assert_eq!(schema_version(&ground.path()).unwrap(), found);
        for access in [Access::ReadWrite, Access::ReadOnly] {
            let refused = open(SqliteOptions {
                access,
                create: CreateFile::Never,
                ..SqliteOptions::new(ground.path())
            });
            let Err(StoreError::Version {
                found: told,
                needed,
                hint,
            }) = refused
            else {
                panic!("{refused:?}")
            };
            assert_eq!((told, needed), (found, SCHEMA_VERSION));
            assert!(hint.contains(mended_by), "{hint}");
        }
    }
    set(SCHEMA_VERSION + 1);
    assert!(matches!(
        migrate(&ground.path()),
        Err(StoreError::Version { .. })
    ));
    set(SCHEMA_VERSION);
    let migrated = migrate(&ground.path()).unwrap();
    assert_eq!(
        (migrated.from, migrated.to),
        (SCHEMA_VERSION, SCHEMA_VERSION)
    );
}

#[tokio::test]
async fn a_store_is_not_migrated_under_the_feet_of_a_runner() {
    let ground = Ground::new().await;
    let runner = register(&ground.store, Span::from_secs(60)).await;
    assert!(matches!(
        migrate(&ground.path()),
        Err(StoreError::Refused { .. })
    ));
    ground.store.runs.release(runner).await.unwrap();
    assert!(migrate(&ground.path()).is_ok());
}

/// Another program holds the file: callers wait as long as patience lasts, hear that the store is
/// out of reach, and go on later.
#[tokio::test]
async fn locks_of_others_make_the_store_unavailable_and_no_more() {
    let ground = Ground::with(|options| SqliteOptions {
        patience: Duration::from_millis(50),
        ..options
    })
    .await;
    let other = Connection::open(ground.path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let refused = ground.store.runs.admit(vec![ground::admission()]).await;
    let Err(StoreError::Unavailable { message }) = refused else {
        panic!("{refused:?}")
    };
    assert!(!message.contains("database is locked"), "{message}");
    assert!(
        ground.store.runs.counts().await.is_ok(),
        "readers do not care"
    );
    other.execute_batch("ROLLBACK").unwrap();
    admit(&ground.store, 1).await;
}

#[tokio::test]
async fn a_full_store_is_full_and_loses_nothing() {
    let ground = Ground::with(|options| SqliteOptions {
        pages_max: 400,
        ..options
    })
    .await;
    let runner = register(&ground.store, Span::from_secs(60)).await;
    let run = admit(&ground.store, 1).await[0];
    let claimed = claim(&ground.store, runner).await.remove(0);
    let head = fill(&ground.store, runner, &claimed).await;
    assert!(head > 100, "it took some: {head}");
    assert_eq!(
        ground.store.runs.run(run).await.unwrap().unwrap().head,
        head
    );
    assert_eq!(
        ground
            .store
            .runs
            .journal(run, 0, 10_000)
            .await
            .unwrap()
            .len() as u64,
        head
    );
    assert!(
        ground.store.runs.heartbeat(runner).await.unwrap().is_ok(),
        "what needs no room goes on"
    );
    ground.store.upkeep.close().await.unwrap();
    let roomy = open(SqliteOptions::existing(ground.path())).unwrap();
    let runner = register(&roomy, Span::from_secs(60)).await;
    roomy
        .runs
        .takeover(lope_store::runs::Takeover { limit: 10 })
        .await
        .unwrap();
    let claimed = claim(&roomy, runner).await.remove(0);
    commit(
        &roomy,
        hold(runner, &claimed, rows(head + 1, head + 50, 1_000)),
    )
    .await;
    assert_eq!(roomy.upkeep.check().await.unwrap(), vec![]);
}

/// Write until there is no room; the head of the last commit that was acknowledged.
async fn fill(
    store: &Store,
    runner: lope_model::RunnerId,
    run: &lope_store::runs::ClaimedRun,
) -> u64 {
    let mut head = 1;
    loop {
        let batch = hold(runner, run, rows(head + 1, head + 50, 1_000));
        match store.runs.commit(vec![batch]).await {
            Ok(_) => head += 50,
            Err(StoreError::Full { .. }) => return head,
            Err(other) => panic!("{other:?}"),
        }
    }
}

/// The same with a disk that is really full, where the test may mount one; and the process goes on
/// once there is room.
#[tokio::test]
async fn a_full_disk_is_full_and_the_process_goes_on_once_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let Some(_disk) = SmallDisk::mount(folder.path()) else {
        println!("no disk could be mounted here; the limit in pages stands for it");
        return;
    };
    let ballast = folder.path().join("ballast");
    std::fs::write(&ballast, vec![0; 2 << 20]).unwrap();
    let store = open(SqliteOptions::new(folder.path().join("lope.db"))).unwrap();
    ground::deploy(&store).await;
    let runner = register(&store, Span::from_secs(60)).await;
    let run = admit(&store, 1).await[0];
    let claimed = claim(&store, runner).await.remove(0);
    let head = fill(&store, runner, &claimed).await;
    assert_eq!(store.runs.run(run).await.unwrap().unwrap().head, head);
    std::fs::remove_file(&ballast).unwrap();
    commit(
        &store,
        hold(runner, &claimed, rows(head + 1, head + 50, 1_000)),
    )
    .await;
    assert_eq!(
        store.runs.journal(run, 0, 10_000).await.unwrap().len() as u64,
        head + 50
    );
    assert_eq!(store.upkeep.check().await.unwrap(), vec![]);
    store.upkeep.close().await.unwrap();
}

/// A disk of a few megabytes, unmounted when dropped.
struct SmallDisk<'a>(&'a Path);

impl<'a> SmallDisk<'a> {
    fn mount(at: &'a Path) -> Option<Self> {
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=6m", "lope-test"])
            .arg(at)
            .output();
        mounted
            .is_ok_and(|output| output.status.success())
            .then_some(Self(at))
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("--lazy").arg(self.0).status();
        assert!(unmounted.is_ok_and(|status| status.success()));
    }
}

/// "A damaged run is set aside alone, … the others do not notice": 300 runs, one of them with a
/// version that is none.
#[tokio::test]
async fn a_damaged_run_is_set_aside_and_its_neighbours_are_claimed() {
    let ground = Ground::new().await;
    let runs = admit(&ground.store, 300).await;
    let damaged = runs[150];
    let db = Connection::open(ground.path()).unwrap();
    db.execute(
        "UPDATE runs SET version = x'00' WHERE run_id = ?1",
        [damaged.as_bytes()],
    )
    .unwrap();
    let runner = register(&ground.store, Span::from_secs(600)).await;
    let claimed = claim(&ground.store, runner).await;
    assert_eq!(claimed.len(), 299);
    assert!(claimed.iter().all(|run| run.run != damaged));
    let parked: String = db
        .query_row(
            "SELECT parked FROM queue WHERE run_id = ?1 AND owner IS NULL",
            [damaged.as_bytes()],
            |row| row.get(0),
        )
        .unwrap();
    assert!(
        parked.contains("damaged") && parked.contains("remove-run"),
        "{parked}"
    );
    let listed = ground
        .store
        .runs
        .list(RunFilter {
            limit: 1_000,
            ..RunFilter::default()
        })
        .await
        .unwrap();
    assert_eq!(listed.len(), 299, "one bad row does not hide the others");
    db.execute(
        "UPDATE runs SET tags = 'no tags' WHERE run_id = ?1",
        [runs[10].as_bytes()],
    )
    .unwrap();
    let found = ground.store.upkeep.check().await.unwrap();
    let messages: Vec<&str> = found.iter().map(|finding| &*finding.message).collect();
    assert!(
        messages
            .iter()
            .filter(|message| message.contains("is damaged"))
            .count()
            == 2,
        "{messages:?}"
    );
    assert!(ground.store.upkeep.remove_run(damaged).await.unwrap());
    let found = ground.store.upkeep.check().await.unwrap();
    assert_eq!(found.len(), 1, "only the other one is left: {found:?}");
}
