//! Promises of the schema marker: the boot guard of the byte tables, as the seed of the message
//! runner has it.

use super::ground::Ground;
use super::promise::{Kept, promises};
use lope_store::tables::marker::{Bootstrap, KEY, MarkerError, SchemaVersion, ensure};
use lope_store::tables::{At, Batch, TableId, Write};

promises![
    a_matching_marker_passes,
    a_missing_marker_is_not_found_without_bootstrap,
    bootstrap_writes_the_marker,
    any_other_marker_is_a_conflict,
    of_two_that_boot_at_once_one_writes_and_both_pass,
    two_that_expect_different_versions_do_not_both_pass,
];

const ZERO: SchemaVersion = SchemaVersion { major: 0, minor: 0 };

fn at() -> At {
    At::new(TableId::APP_STATE, KEY)
}

async fn write(ground: &Ground, value: &[u8]) -> Kept {
    let batch = Batch {
        guards: vec![],
        writes: vec![Write::Put(at(), value.to_vec())],
    };
    assert!(ground.tables().commit(vec![batch]).await?[0].is_ok());
    Ok(())
}

/// "marker present and matching: `SAP_OK`"
async fn a_matching_marker_passes(ground: Ground) -> Kept {
    write(&ground, b"RSV0\x03\x00\x04\x01").await?;
    let version = SchemaVersion {
        major: 3,
        minor: 0x0104,
    };
    for bootstrap in [Bootstrap::Create, Bootstrap::Refuse] {
        ensure(ground.tables(), version, bootstrap)
            .await
            .expect("it matches");
    }
    assert_eq!(
        ground.get(&at()).await?,
        Some(b"RSV0\x03\x00\x04\x01".to_vec())
    );
    Ok(())
}

/// "returns `SAP_NOTFOUND` when bootstrap is disabled"
async fn a_missing_marker_is_not_found_without_bootstrap(ground: Ground) -> Kept {
    let answer = ensure(ground.tables(), ZERO, Bootstrap::Refuse).await;
    assert!(matches!(answer, Err(MarkerError::NotFound)), "{answer:?}");
    assert_eq!(ground.get(&at()).await?, None);
    Ok(())
}

/// "writes marker and returns `SAP_OK` when bootstrap is enabled"
async fn bootstrap_writes_the_marker(ground: Ground) -> Kept {
    ensure(ground.tables(), SchemaVersion::CURRENT, Bootstrap::Create)
        .await
        .expect("it may be written");
    assert_eq!(
        ground.get(&at()).await?,
        Some(b"\x52\x53\x56\x30\x00\x00\x00\x00".to_vec())
    );
    let other = ground.again().await;
    ensure(other.tables(), SchemaVersion::CURRENT, Bootstrap::Refuse)
        .await
        .expect("it is there");
    Ok(())
}

/// "marker present but invalid/mismatched: `SAP_CONFLICT`"
async fn any_other_marker_is_a_conflict(ground: Ground) -> Kept {
    let others: [&[u8]; 7] = [
        b"",
        b"RSV0\0\0\0",
        b"RSV0\0\0\0\0\0",
        b"RSV1\0\0\0\0",
        b"RSV0\x01\0\0\0",
        b"RSV0\0\0\x01\0",
        b"RSV0\0\0\0\x01",
    ];
    for other in others {
        write(&ground, other).await?;
        for bootstrap in [Bootstrap::Create, Bootstrap::Refuse] {
            let answer = ensure(ground.tables(), ZERO, bootstrap).await;
            assert!(
                matches!(&answer, Err(MarkerError::Conflict { found, .. }) if found == other),
                "{answer:?}"
            );
        }
        assert_eq!(
            ground.get(&at()).await?,
            Some(other.to_vec()),
            "a conflicting marker is left as it is"
        );
    }
    Ok(())
}

async fn boot_at_once(ground: &Ground, versions: [SchemaVersion; 8]) -> usize {
    let other = ground.again().await;
    let tasks: Vec<_> = versions
        .into_iter()
        .enumerate()
        .map(|(index, version)| {
            let on = if index % 2 == 0 {
                ground.clone()
            } else {
                other.clone()
            };
            tokio::spawn(async move {
                ensure(on.tables(), version, Bootstrap::Create)
                    .await
                    .is_ok()
            })
        })
        .collect();
    let mut passed = 0;
    for task in tasks {
        passed += usize::from(task.await.expect("booting does not panic"));
    }
    passed
}

async fn of_two_that_boot_at_once_one_writes_and_both_pass(ground: Ground) -> Kept {
    assert_eq!(boot_at_once(&ground, [ZERO; 8]).await, 8);
    assert_eq!(ground.get(&at()).await?, Some(ZERO.encode().to_vec()));
    Ok(())
}

async fn two_that_expect_different_versions_do_not_both_pass(ground: Ground) -> Kept {
    let later = SchemaVersion { major: 1, minor: 0 };
    let versions = [ZERO, later, later, ZERO, ZERO, later, later, ZERO];
    assert_eq!(boot_at_once(&ground, versions).await, 4);
    Ok(())
}
