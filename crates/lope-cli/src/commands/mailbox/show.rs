//! Messages as commands print them for people.

use lope::mailbox::frame::Message;

use crate::table::{Column, Table, width};

/// Longest payload that a row shows.
const SHOWN: usize = 48;

/// What a message says, short enough for a row.
pub(super) fn glance(frame: &[u8]) -> (String, &'static str, String) {
    let Ok(message) = Message::decode(frame) else {
        return (
            "-".into(),
            "-",
            format!("{} bytes that are no message", frame.len()),
        );
    };
    let text = String::from_utf8_lossy(message.payload);
    let mut shown: String = text
        .chars()
        .take(SHOWN)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    let id = String::from_utf8_lossy(message.id)
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    (id, message.kind.name(), shown)
}

/// Rows under titles, cut where the terminal ends.
pub(super) fn table(columns: impl IntoIterator<Item = Column>, rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new(columns);
    rows.into_iter().for_each(|row| table.row(row));
    table.lines(width()).join("\n")
}

#[cfg(test)]
mod tests {
    use lope::mailbox::frame::MessageKind;

    use super::*;

    #[test]
    fn long_payloads_are_cut() {
        let long = "x".repeat(60);
        let frame = Message::new(MessageKind::Command, 7, b"a\nb", long.as_bytes())
            .encode()
            .unwrap();
        let (id, kind, payload) = glance(&frame);
        assert_eq!(
            (id.as_str(), kind, payload.chars().count()),
            ("a b", "command", SHOWN + 1)
        );
        assert_eq!(glance(b"no").2, "2 bytes that are no message");
    }
}
