//! Traces and metrics of this process to a collector of OpenTelemetry, if one is named.

use lope::Runner;

use crate::error::CliResult;
use crate::home::Settings;

/// Sends until it is stopped; nothing if no collector is named, or this build knows none.
#[derive(Debug, Default)]
pub(crate) struct Exporting {
    #[cfg(feature = "otel")]
    exporter: Option<lope_otel::Exporter>,
}

impl Exporting {
    #[cfg(feature = "otel")]
    pub(crate) async fn start(runner: &Runner, settings: &Settings) -> CliResult<Self> {
        let section = settings.config.others.get("telemetry");
        let read = lope_otel::ExportSettings::read(section, |name| std::env::var(name).ok());
        let read = read.map_err(|bad| crate::error::CliError::usage(bad.to_string()))?;
        let exporter = match read {
            Some(wanted) => Some(lope_otel::Exporter::start(runner, wanted).await?),
            None => None,
        };
        Ok(Self { exporter })
    }

    #[cfg(not(feature = "otel"))]
    #[expect(clippy::unused_async, reason = "the other build waits")]
    pub(crate) async fn start(_: &Runner, _: &Settings) -> CliResult<Self> {
        Ok(Self::default())
    }

    /// Sends what has gathered.
    #[cfg_attr(
        not(feature = "otel"),
        expect(clippy::unused_async, reason = "the other build waits")
    )]
    pub(crate) async fn stop(self) {
        #[cfg(feature = "otel")]
        if let Some(exporter) = self.exporter {
            exporter.stop().await;
        }
    }
}
