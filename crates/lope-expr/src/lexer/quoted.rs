//! Texts and bytes in quotes: plain, raw, tripled, with CEL's escapes.

use lope_model::Value;

use super::{Lexeme, Lexer};
use crate::error::SyntaxError;

/// How a quoted literal is written.
#[derive(Clone, Copy)]
struct Form {
    raw: bool,
    bytes: bool,
}

impl Lexer<'_> {
    /// A quoted literal after `prefix` letters.
    pub(super) fn quoted(&mut self, prefix: usize) -> Result<Lexeme, Box<SyntaxError>> {
        let start = self.offset;
        let letters = self.rest()[..prefix].to_ascii_lowercase();
        let form = Form {
            raw: letters.contains('r'),
            bytes: letters.contains('b'),
        };
        self.offset += prefix;
        let quote = &self.rest()[..1];
        let triple = quote.repeat(3);
        let tripled = self.rest().starts_with(&triple);
        let close = if tripled { &*triple } else { quote };
        self.offset += close.len();
        let content = self.content(start, close, form)?;
        if form.bytes {
            return Ok(Lexeme::Literal(Value::bytes(content)));
        }
        let text = String::from_utf8(content)
            .map_err(|_| self.error(start, "a text with escapes that are not Unicode"))?;
        Ok(Lexeme::Literal(Value::from(text)))
    }

    fn content(
        &mut self,
        start: usize,
        close: &str,
        form: Form,
    ) -> Result<Vec<u8>, Box<SyntaxError>> {
        let mut content = Vec::new();
        loop {
            let rest = self.rest();
            if rest.starts_with(close) {
                self.offset += close.len();
                return Ok(content);
            }
            match rest.chars().next() {
                Some('\\') if !form.raw => self.escape(form, &mut content)?,
                None => return Err(self.error(start, "a text that does not end")),
                Some('\n' | '\r') if close.len() == 1 => {
                    return Err(self.error(start, "a text that does not end on its line"));
                }
                Some(c) => {
                    content.extend_from_slice(&rest.as_bytes()[..c.len_utf8()]);
                    self.offset += c.len_utf8();
                }
            }
        }
    }

    fn escape(&mut self, form: Form, content: &mut Vec<u8>) -> Result<(), Box<SyntaxError>> {
        let start = self.offset;
        let letter = self.rest()[1..].chars().next().unwrap_or(' ');
        self.offset += 1;
        let simple = match letter {
            'a' => Some(7),
            'b' => Some(8),
            'f' => Some(12),
            'n' => Some(b'\n'),
            'r' => Some(b'\r'),
            't' => Some(b'\t'),
            'v' => Some(11),
            '\\' | '?' | '"' | '\'' | '`' => Some(letter as u8),
            _ => None,
        };
        if let Some(byte) = simple {
            self.offset += 1;
            content.push(byte);
            return Ok(());
        }
        let code = match letter {
            'x' | 'X' => self.digits(start, 1, 2, 16)?,
            'u' if !form.bytes => self.digits(start, 1, 4, 16)?,
            'U' if !form.bytes => self.digits(start, 1, 8, 16)?,
            '0'..='3' => self.digits(start, 0, 3, 8)?,
            _ => return Err(self.error(start, format!("unknown escape '\\{letter}'"))),
        };
        self.code(start, code, form, content)
    }

    fn digits(
        &mut self,
        start: usize,
        skip: usize,
        count: usize,
        radix: u32,
    ) -> Result<u32, Box<SyntaxError>> {
        let digits = self
            .rest()
            .get(skip..skip + count)
            .filter(|text| text.chars().all(|c| c.is_digit(radix)));
        let Some(code) = digits.and_then(|digits| u32::from_str_radix(digits, radix).ok()) else {
            return Err(self.error(start, "an escape that lacks digits"));
        };
        self.offset += skip + count;
        Ok(code)
    }

    fn code(
        &mut self,
        start: usize,
        code: u32,
        form: Form,
        content: &mut Vec<u8>,
    ) -> Result<(), Box<SyntaxError>> {
        if form.bytes {
            content.push(
                u8::try_from(code).map_err(|_| self.error(start, "an escape that is no byte"))?,
            );
            return Ok(());
        }
        let c = char::from_u32(code)
            .ok_or_else(|| self.error(start, "an escape that is no character"))?;
        content.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        Ok(())
    }
}
