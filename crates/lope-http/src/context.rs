//! What every handler is given: the store's client, the runner of this process if there is one, the
//! logs of steps, and the settings.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use lope::agents::AgentBoard;
use lope::config::Config;
use lope::reactive::{HostError, PoolOptions, SpaceClient, process_identity};
use lope::runs::RunRecord;
use lope::stores::StoreResult;
use lope::workers::Logs;
use lope::{Client, Redaction, Runner};
use lope_model::Value;
use lope_remote::CommandHost;
use serde_json::Value as Json;
use tokio::sync::{OnceCell, Semaphore, watch};

use crate::asked_together::StoreQuestions;
use crate::execution_pages::ExecutionPages;
use crate::feed::{Feed, NamedChanges, RunChanges};
use crate::guesses::Guesses;
use crate::notes::Notes;
use crate::redactions::Redactions;
use crate::settings::ServerSettings;
use crate::store_probe::StoreProbe;

/// Wakes whoever works on bulk actions of this process.
pub type BulkNotification = Arc<tokio::sync::Notify>;

/// What a server works with.
pub struct ServerContext {
    pub client: Client,
    /// The runner of this process, whose metrics are told and whose events come at once.
    pub runner: Option<Runner>,
    pub logs: Logs,
    pub config: Config,
    /// What expressions of runs that are started here see as `env`.
    pub env: Value,
    /// Does commands of the command line for those who have no store at hand.
    pub commands: Option<Arc<dyn CommandHost>>,
    pub settings: ServerSettings,
    /// Where it listens.
    pub address: SocketAddr,
    /// What describes the API.
    pub document: Json,
    pub streams: Arc<Semaphore>,
    pub redactions: Arc<Redactions>,
    /// What many ask at once.
    pub questions: StoreQuestions,
    pub run_feed: Arc<Feed<RunChanges>>,
    pub schedule_feed: Arc<Feed<NamedChanges>>,
    pub mailbox_feed: Arc<Feed<NamedChanges>>,
    /// What is remembered of long runs whose executions were asked for.
    pub execution_pages: ExecutionPages,
    /// Rung when there is a new bulk action.
    pub bulk_notification: BulkNotification,
    pub guesses: Guesses,
    /// What forms did, for the pages after them.
    pub notes: Notes,
    pub store_probe: StoreProbe,
    /// Asks spaces; opened with the first question.
    spaces: OnceCell<SpaceClient>,
    /// Turns true when the server ends.
    pub ending: watch::Receiver<bool>,
}

/// What a program gives a server to work with.
#[derive(Debug)]
pub struct ServerParts {
    pub client: Client,
    pub runner: Option<Runner>,
    pub logs: Logs,
    pub config: Config,
    pub env: Value,
    /// Who does commands of the command line; absent: nobody.
    pub commands: Option<Arc<dyn CommandHost>>,
}

/// Returns when the server ends.
pub async fn ended(ending: &mut watch::Receiver<bool>) {
    let _ = ending.wait_for(|ends| *ends).await;
}

impl ServerContext {
    pub fn new(
        parts: ServerParts,
        settings: ServerSettings,
        address: SocketAddr,
        document: Json,
        ending: watch::Receiver<bool>,
    ) -> Self {
        let streams = Arc::new(Semaphore::new(settings.streams_max));
        let redactions: Arc<Redactions> = Arc::default();
        Self {
            client: parts.client,
            runner: parts.runner,
            logs: parts.logs,
            config: parts.config,
            env: parts.env,
            commands: parts.commands,
            settings,
            address,
            document,
            streams,
            run_feed: Arc::new(Feed::new(RunChanges::new(Arc::clone(&redactions)))),
            schedule_feed: Arc::new(Feed::new(NamedChanges::of_schedules())),
            mailbox_feed: Arc::new(Feed::new(NamedChanges::of_mailboxes())),
            redactions,
            questions: StoreQuestions::default(),
            bulk_notification: BulkNotification::default(),
            execution_pages: ExecutionPages::default(),
            guesses: Guesses::default(),
            notes: Notes::default(),
            store_probe: StoreProbe::default(),
            spaces: OnceCell::new(),
            ending,
        }
    }

    /// What must not be shown of a run; nothing for most.
    pub async fn redaction(&self, record: &RunRecord) -> StoreResult<Option<Redaction>> {
        self.redactions.of(&self.client, record).await
    }

    /// Asks spaces. A space that nobody hosts is hosted here while it is asked.
    pub async fn spaces(&self) -> Result<&SpaceClient, HostError> {
        let open = async || {
            let options = PoolOptions {
                lease: self.config.engine.lease,
                ..PoolOptions::new(process_identity())
            };
            self.client.space_client(options).await
        };
        self.spaces.get_or_try_init(open).await
    }

    /// The board of agents.
    pub fn board(&self) -> AgentBoard {
        self.client.agents(&self.config.runners)
    }

    /// A path of this server, as links say it.
    pub fn path(&self, path: &str) -> String {
        format!("{}{path}", self.settings.base)
    }
}

impl fmt::Debug for ServerContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServerContext({})", self.address)
    }
}
