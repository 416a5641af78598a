//! Messages of workflows to mailboxes: a `send` step becomes the row of an inbox, or of a timer.
//!
//! `send: {mailbox: WORKER, payload, kind, id, dedupe, priority, at}`. A payload that is text or
//! bytes goes as it is, everything else as JSON. Without an id of the user's the id is that of the
//! run and the execution, so that a message that is somehow sent twice is handled once.

use lope_engine::mailbox_send::OutgoingMessage;
use lope_mailbox::frame::{Flags, Message, MessageKind};
use lope_mailbox::key::WorkerId;
use lope_mailbox::message::delivery;
use lope_model::{Digest, Timestamp, Value};
use lope_store::tables::{Append, Write};

/// The row that delivers a message, or what is wrong with it.
pub(crate) fn encode(outgoing: OutgoingMessage<'_>) -> Result<Append, String> {
    let body = &outgoing.send.body;
    let worker: WorkerId = outgoing
        .send
        .target
        .parse()
        .map_err(|error| format!("{error}"))?;
    let kind = match body.get("kind").and_then(Value::as_str) {
        None | Some("command") => MessageKind::Command,
        Some("event") => MessageKind::Event,
        Some(other) => return Err(format!("'{other}' is no kind of message: command, event")),
    };
    let id = id(&outgoing);
    let payload = payload(body.get("payload").unwrap_or(&Value::Null));
    let mut message = Message::new(kind, worker.number(), id.as_bytes(), &payload);
    if body.get("id").is_none_or(Value::is_null) || is_set(body, "dedupe") {
        message.flags = message.flags.with(Flags::DEDUPE, true);
    }
    message.flags = message
        .flags
        .with(Flags::HIGH_PRIORITY, is_set(body, "priority"));
    let due = due(body.get("at"))?;
    match delivery(&message, due).map_err(|error| error.to_string())? {
        Write::Append {
            table,
            prefix,
            sequence,
            value,
        } => Ok(Append {
            table,
            prefix,
            sequence,
            value,
        }),
        Write::Put(..) | Write::Create(..) | Write::Delete(_) => {
            Err("a delivery is a new row".to_owned())
        }
    }
}

/// The user's id, or one made of run and execution; a long one is cut to its digest.
fn id(outgoing: &OutgoingMessage<'_>) -> String {
    match outgoing.send.body.get("id") {
        Some(Value::Str(id)) => id.to_string(),
        Some(Value::Null) | None => {
            let id = format!("{}/{}", outgoing.run, outgoing.send.execution);
            if id.len() <= lope_mailbox::limit::ID_MAX {
                id
            } else {
                format!("{}/{}", outgoing.run, Digest::of(id.as_bytes()))
            }
        }
        Some(other) => other.to_string(),
    }
}

fn payload(value: &Value) -> Vec<u8> {
    match value {
        Value::Str(text) => text.as_bytes().to_vec(),
        Value::Bytes(bytes) => bytes.to_vec(),
        Value::Null
        | Value::Bool(_)
        | Value::Int(_)
        | Value::Float(_)
        | Value::List(_)
        | Value::Map(_)
        | Value::Tag(_) => value.to_string().into_bytes(),
    }
}

fn is_set(body: &Value, name: &str) -> bool {
    matches!(body.get(name), Some(Value::Bool(true)))
}

/// A time as text or in milliseconds.
fn due(at: Option<&Value>) -> Result<Option<Timestamp>, String> {
    match at {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Str(text)) => text.parse().map(Some).map_err(|error| format!("{error}")),
        Some(Value::Int(millis)) => Ok(Some(Timestamp::from_millis(*millis))),
        Some(Value::Tag(tag)) if let Some(millis) = tag.value.as_int() => {
            Ok(Some(Timestamp::from_millis(millis)))
        }
        Some(other) => Err(format!("{other} is not a time")),
    }
}

#[cfg(test)]
mod tests {
    use lope_definition::Recipient;
    use lope_flow::law::Send;
    use lope_model::RunId;
    use lope_store::tables::TableId;

    use super::*;

    fn send(target: &str, body: Value) -> Send {
        Send {
            execution: "notify".into(),
            to: Recipient::Mailbox,
            target: target.into(),
            body,
        }
    }

    fn encoded(send: &Send) -> Result<Append, String> {
        encode(OutgoingMessage {
            run: RunId::from_bytes([1; 16]),
            send,
            at: Timestamp::EPOCH,
        })
    }

    #[test]
    fn a_message_carries_an_id_of_run_and_execution_and_is_handled_once() {
        let send = send(
            "7",
            Value::map([("payload", Value::map([("pick", Value::Int(17))]))]),
        );
        let append = encoded(&send).unwrap();
        let message = Message::decode(&append.value).unwrap();
        assert_eq!(
            (append.table, message.to_worker, message.payload),
            (TableId::INBOX, 7, br#"{"pick":17}"#.as_slice())
        );
        assert!(message.id.ends_with(b"/notify") && message.flags.has(Flags::DEDUPE));
        assert_eq!(
            encoded(&send).unwrap(),
            append,
            "the same however often it is folded"
        );
    }

    #[test]
    fn a_due_time_makes_a_timer_and_what_cannot_be_sent_is_told() {
        let at = Value::map([
            ("payload", Value::from("hi")),
            ("at", Value::from("2030-01-01T00:00:00Z")),
        ]);
        assert_eq!(encoded(&send("7", at)).unwrap().table, TableId::TIMERS);
        let bad = encoded(&send("warehouse", Value::map([("payload", Value::Null)]))).unwrap_err();
        assert!(bad.contains("warehouse"), "{bad}");
        let kind = Value::map([("payload", Value::Null), ("kind", Value::from("outgoing"))]);
        assert!(encoded(&send("7", kind)).is_err());
    }
}
