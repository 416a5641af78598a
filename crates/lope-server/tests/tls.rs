//! TLS of the server's own, with a certificate and a key in PEM.

use std::path::PathBuf;
use std::sync::Arc;

use lope_server::{Listening, ServerError};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::fixture::http;
use super::fixture::{Ground, settings};

fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/certificate")
        .join(name)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_makes_it_https_and_who_speaks_plainly_is_not_answered() {
    let mut own = settings("127.0.0.1:0");
    own.certificate = Some(data("localhost.pem"));
    own.key = Some(data("localhost.key"));
    let ground = Ground::with(own).await;
    assert!(
        ground.server.url().starts_with("https://"),
        "{}",
        ground.server.url()
    );
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(data("localhost.pem")).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(ground.server.address()).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
        .unwrap();
    stream
        .write_all(b"GET /bulk HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes).await;
    let page = http::parse(&bytes);
    assert_eq!(page.status, 200);
    // A request to be copied goes where the person is.
    assert!(page.text().contains(" https://localhost/api/bulk"));

    let mut plain = TcpStream::connect(ground.server.address()).await.unwrap();
    plain
        .write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await
        .unwrap();
    let mut bytes = Vec::new();
    let _ = plain.read_to_end(&mut bytes).await;
    assert!(!String::from_utf8_lossy(&bytes).contains("HTTP/1.1"));
    ground.close().await;
}

#[tokio::test]
async fn a_certificate_that_is_none_is_told_before_anything_is_served() {
    for (certificate, key) in [
        (Some(data("localhost.key")), Some(data("localhost.key"))),
        (Some(data("none.pem")), Some(data("localhost.key"))),
        (Some(data("localhost.pem")), None),
    ] {
        let mut wrong = settings("127.0.0.1:0");
        (wrong.certificate, wrong.key) = (certificate, key);
        let bound = Listening::bind(wrong).await;
        assert!(
            matches!(bound, Err(ServerError::Certificate { .. })),
            "{bound:?}"
        );
    }
}
