//! `lope runs graph`: a run's workflow, each step marked with how far it is.

use std::path::PathBuf;

use clap::Args;
use lope::Client;
use lope::workflows::{self, Format, StepStanding};
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

pub(crate) async fn run(client: &Client, args: GraphArgs, output: Output) -> CliResult<Exit> {
    let record = find(client, &args.id).await?;
    let plan = client.plan(&record).await?;
    let history = client.history(record.run, &plan, args.at).await?;
    let standings = workflows::standings(&record, &history, args.at);
    let drawing = workflows::draw(plan.definition(), Some(&standings), args.format);
    let mut drawing = drawing.map_err(|error| CliError::usage(error.to_string()))?;
    if args.format == Format::Text && args.output.is_none() {
        drawing = coloured(&drawing);
    }
    let words: serde_json::Map<String, serde_json::Value> = standings
        .into_iter()
        .map(|(step, progress)| (step, progress.standing.word().into()))
        .collect();
    let value = json!({ "run_id": record.run, "workflow": record.workflow, "seq": history.seq(), "steps": words });
    drawing::present(
        drawing::Drawing {
            text: drawing,
            format: args.format,
            value,
        },
        args.output.as_deref(),
        output,
    )
}

/// The marks in colour; the terminal's stream takes the colours out again where they are not
/// wanted.
fn coloured(drawing: &str) -> String {
    use anstyle::AnsiColor::{Blue, Green, Red};
    let mut text = drawing.to_owned();
    for (standing, colour) in [
        (StepStanding::Done, Green),
        (StepStanding::Running, Blue),
        (StepStanding::Failed, Red),
    ] {
        let style = colour.on_default().bold();
        text = text.replace(
            standing.mark(),
            &format!("{style}{}{style:#}", standing.mark()),
        );
    }
    text
}
