//! `lope cells …`: what cells hold, what they are changed to, where their links lead, what they
//! held before.

use clap::Subcommand;
use lope::reactive::link::links_of;
use lope::reactive::{CellAddress, Json, Link, SpaceAction};
use lope_remote::{LastTold, caller};
use serde_json::json;

use super::{OpenSpaces, TypedCell, address, naming, shown, tell, value_of};
use crate::error::{CliError, CliResult, Exit};
use crate::home::Settings;
use crate::output::{self, Output};
use crate::table::{Column, Table, width};

#[derive(Debug, Subcommand)]
pub(crate) enum CellsCommand {
    /// Print what a cell holds, links followed
    Get {
        /// SPACE/DOCUMENT/PATH
        #[arg(value_name = "CELL")]
        cell: String,
        /// As it is stored, no link followed
        #[arg(long)]
        raw: bool,
    },
    /// Change a cell, and wait until everything in its space that depends on it is up to date
    ///
    /// Other spaces that read the cell follow when somebody hosts them: at once under 'lope up',
    /// otherwise with the next command for them.
    Set {
        #[arg(value_name = "CELL")]
        cell: String,
        /// JSON, @FILE, or - for standard input
        #[arg(
            value_name = "JSON|@FILE|-",
            required_unless_present = "remove",
            allow_hyphen_values = true
        )]
        value: Option<String>,
        /// Append the value to the list in the cell
        #[arg(long, conflicts_with_all = ["add", "remove"])]
        append: bool,
        /// Add the value to the number in the cell
        #[arg(long, conflicts_with = "remove")]
        add: bool,
        /// Take away what the cell holds; elements of a list behind it move up
        #[arg(long, conflicts_with = "value")]
        remove: bool,
    },
    /// Print what a cell holds whenever that changes
    Watch {
        #[arg(value_name = "CELL")]
        cell: String,
        /// End after so many values
        #[arg(long, value_name = "N")]
        count: Option<u64>,
    },
    /// List the links in a cell and where they lead
    Links {
        #[arg(value_name = "CELL")]
        cell: String,
    },
    /// List what a cell held, links followed, newest last, and who changed it
    History {
        #[arg(value_name = "CELL")]
        cell: String,
        #[arg(long, default_value_t = 50, value_name = "N")]
        limit: usize,
    },
}

pub(crate) async fn run(
    command: CellsCommand,
    settings: &Settings,
    output: Output,
) -> CliResult<Exit> {
    let (CellsCommand::Get { cell, .. }
    | CellsCommand::Set { cell, .. }
    | CellsCommand::Watch { cell, .. }
    | CellsCommand::Links { cell }
    | CellsCommand::History { cell, .. }) = &command;
    let at = address(cell)?;
    let named = cell.clone();
    let cell = TypedCell::new(&named, &at);
    let opened = match change(&command, &at)? {
        Some(_) => OpenSpaces::open(settings).await?,
        None => OpenSpaces::open_read_only(settings).await?,
    };
    let exit = match &command {
        CellsCommand::Get { raw, .. } => get(&opened, &at, *raw, output).await,
        CellsCommand::Set { .. } => set(&opened, &command, cell, output).await,
        CellsCommand::Watch { count, .. } => watch(&opened, &at, *count, output).await,
        CellsCommand::Links { .. } => links(&opened, &at, output).await,
        CellsCommand::History { limit, .. } => history(&opened, &at, *limit, output).await,
    };
    opened.close(cell.named(exit)).await
}

/// Has a cell changed by the space that it is in: where redirects lead into another space, by that.
async fn set(
    opened: &OpenSpaces,
    command: &CellsCommand,
    cell: TypedCell<'_>,
    output: Output,
) -> CliResult<Exit> {
    let TypedCell { text: named, at } = cell;
    let is_link = matches!(change(command, at)?, Some(SpaceAction::Set { value: Some(value), .. }) if Link::from_json(&value).is_some());
    let target = if is_link {
        at.clone()
    } else {
        opened.spaces.space(&at.space).written_at(at).await?
    };
    let is_elsewhere = target.space != at.space;
    let at = if is_elsewhere { &target } else { at };
    let name = naming(named, at).filter(|_| !is_elsewhere);
    let change = change(command, at)?;
    let is_gone = matches!(change, Some(SpaceAction::Remove { .. }));
    // First, so that what is refused is told by its name.
    let actions = name.into_iter().chain(change);
    let action = SpaceAction::All(actions.collect());
    opened.ask(named, &at.space, action).await?;
    let done = if is_gone { "removed" } else { "set" };
    tell(output, "cell", at, &format!("{named} is {done}"));
    Ok(Exit::Done)
}

