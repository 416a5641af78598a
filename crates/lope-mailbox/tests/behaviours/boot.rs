//! Boot: bootstrap, guard, running.

use std::sync::Arc;

use lope_mailbox::{BootError, Runner, RunnerError, RunnerState, plain};
use lope_store::tables::marker::{self, Bootstrap, SchemaVersion};
use lope_store::tables::{At, BadManifest, Manifest, TableId, TableSpec, Write};
use lope_store::{MemoryStore, StoreError};

use crate::stand::{SEVEN, Stand, command, config};

fn runner(stand: &Stand, change: impl FnOnce(&mut lope_mailbox::Boot)) -> Runner {
    let mut config = config(SEVEN, "desk");
    change(&mut config.boot);
    Runner::new(Arc::clone(&stand.tables), Arc::new(plain(|_, _| Ok(()))), config)
}

fn marker_row() -> At {
    At::new(TableId::APP_STATE, marker::KEY)
}

/// "Bootstrap → guard → running; any failure leaves the runner stopped with that error."
#[tokio::test]
async fn a_runner_runs_after_boot_and_stays_stopped_with_its_error_otherwise() {
    let stand = Stand::new();
    let mut good = runner(&stand, |_| {});
    assert_eq!(good.state(), RunnerState::Stopped(None));
    good.boot().await.unwrap();
    assert_eq!(good.state(), RunnerState::Running);

    let mut other = runner(&stand, |boot| boot.schema = SchemaVersion { major: 1, minor: 0 });
    let error = other.boot().await.unwrap_err();
    assert!(matches!(error, BootError::Conflict { .. }));
    assert_eq!(other.state(), RunnerState::Stopped(Some(error)));
    assert_eq!(other.tick().await, Err(RunnerError::Busy));

    let store = MemoryStore::open();
    store.upkeep.close().await.unwrap();
    let mut closed = Runner::new(store.tables, Arc::new(plain(|_, _| Ok(()))), config(SEVEN, "desk"));
    assert_eq!(closed.boot().await, Err(BootError::Store(StoreError::Closed)));
    assert_eq!(closed.state(), RunnerState::Stopped(Some(BootError::Store(StoreError::Closed))));
}

/// "The table manifest must start at 0 `app_state` and be contiguous; a gap is refused before anything is opened."
#[tokio::test]
async fn a_gap_in_the_manifest_is_refused_before_anything_is_opened() {
    let stand = Stand::new();
    let more = Manifest::standard().with("cells", None).unwrap();
    let with_gap = |boot: &mut lope_mailbox::Boot| {
        boot.tables = more.specs().to_vec();
        boot.tables.push(TableSpec { index: 9, name: "links".into(), scope: None });
    };
    let gap = BadManifest::Gap { expected: 8, found: 9, name: "links".into() };
    assert_eq!(runner(&stand, with_gap).boot().await, Err(BootError::Manifest(gap)));
    let headless = |boot: &mut lope_mailbox::Boot| drop(boot.tables.remove(0));
    assert_eq!(runner(&stand, headless).boot().await, Err(BootError::Manifest(BadManifest::NoAppState)));
    assert_eq!(stand.tables.manifest().await.unwrap(), Manifest::standard(), "no table was opened");
    assert!(stand.rows(TableId::APP_STATE).await.is_empty(), "no marker was written");
}

/// "Marker: table 0, key `runner.schema.version`, value `52535630` + major u16 + minor u16; 0.0 = `5253563000000000`."
/// "Missing: not found, or written when bootstrap is on"
#[tokio::test]
async fn a_missing_marker_is_written_only_when_bootstrap_is_on() {
    let stand = Stand::new();
    let mut careful = runner(&stand, |boot| boot.bootstrap = Bootstrap::Refuse);
    assert_eq!(careful.boot().await, Err(BootError::NotFound));
    assert!(stand.rows(TableId::APP_STATE).await.is_empty());
    runner(&stand, |_| {}).boot().await.unwrap();
    let rows = stand.rows(TableId::APP_STATE).await;
    assert_eq!(rows[0].key, b"runner.schema.version");
    assert_eq!(rows[0].value, [0x52, 0x53, 0x56, 0x30, 0, 0, 0, 0]);
    careful.boot().await.unwrap();
}

/// "Marker matching: ok. Wrong length, magic, major or minor: conflict."
#[tokio::test]
async fn any_other_marker_is_a_conflict() {
    let markers: [&[u8]; 5] = [b"RSV0\0\0\0", b"RSV1\0\0\0\0", b"RSV0\x01\0\0\0", b"RSV0\0\0\x01\0", b""];
    for found in markers {
        let stand = Stand::new();
        stand.write(vec![Write::Put(marker_row(), found.to_vec())]).await;
        let expected = SchemaVersion::CURRENT.encode().to_vec();
        let conflict = BootError::Conflict { found: found.to_vec(), expected };
        assert_eq!(runner(&stand, |_| {}).boot().await, Err(conflict));
    }
}

/// "(two processes booting at once: one writes, the other validates)"
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_that_boot_at_once_one_writes_and_all_run() {
    let stand = Stand::new();
    let boots = (0..16).map(|_| {
        let mut runner = runner(&stand, |_| {});
        tokio::spawn(async move { runner.boot().await })
    });
    for boot in boots.collect::<Vec<_>>() {
        boot.await.unwrap().unwrap();
    }
    assert_eq!(stand.rows(TableId::APP_STATE).await.len(), 1);
}

/// "a stopped runner answers busy"
#[tokio::test]
async fn a_stopped_runner_answers_busy() {
    let stand = Stand::new();
    let mut runner = runner(&stand, |_| {});
    let frame = command(SEVEN, "m", "").encode().unwrap();
    assert_eq!(runner.run_step(&frame).await, Err(RunnerError::Busy));
    assert_eq!(runner.poll_inbox(8).await, Err(RunnerError::Busy));
    runner.boot().await.unwrap();
    runner.run_step(&frame).await.unwrap();
    runner.shutdown().await.unwrap();
    assert_eq!(runner.run_step(&frame).await, Err(RunnerError::Busy));
}
