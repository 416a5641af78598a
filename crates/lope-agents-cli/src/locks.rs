//! `lope locks list|release`.

use clap::Subcommand;
use lope::agents::{BoardError, describe};
use serde_json::{Value as Json, json};

use crate::context::{AgentsContext, OpenBoard};
use crate::report::{CommandError, CommandReport, CommandResult};
use crate::table::{RuledTable, or_dash, short};

#[derive(Debug, Subcommand)]
pub enum LocksCommand {
    /// List locks: who works on what, until when
    List,
    /// Take a lock away
    Release {
        /// The task, or the beginning of its id
        task: String,
        /// Also from a holder that is at work: it writes nothing more
        #[arg(long)]
        force: bool,
    },
}

pub(crate) async fn run(command: LocksCommand, context: &AgentsContext) -> CommandResult {
    match command {
        LocksCommand::List => list(context).await,
        LocksCommand::Release { task, force } => release(&task, force, context).await,
    }
}

async fn list(context: &AgentsContext) -> CommandResult {
    let Some(OpenBoard { client, board }) = context.board_if_there().await? else {
        return Ok(CommandReport::new(json!([]), "no locks"));
    };
    let locks = board.locks().await?;
    client.close().await?;
    let columns = [
        "TASK", "RUNNER", "PROJECT", "SECTION", "EPOCH", "EXPIRES", "STATE",
    ];
    let mut table = RuledTable::new("LOCKS", &columns);
    for (lock, standing) in &locks {
        table.row(vec![
            short(&lock.task_id),
            short(&lock.runner_id),
            lock.project_path.clone(),
            or_dash(lock.section_id.as_deref()),
            lock.epoch.to_string(),
            lock.expires_at.to_string(),
            describe::lock_word(*standing).to_owned(),
        ]);
    }
    let values = locks
        .iter()
        .map(|(lock, stands)| describe::lock(lock, *stands));
    let value: Json = values.collect();
    let text = if locks.is_empty() {
        "no locks".to_owned()
    } else {
        table.text()
    };
    Ok(CommandReport::new(value, text))
}

async fn release(task: &str, force: bool, context: &AgentsContext) -> CommandResult {
    context.for_people()?;
    let OpenBoard { client, board } = context.board_with("task", task).await?;
    let released = board.release_lock(task, force).await;
    let lock = released.map_err(|error| match error {
        held @ BoardError::Refused(_) => CommandError::from(held)
            .hint("--force takes it away; its holder then writes nothing more"),
        other => other.into(),
    })?;
    client.close().await?;
    let line = format!(
        "released task {} from runner {}",
        lock.task_id, lock.runner_id
    );
    let value = json!({
        "taskId": lock.task_id.to_string(),
        "runnerId": lock.runner_id.to_string(),
        "epoch": lock.epoch,
    });
    Ok(CommandReport::new(value, line))
}
