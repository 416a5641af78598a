//! A place in a text: what errors, steps and the nodes of expressions carry. It knows no file.

use std::fmt;

/// Where something was written: line and column from 1, or nowhere. Never part of what an
/// expression *is*, so any two are equal.
#[derive(Clone, Copy, Default)]
pub struct TextLocation {
    pub line: u32,
    pub column: u32,
}

impl TextLocation {
    pub const NOWHERE: Self = Self { line: 0, column: 0 };

    pub const fn new(line: u32, column: u32) -> Self {
        Self { line, column }
    }

    pub const fn is_known(self) -> bool {
        self.line > 0
    }
}

impl PartialEq for TextLocation {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for TextLocation {}

impl fmt::Debug for TextLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}
