//! `lope mailbox list|timers|dead`: what waits, what is due later, what was given up.

use clap::Args;
use lope::mailbox::Look;
use lope::mailbox::key::WorkerId;
use lope_model::Timestamp;
use lope_model::limit::PAGE_MAX;
use serde_json::{Map, Value as Json, json};

use super::{Page, Post, show};
use crate::clock::later;
use crate::error::{CliError, CliResult, Exit};
use crate::output::{Output, remark};
use crate::table::Column;

pub(super) async fn messages(page: &Page, post: &Post, output: Output) -> CliResult<Exit> {
    let queued = post.mailbox.list(page.worker, page.after, paged(page.limit)?).await?;
    let moment = post.store.upkeep.reading().await?.moment;
    let (mut values, mut rows) = (Vec::new(), Vec::new());
    for message in queued {
        let lease = message.lease.as_ref().map(|lease| show::lease(lease, moment));
        let state = lease.as_ref().map_or("queued", |lease| lease["state"].as_str().unwrap_or_default()).to_owned();
        let (id, kind, payload) = show::glance(&message.frame);
        rows.push(vec![message.seq.to_string(), id, kind.to_owned(), state.clone(), payload]);
        let mut value = head(message.worker, message.seq);
        value.extend(show::fields(&message.frame));
        value.insert("state".into(), state.into());
        value.insert("lease".into(), json!(lease));
        values.push(Json::Object(value));
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

pub(super) async fn timers(args: &TimersArgs, post: &Post, output: Output) -> CliResult<Exit> {
    let (mut values, mut rows) = (Vec::new(), Vec::new());
    let from = args.from.as_deref().map(|said| later("--from", said)).transpose()?;
    let from = from.map_or(Timestamp::EPOCH, |from| from.max(Timestamp::EPOCH));
    let look = Look { from, limit: bounded(args.limit)?, ..Look::default() };
    let found = post.mailbox.look_for_timers(args.worker, look).await?;
    if let Some(unseen) = found.unseen_from {
        let hint = format!("lope mailbox timers {} --from {unseen}", args.worker);
        remark(output, &format!("timers due from {unseen} on were not looked at: there are too many\n  hint: {hint}"));
    }
    for timer in found.timers {
        let (id, kind, payload) = show::glance(&timer.frame);
        let due = timer.due.to_string();
        rows.push(vec![timer.seq.to_string(), due.clone(), id, kind.to_owned(), payload]);
        let mut value = head(timer.worker, timer.seq);
        value.insert("due".into(), due.into());
        value.extend(show::fields(&timer.frame));
        values.push(Json::Object(value));
    }
    print(
        values,
        [Column::whole("SEQ"), Column::whole("DUE"), Column::cut("ID"), Column::whole("KIND"), Column::cut("PAYLOAD")],
        rows,
        output,
    );
    Ok(Exit::Done)
}

pub(super) async fn dead(page: &Page, post: &Post, output: Output) -> CliResult<Exit> {
    let (mut values, mut rows) = (Vec::new(), Vec::new());
    for letter in post.mailbox.dead(page.worker, page.after, paged(page.limit)?).await? {
        let (id, _, _) = show::glance(&letter.frame);
        let (attempts, at) = (letter.attempts.to_string(), letter.failed_at.to_string());
        rows.push(vec![letter.seq.to_string(), id, attempts, at.clone(), letter.reason.clone()]);
        let mut value = head(letter.worker, letter.seq);
        value.extend(show::fields(&letter.frame));
        value.insert("reason".into(), letter.reason.into());
        value.insert("attempts".into(), letter.attempts.into());
        value.insert("failed_at".into(), at.into());
        values.push(Json::Object(value));
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

fn head(worker: WorkerId, seq: u64) -> Map<String, Json> {
    let mut head = Map::new();
    head.insert("worker".into(), worker.number().into());
    head.insert("seq".into(), seq.into());
    head
}

fn bounded(limit: usize) -> CliResult<usize> {
    if (1..=PAGE_MAX).contains(&limit) {
        return Ok(limit);
    }
    Err(CliError::usage(format!("--limit {limit}: a page has 1 to {PAGE_MAX} rows")))
}

/// The same where a next page can be asked for.
fn paged(limit: usize) -> CliResult<usize> {
    bounded(limit).map_err(|error| error.hint("'--after SEQ' begins behind the last row of the page before"))
}

fn print(values: Vec<Json>, columns: [Column; 5], rows: Vec<Vec<String>>, output: Output) {
    let text = if rows.is_empty() { "none".to_owned() } else { show::table(columns, rows) };
    output.document(&Json::Array(values), &text);
}