/// What `set` asks for.
fn change(command: &CellsCommand, at: &CellAddress) -> CliResult<Option<SpaceAction>> {
    let CellsCommand::Set {
        value, append, add, ..
    } = command
    else {
        return Ok(None);
    };
    let at = at.clone();
    let value = value.as_deref().map(value_of).transpose()?;
    Ok(Some(match value {
        Some(value) if *append => SpaceAction::Append {
            at,
            elements: vec![value],
        },
        Some(by) if *add => {
            let Some(number) = by.as_number() else {
                return Err(CliError::usage(format!("{by} is no number to add")));
            };
            if number.as_int().is_none() && number.is_integer() {
                let message = format!("{by} is too large to add: whole numbers have 64 bits");
                return Err(CliError::usage(message));
            }
            SpaceAction::Increment { at, by }
        }
        value @ Some(_) => SpaceAction::Set { at, value },
        None => SpaceAction::Remove { at },
    }))
}

async fn get(opened: &OpenSpaces, at: &CellAddress, raw: bool, output: Output) -> CliResult<Exit> {
    let store = opened.spaces.space(&at.space);
    let value = if raw {
        store.stored(at).await?
    } else {
        store.read(at).await?
    };
    let value = value.ok_or_else(|| nothing(at))?;
    output.document(&shown(&value), &pretty(&value));
    Ok(Exit::Done)
}

fn nothing(at: &CellAddress) -> CliError {
    let error = CliError::new(Exit::Failed, format!("there is nothing at {at}"));
    error.hint("'lope recipes list' shows what runs")
}

fn pretty(value: &Json) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

async fn watch(
    opened: &OpenSpaces,
    at: &CellAddress,
    count: Option<u64>,
    output: Output,
) -> CliResult<Exit> {
    let store = opened.spaces.space(&at.space);
    let mut changes = opened.spaces.watch();
    let before = caller::last_told();
    let mut told = before.as_ref().map_or(0, |before| before.count);
    let mut last = before.map(|before| before.digest);
    loop {
        if count.is_some_and(|count| told >= count) {
            return Ok(Exit::Done);
        }
        let value = store.read(at).await?;
        let text = match &value {
            value if output.json => {
                let plain = value.as_ref().map(shown);
                json!({ "cell": at.to_string(), "value": plain }).to_string()
            }
            Some(value) => value.to_string(),
            None => "undefined".to_owned(),
        };
        let digest = LastTold::digest_of(&text);
        if last.as_ref() != Some(&digest) {
            output::text(&text);
            last = Some(digest);
            told += 1;
            continue;
        }
        // A hint may be lost: look now and then.
        let _ = tokio::time::timeout(std::time::Duration::from_secs(1), changes.changed()).await;
    }
}

async fn links(opened: &OpenSpaces, at: &CellAddress, output: Output) -> CliResult<Exit> {
    let value = opened.spaces.space(&at.space).stored(at).await?;
    let value = value.ok_or_else(|| nothing(at))?;
    let found = links_of(&value, at);
    let mut lines = Vec::new();
    let titles = ["CELL", "KIND"].map(Column::whole);
    let mut table = Table::new(titles.into_iter().chain([Column::cut("TARGET")]));
    let spaces = found.iter().map(|(_, _, to)| to.space.clone()).collect();
    let labels = opened.spaces.space(&at.space).labels(&spaces).await?;
    for (from, link, to) in &found {
        lines.push(
            json!({ "cell": from.to_string(), "target": to.to_string(), "redirect": link.redirect }),
        );
        let kind = if link.redirect { "redirect" } else { "link" };
        table.row(vec![
            from.path.to_string(),
            kind.to_owned(),
            labels.cell(to),
        ]);
    }
    output.document(&json!(lines), &table.lines(width()).join("\n"));
    Ok(Exit::Done)
}

async fn history(
    opened: &OpenSpaces,
    at: &CellAddress,
    limit: usize,
    output: Output,
) -> CliResult<Exit> {
    // What a link leads to has the values; the link itself has none.
    let at = &opened.spaces.space(&at.space).leads_to(at).await?;
    let all = opened.spaces.space(&at.space).history().await?;
    let is_meant =
        |change: &CellAddress| change.is_same_document(at) && change.path.overlaps(&at.path);
    let mut meant: Vec<_> = all
        .into_iter()
        .filter(|entry| is_meant(&entry.at))
        .collect();
    let meant = meant.split_off(meant.len().saturating_sub(limit));
    let lines: Vec<serde_json::Value> = meant
        .iter()
        .map(|entry| {
            json!({
                "time": entry.time.to_string(),
                "cell": entry.at.to_string(),
                "value": entry.value.as_ref().map(shown),
                "left_out": entry.is_left_out,
                "by": entry.by,
            })
        })
        .collect();
    let titles = ["TIME", "PATH", "VALUE"].map(Column::whole);
    let mut table = Table::new(titles.into_iter().chain([Column::cut("BY")]));
    for entry in &meant {
        let value = match &entry.value {
            Some(value) => value.to_string(),
            None if entry.is_left_out => "(long)".to_owned(),
            None => "undefined".to_owned(),
        };
        table.row(vec![
            entry.time.to_string(),
            entry.at.path.to_string(),
            value,
            entry.by.clone(),
        ]);
    }
    output.document(&lines.into(), &table.lines(width()).join("\n"));
    Ok(Exit::Done)
}
