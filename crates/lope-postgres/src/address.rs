//! Where the server is: a URL as libpq reads it becomes what the driver needs. In: the text; out:
//! host, login and how to encrypt. Opens nothing, and never shows the password.

use std::fmt;
use std::path::PathBuf;

use lope_store::{StoreError, StoreResult};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

/// How the server's certificate is checked.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) enum Verify {
    /// Not at all: `disable`, `prefer` and `require` only encrypt.
    #[default]
    Nothing,
    /// It must come from a known authority: `verify-ca`.
    Authority,
    /// It must also name the host: `verify-full`.
    Host,
}

/// A server, a database, a login.
#[derive(Clone)]
pub(crate) struct Address {
    pub(crate) config: Config,
    pub(crate) verify: Verify,
    /// Certificates of authorities; the system's if absent.
    pub(crate) roots: Option<PathBuf>,
}

/// Parameters of a URL that are ours and not the driver's.
#[derive(Default)]
pub(crate) struct Own {
    pub(crate) schema: Option<String>,
    pub(crate) pooler: Option<String>,
}

impl Address {
    pub(crate) fn parse(url: &str) -> StoreResult<(Self, Own)> {
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        if !base.starts_with("postgres://") && !base.starts_with("postgresql://") {
            return Err(StoreError::refused(
                "a store on Postgres is written postgres://USER@HOST/DATABASE",
            ));
        }
        let mut own = Own::default();
        let mut verify = Verify::Nothing;
        let mut roots = None;
        let mut passed_on = Vec::new();
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            match (name, value) {
                ("schema", name) => own.schema = Some(decoded(name)),
                ("pooler", kind) => own.pooler = Some(decoded(kind)),
                ("sslrootcert", path) => roots = Some(PathBuf::from(decoded(path))),
                ("sslmode", "verify-ca") => verify = Verify::Authority,
                ("sslmode", "verify-full") => verify = Verify::Host,
                _ => passed_on.push(parameter),
            }
        }
        let mut config: Config = format!("{base}?{}", passed_on.join("&"))
            .parse()
            .map_err(bad_url)?;
        if verify != Verify::Nothing {
            config.ssl_mode(SslMode::Require);
        }
        Ok((
            Self {
                config,
                verify,
                roots,
            },
            own,
        ))
    }
}

fn bad_url(error: tokio_postgres::Error) -> StoreError {
    let reason =
        std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
    StoreError::refused(format!("the store's URL cannot be read: {reason}"))
}

/// `%2F` becomes `/`; what is no escape stays.
fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut found = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escape = text.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        if let Some(byte) = escape.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            found.push(byte);
            at += 3;
        } else {
            found.push(bytes[at]);
            at += 1;
        }
    }
    String::from_utf8_lossy(&found).into_owned()
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let config = &self.config;
        f.write_str("postgres://")?;
        if let Some(user) = config.get_user() {
            write!(f, "{user}@")?;
        }
        let hosts: Vec<String> = config
            .get_hosts()
            .iter()
            .zip(0..)
            .map(|(host, index)| base(config, host, index))
            .collect();
        write!(
            f,
            "{}/{}",
            hosts.join(","),
            config.get_dbname().unwrap_or_default()
        )?;
        match config.get_hosts().first() {
            Some(Host::Unix(folder)) => write!(f, "?host={}", folder.display()),
            _ => Ok(()),
        }
    }
}

/// A host with its port, if that is not the usual one. A socket's folder is shown as a parameter
/// instead.
fn base(config: &Config, host: &Host, index: usize) -> String {
    let ports = config.get_ports();
    let port = ports
        .get(index)
        .or(ports.first())
        .filter(|port| **port != 5432);
    let port = port.map_or(String::new(), |port| format!(":{port}"));
    match host {
        Host::Tcp(name) => format!("{name}{port}"),
        Host::Unix(_) => port,
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(url: &str) -> String {
        Address::parse(url).unwrap().0.to_string()
    }

    #[test]
    fn addresses_are_shown_without_their_password() {
        assert_eq!(
            shown("postgres://me:secret@db.example:6432/shop?sslmode=require"),
            "postgres://me@db.example:6432/shop"
        );
        assert_eq!(
            shown("postgresql://me@%2Ftmp%2Frun/shop"),
            "postgres://me@/shop?host=/tmp/run"
        );
        let error = Address::parse("postgres://me:secret@db/x?no_such_thing=1")
            .map(drop)
            .unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
        assert!(Address::parse("mysql://x").is_err());
    }

    #[test]
    fn the_ways_to_check_a_certificate_are_libpqs() {
        let (address, _) =
            Address::parse("postgres://db/x?sslmode=verify-full&sslrootcert=%2Fetc%2Froot.pem")
                .unwrap();
        assert_eq!(address.verify, Verify::Host);
        assert_eq!(address.roots, Some(PathBuf::from("/etc/root.pem")));
        assert_eq!(address.config.get_ssl_mode(), SslMode::Require);
        let (address, _) = Address::parse("postgres://db/x").unwrap();
        assert_eq!(
            (address.verify, address.config.get_ssl_mode()),
            (Verify::Nothing, SslMode::Prefer)
        );
    }
}
