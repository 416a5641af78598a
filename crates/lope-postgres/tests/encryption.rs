//! Encrypted connections: `require` encrypts, `verify-ca` and `verify-full` also check who answers.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::fixture;

use std::path::PathBuf;

use fixture::cluster::Cluster;
use lope_postgres::{PostgresOptions, PostgresStore};
use lope_store::{Store, StoreError};

async fn open(url: &str) -> Result<Store, StoreError> {
    PostgresStore::open(PostgresOptions::new(url)?).await
}

fn authority() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixture/tls/authority.crt")
}

#[tokio::test]
async fn connections_are_encrypted_and_certificates_checked_as_asked() {
    let Some(cluster) = Cluster::start_encrypted() else {
        return;
    };
    let roots = authority().to_str().unwrap().replace('/', "%2F");
    let url = |host: &str, mode: &str| format!("{}?sslmode={mode}", cluster.tcp_url(host));
    for good in [
        url("localhost", "require"),
        format!("{}&sslrootcert={roots}", url("localhost", "verify-full")),
        format!("{}&sslrootcert={roots}", url("127.0.0.1", "verify-ca")),
    ] {
        let store = open(&good)
            .await
            .unwrap_or_else(|error| panic!("{good}: {error}"));
        store.upkeep.close().await.unwrap();
    }
    // A name that the certificate does not have, and an authority that nobody knows.
    for bad in [
        format!("{}&sslrootcert={roots}", url("127.0.0.1", "verify-full")),
        url("localhost", "verify-full"),
    ] {
        let error = open(&bad).await.unwrap_err();
        assert!(
            matches!(error, StoreError::Refused { .. }),
            "{bad}: {error:?}"
        );
    }
    // The server takes nobody in the clear.
    let error = open(&url("localhost", "disable")).await.unwrap_err();
    assert!(matches!(error, StoreError::Refused { .. }), "{error:?}");
}
