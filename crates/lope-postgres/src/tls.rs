//! Encryption to the server. In: how its certificate is to be checked; out: what the driver needs
//! to shake hands.
//!
//! `require` encrypts and trusts whoever answers, as libpq does; `verify-ca` and `verify-full`
//! check.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lope_store::{StoreError, StoreResult};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::address::{Address, Verify};

/// Where systems keep the certificates of known authorities.
const SYSTEM_ROOTS: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
    "/etc/ssl/ca-bundle.pem",
];

pub(crate) fn connector(address: &Address) -> StoreResult<MakeRustlsConnect> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier: Arc<dyn ServerCertVerifier> = match address.verify {
        Verify::Nothing => Arc::new(Anybody(provider.clone())),
        Verify::Host => known(address.roots.as_deref(), &provider)?,
        Verify::Authority => Arc::new(AnyName(known(address.roots.as_deref(), &provider)?)),
    };
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| StoreError::refused(error.to_string()))?;
    let config = builder
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

fn known(
    roots: Option<&Path>,
    provider: &Arc<CryptoProvider>,
) -> StoreResult<Arc<WebPkiServerVerifier>> {
    let path = match roots {
        Some(path) => path.to_path_buf(),
        None => system_roots()?,
    };
    let bad = |reason: String| {
        StoreError::refused(format!("certificates in {}: {reason}", path.display()))
    };
    let mut store = RootCertStore::empty();
    for certificate in
        CertificateDer::pem_file_iter(&path).map_err(|error| bad(error.to_string()))?
    {
        let certificate = certificate.map_err(|error| bad(error.to_string()))?;
        // A bundle of the system may hold one that we cannot read; the others serve.
        let _ = store.add(certificate);
    }
    let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(store), provider.clone());
    builder.build().map_err(|error| bad(error.to_string()))
}

fn system_roots() -> StoreResult<PathBuf> {
    let found = SYSTEM_ROOTS
        .iter()
        .map(PathBuf::from)
        .find(|path| path.exists());
    found.ok_or_else(|| {
        StoreError::refused("no certificates of authorities found: name them with sslrootcert=PATH")
    })
}

/// Trusts whoever answers.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

/// Trusts a known authority, whatever name the certificate has.
#[derive(Debug)]
struct AnyName(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self
            .0
            .verify_server_cert(certificate, intermediates, name, ocsp, now)
        {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verdict => verdict,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
