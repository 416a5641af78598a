//! How a server is reached and how much it takes at once: what is said in `server:` of the
//! configuration, with flags over it.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value as Json;
use thiserror::Error;

/// Where a server listens unless it is told otherwise.
pub const DEFAULT_ADDRESS: &str = "127.0.0.1:7420";

/// Who needs a token.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Authentication {
    /// Nobody on an address that only this machine reaches; everybody else.
    #[default]
    Remote,
    /// Everybody.
    Always,
}

/// How a server is reached and how much it takes at once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerSettings {
    /// `HOST:PORT`; port 0 takes one that is free.
    pub listen: String,
    pub authentication: Authentication,
    /// Names under which the server is reached, besides its addresses: those of a proxy before it.
    /// Whoever comes under one of them needs a token.
    pub hosts: Vec<String>,
    /// What paths begin with behind a proxy, as in `/lope`; empty: nothing.
    pub base: String,
    pub dashboard: bool,
    /// The folder whose files are served at `/app/`.
    pub app: Option<PathBuf>,
    /// Most bytes of a request's body.
    pub body_max: usize,
    pub connections_max: usize,
    /// Most event streams at once.
    pub streams_max: usize,
    /// The certificate that it shows, in PEM, and its key; absent: it speaks without TLS.
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
    /// How long a client may take to send a request.
    pub request_timeout: Duration,
}

/// A setting of a server that makes no sense.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("server.{name}: {message}")]
pub struct BadSetting {
    pub name: &'static str,
    pub message: String,
}

/// `server:` as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Section {
    listen: Option<String>,
    authentication: Option<Authentication>,
    hosts: Option<Vec<String>>,
    base: Option<String>,
    dashboard: Option<bool>,
    app: Option<PathBuf>,
    body_max: Option<usize>,
    connections_max: Option<usize>,
    streams_max: Option<usize>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            listen: DEFAULT_ADDRESS.to_owned(),
            authentication: Authentication::Remote,
            hosts: Vec::new(),
            base: String::new(),
            dashboard: true,
            app: None,
            // A payload of the largest size, as JSON, with what stands around it.
            body_max: 20 * 1024 * 1024,
            connections_max: 1_024,
            streams_max: 512,
            certificate: None,
            key: None,
            request_timeout: Duration::from_secs(30),
        }
    }
}

impl ServerSettings {
    /// From the section `server` of a configuration; absent: the defaults.
    pub fn read(section: Option<&Json>) -> Result<Self, BadSetting> {
        let mut settings = Self::default();
        let Some(section) = section else {
            return Ok(settings);
        };
        let said: Section =
            serde_json::from_value(section.clone()).map_err(|error| BadSetting {
                name: "*",
                message: error.to_string(),
            })?;
        let or = |said: Option<usize>, usual: usize| said.unwrap_or(usual);
        settings.listen = said.listen.unwrap_or(settings.listen);
        settings.authentication = said.authentication.unwrap_or_default();
        settings.hosts = said.hosts.unwrap_or_default();
        settings.dashboard = said.dashboard.unwrap_or(true);
        settings.app = said.app;
        settings.body_max = or(said.body_max, settings.body_max);
        if said.connections_max == Some(0) {
            return Err(BadSetting {
                name: "connections_max",
                message: "nobody could reach a server that takes 0 connections".to_owned(),
            });
        }
        settings.connections_max = or(said.connections_max, settings.connections_max);
        settings.streams_max = or(said.streams_max, settings.streams_max);
        (settings.certificate, settings.key) = (said.certificate, said.key);
        settings.base = base(said.base.as_deref().unwrap_or_default())?;
        Ok(settings)
    }

    /// Does whoever comes under this name need a token?
    pub fn guards(&self, listening: SocketAddr, host: &str) -> bool {
        self.authentication == Authentication::Always
            || !listening.ip().is_loopback()
            || !is_local(host)
    }
}

/// A name that a browser only finds on this machine.
pub fn is_local(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare == "localhost"
        || bare.ends_with(".localhost")
        || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn base(text: &str) -> Result<String, BadSetting> {
    let trimmed = text.trim_end_matches('/');
    let plain = |c: char| c.is_ascii_alphanumeric() || "/-_.~".contains(c);
    if trimmed.is_empty() || (trimmed.starts_with('/') && trimmed.chars().all(plain)) {
        return Ok(trimmed.to_owned());
    }
    Err(BadSetting {
        name: "base",
        message: format!("'{text}' is no path: write it as in /lope"),
    })
}
