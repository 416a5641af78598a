//! The settings in force, and where each came from: flag, environment, config file, default, in
//! this order.
//!
//! Text comes in (the file's content, pairs of the environment, flags) and settings go out. Nothing
//! here reads a file, the environment or a terminal, and nothing decides what the settings lead to.
//! `agents` and `runners` are read as their room describes them.

mod engine;
mod file;
mod sections;

use std::collections::BTreeMap;
use std::fmt;

use lope_agents::settings::{AgentsSettings, RunnerSettings};
use lope_engine::Settings;
use serde_json::Value as Json;
use thiserror::Error;

pub use engine::NAMES as ENGINE_NAMES;
pub use sections::Secret;

use file::File;

/// What an environment variable for an engine setting begins with.
pub const ENGINE_PREFIX: &str = "LOPE_ENGINE_";

/// Where a value came from; a later one wins.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum SettingSource {
    #[default]
    Default,
    File,
    Environment,
    Flag,
}

/// A setting as people see it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setting {
    /// Its path in the file, as in `engine.lease`.
    pub name: String,
    pub value: String,
    pub source: SettingSource,
}

/// A setting that cannot be in force: where it stands, and what is wrong with it.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{location}: {message}")]
pub struct BadConfig {
    pub location: String,
    pub message: String,
    pub hint: Option<String>,
}

/// The settings in force.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The store's URL, if the file names one.
    pub store: Option<String>,
    pub engine: Settings,
    /// Where the secrets that workflows name are found.
    pub secrets: BTreeMap<String, Secret>,
    /// Variables of the environment that expressions may read.
    pub env: Vec<String>,
    /// Agents by name.
    pub agents: AgentsSettings,
    /// Runners of agents.
    pub runners: RunnerSettings,
    /// Sections that other rooms read: `server`, `telemetry`.
    pub others: BTreeMap<String, Json>,
    sources: BTreeMap<&'static str, SettingSource>,
    /// The file as it is written: which settings of agents it names.
    said: Json,
}

impl Config {
    /// From a config file (its name and content) and the environment.
    pub fn read(
        file: Option<(&str, &str)>,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, BadConfig> {
        let mut config = Self::default();
        if let Some((name, text)) = file.filter(|(_, text)| !text.trim().is_empty()) {
            config.take_file(name, File::read(name, text)?)?;
            config.said = serde_saphyr::from_str(text).unwrap_or_default();
        }
        for (variable, value) in environment {
            if let Some(name) = variable.strip_prefix(ENGINE_PREFIX) {
                let name = name.to_ascii_lowercase();
                config.set_engine(&name, &value, SettingSource::Environment, &variable)?;
            }
        }
        config.validate()?;
        Ok(config)
    }

    /// Lay a flag over what the file and the environment say.
    pub fn flag(&mut self, name: &str, value: &str) -> Result<(), BadConfig> {
        let location = format!("--{}", name.replace('_', "-"));
        self.set_engine(name, value, SettingSource::Flag, &location)?;
        self.validate()
    }

    /// Every setting of the engine, of agents and of their runners with its value and source, and what the
    /// file says besides.
    pub fn settings(&self) -> Vec<Setting> {
        let source = |name: &str| self.sources.get(name).copied().unwrap_or_default();
        let rows = engine::SETTINGS.iter().map(|row| Setting {
            name: format!("engine.{}", row.name),
            value: (row.show)(&self.engine),
            source: source(row.name),
        });
        rows.chain(self.sections()).collect()
    }

    fn set_engine(
        &mut self,
        name: &str,
        value: &str,
        source: SettingSource,
        location: &str,
    ) -> Result<(), BadConfig> {
        let row = engine::find(name).ok_or_else(|| unknown(location, name))?;
        (row.read)(&mut self.engine, value.trim())
            .map_err(|message| BadConfig::new(location, message))?;
        self.sources.insert(row.name, source);
        Ok(())
    }

    /// What must hold between settings. A heartbeat that nobody set follows the lease.
    fn validate(&mut self) -> Result<(), BadConfig> {
        if !self.sources.contains_key("heartbeat") {
            self.engine.heartbeat =
                lope_model::Span::from_millis((self.engine.lease.millis() / 3).max(1));
        }
        if self.engine.heartbeat.times(2) > self.engine.lease {
            let message = format!(
                "a heartbeat of {} is too slow for a lease of {}",
                self.engine.heartbeat, self.engine.lease
            );
            let bad = BadConfig::new("engine.heartbeat", message);
            return Err(bad.hint("at most half of the lease"));
        }
        Ok(())
    }
}

impl BadConfig {
    pub(crate) fn new(location: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            location: location.into(),
            message: message.into(),
            hint: None,
        }
    }

    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

fn unknown(location: &str, name: &str) -> BadConfig {
    BadConfig::new(location, format!("there is no engine setting '{name}'"))
        .hint(format!("the settings are {}", engine::NAMES.join(", ")))
}

impl fmt::Display for SettingSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Flag => "flag",
            Self::Environment => "environment",
            Self::File => "file",
            Self::Default => "default",
        })
    }
}

#[cfg(test)]
mod tests;
