//! The server beside a runner: where it listens, and what it says about that.

use std::path::PathBuf;

use clap::Args;
use lope::Runner;
use lope::config::Config;
use lope::workers::Logs;
use lope_server::{Listening, Server, ServerError, ServerParts, ServerSettings};

use super::begin::captured;
use crate::error::{CliError, CliResult, Exit};
use crate::home::Settings;
use crate::output::{Output, remark};

/// How the API and the dashboard are reached.
#[derive(Debug, Args)]
pub(crate) struct HttpArgs {
    /// Serve the API and the dashboard here; 'off' serves none  [default: 127.0.0.1:7420]
    #[arg(long, value_name = "HOST:PORT|off", env = "LOPE_HTTP")]
    http: Option<String>,
    /// Serve the API without the dashboard
    #[arg(long)]
    no_dashboard: bool,
    /// Serve the web pages of this folder at /app/
    #[arg(long, value_name = "DIR")]
    app: Option<PathBuf>,
}

impl HttpArgs {
    /// Listen, before anything is opened or stored. Nothing: no server is wanted, or nobody chose
    /// its address and somebody has it already, which is no reason not to work: another runner of
    /// this machine shows the same.
    pub(crate) async fn listen(
        &self,
        config: &Config,
        output: Output,
    ) -> CliResult<Option<Listening>> {
        let section = config.others.get("server");
        let mut settings =
            ServerSettings::read(section).map_err(|bad| CliError::usage(bad.to_string()))?;
        let configured = section.is_some_and(|section| section.get("listen").is_some());
        let chosen = configured || self.http.is_some();
        settings.listen = self.http.clone().unwrap_or(settings.listen);
        settings.dashboard &= !self.no_dashboard;
        settings.app = self.app.clone().or(settings.app);
        if let Some(folder) = settings.app.as_ref().filter(|it| !it.is_dir()) {
            return Err(CliError::usage(format!(
                "--app: {} is no folder",
                folder.display()
            )));
        }
        if settings.listen == "off" {
            return Ok(None);
        }
        match Listening::bind(settings).await {
            Ok(listening) => Ok(Some(listening)),
            Err(ServerError::Taken { address }) if !chosen => {
                let text = format!("{address} is taken: no dashboard here; --http chooses another");
                remark(output, &text);
                Ok(None)
            }
            Err(error) => {
                let exit = match &error {
                    ServerError::Taken { .. } => Exit::Refused,
                    ServerError::Listen { .. } | ServerError::Certificate { .. } => Exit::Usage,
                };
                Err(CliError::new(exit, error.to_string())
                    .hint("write --http HOST:PORT, as in 127.0.0.1:7420, or --http off"))
            }
        }
    }
}

/// Serve what a runner does.
pub(crate) fn start(
    listening: Listening,
    runner: &Runner,
    settings: &Settings,
    output: Output,
) -> Server {
    let server = listening.serve(ServerParts {
        client: runner.client().clone(),
        runner: Some(runner.clone()),
        logs: Logs::at(settings.logs.clone()),
        config: settings.config.clone(),
        env: captured(settings),
        commands: settings.host.map(|host| host(settings, runner.client())),
    });
    remark(output, &format!("dashboard and API at {}", server.url()));
    server
}
