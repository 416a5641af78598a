//! Commands that a server does for others: read as they were typed, done with the store that is
//! open, printed to whoever asked.

use std::sync::Arc;

use clap::{CommandFactory, FromArgMatches};
use lope::Client;
use lope_remote::{CommandCall, CommandHost};

use crate::args::Lope;
use crate::dispatch::dispatch;
use crate::error::Exit;
use crate::home::Settings;
use crate::output;

/// The commands of a runner's server.
#[derive(Debug)]
struct ServedCommands {
    settings: Settings,
}

/// Does commands with a store that is open.
pub(crate) fn host(settings: &Settings, client: &Client) -> Arc<dyn CommandHost> {
    let settings = Settings {
        lent: Some(client.lent()),
        ..settings.clone()
    };
    Arc::new(ServedCommands { settings })
}

impl CommandHost for ServedCommands {
    fn verb(&self, arguments: &[String]) -> Result<String, String> {
        let words = std::iter::once("lope").chain(arguments.iter().map(String::as_str));
        let matches = Lope::command().try_get_matches_from(words);
        let matches = matches.map_err(|error| error.render().to_string())?;
        let mut words = Vec::new();
        let mut at = &matches;
        while let Some((name, below)) = at.subcommand() {
            words.push(name);
            at = below;
        }
        Ok(words.join(" "))
    }

    fn run(&self, call: &Arc<CommandCall>) -> u8 {
        let words = std::iter::once("lope").chain(call.order.arguments.iter().map(String::as_str));
        let matches = Lope::command().try_get_matches_from(words);
        let read = matches.and_then(|matches| Lope::from_arg_matches(&matches));
        let lope = match read {
            Ok(lope) => lope,
            Err(error) => {
                output::complain(&error.render().to_string());
                return Exit::Usage as u8;
            }
        };
        let settings = Settings {
            called: call.order.called.clone(),
            ..self.settings.clone()
        };
        let work = dispatch(lope, move |_| Ok(settings.clone()));
        let done = tokio::runtime::Handle::current().block_on(async {
            tokio::select! {
                done = work => Some(done),
                () = call.gone() => None,
            }
        });
        match done {
            Some(Ok(exit)) => exit as u8,
            Some(Err(error)) => {
                output::complain(&error.to_string());
                error.exit as u8
            }
            None => Exit::OutOfReach as u8,
        }
    }
}
