//! `lope tokens …`: who may use a server, and what for.

use clap::Subcommand;
use lope::describe;
use lope::stores::CreateStore;
use lope::tokens::{Right, TokenError, TokenRecord};
use serde_json::json;

use crate::error::{CliError, CliResult, Exit};
use crate::home::Settings;
use crate::output::Output;
use crate::table::{Column, Table};

#[derive(Debug, Subcommand)]
pub(crate) enum TokensCommand {
    /// Make a token; it is shown once
    Add {
        /// What it is for, to know it again by
        name: String,
        /// read, act (start and steer) or admin (deploy, delete, look after the store)
        #[arg(long, default_value = "act")]
        right: Right,
    },
    /// List tokens by name
    List,
    /// Take a token away, by its name or id; it opens nothing from then on
    Revoke { name: String },
}

pub(crate) async fn run(
    command: TokensCommand,
    settings: &Settings,
    output: Output,
) -> CliResult<Exit> {
    let client = match command {
        TokensCommand::Add { .. } => {
            let create = CreateStore::IfMissing;
            settings.open_lasting("the token", create).await?
        }
        TokensCommand::List | TokensCommand::Revoke { .. } => {
            settings.open_to_look("the token").await?
        }
    };
    match command {
        TokensCommand::Add { name, right } => {
            let fresh = client.add_token(&name, right).await?;
            let mut value = describe::token(&fresh.record);
            value["token"] = json!(fresh.text);
            output.document(&value, &fresh.text);
        }
        TokensCommand::List => {
            let all = client.tokens().await?;
            output.result(&all.iter().map(describe::token).collect(), &text(&all));
        }
        TokensCommand::Revoke { name } => {
            let revoked = client.revoke_token(&name).await?.ok_or_else(|| {
                CliError::new(Exit::Failed, format!("there is no token '{name}'"))
                    .hint("'lope tokens list' shows what there is")
            })?;
            output.result(
                &describe::token(&revoked),
                &format!("{} revoked", revoked.name),
            );
        }
    }
    client.close().await?;
    Ok(Exit::Done)
}

fn text(all: &[TokenRecord]) -> String {
    let mut table = Table::new([
        Column::cut("NAME"),
        Column::whole("RIGHT"),
        Column::whole("ID"),
        Column::whole("ADDED"),
    ]);
    for token in all {
        table.row(vec![
            token.name.clone(),
            token.right.to_string(),
            token.id.clone(),
            token.added_at.to_string(),
        ]);
    }
    table.text_or("no tokens")
}

impl From<TokenError> for CliError {
    fn from(error: TokenError) -> Self {
        let exit = match &error {
            TokenError::Store(store) => return store.clone().into(),
            TokenError::BadName => Exit::Usage,
            TokenError::NameTaken(_) | TokenError::TooMany => Exit::Refused,
            TokenError::NoRandomness(_) => Exit::Bug,
        };
        Self::new(exit, error.to_string())
    }
}
