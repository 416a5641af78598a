//! From a place in a text to a place in the file it was read from.
//!
//! A text and what is written for it differ: quotes, escapes, folded lines, indentation. Both are
//! walked side by side, so that the column of a mistake inside an expression is the column a person
//! sees in an editor.

use std::iter::Peekable;
use std::str::Chars;

use lope_expr::TextLocation;

use super::tree::{Style, Text};

/// Where every character of a text stands in the file, line by line of the text.
#[derive(Debug)]
pub(super) struct SourceMap {
    lines: Vec<Vec<TextLocation>>,
}

impl SourceMap {
    /// `at` is where the text starts in the file: its quote, or the first character of a block
    /// text.
    pub(super) fn of(source: &str, text: &Text, at: TextLocation) -> Self {
        let written = source.get(text.start..text.end).unwrap_or_default();
        let mut walk = Walk {
            rest: written,
            at,
            style: text.style,
            indent: 0,
            empty: 0,
        };
        walk.enter(&text.content);
        let mut lines = vec![Vec::new()];
        let mut chars = text.content.chars().peekable();
        while let Some(c) = chars.next() {
            walk.before();
            lines
                .last_mut()
                .expect("there is always a line")
                .push(walk.at);
            walk.pass(c, &mut chars);
            if c == '\n' {
                lines.push(Vec::new());
            }
        }
        lines
            .last_mut()
            .expect("there is always a line")
            .push(walk.at);
        Self { lines }
    }

    /// The place in the file of a place in the text; one behind the end of a line is that end.
    pub(super) fn find(&self, at: TextLocation) -> TextLocation {
        let line = self
            .lines
            .get(at.line.saturating_sub(1) as usize)
            .or(self.lines.last());
        let column = at.column.saturating_sub(1) as usize;
        line.and_then(|line| line.get(column).or(line.last()))
            .copied()
            .unwrap_or(at)
    }
}

/// A walk over what is written.
struct Walk<'a> {
    rest: &'a str,
    at: TextLocation,
    style: Style,
    /// Columns that every line of a block text is indented.
    indent: u32,
    /// Empty lines of a block text that stand before its first character.
    empty: usize,
}

