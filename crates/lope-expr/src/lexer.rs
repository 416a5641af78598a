//! Text into tokens, one at a time, with their places. CEL's literals; no comments.
//!
//! What a sequence of tokens means is the parser's business.

use std::ops::Range;
use std::sync::Arc;

use lope_model::Value;
use lope_values::{TextLocation, unicode};

use crate::error::SyntaxError;

mod quoted;

/// A token; signs are one or two characters, as they are written.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Lexeme {
    Literal(Value),
    Name(Arc<str>),
    /// A name in backticks: never a keyword, function or macro.
    Quoted(Arc<str>),
    Sign(&'static str),
    /// The digits of the smallest int, which only fit with a minus before them.
    Smallest,
    End,
}

const SIGNS: [&str; 24] = [
    "&&", "||", "==", "!=", "<=", ">=", "<", ">", "+", "-", "*", "/", "%", "!", "?", ":", ".", ",",
    "(", ")", "[", "]", "{", "}",
];

/// Reads tokens from a byte offset on.
#[derive(Debug)]
pub(super) struct Lexer<'a> {
    pub(super) text: &'a str,
    pub(super) offset: usize,
    /// Where lines and columns were last counted to, so that counting is linear over a whole text.
    counted: (usize, TextLocation),
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str, offset: usize) -> Self {
        Self {
            text,
            offset,
            counted: (0, TextLocation::new(1, 1)),
        }
    }

    /// The next token and the bytes it covers.
    pub(super) fn next(&mut self) -> Result<(Lexeme, Range<usize>), Box<SyntaxError>> {
        let blank = |c: char| matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{c}');
        self.offset = self.text.len() - self.rest().trim_start_matches(blank).len();
        let start = self.offset;
        let token = self.token()?;
        Ok((token, start..self.offset))
    }

    /// Line and column (in characters) of a byte offset.
    pub(super) fn location(&mut self, offset: usize) -> TextLocation {
        if offset < self.counted.0 {
            self.counted = (0, TextLocation::new(1, 1));
        }
        let (from, mut at) = self.counted;
        for c in self.text[from..offset].chars() {
            at = if c == '\n' {
                TextLocation::new(at.line + 1, 1)
            } else {
                TextLocation::new(at.line, at.column + 1)
            };
        }
        self.counted = (offset, at);
        at
    }

    pub(super) fn error(&mut self, offset: usize, message: impl Into<String>) -> Box<SyntaxError> {
        Box::new(SyntaxError {
            offset,
            at: self.location(offset),
            message: message.into(),
            hint: None,
        })
    }

    fn rest(&self) -> &'a str {
        &self.text[self.offset..]
    }

    fn token(&mut self) -> Result<Lexeme, Box<SyntaxError>> {
        let rest = self.rest();
        let mut chars = rest.chars();
        let (first, second) = (chars.next(), chars.next());
        match first {
            None => Ok(Lexeme::End),
            Some(c) if c.is_ascii_digit() => self.number(),
            Some('.') if second.is_some_and(|c| c.is_ascii_digit()) => self.number(),
            Some('"' | '\'') => self.quoted(0),
            Some('`') => self.backticks(),
            Some(c) if unicode::is_alphabetic(c) || c == '_' => self.word(),
            Some(c) => self.sign(c),
        }
    }

    fn word(&mut self) -> Result<Lexeme, Box<SyntaxError>> {
        let rest = self.rest();
        let length = rest
            .find(|c: char| !unicode::is_alphanumeric(c) && c != '_')
            .unwrap_or(rest.len());
        let word = &rest[..length];
        let prefix = matches!(word, "r" | "R" | "b" | "B")
            || (length == 2 && matches!(&*word.to_ascii_lowercase(), "br" | "rb"));
        if prefix && rest[length..].starts_with(['"', '\'']) {
            return self.quoted(length);
        }
        self.offset += length;
        Ok(match word {
            "true" => Lexeme::Literal(Value::Bool(true)),
            "false" => Lexeme::Literal(Value::Bool(false)),
            "null" => Lexeme::Literal(Value::Null),
            "in" => Lexeme::Sign("in"),
            _ => Lexeme::Name(word.into()),
        })
    }

    fn backticks(&mut self) -> Result<Lexeme, Box<SyntaxError>> {
        let start = self.offset;
        let inner = &self.rest()[1..];
        let Some(length) = inner
            .find('`')
            .filter(|length| *length > 0 && !inner[..*length].contains('\n'))
        else {
            return Err(self.error(start, "a name in backticks that does not end"));
        };
        self.offset += length + 2;
        Ok(Lexeme::Quoted(inner[..length].into()))
    }

    fn sign(&mut self, first: char) -> Result<Lexeme, Box<SyntaxError>> {
        let rest = self.rest();
        let start = self.offset;
        match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            Some(sign) => {
                self.offset += sign.len();
                Ok(Lexeme::Sign(sign))
            }
            None => Err(with_hint(
                self.error(start, format!("unexpected '{first}'")),
                first,
            )),
        }
    }

    fn number(&mut self) -> Result<Lexeme, Box<SyntaxError>> {
        let start = self.offset;
        let rest = self.rest();
        let value = if rest.starts_with("0x") || rest.starts_with("0X") {
            let digits = span(&rest[2..], |c| c.is_ascii_hexdigit());
            self.offset += 2 + digits.len();
            i64::from_str_radix(digits, 16).ok().map(Value::Int)
        } else {
            let length = decimal(rest);
            self.offset += length;
            let digits = &rest[..length];
            if digits.contains(['.', 'e', 'E']) {
                float(digits)
            } else {
                digits.parse().ok().map(Value::Int)
            }
        };
        self.after_number(start, value)
    }

    /// A number ends before anything that could belong to a word; CEL's `u` is accepted, all ints
    /// are signed.
    fn after_number(
        &mut self,
        start: usize,
        value: Option<Value>,
    ) -> Result<Lexeme, Box<SyntaxError>> {
        if matches!(value, Some(Value::Int(_))) && self.rest().starts_with(['u', 'U']) {
            self.offset += 1;
        }
        if self
            .rest()
            .starts_with(|c: char| unicode::is_alphanumeric(c) || c == '_')
        {
            return Err(self.error(start, "a number that runs into a word"));
        }
        let number = &self.text[start..self.offset];
        match value {
            Some(value) => Ok(Lexeme::Literal(value)),
            None if number == "9223372036854775808" => Ok(Lexeme::Smallest),
            None => Err(self.error(start, format!("the number {number} does not fit 64 bits"))),
        }
    }
}

