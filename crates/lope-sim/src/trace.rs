//! The last things that happened, kept only when somebody wants to read them.

use std::collections::VecDeque;
use std::fmt;

/// Lines kept.
const LINES: usize = 400;

#[derive(Debug, Default)]
pub(crate) struct SimTrace {
    wanted: bool,
    lines: VecDeque<String>,
}

impl SimTrace {
    pub(crate) fn new(wanted: bool) -> Self {
        Self {
            wanted,
            lines: VecDeque::new(),
        }
    }

    pub(crate) fn note(&mut self, at: i64, what: impl FnOnce() -> String) {
        if self.wanted {
            if self.lines.len() == LINES {
                self.lines.pop_front();
            }
            self.lines.push_back(format!("{at:>7} {}", what()));
        }
    }

    pub(crate) fn into_lines(self) -> Vec<String> {
        self.lines.into()
    }
}

/// The first words of a debug form: a trace is read by people.
pub(crate) fn short(what: &impl fmt::Debug) -> String {
    let text = format!("{what:?}");
    match text.char_indices().nth(160) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text,
    }
}
