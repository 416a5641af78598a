//! Encryption for workers from elsewhere: a certificate and its key, read from PEM files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A certificate or key that cannot be used.
#[derive(Debug)]
pub struct BadCertificate {
    pub file: PathBuf,
    pub reason: String,
}

impl std::fmt::Display for BadCertificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.file.display(), self.reason)
    }
}

impl std::error::Error for BadCertificate {}

/// What a listener needs to encrypt.
pub fn server(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, BadCertificate> {
    let bad = |file: &Path, reason: String| BadCertificate {
        file: file.to_owned(),
        reason,
    };
    let chain = CertificateDer::pem_file_iter(certificate)
        .map_err(|error| bad(certificate, error.to_string()))?;
    let chain: Result<Vec<_>, _> = chain.collect();
    let chain = chain.map_err(|error| bad(certificate, error.to_string()))?;
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| bad(key, error.to_string()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| bad(certificate, error.to_string()))?;
    let config = builder
        .with_no_client_auth()
        .with_single_cert(chain, secret);
    config
        .map(Arc::new)
        .map_err(|error| bad(certificate, error.to_string()))
}
