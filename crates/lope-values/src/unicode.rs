//! What characters are: letters, numbers, white space, upper and lower case, as the Unicode version
//! named in [`VERSION`] has them.
//!
//! The standard library follows the Unicode version of the compiler, and what an expression answers
//! must not change with the compiler. So the properties are read from `unicode/tables.txt`, which
//! was made once; `tests/unicode.rs` makes it and compares it with the compiler's. A newer version
//! is a change of the law. Digits are in `py`, which follows Python's version.

use std::ops::RangeInclusive;
use std::sync::LazyLock;

/// The Unicode version of the tables.
pub const VERSION: (u8, u8, u8) = (17, 0, 0);

const TABLES: &str = include_str!("unicode/tables.txt");

/// Most characters that one becomes in another case.
const MAPPED_MAX: usize = 3;

static CHARACTERS: LazyLock<Characters> = LazyLock::new(|| Characters {
    alphabetic: ranges("alphabetic"),
    numeric: ranges("numeric"),
    lowercase: ranges("lowercase"),
    uppercase: ranges("uppercase"),
    cased: ranges("cased"),
    case_ignorable: ranges("case_ignorable"),
    to_lower: mappings("to_lower"),
    to_upper: mappings("to_upper"),
});

#[derive(Debug)]
struct Characters {
    alphabetic: Vec<RangeInclusive<u32>>,
    numeric: Vec<RangeInclusive<u32>>,
    lowercase: Vec<RangeInclusive<u32>>,
    uppercase: Vec<RangeInclusive<u32>>,
    cased: Vec<RangeInclusive<u32>>,
    case_ignorable: Vec<RangeInclusive<u32>>,
    to_lower: Vec<CaseMapping>,
    to_upper: Vec<CaseMapping>,
}

/// A character and what it becomes in another case; zeros follow the last.
#[derive(Debug)]
struct CaseMapping {
    from: u32,
    to: [char; MAPPED_MAX],
}

pub fn is_alphabetic(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_alphabetic();
    }
    holds(&CHARACTERS.alphabetic, c)
}

pub fn is_numeric(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_digit();
    }
    holds(&CHARACTERS.numeric, c)
}

pub fn is_alphanumeric(c: char) -> bool {
    is_alphabetic(c) || is_numeric(c)
}

pub fn is_lowercase(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_lowercase();
    }
    holds(&CHARACTERS.lowercase, c)
}

pub fn is_uppercase(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_uppercase();
    }
    holds(&CHARACTERS.uppercase, c)
}

pub const fn is_whitespace(c: char) -> bool {
    matches!(
        c,
        '\u{9}'..='\u{d}'
            | ' '
            | '\u{85}'
            | '\u{a0}'
            | '\u{1680}'
            | '\u{2000}'..='\u{200a}'
            | '\u{2028}'
            | '\u{2029}'
            | '\u{202f}'
            | '\u{205f}'
            | '\u{3000}'
    )
}

/// The text without white space around it.
pub fn trim(text: &str) -> &str {
    text.trim_matches(is_whitespace)
}

/// What a character becomes in lower case, whatever stands around it.
pub fn lower(c: char) -> impl Iterator<Item = char> {
    if c.is_ascii() {
        return several([c.to_ascii_lowercase(), '\0', '\0']);
    }
    several(mapped(&CHARACTERS.to_lower, c))
}

/// What a character becomes in upper case.
pub fn upper(c: char) -> impl Iterator<Item = char> {
    if c.is_ascii() {
        return several([c.to_ascii_uppercase(), '\0', '\0']);
    }
    several(mapped(&CHARACTERS.to_upper, c))
}

/// A text in lower case. A sigma at the end of a word has a form of its own.
pub fn to_lowercase(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    let mut lowered = String::with_capacity(text.len());
    for (index, c) in text.char_indices() {
        if c == 'Σ' {
            let after = &text[index + c.len_utf8()..];
            lowered.push(if ends_word(&text[..index], after) {
                'ς'
            } else {
                'σ'
            });
        } else {
            lowered.extend(lower(c));
        }
    }
    lowered
}

/// A text in upper case.
pub fn to_uppercase(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_uppercase();
    }
    text.chars().flat_map(upper).collect()
}

/// Does a letter with case stand before, and none after? What has no weight for case is passed
/// over.
fn ends_word(before: &str, after: &str) -> bool {
    let tables = &*CHARACTERS;
    let counts = |c: &char| !holds(&tables.case_ignorable, *c);
    let is_cased = |c: char| holds(&tables.cased, c);
    before.chars().rev().find(counts).is_some_and(is_cased)
        && !after.chars().find(counts).is_some_and(is_cased)
}

fn holds(ranges: &[RangeInclusive<u32>], c: char) -> bool {
    let code = c as u32;
    let next = ranges.partition_point(|range| *range.end() < code);
    ranges.get(next).is_some_and(|range| range.contains(&code))
}

fn mapped(mappings: &[CaseMapping], c: char) -> [char; MAPPED_MAX] {
    let found = mappings.binary_search_by_key(&(c as u32), |mapping| mapping.from);
    found.map_or([c, '\0', '\0'], |index| mappings[index].to)
}

fn several(chars: [char; MAPPED_MAX]) -> impl Iterator<Item = char> {
    let mut first = true;
    // A zero is itself only where it is the first.
    chars
        .into_iter()
        .take_while(move |c| std::mem::take(&mut first) || *c != '\0')
}

/// The words of a line of the tables.
fn words(name: &str) -> impl Iterator<Item = &'static str> {
    let line = TABLES
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.expect("the tables have a line for every property")
        .split_ascii_whitespace()
}

fn code(hex: &str) -> u32 {
    u32::from_str_radix(hex, 16).expect("the tables are made of hexadecimal numbers")
}

fn ranges(name: &str) -> Vec<RangeInclusive<u32>> {
    let range = |word: &str| {
        let (low, high) = word.split_once('-').unwrap_or((word, word));
        code(low)..=code(high)
    };
    words(name).map(range).collect()
}

fn mappings(name: &str) -> Vec<CaseMapping> {
    let mapping = |word: &str| {
        let (from, to) = word.split_once('=').expect("a mapping has two sides");
        let mut chars = ['\0'; MAPPED_MAX];
        for (index, hex) in chars.iter_mut().zip(to.split('+')) {
            *index = char::from_u32(code(hex)).expect("the tables hold characters");
        }
        CaseMapping {
            from: code(from),
            to: chars,
        }
    };
    words(name).map(mapping).collect()
}
