//! `lope mailbox replay|drop`: dead letters back into their inbox, or away; messages and timers
//! away.

use clap::Args;
use lope::mailbox::MailboxError;
use lope::mailbox::key::{TimerKey, WorkerId};
use serde_json::json;

use super::OpenMailbox;
use crate::error::{CliResult, Exit};
use crate::output::{Output, counted};

#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// Whose: a number, or the name of a reactive space
    #[arg(allow_negative_numbers = true, value_parser = super::worker)]
    worker: WorkerId,
    /// The dead letter's number
    #[arg(required_unless_present = "all")]
    seq: Option<u64>,
    /// All of the worker's dead letters, oldest first
    #[arg(long, conflicts_with = "seq")]
    all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DropArgs {
    /// Whose: a number, or the name of a reactive space
    #[arg(allow_negative_numbers = true, value_parser = super::worker)]
    worker: WorkerId,
    /// Its number
    #[arg(required_unless_present = "all")]
    seq: Option<u64>,
    /// A message in the inbox, not a dead letter
    #[arg(long, conflicts_with_all = ["timer", "all"])]
    queued: bool,
    /// A timer, not a dead letter
    #[arg(long, conflicts_with = "all")]
    timer: bool,
    /// All of the worker's dead letters
    #[arg(long, conflicts_with = "seq")]
    all: bool,
}

pub(super) async fn replay(
    args: &ReplayArgs,
    opened: &OpenMailbox,
    output: Output,
) -> CliResult<Exit> {
    let worker = args.worker;
    match args.seq {
        Some(seq) => {
            let number = opened.mailbox.replay(worker, seq).await?;
            let value =
                json!({ "worker": worker.number(), "replayed": 1, "seq": seq, "new_seq": number });
            output.result(
                &value,
                &format!("dead letter {seq} is message {number} of worker {worker}"),
            );
        }
        None => {
            let replayed = opened.mailbox.replay_all(worker, usize::MAX).await?;
            let value = json!({ "worker": worker.number(), "replayed": replayed });
            let verb = if replayed == 1 { "is" } else { "are" };
            let letters = counted(replayed as u64, "dead letter");
            output.result(
                &value,
                &format!("{letters} {verb} in the inbox of worker {worker} again"),
            );
        }
    }
    Ok(Exit::Done)
}

pub(super) async fn drop(args: &DropArgs, opened: &OpenMailbox, output: Output) -> CliResult<Exit> {
    let worker = args.worker;
    let (what, dropped) = match args.seq {
        None => (
            "dead letter",
            opened.mailbox.drop_all_dead(worker, usize::MAX).await?,
        ),
        Some(seq) if args.queued => (
            "message",
            one(opened.mailbox.drop_message(worker, seq).await)?,
        ),
        Some(seq) if args.timer => ("timer", one(drop_timer(worker, seq, opened).await)?),
        Some(seq) => (
            "dead letter",
            one(opened.mailbox.drop_dead(worker, seq).await)?,
        ),
    };
    let value = json!({ "worker": worker.number(), "dropped": dropped, "seq": args.seq });
    let text = match args.seq {
        Some(seq) => format!("{what} {seq} of worker {worker} is gone"),
        None if dropped == 1 => format!("1 {what} of worker {worker} is gone"),
        None => format!("{dropped} {what}s of worker {worker} are gone"),
    };
    output.result(&value, &text);
    Ok(Exit::Done)
}

fn one(done: Result<(), MailboxError>) -> Result<usize, MailboxError> {
    done.map(|()| 1)
}

/// A timer is kept under its due time; its number is looked for.
async fn drop_timer(worker: WorkerId, seq: u64, opened: &OpenMailbox) -> Result<(), MailboxError> {
    let missing = || MailboxError::NotFound {
        what: "timer",
        worker,
        seq,
    };
    let timer = opened
        .mailbox
        .timer(worker, seq)
        .await?
        .ok_or_else(missing)?;
    let key = TimerKey::new(timer.due, timer.seq).map_err(|_| missing())?;
    opened.mailbox.cancel_timer(worker, key).await
}
