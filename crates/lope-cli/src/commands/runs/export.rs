//! `lope runs export`: everything there is of a run, as one JSON document.

use std::path::Path;

use lope::describe;
use lope_engine::look::{self, Follower};
use lope_store::Store;
use serde_json::{Value as Json, json};

use super::find::find;
use super::show::full;
use crate::error::{CliError, CliResult, Exit};
use crate::output::Output;

/// The version of the document's form.
const FORMAT: u32 = 1;

pub(crate) async fn run(store: &Store, id: &str, target: Option<&Path>, output: Output) -> CliResult<Exit> {
    let record = find(store, id).await?;
    let plan = look::plan(store, &record).await?;
    let mut follower = Follower::begin(store, record.run, &plan).await?;
    let mut journal: Vec<Json> = Vec::new();
    let told = follower.catch_up(|row, event, history| {
        let path = event.kind.execution().map(|(path, _)| path);
        let step = path.and_then(|path| history.execution(path)).map(|execution| &*execution.step);
        let mut value = describe::row(record.run, row, event, step);
        value["body"] = describe::body(event);
        journal.push(value);
    });
    told.await?;
    let loaded = store.runs.load(&[record.run]).await?.into_iter().next().flatten();
    let (snapshot, mail) = loaded.map_or((None, Vec::new()), |loaded| (loaded.snapshot, loaded.mail));
    let mail: Vec<Json> = mail
        .iter()
        .map(|mail| json!({ "id": mail.id, "kind": mail.kind, "at": describe::time(mail.at), "body": describe::loose(&mail.body) }))
        .collect();
    let history = follower.historian();
    let results: Vec<Json> = history.results().iter().map(|(input, it)| describe::result(input, it)).collect();
    let definition: Json = serde_json::from_str(&plan.definition().to_json())
        .map_err(|error| CliError::new(Exit::Bug, format!("the definition has no JSON form: {error}")))?;
    let value = json!({
        "format": FORMAT,
        "run": full(&record, history),
        "definition": definition,
        "journal": journal,
        "snapshot": snapshot.as_ref().map(describe::snapshot),
        "mail": mail,
        "results": results,
    });
    write(&value, target, output)
}

fn write(value: &Json, target: Option<&Path>, output: Output) -> CliResult<Exit> {
    let text = serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string());
    let Some(target) = target else {
        output.document(value, &text);
        return Ok(Exit::Done);
    };
    if target.exists() {
        let message = format!("{} exists already", target.display());
        return Err(CliError::new(Exit::Refused, message).hint("name a file that does not exist"));
    }
    std::fs::write(target, text).map_err(|error| CliError::usage(format!("{}: {error}", target.display())))?;
    let run = &value["run"]["run_id"];
    output.result(&json!({ "run_id": run, "output": target }), &format!("exported into {}", target.display()));
    Ok(Exit::Done)
}
