//! What must not be seen, and takes it out of whatever comes back: in each way in which text is
//! commonly written down, line by line and over several lines, in numbers and in bytes.

mod number;
mod spelling;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::{Failure, Value};

/// What stands where a secret was.
pub const MASK: &str = "***";
/// Secrets, lines of them, and numbers that are shorter than this are not looked for: they would be
/// found everywhere.
const MASKED_MIN: usize = 4;
/// Lines of one secret that are looked for each by itself.
const LINES_MAX: usize = 1_000;

/// What was resolved for one task.
#[derive(Clone, Default)]
pub struct Masks(Arc<MaskedParts>);

/// What is looked for.
#[derive(Default)]
struct MaskedParts {
    /// Secrets, and lines of them.
    texts: Vec<Arc<str>>,
    /// By the byte with which a part may begin: which ones do.
    by_byte: Vec<Vec<usize>>,
    /// Those that are numbers, without signs.
    numbers: Vec<f64>,
}

/// Takes out of a stream what must not be seen, wherever its pieces end.
#[derive(Debug)]
pub struct MaskedStream {
    masks: Masks,
    /// What may be the beginning of a secret.
    held: Vec<u8>,
    /// So much at the beginning of it has been replaced already.
    covered: usize,
}

/// Where in a text something must not be seen.
struct Hidden {
    spans: Vec<Range<usize>>,
    /// From here on it depends on what follows.
    open: Option<usize>,
}

impl Masks {
    pub fn of(secrets: impl IntoIterator<Item = Arc<str>>) -> Self {
        let secrets: Vec<Arc<str>> = secrets.into_iter().collect();
        Self::looking_for(secrets.iter().flat_map(|secret| parts_of(secret)).collect())
    }

    /// Both.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let both = self.0.texts.iter().chain(&other.0.texts).map(Arc::clone);
        Self::looking_for(both.collect())
    }

    fn looking_for(mut texts: Vec<Arc<str>>) -> Self {
        texts.sort();
        texts.dedup();
        if texts.is_empty() {
            return Self::default();
        }
        let mut by_byte = vec![Vec::new(); 256];
        for (index, text) in texts.iter().enumerate() {
            for byte in text
                .chars()
                .next()
                .map(spelling::first_bytes)
                .unwrap_or_default()
            {
                by_byte[usize::from(byte)].push(index);
            }
        }
        let mut numbers: Vec<f64> = texts
            .iter()
            .filter_map(|text| number::value_of(text))
            // A zero is everywhere, however many digits it is written with.
            .filter(|number| number.to_string().len() >= MASKED_MIN)
            .collect();
        numbers.sort_by(f64::total_cmp);
        Self(Arc::new(MaskedParts {
            texts,
            by_byte,
            numbers,
        }))
    }

    pub fn is_empty(&self) -> bool {
        self.0.texts.is_empty()
    }

    /// How many texts are looked for.
    pub fn len(&self) -> usize {
        self.0.texts.len()
    }

    /// The text without what must not be seen.
    pub fn hide(&self, text: &str) -> String {
        let hidden = self.hide_bytes(text.as_bytes());
        String::from_utf8(hidden)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }

    /// The same for bytes, whatever they are.
    pub fn hide_bytes(&self, bytes: &[u8]) -> Vec<u8> {
        covered(bytes, &self.0.hidden(bytes).spans, bytes.len())
    }

    /// The same for bytes that come one after another.
    pub fn stream(&self) -> MaskedStream {
        MaskedStream {
            masks: self.clone(),
            held: Vec::new(),
            covered: 0,
        }
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
            Value::Tag(tag) => Value::tag(&self.hide(&tag.name), self.hide_in(tag.value.clone())),
            other @ (Value::Null
            | Value::Bool(_)
            | Value::Int(_)
            | Value::Float(_)
            | Value::Str(_)) => other,
        }
    }

    pub fn hide_in_failure(&self, mut failure: Failure) -> Failure {
        failure.kind = self.hide(&failure.kind).into();
        let bases = failure.bases.iter();
        failure.bases = bases.map(|base| self.hide(base).into()).collect();
        failure.message = self.hide(&failure.message);
        failure.traceback = failure.traceback.map(|trace| self.hide(&trace));
        failure.detail = self.hide_in(failure.detail);
        failure
    }

    fn shows(&self, text: &str) -> bool {
        !self.0.hidden(text.as_bytes()).spans.is_empty()
    }
}

impl MaskedStream {
    /// What can be shown now; what may be the beginning of a secret is kept back.
    pub fn push(&mut self, piece: &[u8]) -> Vec<u8> {
        self.held.extend_from_slice(piece);
        self.show(|hidden, length| hidden.open.unwrap_or(length))
    }

    /// What was kept back: nothing follows.
    pub fn finish(&mut self) -> Vec<u8> {
        self.show(|_, length| length)
    }

