//! Where Lope lives and which settings are in force: flag, environment, config file, default, in this order.

use std::path::{Path, PathBuf};

use lope::stores::StoreUrl;
use serde::Deserialize;

use crate::args::Everywhere;
use crate::error::{CliError, CliResult};

/// What `config.yaml` may say at its top. Rooms read their own sections.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    store: Option<String>,
}

/// The settings that every command needs.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) store: StoreUrl,
    /// Where the logs of steps are.
    pub(crate) logs: PathBuf,
}

impl Settings {
    pub(crate) fn read(flags: &Everywhere) -> CliResult<Self> {
        let home = match &flags.home {
            Some(home) => home.clone(),
            None => default_home()?,
        };
        let config = read_config(&home.join("config.yaml"))?;
        let named = flags.store.clone().or(config.store);
        let store = match named {
            Some(text) => text.parse().map_err(|error| CliError::usage(format!("{error}")))?,
            None => StoreUrl::Sqlite(home.join("lope.db")),
        };
        Ok(Self { store, logs: home.join("logs") })
    }
}

fn default_home() -> CliResult<PathBuf> {
    let home = std::env::home_dir().filter(|home| !home.as_os_str().is_empty());
    home.map(|home| home.join(".lope"))
        .ok_or_else(|| CliError::usage("there is no home folder").hint("set LOPE_HOME or give --home DIR"))
}

fn read_config(path: &Path) -> CliResult<Config> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Config::default()),
        Err(error) => return Err(CliError::usage(format!("{}: {error}", path.display()))),
    };
    if text.trim().is_empty() {
        return Ok(Config::default());
    }
    serde_saphyr::from_str(&text).map_err(|error| CliError::usage(format!("{}: {error}", path.display())))
}
