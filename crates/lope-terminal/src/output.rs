//! What a command prints: one JSON value on stdout with `--json`, text for people otherwise;
//! messages go to stderr.
//!
//! A reader that has gone away (a closed pipe) ends the output quietly.

use std::io::Write;

use lope_remote::{CommandFrame, caller};
use serde_json::Value;

use crate::plain::plain;

/// How much a command says, and in which form.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    pub json: bool,
    /// Values keep their types, in a form of Lope's.
    pub tagged: bool,
    pub quiet: bool,
    pub verbose: bool,
}

impl Output {
    /// What is said about a run, with its values as they are to be printed.
    pub fn shown(self, value: Value) -> Value {
        if self.tagged {
            return value;
        }
        plain(value)
    }

    /// The command's result: `value` with `--json`, otherwise `text`.
    pub fn result(self, value: &Value, text: &str) {
        if self.json {
            line(value);
        } else if !self.quiet {
            print(text);
        }
    }

    /// Text that is itself what was asked for: printed also when quiet.
    pub fn document(self, value: &Value, text: &str) {
        if self.json {
            line(value);
        } else {
            print(text.trim_end());
        }
    }

    /// The same, with every byte of it: what goes into a file through a pipe is what would be written
    /// into one.
    pub fn verbatim(self, value: &Value, text: &str) {
        if self.json {
            line(value);
        } else {
            bytes(text.as_bytes());
        }
    }
}

/// A value on a line of its own: what commands print with `--json`. Programs read it: nothing that
/// would look odd in a terminal is left out.
pub fn line(value: &Value) {
    let text = format!("{value}\n");
    if caller::say(|| CommandFrame::Out(text.clone())) {
        return;
    }
    // As for `print`.
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// Text that was asked for and comes bit by bit.
pub fn text(text: &str) {
    print(text);
}

/// What was asked for, as it is.
pub fn bytes(bytes: &[u8]) {
    if caller::say(|| CommandFrame::OutBytes(bytes.to_vec())) {
        return;
    }
    // As for `print`.
    let _ = std::io::stdout().write_all(bytes);
}

/// `1 run`, `2 runs`.
pub fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn print(text: &str) {
    if caller::say(|| CommandFrame::Out(format!("{text}\n"))) {
        return;
    }
    // A closed pipe is the reader's decision, not a failure of ours.
    let _ = writeln!(anstream::stdout(), "{text}");
}

/// Progress and other words beside the result; silent when quiet.
pub fn remark(output: Output, text: &str) {
    if !output.quiet {
        warn(text);
    }
}

fn warn(text: &str) {
    if caller::say(|| CommandFrame::Err(format!("{text}\n"))) {
        return;
    }
    // Nobody may be reading.
    let _ = writeln!(anstream::stderr(), "{text}");
}

/// A message beside the result.
pub fn complain(text: &str) {
    let red = anstyle::AnsiColor::Red.on_default().bold();
    warn(&format!("{red}error{red:#}: {text}"));
}