    /// Is something kept back?
    pub fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    fn show(&mut self, until: impl FnOnce(&Hidden, usize) -> usize) -> Vec<u8> {
        let mut hidden = self.masks.0.hidden(&self.held);
        let until = until(&hidden, self.held.len());
        let mut from = self.covered;
        // What goes on from what was replaced is replaced with it.
        while hidden.spans.first().is_some_and(|span| span.start < from) {
            from = from.max(hidden.spans.remove(0).end);
        }
        let last = hidden.spans.iter().rfind(|span| span.start < until);
        let end = last.map_or(from, |span| span.end.max(from));
        let shown = if from < until {
            let spans: Vec<Range<usize>> = hidden
                .spans
                .iter()
                .filter(|span| span.start < until)
                .map(|span| span.start - from..span.end - from)
                .collect();
            covered(&self.held[from..], &spans, until - from)
        } else {
            Vec::new()
        };
        self.held.drain(..until);
        self.covered = end.saturating_sub(until);
        shown
    }
}

impl MaskedParts {
    fn hidden(&self, text: &[u8]) -> Hidden {
        let mut spans: Vec<Range<usize>> = Vec::new();
        let mut open = None;
        if self.by_byte.is_empty() {
            return Hidden { spans, open };
        }
        for at in 0..text.len() {
            let (end, is_open) = self.reach(text, at);
            if is_open && open.is_none() {
                open = Some(at);
            }
            match (end, spans.last_mut()) {
                (Some(end), Some(last)) if at < last.end => last.end = last.end.max(end),
                (Some(end), _) => spans.push(at..end),
                (None, _) => {}
            }
        }
        Hidden { spans, open }
    }

    /// How far what is looked for reaches from here, and whether that depends on what follows.
    fn reach(&self, text: &[u8], at: usize) -> (Option<usize>, bool) {
        let mut farthest = None;
        let mut is_open = false;
        for index in &self.by_byte[usize::from(text[at])] {
            let reach = spelling::reach(&self.texts[*index], text, at);
            farthest = farthest.max(reach.end);
            is_open |= reach.is_open;
        }
        let may_begin = text[at].is_ascii_digit() || text[at] == b'.';
        if may_begin && !self.numbers.is_empty() {
            is_open |= number::is_open(text, at);
            let number = number::number_at(text, at);
            let same = number.filter(|(_, value)| self.is_secret(*value));
            farthest = farthest.max(same.map(|(end, _)| end));
        }
        (farthest, is_open)
    }

    fn is_secret(&self, number: f64) -> bool {
        let found = |known: &f64| known.total_cmp(&number);
        self.numbers.binary_search_by(found).is_ok()
    }
}

impl fmt::Debug for Masks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Masks({})", self.len())
    }
}

/// The bytes until there, with the mask in place of each span that begins before.
fn covered(bytes: &[u8], spans: &[Range<usize>], until: usize) -> Vec<u8> {
    let mut shown = Vec::with_capacity(until);
    let mut at = 0;
    for span in spans {
        shown.extend_from_slice(&bytes[at..span.start]);
        shown.extend_from_slice(MASK.as_bytes());
        at = span.end;
    }
    if at < until {
        shown.extend_from_slice(&bytes[at..until]);
    }
    shown
}