fn with_hint(mut error: Box<SyntaxError>, found: char) -> Box<SyntaxError> {
    error.hint = match found {
        '=' => Some("write == to compare".into()),
        '&' => Some("write && for 'and'".into()),
        '|' => Some("write || for 'or'".into()),
        '#' => Some("expressions have no comments".into()),
        '$' => Some("names need no $ inside an expression".into()),
        _ => None,
    };
    error
}

fn span(text: &str, belongs: impl Fn(char) -> bool) -> &str {
    &text[..text.find(|c| !belongs(c)).unwrap_or(text.len())]
}

fn digits(text: &str) -> usize {
    span(text, |c| c.is_ascii_digit()).len()
}

/// How many bytes of `text` are a decimal number: digits, a part after the point, an exponent.
fn decimal(text: &str) -> usize {
    let mut length = digits(text);
    if text[length..].starts_with('.') {
        let part = digits(&text[length + 1..]);
        length += if part > 0 { part + 1 } else { 0 };
    }
    if text[length..].starts_with(['e', 'E']) {
        let sign = usize::from(text[length + 1..].starts_with(['+', '-']));
        let exponent = digits(&text[length + 1 + sign..]);
        length += if exponent > 0 { 1 + sign + exponent } else { 0 };
    }
    length
}

fn float(digits: &str) -> Option<Value> {
    digits
        .parse()
        .ok()
        .filter(|number: &f64| number.is_finite())
        .map(Value::Float)
}
