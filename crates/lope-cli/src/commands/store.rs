//! `lope store …`: look after the store.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use lope::Client;
use lope::stores::Finding;
use lope::stores::StoreError;
use lope::stores::{self, CreateStore, StoreUrl};
use lope::workers::Logs;
use lope_model::RunId;
use lope_remote::{CommandCall, caller};
use serde_json::json;

use super::shown::OTHER_FILE;
use crate::error::{CliError, CliResult, Exit};
use crate::home::Settings;
use crate::output::Output;

#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Prove the store sound: schema, marker, journal gaps, orphaned leases; exit 1 if it is not
    Check,
    /// Create the store, or bring it to the schema of this program
    Migrate {
        /// Say what would happen and change nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Print the schema as SQL
    Schema,
    /// Copy the store, while it is in use, into a new file
    Backup {
        /// The file to write; it must not exist
        file: PathBuf,
    },
    /// Copy everything, live runs included, into another store, which must be empty
    Copy(super::copy::CopyArgs),
    /// Delete one run that nobody works on, ended or not, also one that is damaged
    RemoveRun {
        /// The whole id of the run
        id: String,
    },
    /// Delete runs that have ended, with all that belongs to them
    Prune(super::prune::PruneArgs),
}

pub(crate) async fn run(
    command: StoreCommand,
    settings: &Settings,
    output: Output,
) -> CliResult<Exit> {
    let url = &settings.store;
    match command {
        StoreCommand::Check => check(settings, output).await,
        StoreCommand::Migrate { dry_run } => migrate(url, dry_run, output).await,
        StoreCommand::Schema => schema(settings, output).await,
        StoreCommand::Copy(args) => super::copy::run(args, output).await,
        StoreCommand::Prune(args) => super::prune::run(args, settings, output).await,
        StoreCommand::RemoveRun { id } => remove_run(settings, &id, output).await,
        StoreCommand::Backup { file } => backup(settings, &file, output).await,
    }
}

async fn open(settings: &Settings) -> CliResult<Client> {
    Ok(settings.open(CreateStore::Never).await?)
}

async fn check(settings: &Settings, output: Output) -> CliResult<Exit> {
    let url = &settings.store;
    let client = open(settings).await?;
    let findings = client.check().await?;
    let sound = findings.is_empty();
    let listed: Vec<_> = findings
        .iter()
        .map(|f| json!({ "rule": f.rule, "message": f.message, "hint": f.hint }))
        .collect();
    let value = json!({ "store": url.to_string(), "sound": sound, "findings": listed });
    output.result(&value, &report(url, &findings));
    client.close().await?;
    Ok(if sound { Exit::Done } else { Exit::Failed })
}

fn report(url: &StoreUrl, findings: &[Finding]) -> String {
    if findings.is_empty() {
        return format!("{url} is sound");
    }
    let lines = findings
        .iter()
        .map(|f| format!("  {}: {}\n    hint: {}", f.rule, f.message, f.hint));
    format!(
        "{url} is not sound\n{}",
        lines.collect::<Vec<_>>().join("\n")
    )
}

async fn migrate(url: &StoreUrl, dry_run: bool, output: Output) -> CliResult<Exit> {
    let migrated = if dry_run {
        stores::plan_migration(url).await?
    } else {
        stores::migrate(url).await?
    };
    let value = json!({ "store": url.to_string(), "from": migrated.from, "to": migrated.to, "dry_run": dry_run });
    let text = match (migrated.from, migrated.to) {
        (from, to) if from == to => format!("{url} is at schema version {to} already"),
        (from, to) if dry_run => format!("{url} would go from schema version {from} to {to}"),
        (from, to) => format!("{url} went from schema version {from} to {to}"),
    };
    output.result(&value, &text);
    Ok(Exit::Done)
}

async fn schema(settings: &Settings, output: Output) -> CliResult<Exit> {
    let url = &settings.store;
    let client = open(settings).await?;
    let text = client.schema().await?;
    output.document(&json!({ "store": url.to_string(), "schema": text }), &text);
    client.close().await?;
    Ok(Exit::Done)
}

async fn backup(settings: &Settings, file: &Path, output: Output) -> CliResult<Exit> {
    let url = &settings.store;
    let bytes = match CommandCall::current() {
        Some(call) => hand_over(settings, file, &call).await?,
        None => write_backup(settings, file).await?,
    };
    let value = json!({ "store": url.to_string(), "file": file, "bytes": bytes });
    output.result(
        &value,
        &format!("{url} copied to {} ({bytes} bytes)", file.display()),
    );
    Ok(Exit::Done)
}

/// How many bytes the copy has.
async fn write_backup(settings: &Settings, file: &Path) -> CliResult<u64> {
    if file.exists() {
        let message = format!("{} exists already", file.display());
        return Err(CliError::new(Exit::Refused, message).hint(OTHER_FILE));
    }
    let folder = file.parent().filter(|it| !it.as_os_str().is_empty());
    if let Some(Err(error)) = folder.map(std::fs::metadata) {
        return Err(CliError::usage(format!("{}: {error}", file.display())));
    }
    let client = open(settings).await?;
    client.backup(file).await.map_err(no_backup)?;
    client.close().await?;
    let written = std::fs::metadata(file);
    Ok(written.map(|meta| meta.len()).unwrap_or_default())
}

/// The same for somebody elsewhere: the copy is made here, sent and taken away.
async fn hand_over(settings: &Settings, file: &Path, call: &CommandCall) -> CliResult<u64> {
    let name = format!("backup-{}.db", uuid::Uuid::now_v7());
    let own = OwnCopy(settings.home.join(name));
    let client = open(settings).await?;
    client.backup(&own.0).await.map_err(no_backup)?;
    let sent = caller::hand_over(call, &own.0, file, Some(OTHER_FILE)).await;
    sent.map_err(|error| CliError::new(Exit::Failed, format!("{}: {error}", own.0.display())))
}

/// A file that goes with its name, also when nobody waits for it any more.
struct OwnCopy(PathBuf);

impl Drop for OwnCopy {
    fn drop(&mut self) {
        // It may never have been made.
        let _ = std::fs::remove_file(&self.0);
    }
}

async fn remove_run(settings: &Settings, id: &str, output: Output) -> CliResult<Exit> {
    let url = &settings.store;
    let run: RunId = id.parse().map_err(|_| {
        CliError::usage(format!("'{id}' is not the id of a run"))
            .hint("a damaged run is named by its whole id: 'lope store check' shows it")
    })?;
    let client = open(settings).await?;
    let removed = client.remove_run(run).await;
    client.close().await?;
    match removed {
        Ok(true) => {}
        Ok(false) => {
            return Err(CliError::new(
                Exit::Failed,
                format!("there is no run {run}"),
            ));
        }
        Err(StoreError::Refused { message }) => {
            return Err(CliError::new(Exit::Refused, message));
        }
        Err(error) => return Err(error.into()),
    }
    Logs::at(settings.logs.clone()).remove(&[run]);
    let value = json!({ "store": url.to_string(), "run_id": run.to_string(), "removed": true });
    output.result(&value, &format!("run {run} is removed"));
    Ok(Exit::Done)
}

/// A store that leaves backups to other tools says which command makes one.
fn no_backup(error: StoreError) -> CliError {
    let StoreError::Refused { message } = &error else {
        return error.into();
    };
    match message.split_once("; run: ") {
        Some((message, command)) => {
            CliError::new(Exit::Refused, message).hint(format!("run: {command}"))
        }
        None => error.into(),
    }
}
