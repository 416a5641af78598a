//! Can a message be sent at all? What `send` names and carries is judged before it goes out, so
//! that a step that cannot be done fails, and nothing else does.
//!
//! Whether there is a run of this id, or anybody reads this mailbox, is not known here.

use lope_definition::Recipient;
use lope_model::failure::kind;
use lope_model::{Failure, RunId, Timestamp, Value, limit};

use super::effect::Send;
use super::weight::weight;

/// No text of a value is longer than so many times its weight.
const TEXT_PER_WEIGHT: usize = 8;

/// What is wrong with a message, as the failure of its step.
pub(crate) fn validate(send: &Send) -> Result<(), Failure> {
    match send.to {
        Recipient::Run => signal(send),
        Recipient::Mailbox => message(send),
    }
}

fn signal(send: &Send) -> Result<(), Failure> {
    if send.target.parse::<RunId>().is_err() {
        return Err(Failure::new(
            kind::BAD_RECIPIENT,
            format!("'{}' is not the id of a run", send.target),
        ));
    }
    match send.body.get("signal") {
        Some(Value::Str(name)) if !name.is_empty() && name.len() <= limit::NAME_MAX => {}
        Some(Value::Str(name)) => {
            let message = format!(
                "the name of a signal has 1 to {} bytes, not {}",
                limit::NAME_MAX,
                name.len()
            );
            return Err(bad(message));
        }
        Some(other) => {
            return Err(bad(format!(
                "the name of a signal must be a text, not {}",
                other.kind()
            )));
        }
        None => return Err(bad("the signal has no name".to_owned())),
    }
    bounded(
        "the value of the signal",
        send.body.get("value").map_or(0, weight),
    )
}

fn message(send: &Send) -> Result<(), Failure> {
    if !send.target.parse::<i64>().is_ok_and(|worker| worker >= 0) {
        let message = format!(
            "'{}' is not a mailbox: mailboxes are numbers from 0 to {}",
            send.target,
            i64::MAX
        );
        return Err(Failure::new(kind::BAD_RECIPIENT, message));
    }
    let body = &send.body;
    match body.get("kind") {
        None | Some(Value::Null) => {}
        Some(Value::Str(kind)) if matches!(&**kind, "command" | "event") => {}
        Some(other) => {
            return Err(bad(format!(
                "{other} is no kind of message: command, event"
            )));
        }
    }
    match body.get("id").map_or(0, text_length) {
        length if length <= limit::MESSAGE_ID_MAX => {}
        length => {
            let most = limit::MESSAGE_ID_MAX;
            return Err(Failure::new(
                kind::LIMIT,
                format!("the message's id has {length} bytes, more than {most}"),
            ));
        }
    }
    body.get("at").map_or(Ok(()), due)?;
    bounded(
        "the payload of the message",
        body.get("payload").map_or(0, payload_length),
    )
}

/// A time that a message may be due at: as text, in milliseconds, or tagged.
fn due(at: &Value) -> Result<(), Failure> {
    let time = match at {
        Value::Null => return Ok(()),
        Value::Str(text) => text.parse().ok(),
        Value::Int(millis) => Some(Timestamp::from_millis(*millis)),
        Value::Tag(tag) => tag.value.as_int().map(Timestamp::from_millis),
        Value::Bool(_) | Value::Float(_) | Value::Bytes(_) | Value::List(_) | Value::Map(_) => None,
    };
    match time {
        Some(time) if time >= Timestamp::EPOCH => Ok(()),
        Some(time) => Err(bad(format!(
            "a message cannot be due at {time}, before 1970"
        ))),
        None => Err(bad(format!(
            "{at} is not a time at which a message may be due"
        ))),
    }
}

