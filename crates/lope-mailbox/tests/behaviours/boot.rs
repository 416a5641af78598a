//! Boot: bootstrap, guard, running.

use std::sync::Arc;

use lope_mailbox::{BootError, Consumer, ConsumerError, ConsumerState, plain};
use lope_store::tables::marker::{self, Bootstrap, SchemaVersion};
use lope_store::tables::{At, BadManifest, Manifest, TableId, TableSpec, Write};
use lope_store::{MemoryStore, StoreError};

use super::stand::{SEVEN, Stand, command, config};

fn consumer(stand: &Stand, change: impl FnOnce(&mut lope_mailbox::Boot)) -> Consumer {
    let mut config = config(SEVEN, "desk");
    change(&mut config.boot);
    Consumer::new(
        Arc::clone(&stand.tables),
        Arc::new(plain(|_, _| Ok(()))),
        config,
    )
}

fn marker_row() -> At {
    At::new(TableId::APP_STATE, marker::KEY)
}

/// "Bootstrap → guard → running; any failure leaves the consumer stopped with that error."
#[tokio::test]
async fn a_runner_runs_after_boot_and_stays_stopped_with_its_error_otherwise() {
    let stand = Stand::new();
    let mut good = consumer(&stand, |_| {});
    assert_eq!(good.state(), ConsumerState::Stopped(None));
    good.boot().await.unwrap();
    assert_eq!(good.state(), ConsumerState::Running);

    let mut other = consumer(&stand, |boot| {
        boot.schema = SchemaVersion { major: 1, minor: 0 }
    });
    let error = other.boot().await.unwrap_err();
    assert!(matches!(error, BootError::Conflict { .. }));
    assert_eq!(other.state(), ConsumerState::Stopped(Some(error)));
    assert_eq!(other.tick().await, Err(ConsumerError::Busy));

    let store = MemoryStore::open();
    store.upkeep.close().await.unwrap();
    let mut closed = Consumer::new(
        store.tables,
        Arc::new(plain(|_, _| Ok(()))),
        config(SEVEN, "desk"),
    );
    assert_eq!(
        closed.boot().await,
        Err(BootError::Store(StoreError::Closed))
    );
    assert_eq!(
        closed.state(),
        ConsumerState::Stopped(Some(BootError::Store(StoreError::Closed)))
    );
}

/// "The table manifest must start at 0 `app_state` and be contiguous; a gap is refused before
/// anything is opened."
#[tokio::test]
async fn a_gap_in_the_manifest_is_refused_before_anything_is_opened() {
    let stand = Stand::new();
    let more = Manifest::standard().with("cells", None).unwrap();
    let with_gap = |boot: &mut lope_mailbox::Boot| {
        boot.tables = more.specs().to_vec();
        boot.tables.push(TableSpec {
            index: 9,
            name: "links".into(),
            scope: None,
        });
    };
    let gap = BadManifest::Gap {
        expected: 8,
        found: 9,
        name: "links".into(),
    };
    assert_eq!(
        consumer(&stand, with_gap).boot().await,
        Err(BootError::Manifest(gap))
    );
    let headless = |boot: &mut lope_mailbox::Boot| drop(boot.tables.remove(0));
    assert_eq!(
        consumer(&stand, headless).boot().await,
        Err(BootError::Manifest(BadManifest::NoAppState))
    );
    assert_eq!(
        stand.tables.manifest().await.unwrap(),
        Manifest::standard(),
        "no table was opened"
    );
    assert!(
        stand.rows(TableId::APP_STATE).await.is_empty(),
        "no marker was written"
    );
}

/// "Marker: table 0, key `runner.schema.version`, value `52535630` + major u16 + minor u16; 0.0 =
/// `5253563000000000`." "Missing: not found, or written when bootstrap is on"
#[tokio::test]
async fn a_missing_marker_is_written_only_when_bootstrap_is_on() {
    let stand = Stand::new();
    let mut careful = consumer(&stand, |boot| boot.bootstrap = Bootstrap::Refuse);
    assert_eq!(careful.boot().await, Err(BootError::NotFound));
    assert!(stand.rows(TableId::APP_STATE).await.is_empty());
    consumer(&stand, |_| {}).boot().await.unwrap();
    let rows = stand.rows(TableId::APP_STATE).await;
    assert_eq!(rows[0].key, b"runner.schema.version");
    assert_eq!(rows[0].value, [0x52, 0x53, 0x56, 0x30, 0, 0, 0, 0]);
    careful.boot().await.unwrap();
}

/// "Marker matching: ok. Wrong length, magic, major or minor: conflict."
#[tokio::test]
async fn any_other_marker_is_a_conflict() {
    let markers: [&[u8]; 5] = [
        b"RSV0\0\0\0",
        b"RSV1\0\0\0\0",
        b"RSV0\x01\0\0\0",
        b"RSV0\0\0\x01\0",
        b"",
    ];
    for found in markers {
        let stand = Stand::new();
        stand
            .write(vec![Write::Put(marker_row(), found.to_vec())])
            .await;
        let expected = SchemaVersion::CURRENT.encode().to_vec();
        let conflict = BootError::Conflict {
            found: found.to_vec(),
            expected,
        };
        assert_eq!(consumer(&stand, |_| {}).boot().await, Err(conflict));
    }
}

/// "(two processes booting at once: one writes, the other validates)"
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_that_boot_at_once_one_writes_and_all_run() {
    let stand = Stand::new();
    let boots = (0..16).map(|_| {
        let mut consumer = consumer(&stand, |_| {});
        tokio::spawn(async move { consumer.boot().await })
    });
    for boot in boots.collect::<Vec<_>>() {
        boot.await.unwrap().unwrap();
    }
    assert_eq!(stand.rows(TableId::APP_STATE).await.len(), 1);
}

/// "a stopped consumer answers busy"
#[tokio::test]
async fn a_stopped_runner_answers_busy() {
    let stand = Stand::new();
    let mut consumer = consumer(&stand, |_| {});
    let frame = command(SEVEN, "m", "").encode().unwrap();
    assert_eq!(consumer.run_step(&frame).await, Err(ConsumerError::Busy));
    assert_eq!(consumer.poll_inbox(8).await, Err(ConsumerError::Busy));
    consumer.boot().await.unwrap();
    consumer.run_step(&frame).await.unwrap();
    consumer.shutdown().await.unwrap();
    assert_eq!(consumer.run_step(&frame).await, Err(ConsumerError::Busy));
}
