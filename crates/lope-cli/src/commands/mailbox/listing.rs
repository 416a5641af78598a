//! `lope mailbox list|timers|dead`: what waits, what is due later, what was given up.

use clap::Args;
use lope::describe;
use lope::mailbox::TimerQuery;
use lope::mailbox::key::WorkerId;
use lope_model::Timestamp;
use lope_model::limit::PAGE_MAX;
use serde_json::Value as Json;

use super::{OpenMailbox, Page, show};
use crate::clock::later;
use crate::error::{CliError, CliResult, Exit};
use crate::output::Output;
use crate::table::Column;

pub(super) async fn messages(page: &Page, opened: &OpenMailbox, output: Output) -> CliResult<Exit> {
    let queued = opened
        .mailbox
        .list(page.worker, page.after, paged(page.limit)?)
        .await?;
    let moment = opened.client.moment().await?;
    let (mut values, mut rows) = (Vec::new(), Vec::new());
    for message in queued {
        let value = describe::queued(&message, moment);
        let state = value["state"].as_str().unwrap_or_default().to_owned();
        let (id, kind, payload) = show::glance(&message.frame);
        rows.push(vec![
            message.seq.to_string(),
            id,
            kind.to_owned(),
            state,
            payload,
        ]);
        values.push(value);
    }
    print(
        values,
        [
            Column::whole("SEQ"),
            Column::cut("ID"),
            Column::whole("KIND"),
            Column::whole("STATE"),
            Column::cut("PAYLOAD"),
        ],
        rows,
        output,
    );
    Ok(Exit::Done)
}

/// Which timers to list.
#[derive(Debug, Args)]
pub(crate) struct TimersArgs {
    /// Whose timers
    #[arg(allow_negative_numbers = true)]
    worker: WorkerId,
    #[arg(long, default_value_t = 50, value_name = "N")]
    limit: usize,
    /// Only those due from this time on: RFC 3339, or in how long (30s, 2h)
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
}

fn timer_query(args: &TimersArgs) -> CliResult<TimerQuery> {
    let from = args
        .from
        .as_deref()
        .map(|said| later("--from", said))
        .transpose()?;
    Ok(TimerQuery {
        from: from.map_or(Timestamp::EPOCH, |from| from.max(Timestamp::EPOCH)),
        limit: bounded(args.limit)?,
    })
}

pub(super) async fn timers(
    args: &TimersArgs,
    opened: &OpenMailbox,
    output: Output,
) -> CliResult<Exit> {
    let (mut values, mut rows) = (Vec::new(), Vec::new());
    let query = timer_query(args)?;
    let found = opened.mailbox.query_timers(args.worker, query).await?;
    for timer in found {
        let (id, kind, payload) = show::glance(&timer.frame);
        rows.push(vec![
            timer.seq.to_string(),
            timer.due.to_string(),
            id,
            kind.to_owned(),
            payload,
        ]);
        values.push(describe::timer(&timer));
    }
    print(
        values,
        [
            Column::whole("SEQ"),
            Column::whole("DUE"),
            Column::cut("ID"),
            Column::whole("KIND"),
            Column::cut("PAYLOAD"),
        ],
        rows,
        output,
    );
    Ok(Exit::Done)
}

pub(super) async fn dead(page: &Page, opened: &OpenMailbox, output: Output) -> CliResult<Exit> {
    let (mut values, mut rows) = (Vec::new(), Vec::new());
    for letter in opened
        .mailbox
        .dead(page.worker, page.after, paged(page.limit)?)
        .await?
    {
        let (id, _, _) = show::glance(&letter.frame);
        values.push(describe::dead_letter(&letter));
        rows.push(vec![
            letter.seq.to_string(),
            id,
            letter.attempts.to_string(),
            letter.failed_at.to_string(),
            letter.reason,
        ]);
    }
    print(
        values,
        [
            Column::whole("SEQ"),
            Column::cut("ID"),
            Column::whole("ATTEMPTS"),
            Column::whole("FAILED AT"),
            Column::cut("REASON"),
        ],
        rows,
        output,
    );
    Ok(Exit::Done)
}

fn bounded(limit: usize) -> CliResult<usize> {
    if (1..=PAGE_MAX).contains(&limit) {
        return Ok(limit);
    }
    Err(CliError::usage(format!(
        "--limit {limit}: a page has 1 to {PAGE_MAX} rows"
    )))
}

/// The same where a next page can be asked for.
fn paged(limit: usize) -> CliResult<usize> {
    bounded(limit)
        .map_err(|error| error.hint("'--after SEQ' begins behind the last row of the page before"))
}

fn print(values: Vec<Json>, columns: [Column; 5], rows: Vec<Vec<String>>, output: Output) {
    let text = if rows.is_empty() {
        "none".to_owned()
    } else {
        show::table(columns, rows)
    };
    output.document(&Json::Array(values), &text);
}
