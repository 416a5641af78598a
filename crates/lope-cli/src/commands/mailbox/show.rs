//! Messages as commands print them: fields for scripts, rows for people.

use lope::mailbox::Leased;
use lope::mailbox::frame::{Flags, Message};
use lope_model::Moment;
use serde_json::{Map, Value as Json, json};

use crate::table::{Column, Table, width};

/// Longest payload that a row shows.
const SHOWN: usize = 48;

/// The fields of a message, or what is wrong with its frame.
pub(super) fn fields(frame: &[u8]) -> Map<String, Json> {
    let mut fields = Map::new();
    match Message::decode(frame) {
        Ok(message) => describe(&message, &mut fields),
        Err(fault) => {
            fields.insert("message_id".into(), Json::Null);
            fields.insert("fault".into(), fault.to_string().into());
            fields.insert("frame_hex".into(), hex(frame).into());
        }
    }
    fields
}

fn describe(message: &Message<'_>, fields: &mut Map<String, Json>) {
    fields.insert("message_id".into(), String::from_utf8_lossy(message.id).into());
    fields.insert("kind".into(), message.kind.name().into());
    fields.insert("flags".into(), json!(flags(message.flags)));
    fields.insert("from_worker".into(), json!(message.from_worker));
    fields.insert("trace_id".into(), json!(message.trace.map(String::from_utf8_lossy)));
    fields.insert("bytes".into(), message.payload.len().into());
    match std::str::from_utf8(message.payload) {
        Ok(text) => fields.insert("payload".into(), text.into()),
        Err(_) => fields.insert("payload_hex".into(), hex(message.payload).into()),
    };
}

fn flags(flags: Flags) -> Vec<&'static str> {
    let names = [
        (Flags::DURABLE, "durable"),
        (Flags::HIGH_PRIORITY, "priority"),
        (Flags::DEDUPE, "dedupe"),
        (Flags::REQUIRES_ACK, "ack"),
    ];
    names.into_iter().filter(|(flag, _)| flags.has(*flag)).map(|(_, name)| name).collect()
}

/// Who has a message, by the store's clock.
pub(super) fn lease(lease: &Leased, now: Moment) -> Json {
    json!({
        "owner": lease.owner.as_str(),
        "state": if lease.waiting { "waiting" } else { "held" },
        "attempts": lease.attempts,
        "epoch": lease.epoch.0,
        "ends_in_ms": lease.until.0.saturating_sub(now.0).max(0),
    })
}

/// What a message says, short enough for a row.
pub(super) fn glance(frame: &[u8]) -> (String, &'static str, String) {
    let Ok(message) = Message::decode(frame) else {
        return ("-".into(), "-", format!("{} bytes that are no message", frame.len()));
    };
    let text = String::from_utf8_lossy(message.payload);
    let mut shown: String = text.chars().take(SHOWN).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    let id = String::from_utf8_lossy(message.id).chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    (id, message.kind.name(), shown)
}

/// Rows under titles, cut where the terminal ends.
pub(super) fn table(columns: impl IntoIterator<Item = Column>, rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new(columns);
    rows.into_iter().for_each(|row| table.row(row));
    table.lines(width()).join("\n")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use lope::mailbox::frame::MessageKind;

    use super::*;

    #[test]
    fn messages_show_their_fields_and_broken_frames_their_fault() {
        let message = Message {
            flags: Flags::DURABLE | Flags::DEDUPE,
            from_worker: Some(3),
            ..Message::new(MessageKind::Event, 7, b"m", &[0xff, 0])
        };
        let shown = fields(&message.encode().unwrap());
        let expected = json!({ "message_id": "m", "kind": "event", "flags": ["durable", "dedupe"], "from_worker": 3,
            "trace_id": null, "bytes": 2, "payload_hex": "ff00" });
        assert_eq!(Json::Object(shown), expected);
        assert_eq!(fields(b"no")["fault"], "the frame is truncated");
        assert_eq!(glance(b"no").2, "2 bytes that are no message");
    }

    #[test]
    fn long_payloads_are_cut() {
        let long = "x".repeat(60);
        let frame = Message::new(MessageKind::Command, 7, b"a\nb", long.as_bytes()).encode().unwrap();
        let (id, kind, payload) = glance(&frame);
        assert_eq!((id.as_str(), kind, payload.chars().count()), ("a b", "command", SHOWN + 1));
    }
}
