//! `lope runs journal`: what happened to a run, one row an event.

use lope::describe;
use lope_engine::look::{self, Follower};
use lope_store::Store;
use serde_json::Value as Json;

use super::find::find;
use crate::error::{CliResult, Exit};
use crate::output::Output;

pub(crate) async fn run(store: &Store, id: &str, output: Output) -> CliResult<Exit> {
    let record = find(store, id).await?;
    let plan = look::plan(store, &record).await?;
    let mut follower = Follower::begin(store, record.run, &plan).await?;
    let (mut values, mut lines) = (Vec::new(), Vec::new());
    let told = follower.catch_up(|row, event, history| {
        let path = event.kind.execution().map(|(path, _)| path);
        let step = path.and_then(|path| history.execution(path)).map(|execution| &*execution.step);
        let value = describe::row(record.run, row, event, step);
        let attempt =
            value["attempt"].as_u64().filter(|n| *n > 1).map_or_else(String::new, |n| format!(" attempt {n}"));
        let path = path.map_or("", |path| path);
        lines.push(format!("{:>6}  {}  {:<10} {path}{attempt}", row.seq, row.at, row.event).trim_end().to_owned());
        values.push(value);
    });
    told.await?;
    output.document(&Json::Array(values), &lines.join("\n"));
    Ok(Exit::Done)
}
