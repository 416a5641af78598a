//! `lope runs graph`: a run's workflow, each step marked with how far it is.

use std::path::PathBuf;

use clap::Args;
use lope_engine::look;
use lope_flow::graph::{self, Format, Standing};
use lope_store::Store;
use serde_json::json;

use super::find::find;
use crate::commands::drawing;
use crate::error::{CliError, CliResult, Exit};
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct GraphArgs {
    id: String,
    /// text, mermaid, dot or svg
    #[arg(long, default_value = "text")]
    format: Format,
    /// Write the drawing to this file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// As it was after this journal row
    #[arg(long, value_name = "SEQ")]
    at: Option<u64>,
}

pub(crate) async fn run(store: &Store, args: GraphArgs, output: Output) -> CliResult<Exit> {
    let record = find(store, &args.id).await?;
    let plan = look::plan(store, &record).await?;
    let history = look::history(store, record.run, &plan, args.at).await?;
    let standings = history.standings();
    let drawing = graph::draw(plan.definition(), Some(&standings), args.format);
    let mut drawing = drawing.map_err(|error| CliError::usage(error.to_string()))?;
    if args.format == Format::Text && args.output.is_none() {
        drawing = coloured(&drawing);
    }
    let words: serde_json::Map<String, serde_json::Value> =
        standings.into_iter().map(|(step, standing)| (step, standing.word().into())).collect();
    let value = json!({ "run_id": record.run, "workflow": record.workflow, "seq": history.seq(), "steps": words });
    drawing::present(drawing::Drawing { text: drawing, format: args.format, value }, args.output.as_deref(), output)
}

/// The marks in colour; the terminal's stream takes the colours out again where they are not wanted.
fn coloured(drawing: &str) -> String {
    use anstyle::AnsiColor::{Blue, Green, Red};
    let mut text = drawing.to_owned();
    for (standing, colour) in [(Standing::Done, Green), (Standing::Running, Blue), (Standing::Failed, Red)] {
        let style = colour.on_default().bold();
        text = text.replace(standing.mark(), &format!("{style}{}{style:#}", standing.mark()));
    }
    text
}
