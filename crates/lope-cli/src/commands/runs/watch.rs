//! `lope runs watch`: follow a run until it ends; one JSON object a line with `--json`.

use lope::Client;
use lope::describe;
use serde_json::{Value as Json, json};

use super::find::{find, found};
use crate::commands::record::summary;
use crate::commands::shown;
use crate::error::{CliResult, Exit};
use crate::output::{self, Output};
use crate::progress::{self, KNOWN_MAX, ProgressView};

pub(crate) async fn run(client: &Client, id: &str, output: Output) -> CliResult<Exit> {
    let record = find(client, id).await?;
    let plan = client.plan(&record).await?;
    let mut follower = client.follow(record.run, &plan).await?;
    if !output.json {
        follower = follower.with_limit(KNOWN_MAX);
    }
    let mut progress = ProgressView::new(&record, output);
    if shown::hides_progress(client, &record).await? {
        progress = ProgressView::Silent;
    }
    let mut watch = client.watch();
    let mut record = record;
    loop {
        let told = follower.catch_up(|row, event, history| {
            if output.json {
                let changed = history.touched();
                let changes: Vec<Json> = changed
                    .map(|it| json!({ "path": &*it.id, "step": &*it.step, "status": it.status.as_str() }))
                    .collect();
                let path = event.kind.execution().map(|(path, _)| path);
                let step = path.and_then(|path| history.execution(path)).map(|execution| &*execution.step);
                let mut value = describe::row(record.run, row, event, step);
                value["status"] = json!(history.status().as_str());
                value["changes"] = Json::Array(changes);
                output::line(&value);
            } else {
                progress.row(history);
            }
        });
        told.await?;
        progress.draw(follower.historian());
        record = found(client.run(record.run).await?, record.run)?;
        // The record may be ahead of what was read of the journal: go on until both have ended.
        if record.status.is_final() && follower.historian().seq() >= record.head {
            break;
        }
        progress::pause(&mut watch).await;
    }
    progress.end(follower.historian());
    shown::redact(client, &mut record).await?;
    if output.json {
        output::line(&output.shown(describe::run(&record)));
    } else {
        output.result(&Json::Null, &summary(&record, output));
    }
    Ok(Exit::Done)
}
