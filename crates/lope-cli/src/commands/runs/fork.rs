//! `lope runs fork`: a new run that goes on from a position in another one's journal.

use clap::Args;
use lope::Client;
use lope::runs::{Fork, Forked};
use serde_json::json;

use super::find::find;
use crate::error::{CliError, CliResult, Exit};
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct ForkArgs {
    id: String,
    /// The last journal row that both runs share  [default: the last one]
    #[arg(long, value_name = "SEQ")]
    at: Option<u64>,
    /// A name of your own for the new run
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
}

pub(crate) async fn run(client: &Client, args: ForkArgs, output: Output) -> CliResult<Exit> {
    let record = find(client, &args.id).await?;
    let run = record.run;
    let key = args.key.clone().unwrap_or_default();
    let fork = Fork {
        at: args.at,
        key: args.key,
    };
    match client.fork(&record, fork).await? {
        Forked::Run { run: copy, at } => {
            let value = json!({ "run_id": copy, "forked_from": run, "at": at, "status": "queued" });
            output.result(&value, &format!("{copy} goes on from row {at} of {run}"));
            Ok(Exit::Done)
        }
        Forked::Exists { run: other } => {
            let message = format!("run {other} has the key '{key}' already");
            Err(CliError::new(Exit::Refused, message).hint("choose another key"))
        }
        Forked::Ended { last } => {
            let message = format!("run {run} had ended there: nothing is left to go on with");
            let hint =
                format!("give --at SEQ, at most {last}; 'lope runs journal {run}' shows the rows");
            Err(CliError::new(Exit::Refused, message).hint(hint))
        }
        Forked::NoSuchRow { first, last } => {
            let asked = args.at.unwrap_or_default();
            let message = format!(
                "run {run} has no journal row {asked}: its journal goes from {first} to {last}"
            );
            Err(CliError::usage(message).hint(format!("'lope runs journal {run}' shows the rows")))
        }
    }
}
