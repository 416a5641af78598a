//! What must not be seen, and takes it out of whatever comes back: in each form in which text is
//! commonly written down, line by line, in numbers and in bytes.

use std::fmt;
use std::sync::Arc;

use crate::{Failure, Value};

/// What stands where a secret was.
pub const MASK: &str = "***";
/// Secrets, and lines of them, shorter than this are not looked for: they would be found
/// everywhere.
const MASKED_MIN: usize = 4;
/// Lines of one secret that are looked for each by itself.
const LINES_MAX: usize = 1_000;

/// What was resolved for one task.
#[derive(Clone, Default)]
pub struct Masks(Arc<[Arc<str>]>);

impl Masks {
    pub fn of(secrets: impl IntoIterator<Item = Arc<str>>) -> Self {
        let secrets: Vec<Arc<str>> = secrets.into_iter().collect();
        Self::sorted(secrets.iter().flat_map(|secret| forms_of(secret)).collect())
    }

    /// Both.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let both = self.0.iter().chain(other.0.iter()).map(Arc::clone);
        Self::sorted(both.collect())
    }

    fn sorted(mut forms: Vec<Arc<str>>) -> Self {
        forms.retain(|form| form.len() >= MASKED_MIN);
        // The longest first: a short one may be a part of it.
        forms.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        forms.dedup();
        Self(forms.into())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// In how many forms.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// How many bytes the longest has.
    pub fn longest(&self) -> usize {
        self.0.first().map_or(0, |form| form.len())
    }

    /// The text without what must not be seen.
    pub fn hide(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for form in self.0.iter() {
            if text.contains(&**form) {
                text = text.replace(&**form, MASK);
            }
        }
        text
    }

    /// The same for bytes, whatever they are.
    pub fn hide_bytes(&self, bytes: &[u8]) -> Vec<u8> {
        self.0.iter().fold(bytes.to_vec(), |bytes, form| {
            replaced(&bytes, form.as_bytes()).unwrap_or(bytes)
        })
    }

    /// The same for everything in a value. A number that shows a secret becomes a text.
    pub fn hide_in(&self, value: Value) -> Value {
        match value {
            Value::Str(text) if self.shows(&text) => Value::from(self.hide(&text)),
            Value::Bytes(bytes) => Value::bytes(self.hide_bytes(&bytes)),
            Value::Int(_) | Value::Float(_) if self.shows(&value.to_string()) => Value::from(MASK),
            Value::List(items) => {
                let items = items.iter().map(|item| self.hide_in(item.clone()));
                Value::list(items.collect())
            }
            Value::Map(map) => {
                let entries = map
                    .iter()
                    .map(|(key, value)| (self.hide(key), self.hide_in(value.clone())));
                let entries = entries.collect::<Vec<_>>();
                Value::map(
                    entries
                        .iter()
                        .map(|(key, value)| (key.as_str(), value.clone())),
                )
            }
            Value::Tag(tag) => Value::tag(&tag.name, self.hide_in(tag.value.clone())),
            other @ (Value::Null
            | Value::Bool(_)
            | Value::Int(_)
            | Value::Float(_)
            | Value::Str(_)) => other,
        }
    }

    pub fn hide_in_failure(&self, mut failure: Failure) -> Failure {
        failure.message = self.hide(&failure.message);
        failure.traceback = failure.traceback.map(|trace| self.hide(&trace));
        failure.detail = self.hide_in(failure.detail);
        failure
    }

    fn shows(&self, text: &str) -> bool {
        self.0.iter().any(|form| text.contains(&**form))
    }
}

impl fmt::Debug for Masks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Masks({})", self.0.len())
    }
}

/// Nothing if the part is not there.
fn replaced(bytes: &[u8], part: &[u8]) -> Option<Vec<u8>> {
    let find = |bytes: &[u8]| bytes.windows(part.len()).position(|window| window == part);
    let mut at = find(bytes)?;
    let mut rest = bytes;
    let mut hidden = Vec::with_capacity(bytes.len());
    loop {
        hidden.extend_from_slice(&rest[..at]);
        hidden.extend_from_slice(MASK.as_bytes());
        rest = &rest[at + part.len()..];
        match find(rest) {
            Some(next) => at = next,
            None => break,
        }
    }
    hidden.extend_from_slice(rest);
    Some(hidden)
}

/// A secret as a whole and each of its lines (logs have lines), in every form.
fn forms_of(secret: &str) -> Vec<Arc<str>> {
    let lines = secret.lines().take(LINES_MAX).map(str::trim);
    let parts = std::iter::once(secret).chain([secret.trim()]).chain(lines);
    let mut forms: Vec<String> = parts
        .filter(|part| part.len() >= MASKED_MIN)
        .flat_map(written)
        .collect();
    // JSON in JSON: what is written down once is written down again as a text.
    let again: Vec<String> = forms
        .iter()
        .flat_map(|form| {
            [
                escaped(form, '"', Beyond::Kept),
                escaped(form, '\'', Beyond::Kept),
            ]
        })
        .collect();
    forms.extend(again);
    forms.into_iter().map(Arc::from).collect()
}

/// What becomes of characters beyond ASCII, and of those that have no picture.
#[derive(Clone, Copy)]
enum Beyond {
    Kept,
    /// `\u00e4`, in two where sixteen bits are not enough: JSON.
    Utf16,
    /// `\xe4`, `\u20ac`, `\U0001f600`: Python's `ascii`.
    Python,
    /// `\xc3\xa4`: Python's `repr` of bytes.
    Bytes,
}

