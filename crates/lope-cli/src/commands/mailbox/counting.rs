//! `lope mailbox stats`: how much is where. And what a worker did, when it ends.

use lope::mailbox::key::WorkerId;
use lope::mailbox::{Counts, Depth};
use serde_json::{Map, Value as Json, json};

use super::{Post, show};
use crate::error::{CliResult, Exit};
use crate::output::{Output, remark};
use crate::table::Column;

pub(super) async fn stats(limit: usize, post: &Post, output: Output) -> CliResult<Exit> {
    let stats = post.mailbox.stats(limit).await?;
    let workers = stats.workers.iter().map(|worker| {
        json!({
            "worker": worker.worker.number(),
            "inbox": worker.inbox.rows,
            "inbox_at_most": worker.inbox.at_most,
            "dead_letters": worker.dead_letters.rows,
            "dead_letters_at_most": worker.dead_letters.at_most,
        })
    });
    let value = json!({
        "inbox": stats.inbox,
        "timers": stats.timers,
        "outbox": stats.outbox,
        "dedupe": stats.dedupe,
        "dead_letters": stats.dead_letters,
        "workers": workers.collect::<Vec<_>>(),
    });
    let all = format!(
        "{} messages, {} timers, {} dead letters, {} to be forwarded, {} ids remembered",
        stats.inbox, stats.timers, stats.dead_letters, stats.outbox, stats.dedupe
    );
    let rows: Vec<Vec<String>> = stats
        .workers
        .iter()
        .map(|worker| vec![worker.worker.to_string(), depth(worker.inbox), depth(worker.dead_letters)])
        .collect();
    let text = if rows.is_empty() {
        all
    } else {
        format!("{all}\n{}", show::table(["WORKER", "INBOX", "DEAD LETTERS"].map(Column::whole), rows))
    };
    output.document(&value, &text);
    Ok(Exit::Done)
}

fn depth(depth: Depth) -> String {
    if depth.at_most { format!("≤ {}", depth.rows) } else { depth.rows.to_string() }
}

/// What a worker did.
pub(super) fn summary(worker: WorkerId, counts: &Counts, output: Output) {
    if output.json {
        let mut value = Map::from_iter([("worker".to_owned(), worker.number().into())]);
        value.extend(counts.series().map(|series| (series.name.to_owned(), series.value.into())));
        value.insert("latency_micros".into(), counts.latency_micros.into());
        output.document(&Json::Object(value), "");
        return;
    }
    let mut text = format!("worker {worker}: {} handled", counts.successes);
    for (count, what) in
        [(counts.duplicates, "seen before"), (counts.requeues, "tried again"), (counts.dead_letters, "dead letters")]
    {
        if count > 0 {
            text.push_str(&format!(", {count} {what}"));
        }
    }
    if counts.dead_letters > 0 {
        text.push_str(&format!("\n  hint: 'lope mailbox dead {worker}' shows why"));
    }
    remark(output, &text);
}
