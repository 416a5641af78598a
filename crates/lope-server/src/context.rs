//! What every handler is given: the store's client, the runner of this process if there is one, the
//! logs of steps, and the settings.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use lope::config::Config;
use lope::runs::RunRecord;
use lope::stores::StoreResult;
use lope::workers::Logs;
use lope::{Client, Redaction, Runner};
use lope_model::Value;
use serde_json::Value as Json;
use tokio::sync::{Semaphore, watch};

use crate::bulk::BulkBell;
use crate::guesses::Guesses;
use crate::run_feed::RunFeed;
use crate::settings::ServerSettings;

/// What a server works with.
pub(crate) struct ServerContext {
    pub(crate) client: Client,
    /// The runner of this process, whose metrics are told and whose events come at once.
    pub(crate) runner: Option<Runner>,
    pub(crate) logs: Logs,
    pub(crate) config: Config,
    /// What expressions of runs that are started here see as `env`.
    pub(crate) env: Value,
    pub(crate) settings: ServerSettings,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// What describes the API.
    pub(crate) document: Json,
    pub(crate) streams: Arc<Semaphore>,
    pub(crate) feed: Arc<RunFeed>,
    /// Rung when there is a new bulk action.
    pub(crate) bulk_bell: BulkBell,
    pub(crate) guesses: Guesses,
    /// Turns true when the server ends.
    pub(crate) ending: watch::Receiver<bool>,
}

/// What a program gives a server to work with.
#[derive(Debug)]
pub struct ServerParts {
    pub client: Client,
    pub runner: Option<Runner>,
    pub logs: Logs,
    pub config: Config,
    pub env: Value,
}

/// Returns when the server ends.
pub(crate) async fn ended(ending: &mut watch::Receiver<bool>) {
    let _ = ending.wait_for(|ends| *ends).await;
}

impl ServerContext {
    pub(crate) fn new(
        parts: ServerParts,
        settings: ServerSettings,
        address: SocketAddr,
        document: Json,
        ending: watch::Receiver<bool>,
    ) -> Self {
        let streams = Arc::new(Semaphore::new(settings.streams_max));
        Self {
            client: parts.client,
            runner: parts.runner,
            logs: parts.logs,
            config: parts.config,
            env: parts.env,
            settings,
            address,
            document,
            streams,
            feed: Arc::default(),
            bulk_bell: BulkBell::default(),
            guesses: Guesses::default(),
            ending,
        }
    }

    /// What must not be shown of a run; nothing for most.
    pub(crate) async fn redaction(&self, record: &RunRecord) -> StoreResult<Option<Redaction>> {
        self.feed.redactions.of(&self.client, record).await
    }

    /// A path of this server, as links say it.
    pub(crate) fn path(&self, path: &str) -> String {
        format!("{}{path}", self.settings.base)
    }
}

impl fmt::Debug for ServerContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServerContext({})", self.address)
    }
}
