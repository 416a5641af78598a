//! Where traces and metrics go: what is said in `telemetry:` of the configuration, else in the
//! variables that OpenTelemetry names.

use std::collections::BTreeMap;
use std::time::Duration;

use lope_model::Span;
use serde::Deserialize;
use serde_json::Value as Json;
use thiserror::Error;

/// How often what has gathered is sent.
const INTERVAL: Duration = Duration::from_secs(5);

/// Where traces and metrics go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExportSettings {
    /// The collector, as in `http://127.0.0.1:4318`.
    pub endpoint: String,
    /// Sent with everything, for collectors that ask who comes.
    pub headers: BTreeMap<String, String>,
    /// What this program is called there.
    pub service: String,
    pub interval: Duration,
}

/// A setting that makes no sense.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("telemetry.{name}: {message}")]
pub struct BadExport {
    pub name: &'static str,
    pub message: String,
}

/// `telemetry:` as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Section {
    endpoint: Option<String>,
    headers: BTreeMap<String, String>,
    service: Option<String>,
    interval: Option<String>,
}

impl ExportSettings {
    /// From the section of a configuration and the variables of an environment. Nothing: no
    /// collector is named.
    pub fn read(
        section: Option<&Json>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, BadExport> {
        let said: Section = match section {
            None => Section::default(),
            Some(section) => serde_json::from_value(section.clone())
                .map_err(|error| bad("*", error.to_string()))?,
        };
        let named = |name: &str| variable(name).filter(|value| !value.is_empty());
        let endpoint = said
            .endpoint
            .or_else(|| named("OTEL_EXPORTER_OTLP_ENDPOINT"));
        let Some(endpoint) = endpoint else {
            return Ok(None);
        };
        if !endpoint.starts_with("http://") && !endpoint.starts_with("https://") {
            let message = format!("'{endpoint}' is no address: write it as http://127.0.0.1:4318");
            return Err(bad("endpoint", message));
        }
        let mut headers = said.headers;
        if headers.is_empty() {
            headers = named("OTEL_EXPORTER_OTLP_HEADERS")
                .map(|text| pairs(&text))
                .unwrap_or_default();
        }
        let interval = said.interval.as_deref().map(str::parse::<Span>);
        let interval = interval
            .transpose()
            .map_err(|error| bad("interval", error.to_string()))?;
        Ok(Some(Self {
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            headers,
            service: said
                .service
                .or_else(|| named("OTEL_SERVICE_NAME"))
                .unwrap_or_else(|| "lope".to_owned()),
            interval: interval.map_or(INTERVAL, Span::to_duration),
        }))
    }
}

fn bad(name: &'static str, message: String) -> BadExport {
    BadExport { name, message }
}

/// `a=1,b=2`.
fn pairs(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    pairs
        .map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_file_goes_before_the_environment_and_nothing_means_nobody() {
        let none = |_: &str| None;
        assert_eq!(ExportSettings::read(None, none), Ok(None));
        let variables = |name: &str| match name {
            "OTEL_EXPORTER_OTLP_ENDPOINT" => Some("http://there:4318/".to_owned()),
            "OTEL_EXPORTER_OTLP_HEADERS" => Some("a=1, b=2".to_owned()),
            _ => None,
        };
        let read = ExportSettings::read(None, variables).unwrap().unwrap();
        assert_eq!(read.endpoint, "http://there:4318");
        assert_eq!(read.headers["b"], "2");
        assert_eq!(read.service, "lope");
        let file = json!({ "endpoint": "http://here:1", "interval": "250ms", "service": "shop" });
        let read = ExportSettings::read(Some(&file), variables).unwrap();
        let read = read.unwrap();
        assert_eq!((&*read.endpoint, &*read.service), ("http://here:1", "shop"));
        assert_eq!(read.interval, Duration::from_millis(250));
        for wrong in [
            json!({ "endpoint": "here" }),
            json!({ "endpont": "http://here" }),
            json!({ "endpoint": "http://here", "interval": "soon" }),
        ] {
            assert!(ExportSettings::read(Some(&wrong), none).is_err(), "{wrong}");
        }
    }
}