/// A text as it is, in JSON, as Python shows it (as a text, in ASCII, as bytes), and in addresses.
fn written(text: &str) -> Vec<String> {
    let is_unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let is_query = |byte: u8| byte.is_ascii_graphic() && !b"\"#<>'".contains(&byte);
    let is_path = |byte: u8| is_query(byte) && !b"?`{}".contains(&byte);
    let mut forms = vec![text.to_owned()];
    for beyond in [Beyond::Kept, Beyond::Utf16, Beyond::Python, Beyond::Bytes] {
        // Python takes the quotes that need the least escaping.
        forms.extend(['"', '\'', '\0'].map(|quote| escaped(text, quote, beyond)));
    }
    for digits in [HexDigits::Upper, HexDigits::Lower] {
        forms.extend([
            percent(text, digits, is_unreserved),
            percent(text, digits, |byte| is_unreserved(byte) || byte == b'/'),
            percent(text, digits, is_query),
            percent(text, digits, is_path),
            percent(text, digits, is_unreserved).replace("%20", "+"),
        ]);
    }
    forms
}

/// Between quotes of this kind.
fn escaped(text: &str, quote: char, beyond: Beyond) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => escaped.push_str("\\\\"),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\t' => escaped.push_str("\\t"),
            c if c == quote => escaped.extend(['\\', c]),
            c if c.is_ascii() && !c.is_ascii_control() => escaped.push(c),
            c => escape_beyond(c, beyond, &mut escaped),
        }
    }
    escaped
}

fn escape_beyond(c: char, beyond: Beyond, escaped: &mut String) {
    let number = u32::from(c);
    match beyond {
        Beyond::Kept => escaped.push(c),
        Beyond::Utf16 => {
            for unit in c.encode_utf16(&mut [0; 2]) {
                escaped.push_str(&format!("\\u{unit:04x}"));
            }
        }
        Beyond::Python if number < 0x100 => escaped.push_str(&format!("\\x{number:02x}")),
        Beyond::Python if number < 0x1_0000 => escaped.push_str(&format!("\\u{number:04x}")),
        Beyond::Python => escaped.push_str(&format!("\\U{number:08x}")),
        Beyond::Bytes => {
            for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                escaped.push_str(&format!("\\x{byte:02x}"));
            }
        }
    }
}

/// How the digits of a number in an address are written: both are used.
#[derive(Clone, Copy)]
enum HexDigits {
    Upper,
    Lower,
}

fn percent(text: &str, digits: HexDigits, keeps: impl Fn(u8) -> bool) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match digits {
            _ if keeps(byte) => encoded.push(char::from(byte)),
            HexDigits::Upper => encoded.push_str(&format!("%{byte:02X}")),
            HexDigits::Lower => encoded.push_str(&format!("%{byte:02x}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masks(secret: &str) -> Masks {
        Masks::of([Arc::from(secret)])
    }

    #[test]
    fn a_secret_is_found_in_every_form_in_which_it_is_written() {
        let masks = masks("pä ss/w\"or'd\\&x");
        let rows = [
            "pä ss/w\"or'd\\&x",
            r#"pä ss/w\"or'd\\&x"#,
            r#"p\u00e4 ss/w\"or'd\\&x"#,
            r#"pä ss/w"or\'d\\&x"#,
            "p%C3%A4%20ss%2Fw%22or%27d%5C%26x",
            "p%C3%A4%20ss/w%22or%27d%5C%26x",
            "p%C3%A4%20ss/w%22or%27d\\&x",
            "p%C3%A4+ss%2Fw%22or%27d%5C%26x",
            "p%c3%a4%20ss%2fw%22or%27d%5c%26x",
            r#"p\xe4 ss/w"or\'d\\&x"#,
            r#"p\xe4 ss/w\"or'd\\&x"#,
            r#"p\xc3\xa4 ss/w"or\'d\\&x"#,
            r#"p\xc3\xa4 ss/w"or'd\\&x"#,
            r#"pä ss/w\\\"or'd\\\\&x"#,
            r#"p\\u00e4 ss/w\\\"or'd\\\\&x"#,
        ];
        for row in rows {
            assert_eq!(masks.hide(&format!("<{row}>")), "<***>", "{row}");
            let bytes = masks.hide_bytes(format!("<{row}>").as_bytes());
            assert_eq!(bytes, b"<***>", "{row}");
        }
    }

    #[test]
    fn each_line_of_several_is_hidden_also_by_itself() {
        let masks = masks("first line\nsecond line\n--\n");
        assert_eq!(masks.hide("a first line\n"), "a ***\n");
        assert_eq!(
            masks.hide("\"first line\\nsecond line\\n--\\n\""),
            "\"***\""
        );
        assert_eq!(masks.hide("first line\nsecond line\n--\n!"), "***!");
        assert_eq!(masks.hide("-- stays"), "-- stays");
    }

    #[test]
    fn numbers_and_bytes_that_show_a_secret_are_hidden() {
        let masks = masks("471108");
        let value = Value::list(vec![
            Value::Int(471_108),
            Value::Int(12),
            Value::Float(471_108.5),
            Value::bytes(b"\xff471108\xff"),
        ]);
        let expected = Value::list(vec![
            Value::from(MASK),
            Value::Int(12),
            Value::from(MASK),
            Value::bytes(b"\xff***\xff"),
        ]);
        assert_eq!(masks.hide_in(value), expected);
    }
}
