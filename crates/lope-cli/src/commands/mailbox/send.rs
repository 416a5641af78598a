//! `lope mailbox send`: a message into an inbox, now or at a time.

use std::io::Read;

use clap::{Args, ValueEnum};
use lope::mailbox::frame::{Flags, Message, MessageKind};
use lope::mailbox::key::WorkerId;
use lope_model::Timestamp;
use serde_json::json;

use super::Post;
use crate::error::{CliError, CliResult, Exit};
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct SendArgs {
    /// Whose inbox: a number from 0
    #[arg(allow_negative_numbers = true)]
    worker: WorkerId,
    /// What it says: text, @FILE, or - for standard input
    #[arg(long, value_name = "TEXT|@FILE|-", allow_hyphen_values = true)]
    payload: String,
    /// Its id; a fresh one if absent
    #[arg(long)]
    id: Option<String>,
    #[arg(long, value_enum, default_value_t = Kind::Command)]
    kind: Kind,
    /// A second message with the same id is acknowledged without being handled (for a day)
    #[arg(long)]
    dedupe: bool,
    /// Before others of the same batch
    #[arg(long)]
    priority: bool,
    /// Deliver it at this time (RFC 3339)
    #[arg(long, value_name = "TIME")]
    at: Option<String>,
    /// The worker that gets replies and acknowledgements
    #[arg(long, value_name = "WORKER", allow_negative_numbers = true)]
    from: Option<WorkerId>,
    /// Tell the sender when it is handled or given up; needs --from
    #[arg(long, requires = "from")]
    ack: bool,
    /// A trace id that replies carry on
    #[arg(long, value_name = "ID")]
    trace: Option<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Kind {
    Command,
    Event,
}

/// A message that was read whole, before any store was opened.
pub(super) struct Letter {
    args: SendArgs,
    id: String,
    payload: Vec<u8>,
    at: Option<Timestamp>,
}

pub(super) fn read(args: SendArgs) -> CliResult<Letter> {
    let at = args.at.as_deref().map(str::parse).transpose();
    let at = at.map_err(|error: lope_model::time::BadTimestamp| CliError::usage(error.to_string()))?;
    let payload = payload(&args.payload)?;
    let id = args.id.clone().unwrap_or_else(|| uuid::Uuid::now_v7().to_string());
    Ok(Letter { args, id, payload, at })
}

fn payload(said: &str) -> CliResult<Vec<u8>> {
    if said == "-" {
        let mut bytes = Vec::new();
        let read = std::io::stdin().read_to_end(&mut bytes);
        read.map_err(|error| CliError::usage(format!("standard input: {error}")))?;
        return Ok(bytes);
    }
    match said.strip_prefix('@') {
        Some(file) => std::fs::read(file).map_err(|error| CliError::usage(format!("{file}: {error}"))),
        None => Ok(said.as_bytes().to_vec()),
    }
}

impl Letter {
    fn message(&self) -> Message<'_> {
        let kind = match self.args.kind {
            Kind::Command => MessageKind::Command,
            Kind::Event => MessageKind::Event,
        };
        let plain = Message::new(kind, self.args.worker.number(), self.id.as_bytes(), &self.payload);
        let flags = plain.flags.with(Flags::DEDUPE, self.args.dedupe).with(Flags::HIGH_PRIORITY, self.args.priority);
        Message {
            flags: flags.with(Flags::REQUIRES_ACK, self.args.ack),
            from_worker: self.args.from.map(WorkerId::number),
            trace: self.args.trace.as_deref().map(str::as_bytes),
            ..plain
        }
    }
}

pub(super) async fn run(letter: &Letter, post: &Post, output: Output) -> CliResult<Exit> {
    let message = letter.message();
    let sent = match letter.at {
        None => post.mailbox.send(&message).await?,
        Some(due) => post.mailbox.send_at(&message, due).await?,
    };
    let due = sent.due.map(|due| due.to_string());
    let value = json!({
        "worker": sent.worker.number(),
        "seq": sent.seq,
        "message_id": letter.id,
        "kind": message.kind.name(),
        "due": due,
    });
    let when = due.map(|due| format!(", due {due}")).unwrap_or_default();
    output.result(&value, &format!("{} is number {} of worker {}{when}", letter.id, sent.seq, sent.worker));
    Ok(Exit::Done)
}
