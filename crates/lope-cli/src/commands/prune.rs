//! `lope store prune`: runs that have ended leave the store, in small batches that do not block
//! work, and so do old receipts and changes of reactive spaces.

use clap::Args;
use lope::Client;
use lope::runs::{FinalStatus, PruneChoice, PrunedRuns};
use lope::stores::{StoreError, StoreUrl};
use lope::workers::Logs;
use lope_model::{Span, Timestamp, limit};
use serde_json::json;

use super::runs::open;
use crate::error::{CliError, CliResult, Exit};
use crate::home::Settings;
use crate::output::{Output, counted};

#[derive(Debug, Args)]
pub(crate) struct PruneArgs {
    /// Only runs that ended longer ago than this  [default: the configured retention]
    #[arg(long, value_name = "DURATION")]
    older: Option<String>,
    /// completed, failed or cancelled; may be given several times  [default: all three]
    #[arg(long)]
    status: Vec<String>,
    #[arg(long)]
    workflow: Option<String>,
    /// Count them and delete nothing
    #[arg(long)]
    dry_run: bool,
    /// Then give the space back: the file is written anew, while no runner works
    #[arg(long, conflicts_with = "dry_run")]
    compact: bool,
}

pub(crate) async fn run(args: PruneArgs, settings: &Settings, output: Output) -> CliResult<Exit> {
    let statuses = args
        .status
        .iter()
        .map(|text| status(text))
        .collect::<CliResult<Vec<_>>>()?;
    let older = args.older.as_deref().map(age).transpose()?;
    let client = open(settings).await?;
    if args.compact {
        may_compact(&client, settings).await?;
    }
    let choice = PruneChoice {
        older,
        statuses,
        workflow: args.workflow,
    };
    let logs = Logs::at(settings.logs.clone());
    let PrunedRuns {
        runs,
        before,
        space_rows: spaces,
    } = client
        .prune_chosen(choice, &settings.config.engine, &logs, args.dry_run)
        .await?;
    if before.is_none() && !args.compact {
        let error = CliError::usage("runs are kept for ever, as the config says");
        return Err(error.hint("say how old: --older 30d"));
    }
    let before = before.unwrap_or(Timestamp::EPOCH);
    let freed = if args.compact {
        Some(client.compact().await.map_err(not_now)?)
    } else {
        None
    };
    client.close().await?;
    let value = json!({ "runs": runs, "before": before.to_string(), "dry_run": args.dry_run, "freed": freed, "space_rows": spaces });
    let word = if args.dry_run {
        "would be deleted"
    } else {
        "deleted"
    };
    let spaces = if spaces == 0 {
        String::new()
    } else {
        format!("; {} of spaces too", counted(spaces, "old row"))
    };
    output.result(
        &value,
        &format!(
            "{} that ended before {before} {word}{spaces}{}",
            counted(runs, "run"),
            freed.map_or_else(String::new, |bytes| format!(
                "; the store is {bytes} bytes smaller"
            ))
        ),
    );
    Ok(Exit::Done)
}

fn age(text: &str) -> CliResult<Span> {
    text.parse()
        .map_err(|error: lope_model::time::BadSpan| CliError::usage(error.to_string()))
}

fn status(text: &str) -> CliResult<FinalStatus> {
    let wrong = || {
        CliError::usage(format!("'{text}' is no way to end")).hint("completed, failed, cancelled")
    };
    FinalStatus::parse(text).ok_or_else(wrong)
}

/// Whoever asks for both gets both or nothing: what stands against it is found before runs are deleted.
async fn may_compact(client: &Client, settings: &Settings) -> CliResult<()> {
    if let StoreUrl::Postgres(_) = settings.store {
        // It says that Postgres does so by itself.
        client.compact().await.map_err(not_now)?;
    }
    let runners = client.runners(limit::PAGE_MAX).await?;
    if runners.iter().any(|runner| runner.live) {
        let message = "runners work on the store: stop them first";
        return Err(CliError::new(Exit::Refused, message));
    }
    Ok(())
}

/// A store that cannot be written anew now says why.
fn not_now(error: StoreError) -> CliError {
    match error {
        StoreError::Refused { message } => CliError::new(Exit::Refused, message),
        other => other.into(),
    }
}