/// Text and bytes go as they are, everything else as text.
fn payload_length(payload: &Value) -> usize {
    match payload {
        Value::Str(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        other => text_length(other),
    }
}

/// How long the text of a value is, or a little less than nothing that matters if it is small.
fn text_length(value: &Value) -> usize {
    match value {
        Value::Null => 0,
        Value::Str(text) => text.len(),
        other if weight(other).saturating_mul(TEXT_PER_WEIGHT) <= limit::MESSAGE_ID_MAX => 0,
        other => other.to_string().len(),
    }
}

fn bounded(what: &str, length: usize) -> Result<(), Failure> {
    if length <= limit::MESSAGE_MAX {
        return Ok(());
    }
    Err(Failure::new(
        kind::LIMIT,
        format!(
            "{what} has {length} bytes, more than {} are allowed",
            limit::MESSAGE_MAX
        ),
    ))
}

fn bad(message: String) -> Failure {
    Failure::new(kind::BAD_MESSAGE, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(to: Recipient, target: &str, body: Value) -> Option<(String, String)> {
        let send = Send {
            execution: "s".into(),
            to,
            target: target.into(),
            body,
        };
        validate(&send)
            .err()
            .map(|failure| (failure.kind.to_string(), failure.message))
    }

    fn to_mailbox(target: &str, fields: &[(&str, Value)]) -> Option<(String, String)> {
        refusal(
            Recipient::Mailbox,
            target,
            Value::map(fields.iter().cloned()),
        )
    }

    #[test]
    fn what_can_be_sent_passes() {
        let large = Value::str("x".repeat(limit::MESSAGE_MAX));
        assert_eq!(
            to_mailbox(
                "7",
                &[("payload", large.clone()), ("kind", Value::from("event"))]
            ),
            None
        );
        assert_eq!(
            to_mailbox(
                "0",
                &[
                    ("payload", Value::Null),
                    ("at", Value::from("2030-01-01T00:00:00Z"))
                ]
            ),
            None
        );
        assert_eq!(
            to_mailbox(
                "7",
                &[
                    ("payload", Value::Int(1)),
                    ("id", Value::Int(9)),
                    ("at", Value::Int(5))
                ]
            ),
            None
        );
        let run = RunId::from_bytes([1; 16]).to_string();
        let signal = Value::map([("signal", Value::from("go")), ("value", large)]);
        assert_eq!(
            refusal(
                Recipient::Run,
                &run,
                Value::map([("signal", Value::from("go"))])
            ),
            None
        );
        assert_eq!(
            refusal(Recipient::Run, &run, signal)
                .map(|(kind, _)| kind)
                .as_deref(),
            Some("Limit")
        );
    }

    #[test]
    fn what_cannot_be_sent_is_named() {
        let told = |refused: Option<(String, String)>| {
            refused
                .map(|(kind, message)| format!("{kind}: {message}"))
                .unwrap()
        };
        let long = Value::str("x".repeat(limit::MESSAGE_ID_MAX + 1));
        let large = Value::list(vec![Value::str("\u{1}".repeat(limit::MESSAGE_MAX / 4))]);
        let payload = ("payload", Value::Null);
        for (target, fields, words) in [
            (
                "warehouse",
                vec![],
                "BadRecipient: 'warehouse' is not a mailbox: mailboxes are numbers from 0",
            ),
            ("-1", vec![], "BadRecipient: '-1' is not a mailbox"),
            (
                "7",
                vec![("kind", Value::from("letter"))],
                "BadMessage: \"letter\" is no kind of message: command, event",
            ),
            (
                "7",
                vec![("at", Value::from("soon"))],
                "BadMessage: \"soon\" is not a time at which a message may be due",
            ),
            (
                "7",
                vec![("at", Value::Int(-5))],
                "BadMessage: a message cannot be due at 1969-12-31",
            ),
            (
                "7",
                vec![("id", long)],
                "Limit: the message's id has 1001 bytes, more than 1000",
            ),
            (
                "7",
                vec![("payload", large)],
                "Limit: the payload of the message has ",
            ),
        ] {
            let fields: Vec<_> = [payload.clone()].into_iter().chain(fields).collect();
            let refused = told(to_mailbox(target, &fields));
            assert!(refused.starts_with(words), "{refused}");
        }
        let to_run = |target: &str, body| told(refusal(Recipient::Run, target, body));
        let run = RunId::from_bytes([1; 16]).to_string();
        let go = Value::map([("signal", Value::from("go"))]);
        assert_eq!(
            to_run("not-an-id", go),
            "BadRecipient: 'not-an-id' is not the id of a run"
        );
        assert_eq!(
            to_run(&run, Value::map([("signal", Value::Int(1))])),
            "BadMessage: the name of a signal must be a text, not int"
        );
        assert_eq!(
            to_run(&run, Value::map::<&str>([])),
            "BadMessage: the signal has no name"
        );
        let long = Value::map([("signal", Value::str("s".repeat(201)))]);
        assert_eq!(
            to_run(&run, long),
            "BadMessage: the name of a signal has 1 to 200 bytes, not 201"
        );
    }
}