impl Walk<'_> {
    /// Steps over the opening quote. A block text starts behind its header, its empty lines and its
    /// indentation.
    fn enter(&mut self, text: &str) {
        match self.style {
            Style::Plain => {}
            Style::Single | Style::Double => self.step(),
            Style::Literal | Style::Folded => {
                self.indent = self.at.column.saturating_sub(1);
                self.empty = text.chars().take_while(|c| *c == '\n').count();
            }
        }
    }

    /// Steps over what stands for nothing: an escaped line break.
    fn before(&mut self) {
        while self.style == Style::Double
            && (self.rest.starts_with("\\\n") || self.rest.starts_with("\\\r\n"))
        {
            self.step();
            self.skip_blank();
        }
    }

    /// Steps over what stands for `c`; `next` are the characters of the text behind it.
    fn pass(&mut self, c: char, next: &mut Peekable<Chars<'_>>) {
        match self.style {
            Style::Double if self.rest.starts_with('\\') => self.escape(),
            Style::Single if self.rest.starts_with("''") => self.steps(2),
            Style::Plain | Style::Single | Style::Double if self.folds(c) => {
                if c != '\n' || next.peek() != Some(&'\n') {
                    self.skip_blank();
                }
            }
            Style::Literal | Style::Folded if self.empty > 0 => self.empty -= 1,
            Style::Literal if self.at_break() => self.next_line(),
            Style::Folded if self.at_break() => {
                if c != '\n' || next.peek() != Some(&'\n') {
                    self.next_line();
                    while c == '\n' && self.at_break() {
                        self.next_line();
                    }
                }
            }
            Style::Plain | Style::Single | Style::Double | Style::Literal | Style::Folded => {
                self.step();
            }
        }
    }

    /// Does a line break stand here for a blank or for empty lines?
    fn folds(&self, c: char) -> bool {
        (c == ' ' || c == '\n')
            && self
                .rest
                .trim_start_matches([' ', '\t'])
                .starts_with(['\n', '\r'])
    }

    fn at_break(&self) -> bool {
        self.rest.starts_with('\n') || self.rest.starts_with("\r\n")
    }

    fn escape(&mut self) {
        let length = match self.rest[1..].chars().next() {
            Some('x') => 4,
            Some('u') => self.unicode_escape(),
            Some('U') => 10,
            _ => 2,
        };
        self.steps(length);
    }

    /// One escape, or two that are one character together.
    fn unicode_escape(&self) -> usize {
        let high = self.rest.get(2..4).is_some_and(|digits| {
            matches!(&*digits.to_ascii_lowercase(), "d8" | "d9" | "da" | "db")
        });
        if high && self.rest.get(6..8) == Some("\\u") {
            12
        } else {
            6
        }
    }

    fn skip_blank(&mut self) {
        while self.rest.starts_with([' ', '\t', '\n', '\r']) {
            self.step();
        }
    }

    /// To the first column of the text in the next line.
    fn next_line(&mut self) {
        while !self.rest.is_empty() && !self.rest.starts_with('\n') {
            self.step();
        }
        self.step();
        let mut left = self.indent;
        while left > 0 && self.rest.starts_with(' ') {
            self.step();
            left -= 1;
        }
    }

    fn steps(&mut self, count: usize) {
        (0..count).for_each(|_| self.step());
    }

    fn step(&mut self) {
        let mut chars = self.rest.chars();
        match chars.next() {
            Some('\n') => self.at = TextLocation::new(self.at.line + 1, 1),
            Some(_) => self.at = TextLocation::new(self.at.line, self.at.column + 1),
            None => {}
        }
        self.rest = chars.as_str();
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse::parse;
    use super::super::tree::Shape;
    use super::*;

    /// The file's character at the place of every character of the one text in a file `x: TEXT`.
    fn written(source: &str) -> Vec<(char, char)> {
        let tree = parse(source).tree.expect("the sample is YAML");
        let Shape::Map(entries) = tree.shape(tree.root) else {
            panic!("the sample is a map")
        };
        let Shape::Text(text) = tree.shape(entries[0].value) else {
            panic!("the sample holds a text")
        };
        let source_map = SourceMap::of(source, text, tree.at(entries[0].value));
        let lines: Vec<Vec<char>> = source.lines().map(|line| line.chars().collect()).collect();
        let mut found = Vec::new();
        for (line, content) in text.content.split('\n').enumerate() {
            for (column, c) in content.chars().enumerate() {
                let at = source_map.find(TextLocation::new(line as u32 + 1, column as u32 + 1));
                let row = &lines[at.line as usize - 1];
                found.push((c, row.get(at.column as usize - 1).copied().unwrap_or('\n')));
            }
        }
        found
    }

    /// Every character stands where it was written; a folded line break reads as a blank, an escape
    /// as its backslash.
    fn check(source: &str) {
        for (c, at) in written(source) {
            let stands =
                c == at || (c == ' ' && at == '\n') || at == '\\' || (c == '\'' && at == '\'');
            assert!(stands, "{c:?} is said to be at {at:?} in {source:?}");
        }
    }

    #[test]
    fn every_style_of_text_knows_where_its_characters_stand() {
        for source in [
            "x: plain text",
            "x: plain\n   over two   \n  lines\n",
            "x: plain\n\n\n   over empty lines\n",
            "x: 'single ''quoted'' text'",
            "x: 'single\n   quoted   \n\n  lines'",
            "x: \"double \\\"quoted\\\" \\u00e9 \\x41 \\U0001F600 text\"",
            "x: \"\\ud83d\\ude00 pair\"",
            "x: \"double\n   quoted \\\n   joined   \n\n   lines\"",
            "x: |\n  literal\n    deeper\n\n  text\n",
            "x: |2-\n    literal with a hint\n  text\n",
            "x: >\n  folded\n  text\n\n  after an empty line\n    deeper\n    still\n  back\n",
            "x: >-\n\n  folded after an empty line\n",
            "x: |\r\n  literal\r\n  with carriage returns\r\n",
            "x: 'single\r\n  with carriage returns'\r\n",
            "? x\n: !!str tagged text\n",
            "x: &anchor  anchored text\n",
            "x: ü — wide before 日本",
        ] {
            check(source);
        }
    }

    #[test]
    fn a_place_behind_the_end_is_the_end() {
        let source = "x: |\n  one\n  two\n";
        let tree = parse(source).tree.unwrap();
        let Shape::Map(entries) = tree.shape(tree.root) else {
            panic!()
        };
        let Shape::Text(text) = tree.shape(entries[0].value) else {
            panic!()
        };
        let source_map = SourceMap::of(source, text, tree.at(entries[0].value));
        let at = source_map.find(TextLocation::new(2, 40));
        assert_eq!((at.line, at.column), (3, 6));
    }
}
