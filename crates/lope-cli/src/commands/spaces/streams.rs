//! `lope streams send`: an event to a stream of a space.

use clap::Subcommand;
use lope::reactive::{Arrival, StreamEvent};
use serde_json::json;

use super::{OpenSpaces, TypedCell, address, done, value_of};
use crate::error::{CliResult, Exit};
use crate::home::Settings;
use crate::output::{Output, remark};

#[derive(Debug, Subcommand)]
pub(crate) enum StreamsCommand {
    /// Send an event to a stream, and wait until it has taken effect
    Send {
        /// SPACE/DOCUMENT/PATH of the stream
        #[arg(value_name = "STREAM")]
        stream: String,
        /// What is sent: JSON, @FILE, or - for standard input
        #[arg(
            value_name = "JSON|@FILE|-",
            default_value = "null",
            allow_hyphen_values = true
        )]
        event: String,
        /// Its id: an event that is sent again under its id takes effect once
        #[arg(long)]
        id: Option<String>,
        /// Do not wait until it has taken effect; whoever hosts the space takes it
        #[arg(long)]
        no_wait: bool,
    },
}

pub(crate) async fn run(
    command: StreamsCommand,
    settings: &Settings,
    output: Output,
) -> CliResult<Exit> {
    let StreamsCommand::Send {
        stream,
        event,
        id,
        no_wait,
    } = command;
    let at = address(&stream)?;
    let event = StreamEvent {
        id: id
            .unwrap_or_else(|| uuid::Uuid::now_v7().to_string())
            .into(),
        stream: at.clone(),
        payload: value_of(&event)?,
    };
    let opened = OpenSpaces::open(settings).await?;
    let exit = send(&opened, &stream, event, no_wait, output).await;
    let cell = TypedCell::new(&stream, &at);
    opened.close(cell.named(exit)).await
}

async fn send(
    opened: &OpenSpaces,
    named: &str,
    event: StreamEvent,
    no_wait: bool,
    output: Output,
) -> CliResult<Exit> {
    let space = event.stream.space.clone();
    let store = opened.spaces.space(&space);
    if !store.is_stream(&event.stream).await? {
        let said = format!("{named} is no stream now; waiting for one");
        remark(output, &said);
    }
    let id = event.id.to_string();
    let arrival = Arrival::Event(event);
    if no_wait {
        store.deliver(&arrival).await?;
        let told = json!({ "event": id, "outcome": null });
        output.result(&told, &format!("{id} sent"));
        return Ok(Exit::Done);
    }
    let receipt = opened.spaces.request(&space, &arrival).await?;
    done(&receipt)?;
    let told = json!({ "event": id, "outcome": receipt.outcome });
    output.result(&told, &format!("{id} {}", receipt.outcome));
    Ok(Exit::Done)
}