/// A secret as a whole and each of its lines (logs have lines).
fn parts_of(secret: &str) -> Vec<Arc<str>> {
    let secret = secret.replace("\r\n", "\n");
    let lines = secret.lines().take(LINES_MAX).map(str::trim);
    let parts = std::iter::once(&*secret)
        .chain([secret.trim()])
        .chain(lines);
    parts
        .filter(|part| part.len() >= MASKED_MIN)
        .map(Arc::from)
        .collect()
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

    /// "wherever text leaves an attempt"
    #[test]
    fn a_failure_shows_a_secret_in_none_of_its_texts() {
        let masks = masks("s3cr3t");
        let failure = |word: &str| Failure {
            bases: vec![format!("B_{word}").into(), "ValueError".into()],
            traceback: Some(format!("at {word}")),
            detail: Value::tag(
                &format!("T_{word}"),
                Value::map([(word, Value::from(word))]),
            ),
            ..Failure::new(&format!("E_{word}"), format!("bad {word}"))
        };
        assert_eq!(masks.hide_in_failure(failure("s3cr3t")), failure(MASK));
    }

    /// A number equal in value to a secret that is a number is masked, however it is written.
    #[test]
    fn a_number_of_the_same_value_is_hidden_however_it_is_written() {
        let shown = |secret: &str, text: &str| masks(secret).hide(&format!("<{text}>"));
        for (secret, text) in [
            ("12345.60", "12345.6"),
            ("12345.60", "12345.600"),
            ("12345.60", "1.23456e4"),
            ("12345.60", "1.23456E+04"),
            ("+12345.60", "012345.6"),
            ("1234567890123456789012", "1.2345678901234568e+21"),
            ("1234567890123456789012", "1234567890123456774144"),
            ("01234", "1234"),
            ("1e10", "10000000000.0"),
        ] {
            assert_eq!(shown(secret, text), "<***>", "{secret} {text}");
        }
        assert_eq!(shown("-12345.60", "-12345.6"), "<-***>");
        for (secret, text) in [
            ("12345.60", "12345.61"),
            ("12345.60", "112345.6"),
            ("0000", "0 1"),
            ("1.00", "1"),
        ] {
            assert_eq!(shown(secret, text), format!("<{text}>"), "{secret}");
        }
        let hidden = |secret: &str, value: Value| masks(secret).hide_in(value);
        assert_eq!(hidden("12345.60", Value::Float(12_345.6)), MASK.into());
        assert_eq!(hidden("12345.60", Value::Float(-12_345.6)), MASK.into());
        assert_eq!(hidden("12345.00", Value::Int(12_345)), MASK.into());
        assert_eq!(hidden("12345", Value::Float(12_345.0)), MASK.into());
        let long = "1234567890123456789012";
        assert_eq!(
            hidden(long, Value::Float(1.234_567_890_123_456_8e21)),
            MASK.into()
        );
        assert_eq!(hidden("12345.60", Value::Int(12_345)), Value::Int(12_345));
    }

    const ODD: &str = "a/b\u{8}c\u{c}d<e>f&gä😀h\"i\\j k";

    /// Each is the same text, as one program or another escapes it.
    const ODD_ESCAPED: [&str; 8] = [
        r#"a\/b\bc\fd<e>f&gä😀h\"i\\j k"#,
        r#"a/b\bc\fd\u003ce\u003ef\u0026gä😀h\"i\\j k"#,
        r"a/b\u0008c\u000Cd\u003Ce\u003Ef\u0026g\u00E4\uD83D\uDE00h\u0022i\u005Cj\u0020k",
        r#"\u0061\u002F\u0062\u0008\u0063\u000cd<e>f&g\u00e4\ud83d\ude00h\"i\\j k"#,
        r#"a\\/b\\bc\\fd\\u003ce\\u003ef\\u0026g\\u00E4😀h\\\"i\\\\j k"#,
        r#"a/b\x08c\x0Cd<e>f&g\xE4\U0001F600h"i\\j k"#,
        "a/b\\u{8}c\\u{c}d<e>f&gä\\u{1F600}h\\\"i\\\\j k",
        "a%2Fb%08c%0cd%3Ce%3ef&g%c3%A4%F0%9F%98%80h%22i%5cj+k",
    ];

    #[test]
    fn every_escape_of_json_is_seen_through_in_small_digits_and_capital_ones() {
        let masks = masks(ODD);
        for row in ODD_ESCAPED {
            assert_eq!(masks.hide(&format!("<{row}>")), "<***>", "{row}");
            let value = masks.hide_in(Value::map([(row, Value::from(row))]));
            assert_eq!(value, Value::map([(MASK, Value::from(MASK))]), "{row}");
        }
        assert_eq!(masks.hide("a/b c<d>"), "a/b c<d>");
    }

    #[test]
    fn a_stream_shows_no_secret_wherever_its_pieces_end() {
        let known = Masks::of([Arc::from(ODD), Arc::from("12345.60"), Arc::from("k\nl\nm")]);
        let numbers = ["12345.6", "1.23456e+4", "k\r\nl\nm", "k\\nl\\r\\nm"];
        for row in ODD_ESCAPED.iter().chain(&numbers) {
            let text = format!("before {row} after");
            for size in 1..text.len() {
                let mut stream = known.stream();
                let pieces = text.as_bytes().chunks(size);
                let mut shown: Vec<u8> = pieces.flat_map(|piece| stream.push(piece)).collect();
                shown.extend(stream.finish());
                let shown = String::from_utf8(shown).unwrap();
                assert_eq!(shown, "before *** after", "{row} {size}");
            }
        }
    }

    #[test]
    fn secrets_that_overlap_are_hidden_together_wherever_pieces_end() {
        let known = Masks::of([Arc::from("abcdef"), Arc::from("defghi"), Arc::from("aaaa")]);
        for (text, expected) in [
            ("<abcdefghi>", "<***>"),
            ("<abcdefgh>", "<***gh>"),
            ("<abcabcdef>", "<abc***>"),
            ("<aaaaaaaaaaaaaa>", "<***>"),
        ] {
            assert_eq!(known.hide(text), expected);
            for size in 1..=text.len() {
                let mut stream = known.stream();
                let pieces = text.as_bytes().chunks(size);
                let mut shown: Vec<u8> = pieces.flat_map(|piece| stream.push(piece)).collect();
                assert!(stream.held.len() < 12, "no more is kept than is needed");
                shown.extend(stream.finish());
                assert_eq!(String::from_utf8(shown).unwrap(), expected, "{size}");
            }
        }
    }
}
