//! `lope runs list`: which runs there are, as a table that fits the terminal.

use clap::Args;
use lope::describe;
use lope::runs::{FinalStatus, RunFilter, RunRecord, RunStatus};
use lope::stores::{CreateStore, StoreError};
use lope_model::{QueueName, Span, Timestamp};
use serde_json::Value as Json;

use super::find::find;
use crate::clock::wall;
use crate::commands::shown;
use crate::commands::tags::tags;
use crate::error::{CliError, CliResult, Exit};
use crate::format::{age, paint_status};
use crate::home::Settings;
use crate::output::Output;
use crate::table::{Column, Table};

/// Most runs of one listing.
const LIST_MAX: usize = lope_model::limit::PAGE_MAX;

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// queued, running, idle, sleeping, waiting, paused, completed, failed or cancelled; may be
    /// given several times
    #[arg(long)]
    status: Vec<String>,
    #[arg(long)]
    workflow: Option<String>,
    /// A tag, as NAME=VALUE; may be given several times
    #[arg(long = "tag", value_name = "NAME=VALUE")]
    tags: Vec<String>,
    #[arg(long)]
    queue: Option<String>,
    /// Children of this run
    #[arg(long, value_name = "ID")]
    parent: Option<String>,
    /// Started at this time or later: RFC 3339, or how long ago (2h)
    #[arg(long, value_name = "TIME|DURATION")]
    since: Option<String>,
    /// Started before this time: RFC 3339, or how long ago (2h)
    #[arg(long, value_name = "TIME|DURATION")]
    until: Option<String>,
    #[arg(long, default_value_t = 50)]
    limit: usize,
}

pub(crate) async fn run(args: ListArgs, settings: &Settings, output: Output) -> CliResult<Exit> {
    let mut filter = filter(&args)?;
    let client = match settings.open(CreateStore::Never).await {
        Ok(client) => client,
        Err(StoreError::Missing { .. }) if args.parent.is_none() => {
            output.result(&Json::Array(Vec::new()), "no runs");
            return Ok(Exit::Done);
        }
        Err(error) => return Err(error.into()),
    };
    if let Some(parent) = &args.parent {
        filter.parent = Some(find(&client, parent).await?.run);
    }
    let limit = filter.limit;
    let mut records = client.list(filter).await?;
    if output.json {
        for record in &mut records {
            complete(&client, record).await?;
        }
    }
    shown::redact_all(&client, &mut records).await;
    client.close().await?;
    output.result(
        &output.shown(records.iter().map(describe::run).collect()),
        &text(&records, limit),
    );
    Ok(Exit::Done)
}

/// A list leaves out errors that are long.
async fn complete(client: &lope::Client, record: &mut RunRecord) -> CliResult<()> {
    let failed = record.status == RunStatus::Final(FinalStatus::Failed);
    if failed && record.error.is_none() {
        let whole = client.run(record.run).await?;
        record.error = whole.and_then(|whole| whole.error);
    }
    Ok(())
}

fn filter(args: &ListArgs) -> CliResult<RunFilter> {
    if !(1..=LIST_MAX).contains(&args.limit) {
        return Err(CliError::usage(format!(
            "a listing shows 1 to {LIST_MAX} runs, not {}",
            args.limit
        )));
    }
    let queue = args.queue.as_deref().map(QueueName::parse).transpose();
    Ok(RunFilter {
        statuses: args
            .status
            .iter()
            .map(|text| status(text))
            .collect::<CliResult<_>>()?,
        workflow: args.workflow.clone(),
        queue: queue.map_err(|error| CliError::usage(error.to_string()))?,
        tags: tags(&args.tags)?,
        since: args.since.as_deref().map(moment).transpose()?,
        until: args.until.as_deref().map(moment).transpose()?,
        limit: args.limit,
        ..RunFilter::default()
    })
}

fn status(text: &str) -> CliResult<RunStatus> {
    let known = || RunStatus::ALL.map(RunStatus::as_str).join(", ");
    RunStatus::parse(text)
        .ok_or_else(|| CliError::usage(format!("'{text}' is no status")).hint(known()))
}

/// A time, or how long ago.
pub(crate) fn moment(text: &str) -> CliResult<Timestamp> {
    if let Ok(span) = text.parse::<Span>() {
        return Ok(wall().minus(span));
    }
    text.parse()
        .map_err(|error: lope_model::time::BadTimestamp| {
            CliError::usage(error.to_string()).hint("or how long ago, as in 30s, 5m, 2h, 7d")
        })
}

fn text(records: &[RunRecord], limit: usize) -> String {
    let mut table = Table::new([
        Column::whole("RUN"),
        Column::whole("STATUS"),
        Column::whole("AGE"),
        Column::cut("WORKFLOW"),
    ]);
    let keyed = records.iter().any(|record| record.key.is_some());
    let tagged = records.iter().any(|record| !record.tags.is_empty());
    table.also(keyed, Column::cut("KEY"));
    table.also(tagged, Column::cut("TAGS"));
    for record in records {
        let tags = record
            .tags
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect::<Vec<_>>()
            .join(" ");
        let mut cells = vec![
            record.run.to_string(),
            paint_status(record.status),
            age(wall().since(record.created_at)),
            record.workflow.clone(),
        ];
        cells.extend(keyed.then(|| record.key.clone().unwrap_or_default()));
        cells.extend(tagged.then_some(tags));
        table.row(cells);
    }
    let mut text = table.text_or("no runs");
    if records.len() == limit {
        text += &format!("\n(the youngest {limit}; --limit shows more)");
    }
    text
}
