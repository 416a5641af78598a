//! `lope mailbox send`: a message into an inbox, now or at a time.

use std::path::Path;

use clap::{Args, ValueEnum};
use lope::mailbox::frame::{Flags, Message, MessageKind};
use lope::mailbox::key::WorkerId;
use lope::mailbox::limit;
use lope_model::Timestamp;
use lope_remote::caller;
use serde_json::json;

use super::OpenMailbox;
use crate::clock::later;
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
    #[arg(long, value_enum, default_value_t = KindWord::Command)]
    kind: KindWord,
    /// A second message with the same id is acknowledged without being handled (for a day)
    #[arg(long)]
    dedupe: bool,
    /// Before others of the same batch
    #[arg(long)]
    priority: bool,
    /// Deliver it at this time: RFC 3339, or in how long (30s, 2h)
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
enum KindWord {
    Command,
    Event,
}

/// A message that was read whole, before any store was opened.
pub(super) struct MessageToSend {
    args: SendArgs,
    id: String,
    payload: Vec<u8>,
    at: Option<Timestamp>,
}

pub(super) fn read(args: SendArgs) -> CliResult<MessageToSend> {
    let at = args.at.as_deref().map(time).transpose()?;
    let payload = payload(&args.payload)?;
    let id = args
        .id
        .clone()
        .unwrap_or_else(|| uuid::Uuid::now_v7().to_string());
    Ok(MessageToSend {
        args,
        id,
        payload,
        at,
    })
}

fn time(said: &str) -> CliResult<Timestamp> {
    let at = later("--at", said)?;
    if at < Timestamp::EPOCH {
        let hint = "one that has passed is delivered at once";
        return Err(CliError::usage(format!(
            "--at {said}: the earliest time is 1970-01-01T00:00:00Z"
        ))
        .hint(hint));
    }
    Ok(at)
}

fn payload(said: &str) -> CliResult<Vec<u8>> {
    let most = limit::FRAME_MAX as u64;
    if said == "-" {
        return bounded(caller::read_stdin(most), "standard input");
    }
    match said.strip_prefix('@') {
        Some(name) => bounded(caller::read_file(Path::new(name), most), name),
        None => Ok(said.as_bytes().to_vec()),
    }
}

/// All of it, unless it is more than any message can hold: what never ends is not read for ever.
fn bounded(read: std::io::Result<Vec<u8>>, name: &str) -> CliResult<Vec<u8>> {
    let bytes = read.map_err(|error| CliError::usage(format!("{name}: {error}")))?;
    if bytes.len() > limit::FRAME_MAX {
        let hint = "send where it is, and keep the bytes elsewhere";
        let message = format!(
            "{name}: a message has at most {} bytes, and this is more",
            limit::FRAME_MAX
        );
        return Err(CliError::usage(message).hint(hint));
    }
    Ok(bytes)
}

impl MessageToSend {
    fn message(&self) -> Message<'_> {
        let kind = match self.args.kind {
            KindWord::Command => MessageKind::Command,
            KindWord::Event => MessageKind::Event,
        };
        let plain = Message::new(
            kind,
            self.args.worker.number(),
            self.id.as_bytes(),
            &self.payload,
        );
        let flags = plain
            .flags
            .with(Flags::DEDUPE, self.args.dedupe)
            .with(Flags::HIGH_PRIORITY, self.args.priority);
        Message {
            flags: flags.with(Flags::REQUIRES_ACK, self.args.ack),
            from_worker: self.args.from.map(WorkerId::number),
            trace: self.args.trace.as_deref().map(str::as_bytes),
            ..plain
        }
    }
}

pub(super) async fn run(
    message: &MessageToSend,
    opened: &OpenMailbox,
    output: Output,
) -> CliResult<Exit> {
    let frame = message.message();
    let sent = match message.at {
        None => opened.mailbox.send(&frame).await?,
        Some(due) => opened.mailbox.send_at(&frame, due).await?,
    };
    let due = sent.due.map(|due| due.to_string());
    let value = json!({
        "worker": sent.worker.number(),
        "seq": sent.seq,
        "message_id": message.id,
        "kind": frame.kind.name(),
        "due": due,
    });
    let when = due.map(|due| format!(", due {due}")).unwrap_or_default();
    output.result(
        &value,
        &format!(
            "{} is number {} of worker {}{when}",
            message.id, sent.seq, sent.worker
        ),
    );
    Ok(Exit::Done)
}
