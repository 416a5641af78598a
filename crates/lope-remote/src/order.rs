//! What goes over the wire: an order as one JSON document, frames as one JSON object a line.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A command line for a server.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CommandOrder {
    /// What was typed behind the program's name, without the flags that name the server.
    pub arguments: Vec<String>,
    /// What the command asked for before.
    pub attachments: Vec<Attachment>,
    /// How wide the caller's terminal is; absent: it has none.
    pub width: Option<usize>,
    /// How large the terminal is that its stderr goes to; absent: it goes elsewhere.
    pub screen: Option<ScreenSize>,
    /// How the program was called: what a command to type next begins with.
    pub called: String,
    /// The folder in which it was called.
    pub folder: String,
    /// The claim of a task that the caller speaks for.
    pub task: Option<String>,
    /// What a command that goes on after its server was away had said last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<LastTold>,
}

/// What a caller was told last.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LastTold {
    /// Of its text.
    pub digest: String,
    /// How much was said until then.
    pub count: u64,
}

/// Columns and lines of a terminal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ScreenSize {
    pub width: u16,
    pub height: u16,
}

/// Something of the caller's that a command needs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Need {
    /// What comes on standard input.
    Stdin,
    /// A file that the command line names.
    File(String),
    /// What the compiler of Python says about a module that the command line names.
    Python {
        how: String,
        folder: Option<String>,
        named: String,
        input: String,
    },
}

/// A need with what the caller has to say to it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Attachment {
    pub need: Need,
    pub given: Attached,
}

/// What the caller has.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Attached {
    Bytes(#[serde(with = "Base64")] Vec<u8>),
    /// There is no such thing, or it cannot be read: why.
    Nothing {
        message: String,
        hint: Option<String>,
    },
}

/// One line of what a command says.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandFrame {
    /// For stdout, as it is.
    Out(String),
    /// Bytes for stdout that may be no text.
    OutBytes(#[serde(with = "Base64")] Vec<u8>),
    /// For stderr, as it is.
    Err(String),
    /// Lines for the terminal that stderr goes to, drawn over the picture before; the last one stays.
    Picture { lines: Vec<String>, is_last: bool },
    /// A file to write begins.
    File(OutputFile),
    /// The next bytes of the file that began last.
    Piece(#[serde(with = "Base64")] Vec<u8>),
    /// The command has done nothing: it needs these first.
    Needs(Vec<Need>),
    /// It has ended with this code.
    Exit(u8),
}

/// A file that a command writes for its caller.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OutputFile {
    /// As the command line names it.
    pub path: String,
    /// It must not be there yet.
    pub is_new: bool,
    /// What to do if it is.
    pub hint: Option<String>,
}

/// Bytes as text.
struct Base64;

impl Base64 {
    fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD.decode(text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_lines_that_can_be_read_again() {
        let frames = [
            CommandFrame::Out("a\nb".to_owned()),
            CommandFrame::OutBytes(vec![0, 255]),
            CommandFrame::Needs(vec![Need::Stdin, Need::File("x".to_owned())]),
            CommandFrame::Picture {
                lines: vec!["a".to_owned()],
                is_last: true,
            },
            CommandFrame::Exit(3),
        ];
        for frame in frames {
            let line = serde_json::to_string(&frame).unwrap();
            assert!(!line.contains('\n'), "{line}");
            assert_eq!(serde_json::from_str::<CommandFrame>(&line).unwrap(), frame);
        }
    }

    #[test]
    fn an_order_may_leave_out_what_it_does_not_need() {
        let order: CommandOrder =
            serde_json::from_str(r#"{"arguments": ["runs", "list"]}"#).unwrap();
        assert_eq!(order.arguments, ["runs", "list"]);
        assert!(serde_json::from_str::<CommandOrder>(r#"{"argument": []}"#).is_err());
    }
}
