//! The config file as it is written: sections with the places of their values, before anything is
//! judged.

use std::collections::BTreeMap;

use lope_agents::settings::{AgentsSettings, RunnerSettings};
use serde::Deserialize;
use serde_json::Value as Json;
use serde_saphyr::Spanned;

use super::BadConfig;

/// What `config.yaml` may hold at its top.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) store: Option<String>,
    #[serde(default)]
    pub(super) engine: BTreeMap<String, Spanned<Said>>,
    #[serde(default)]
    pub(super) queues: BTreeMap<String, Spanned<BTreeMap<String, Said>>>,
    #[serde(default)]
    pub(super) secrets: BTreeMap<String, Spanned<BTreeMap<String, Said>>>,
    #[serde(default)]
    pub(super) env: Vec<String>,
    /// How long finished runs of a workflow are kept, where it differs.
    #[serde(default)]
    pub(super) retention: BTreeMap<String, Spanned<Said>>,
    #[serde(default)]
    pub(super) agents: AgentsSettings,
    pub(super) runners: Option<Spanned<RunnerSettings>>,
    pub(super) server: Option<Json>,
    /// Where traces and metrics go.
    pub(super) telemetry: Option<Json>,
}

/// A scalar as text: numbers and words are read alike, whichever source they come from.
#[derive(Debug, Deserialize)]
#[serde(from = "Scalar")]
pub(super) struct Said(pub(super) String);

#[derive(Deserialize)]
#[serde(untagged, expecting = "a number or a text")]
enum Scalar {
    Whole(i64),
    Number(f64),
    Flag(bool),
    Text(String),
}

impl From<Scalar> for Said {
    fn from(scalar: Scalar) -> Self {
        Self(match scalar {
            Scalar::Whole(number) => number.to_string(),
            Scalar::Number(number) => number.to_string(),
            Scalar::Flag(flag) => flag.to_string(),
            Scalar::Text(text) => text,
        })
    }
}

impl File {
    pub(super) fn read(name: &str, text: &str) -> Result<Self, BadConfig> {
        serde_saphyr::from_str(text).map_err(|error| BadConfig::new(name, error.to_string()))
    }
}

/// Where a value stands, as in `config.yaml:3:10`.
pub(super) fn location<T>(name: &str, value: &Spanned<T>) -> String {
    let at = value.referenced;
    if at.line() == 0 {
        name.to_owned()
    } else {
        format!("{name}:{}:{}", at.line(), at.column())
    }
}
