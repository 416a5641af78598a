//! Messages, leases and counts of mailboxes as JSON.

use lope_mailbox::frame::{Flags, Message};
use lope_mailbox::{Armed, Dead, Depth, Leased, Queued, Stats};
use lope_model::Moment;
use serde_json::{Map, Value, json};

/// A message that waits in an inbox, with who has it by the store's clock.
pub fn queued(message: &Queued, now: Moment) -> Value {
    let lease = message.lease.as_ref().map(|held| lease(held, now));
    let state = lease
        .as_ref()
        .map_or("queued", |lease| {
            lease["state"].as_str().unwrap_or_default()
        })
        .to_owned();
    let mut value = head(message.worker.number(), message.seq);
    value.extend(frame(&message.frame));
    value.insert("state".into(), state.into());
    value.insert("lease".into(), json!(lease));
    Value::Object(value)
}

/// A message that is delivered later.
pub fn timer(timer: &Armed) -> Value {
    let mut value = head(timer.worker.number(), timer.seq);
    value.insert("due".into(), timer.due.to_string().into());
    value.extend(frame(&timer.frame));
    Value::Object(value)
}

/// A message that was given up.
pub fn dead_letter(letter: &Dead) -> Value {
    let mut value = head(letter.worker.number(), letter.seq);
    value.extend(frame(&letter.frame));
    value.insert("reason".into(), letter.reason.clone().into());
    value.insert("attempts".into(), letter.attempts.into());
    value.insert("failed_at".into(), letter.failed_at.to_string().into());
    Value::Object(value)
}

/// How much is where: numbers, and beside each that was not counted to its end on which side of it
/// the truth lies.
pub fn mailbox_stats(stats: &Stats) -> Value {
    let at_most = |depth: Depth| matches!(depth, Depth::AtMost(_));
    let workers = stats.workers.iter().map(|worker| {
        json!({
            "worker": worker.worker.number(),
            "inbox": worker.inbox.number(),
            "inbox_at_most": at_most(worker.inbox),
            "dead_letters": worker.dead_letters.number(),
            "dead_letters_at_most": at_most(worker.dead_letters),
        })
    });
    let named = [
        ("inbox", stats.inbox),
        ("timers", stats.timers),
        ("outbox", stats.outbox),
        ("dedupe", stats.dedupe),
        ("dead_letters", stats.dead_letters),
    ];
    let mut value = Map::new();
    for (name, depth) in named {
        let more = matches!(depth, Depth::MoreThan(_));
        value.insert(name.into(), depth.number().into());
        value.insert(format!("{name}_more"), more.into());
    }
    value.insert("workers".into(), workers.collect());
    Value::Object(value)
}

fn head(worker: i64, seq: u64) -> Map<String, Value> {
    let mut head = Map::new();
    head.insert("worker".into(), worker.into());
    head.insert("seq".into(), seq.into());
    head
}

fn lease(lease: &Leased, now: Moment) -> Value {
    json!({
        "owner": lease.owner.as_str(),
        "state": if lease.waiting { "waiting" } else { "held" },
        "attempts": lease.attempts,
        "epoch": lease.epoch.0,
        "ends_in_ms": lease.until.0.saturating_sub(now.0).max(0),
    })
}

/// The fields of a message, or what is wrong with its frame.
fn frame(frame: &[u8]) -> Map<String, Value> {
    let mut fields = Map::new();
    let Ok(message) = Message::decode(frame).map_err(|fault| {
        fields.insert("message_id".into(), Value::Null);
        fields.insert("fault".into(), fault.to_string().into());
        fields.insert("frame_hex".into(), hex(frame).into());
    }) else {
        return fields;
    };
    let id = String::from_utf8_lossy(message.id);
    let trace = message.trace.map(String::from_utf8_lossy);
    fields.insert("message_id".into(), id.into());
    fields.insert("kind".into(), message.kind.name().into());
    fields.insert("flags".into(), json!(flags(message.flags)));
    fields.insert("from_worker".into(), json!(message.from_worker));
    fields.insert("trace_id".into(), json!(trace));
    fields.insert("bytes".into(), message.payload.len().into());
    match std::str::from_utf8(message.payload) {
        Ok(text) => fields.insert("payload".into(), text.into()),
        Err(_) => fields.insert("payload_hex".into(), hex(message.payload).into()),
    };
    fields
}

fn flags(flags: Flags) -> Vec<&'static str> {
    let names = [
        (Flags::DURABLE, "durable"),
        (Flags::HIGH_PRIORITY, "priority"),
        (Flags::DEDUPE, "dedupe"),
        (Flags::REQUIRES_ACK, "ack"),
    ];
    let set = names.into_iter().filter(|(flag, _)| flags.has(*flag));
    set.map(|(_, name)| name).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use lope_mailbox::WorkerStats;
    use lope_mailbox::frame::MessageKind;
    use lope_mailbox::key::WorkerId;

    use super::*;

    #[test]
    fn messages_show_their_fields_and_broken_frames_their_fault() {
        let message = Message {
            flags: Flags::DURABLE | Flags::DEDUPE,
            from_worker: Some(3),
            ..Message::new(MessageKind::Event, 7, b"m", &[0xff, 0])
        };
        let shown = frame(&message.encode().unwrap());
        let expected = json!({ "message_id": "m", "kind": "event", "flags": ["durable", "dedupe"], "from_worker": 3,
            "trace_id": null, "bytes": 2, "payload_hex": "ff00" });
        assert_eq!(Value::Object(shown), expected);
        assert_eq!(frame(b"no")["fault"], "the frame is truncated");
    }

    #[test]
    fn counts_say_on_which_side_of_them_the_truth_lies() {
        let worker = WorkerStats {
            worker: WorkerId::new(7).unwrap(),
            inbox: Depth::AtMost(1_000_000),
            dead_letters: Depth::Exactly(2),
        };
        let value = mailbox_stats(&Stats {
            inbox: Depth::MoreThan(100_000),
            dead_letters: Depth::Exactly(2),
            workers: vec![worker],
            ..Stats::default()
        });
        assert_eq!(
            (&value["inbox"], &value["inbox_more"], &value["timers_more"]),
            (&json!(100_000), &json!(true), &json!(false))
        );
        let expected = json!({ "worker": 7, "inbox": 1_000_000, "inbox_at_most": true, "dead_letters": 2,
            "dead_letters_at_most": false });
        assert_eq!(value["workers"], json!([expected]));
    }
}
