//! Where Lope lives and which settings are in force: flag, environment, config file, default, in
//! this order.
//!
//! The text of the file and the pairs of the environment are read here; `lope::config` makes
//! settings of them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lope::Client;
use lope::config::{BadConfig, Config};
use lope::stores::{CreateStore, StoreError, StoreResult, StoreUrl};
use lope_remote::{CommandHost, caller};

use crate::error::{CliError, CliResult};
use crate::flags::Everywhere;

/// The settings that every command needs.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) home: PathBuf,
    pub(crate) store: StoreUrl,
    /// Where the logs of steps are.
    pub(crate) logs: PathBuf,
    pub(crate) config: Config,
    /// How this program was called, with the flags that say where it works: what a command to type
    /// next begins with.
    pub(crate) called: String,
    /// The store, where it is open already: in a server that does a command for somebody.
    pub(crate) lent: Option<Client>,
    /// What makes a server of this process do commands for others.
    pub(crate) host: Option<HostMaker>,
}

/// Does the commands of a server with these settings and this store.
pub(crate) type HostMaker = fn(&Settings, &Client) -> Arc<dyn CommandHost>;

impl Settings {
    pub(crate) fn read(flags: &Everywhere) -> CliResult<Self> {
        let home = match &flags.home {
            Some(home) => home.clone(),
            None => default_home()?,
        };
        let config = read_config(&home.join("config.yaml"))?;
        let store = match (&flags.store, &config.store) {
            (Some(text), _) => store_url(text)?,
            (None, Some(text)) => beside_config(store_url(text)?, &home),
            (None, None) => StoreUrl::Sqlite(home.join("lope.db")),
        };
        let called = called(flags, &store);
        Ok(Self {
            store,
            logs: home.join("logs"),
            home,
            config,
            called,
            lent: None,
            host: None,
        })
    }

    /// The store.
    pub(crate) async fn open(&self, create: CreateStore) -> StoreResult<Client> {
        if caller::is_short() {
            let message = "something of the caller's is asked for first".to_owned();
            return Err(StoreError::Refused { message });
        }
        match &self.lent {
            Some(client) => Ok(client.clone()),
            None => {
                let opened = Client::open_store(&self.store, create).await?;
                Ok(opened.with_queue_limits(&self.config.engine.queue_limits))
            }
        }
    }

    /// The same for a command that leaves something in it for others.
    pub(crate) async fn open_lasting(&self, what: &str, create: CreateStore) -> CliResult<Client> {
        self.lasting(what)?;
        Ok(self.open(create).await?)
    }

    /// The same for a command that only looks, which makes no store: one that is missing is an empty
    /// one that is gone again when the command ends.
    pub(crate) async fn open_to_look(&self, what: &str) -> CliResult<Client> {
        self.lasting(what)?;
        Ok(match self.open(CreateStore::Never).await {
            Err(StoreError::Missing { .. }) => {
                Client::open_store(&StoreUrl::Memory, CreateStore::IfMissing).await?
            }
            opened => opened?,
        })
    }

    /// The store, for a command that leaves something in it for others: in the memory of a command
    /// that ends it would be lost without a word.
    pub(crate) fn lasting(&self, what: &str) -> CliResult<&StoreUrl> {
        if self.store == StoreUrl::Memory && self.lent.is_none() {
            let message = format!("memory: ends with this command, and with it {what}");
            return Err(CliError::usage(message)
                .hint("use a file, as in --store sqlite:lope.db, or a Postgres server"));
        }
        Ok(&self.store)
    }
}

fn store_url(text: &str) -> CliResult<StoreUrl> {
    text.parse()
        .map_err(|error| CliError::usage(format!("{error}")))
}

/// A path in the config file begins where that file is, wherever a command is typed.
fn beside_config(url: StoreUrl, home: &Path) -> StoreUrl {
    match url {
        StoreUrl::Sqlite(path) => StoreUrl::Sqlite(home.join(path)),
        other @ (StoreUrl::Memory | StoreUrl::Postgres(_)) => other,
    }
}

/// Was a value typed, or does the environment say it?
pub(crate) fn typed(variable: &str, value: &std::ffi::OsStr) -> bool {
    std::env::var_os(variable).is_none_or(|set| set != value)
}

/// The environment is the same for the next command; flags must be typed again.
fn called(flags: &Everywhere, store: &StoreUrl) -> String {
    let mut words = vec![std::env::args().next().unwrap_or_else(|| "lope".to_owned())];
    if let Some(home) = flags
        .home
        .as_ref()
        .filter(|home| typed("LOPE_HOME", home.as_os_str()))
    {
        words.push(format!("--home {}", home.display()));
    }
    if flags
        .store
        .as_ref()
        .is_some_and(|url| typed("LOPE_STORE", url.as_ref()))
    {
        words.push(format!("--store {store}"));
    }
    if let Some(server) = flags
        .server
        .as_ref()
        .filter(|url| typed("LOPE_SERVER", url.as_ref()))
    {
        words.push(format!("--server {server}"));
    }
    words.join(" ")
}

fn default_home() -> CliResult<PathBuf> {
    let home = std::env::home_dir().filter(|home| !home.as_os_str().is_empty());
    home.map(|home| home.join(".lope")).ok_or_else(|| {
        CliError::usage("there is no home folder").hint("set LOPE_HOME or give --home DIR")
    })
}

fn read_config(path: &Path) -> CliResult<Config> {
    let shown = path.display().to_string();
    let text = match std::fs::read_to_string(path) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(CliError::usage(format!("{shown}: {error}"))),
    };
    // A variable that is no text is none of ours.
    let environment = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    Ok(Config::read(
        text.as_deref().map(|text| (shown.as_str(), text)),
        environment,
    )?)
}

impl From<BadConfig> for CliError {
    fn from(bad: BadConfig) -> Self {
        let error = Self::usage(bad.to_string());
        match bad.hint {
            Some(hint) => error.hint(hint),
            None => error,
        }
    }
}
