//! `lope recipes …`, `lope cells …`, `lope streams …`: reactive spaces from the command line.

mod cells;
mod graph;
mod recipes;
mod streams;

use lope::Client;
use lope::reactive::{
    Arrival, CellAddress, HostError, NOTHING_RUNS, PoolOptions, SpaceAction, SpaceClient,
    SpaceCommand, SpaceName, StoredReceipt, process, process_identity, wording,
};
use lope::stores::CreateStore;
use lope_model::value;
use serde_json::json;

pub(crate) use cells::CellsCommand;
pub(crate) use recipes::RecipesCommand;
pub(crate) use streams::StreamsCommand;

use super::workflow_file;
use crate::error::{CliError, CliResult, Exit};
use crate::home::Settings;
use crate::output::Output;

pub(crate) use cells::run as run_cells;
pub(crate) use recipes::run as run_recipes;
pub(crate) use streams::run as run_streams;

/// A store with its spaces.
struct OpenSpaces {
    client: Client,
    spaces: SpaceClient,
}

impl OpenSpaces {
    /// To change something: a store that is missing is made.
    async fn open(settings: &Settings) -> CliResult<Self> {
        Self::open_store(settings, CreateStore::IfMissing).await
    }

    /// To look: a store that is missing has no spaces.
    async fn open_read_only(settings: &Settings) -> CliResult<Self> {
        Self::open_store(settings, CreateStore::Never).await
    }

    async fn open_store(settings: &Settings, create: CreateStore) -> CliResult<Self> {
        let client = settings.open_lasting("every cell", create).await?;
        let spaces = client.space_client(pool_options(settings)).await?;
        Ok(Self { client, spaces })
    }

    /// Has the space of a cell do something, and waits until it is done. `named` is the cell as it
    /// was typed.
    async fn ask(&self, named: &str, space: &SpaceName, action: SpaceAction) -> CliResult<()> {
        let command = SpaceCommand {
            id: uuid::Uuid::now_v7().to_string().into(),
            action,
        };
        let arrival = Arrival::Command(command);
        let receipt = self.spaces.request(space, &arrival).await?;
        let failure = receipt.failure.as_ref();
        if failure.is_some_and(|failure| &*failure.kind == NOTHING_RUNS) {
            return Err(nothing_runs(named));
        }
        done(&receipt)
    }

    async fn close(&self, exit: CliResult<Exit>) -> CliResult<Exit> {
        let closed = self.client.close().await;
        let exit = exit?;
        closed?;
        Ok(exit)
    }
}

/// A cell, and how it was typed.
#[derive(Clone, Copy)]
struct TypedCell<'a> {
    text: &'a str,
    at: &'a CellAddress,
}

impl<'a> TypedCell<'a> {
    fn new(text: &'a str, at: &'a CellAddress) -> Self {
        Self { text, at }
    }

    /// A command's end; an error names the cell as it was typed.
    fn named<T>(self, done: CliResult<T>) -> CliResult<T> {
        let name = CellAddress::name_in(self.text).unwrap_or(self.at.id.as_str());
        done.map_err(|error| error.reworded(|said| said.replace(self.at.id.as_str(), name)))
    }
}

/// How spaces are hosted here.
pub(crate) fn pool_options(settings: &Settings) -> PoolOptions {
    PoolOptions {
        lease: settings.config.engine.lease,
        ..PoolOptions::new(process_identity())
    }
}

/// A receipt is good, or the command failed.
fn done(receipt: &StoredReceipt) -> CliResult<()> {
    if receipt.outcome == "handled" {
        return Ok(());
    }
    let why = match &receipt.failure {
        Some(failure) => wording::failure_text(&failure.kind, &failure.message),
        None => "nobody handled the stream: the event is with the dead letters".to_owned(),
    };
    Err(CliError::new(Exit::Failed, why))
}

fn nothing_runs(cell: &str) -> CliError {
    let error = CliError::new(Exit::Failed, format!("nothing runs at {cell}"));
    error.hint("'lope recipes list' shows what runs")
}

fn address(text: &str) -> CliResult<CellAddress> {
    process::parse_cell(text).map_err(|error| {
        CliError::usage(error.to_string()).hint("as in home/counter or home/counter/count")
    })
}

/// Gives the document of an address the name that was typed for it.
fn naming(text: &str, at: &CellAddress) -> Option<SpaceAction> {
    let name = process::given_name(text)?.to_owned();
    let at = at.clone();
    Some(SpaceAction::Name { at, name })
}

/// JSON, `@FILE`, or `-` for standard input.
fn value_of(said: &str) -> CliResult<lope::reactive::Json> {
    let read = workflow_file::input(Some(said))?;
    lope::reactive::Json::parse(&value::to_json(&read))
        .map_err(|error| CliError::usage(error.to_string()))
}

fn shown(value: &lope::reactive::Json) -> serde_json::Value {
    serde_json::to_value(value).unwrap_or_default()
}

fn tell(output: Output, what: &str, at: &CellAddress, text: &str) {
    output.result(&json!({ what: at.to_string() }), text);
}

impl From<HostError> for CliError {
    fn from(error: HostError) -> Self {
        match error {
            HostError::Store(error) => error.into(),
            HostError::Held { .. } | HostError::Lost => {
                Self::new(Exit::Refused, error.to_string()).hint("repeat the command")
            }
            HostError::Backlog { .. } => {
                Self::new(Exit::Refused, error.to_string()).hint("try again later")
            }
            HostError::OtherContent { .. } => {
                Self::new(Exit::Refused, error.to_string()).hint("give another --id")
            }
            HostError::Circle(_) => Self::new(Exit::Failed, error.to_string())
                .hint("'lope cells links' shows them, 'lope cells set --remove' takes one away"),
            HostError::TooManyDocuments | HostError::Beyond(_) => {
                let error = Self::new(Exit::Failed, error.to_string());
                error.hint("as in SPACE/NAME/KEY; 'lope cells get --raw' follows no links")
            }
            HostError::Message(_) => Self::usage(error.to_string()),
            HostError::Mailbox(error) => error.into(),
            HostError::Damaged(_) | HostError::Broken(_) => {
                Self::new(Exit::Failed, error.to_string()).hint("'lope store check' tells more")
            }
            HostError::Thread(_) => Self::new(Exit::Bug, error.to_string()),
        }
    }
}
