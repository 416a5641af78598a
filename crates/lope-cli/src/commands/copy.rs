//! `lope store copy FROM TO`: everything, live runs included, from one store into another.

use clap::Args;
use lope::Client;
use lope::copy::CopyError;
use lope::stores::{CreateStore, StoreError, StoreUrl};
use serde_json::json;

use crate::error::{CliError, CliResult, Exit};
use crate::output::{Output, counted, remark};

#[derive(Debug, Args)]
pub(crate) struct CopyArgs {
    /// The store to copy: sqlite:PATH or postgres://…
    #[arg(value_name = "FROM")]
    from: String,
    /// The store to fill; it is created if it is not there
    #[arg(value_name = "TO")]
    to: String,
    /// Look at both and copy nothing
    #[arg(long)]
    dry_run: bool,
}

pub(crate) async fn run(args: CopyArgs, output: Output) -> CliResult<Exit> {
    let read = |text: &str| {
        text.parse::<StoreUrl>()
            .map_err(|error| CliError::usage(error.to_string()))
    };
    let (from, to) = (read(&args.from)?, read(&args.to)?);
    if from == to {
        return Err(
            CliError::usage(format!("{from} cannot be copied into itself"))
                .hint("name another store"),
        );
    }
    let source = Client::open_store(&from, CreateStore::Never).await?;
    if args.dry_run {
        return plan(&from, &to, output).await;
    }
    let target = Client::open_store(&to, CreateStore::IfMissing).await?;
    let mut last = "";
    let copied = source.copy_into(&target, |table, _| {
        if table != std::mem::replace(&mut last, table) {
            remark(output, &format!("  {table}"));
        }
    });
    let copied = copied.await;
    source.close().await?;
    target.close().await?;
    let copied = copied.map_err(|error| refused(error, &from, &to))?;
    let runs = copied.rows.get("runs").copied().unwrap_or(0);
    let rows = copied.rows.values().sum::<u64>();
    let value = json!({ "from": from.to_string(), "to": to.to_string(), "rows": copied.rows, "resumed": copied.resumed });
    let (runs, rows) = (counted(runs, "run"), counted(rows, "row"));
    let text = format!(
        "{from} copied into {to}: {runs}, {rows}, compared and equal\n  work on {to} from now on: what still runs on \
         {from} would be done twice"
    );
    output.result(&value, &text);
    Ok(Exit::Done)
}

async fn plan(from: &StoreUrl, to: &StoreUrl, output: Output) -> CliResult<Exit> {
    let there = match Client::open_store(to, CreateStore::Never).await {
        Ok(client) => {
            client.close().await?;
            true
        }
        Err(StoreError::Missing { .. }) => false,
        Err(error) => return Err(error.into()),
    };
    let word = if there {
        "is there"
    } else {
        "would be created"
    };
    let value = json!({ "from": from.to_string(), "to": to.to_string(), "target_exists": there, "dry_run": true });
    output.result(
        &value,
        &format!("{from} would be copied into {to}, which {word}"),
    );
    Ok(Exit::Done)
}

fn refused(error: CopyError, from: &StoreUrl, to: &StoreUrl) -> CliError {
    let (exit, hint) = match error {
        CopyError::Store(error) => {
            return CliError::from(error).hint(format!(
                "repeat the command to go on: lope store copy {from} {to}"
            ));
        }
        CopyError::NotMoving(_) => (Exit::Usage, "copy between sqlite: and postgres: stores"),
        CopyError::Busy { .. } => (
            Exit::Refused,
            "stop them first (Ctrl-C in 'lope up'), then repeat",
        ),
        CopyError::NotEmpty { .. } => (Exit::Refused, "name a store that does not exist yet"),
        CopyError::Another { .. } => (
            Exit::Refused,
            "name a store that does not exist yet, or finish that copy",
        ),
        CopyError::Changed { .. } => (
            Exit::Failed,
            "stop whoever works on them and copy into a fresh store; the source is as it was",
        ),
    };
    CliError::new(exit, error.to_string()).hint(hint)
}
