//! The properties of characters are those that the tables were made with, whatever the compiler.
//!
//! `LOPE_BLESS=1` makes the tables anew from the compiler's own. That is a change of the law: what
//! expressions answer changes with it. Raise `lope_flow::LAW`, keep the old tables for runs of
//! older laws, and then the version and the digest below.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fmt::Write as _;
use std::path::Path;

use lope_values::unicode;

/// FNV-1a of the tables.
const DIGEST: u64 = 0x1369_2f8f_de11_01eb;

const TABLES: &str = include_str!("../src/unicode/tables.txt");

fn all() -> impl Iterator<Item = char> {
    '\0'..=char::MAX
}

fn ranges(name: &str, holds: impl Fn(char) -> bool) -> String {
    let mut found: Vec<(u32, u32)> = Vec::new();
    for code in all().filter(|c| holds(*c)).map(|c| c as u32) {
        match found.last_mut() {
            Some((_, high)) if *high + 1 == code => *high = code,
            _ => found.push((code, code)),
        }
    }
    let mut line = format!("{name}:");
    for (low, high) in found {
        if low == high {
            write!(line, " {low:x}").unwrap();
        } else {
            write!(line, " {low:x}-{high:x}").unwrap();
        }
    }
    line
}

fn mappings(name: &str, map: impl Fn(char) -> Vec<char>) -> String {
    let mut line = format!("{name}:");
    for c in all() {
        let to = map(c);
        if to != [c] {
            let codes: Vec<String> = to.iter().map(|c| format!("{:x}", *c as u32)).collect();
            write!(line, " {:x}={}", c as u32, codes.join("+")).unwrap();
        }
    }
    line
}

/// Is a sigma after this text the last letter of a word?
fn ends_word(before: &str) -> bool {
    format!("{before}Σ").to_lowercase().ends_with('ς')
}

/// Passed over when a letter with case is looked for.
fn is_case_ignorable(c: char) -> bool {
    ends_word(&format!("a{c}")) && !ends_word(&c.to_string())
}

fn made_by_the_compiler() -> String {
    let lines = [
        ranges("alphabetic", char::is_alphabetic),
        ranges("numeric", char::is_numeric),
        ranges("lowercase", char::is_lowercase),
        ranges("uppercase", char::is_uppercase),
        ranges("cased", |c| ends_word(&c.to_string())),
        ranges("case_ignorable", is_case_ignorable),
        mappings("to_lower", |c| c.to_lowercase().collect()),
        mappings("to_upper", |c| c.to_uppercase().collect()),
    ];
    lines.join("\n") + "\n"
}

fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |digest, byte| {
        (digest ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

#[test]
fn the_tables_change_only_with_the_law() {
    if std::env::var_os("LOPE_BLESS").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/unicode/tables.txt");
        std::fs::write(path, made_by_the_compiler()).unwrap();
    }
    assert_eq!(unicode::VERSION, (17, 0, 0), "see the head of this file");
    assert_eq!(fnv(TABLES), DIGEST, "see the head of this file");
}

/// With a compiler of another Unicode version there is nothing to compare with; the tables stay.
#[test]
fn the_tables_are_those_of_a_compiler_of_their_version() {
    if char::UNICODE_VERSION != unicode::VERSION {
        return;
    }
    assert!(
        TABLES == made_by_the_compiler(),
        "see the head of this file"
    );
    for c in all() {
        assert_eq!(unicode::is_alphabetic(c), c.is_alphabetic(), "{c:?}");
        assert_eq!(unicode::is_numeric(c), c.is_numeric(), "{c:?}");
        assert_eq!(unicode::is_whitespace(c), c.is_whitespace(), "{c:?}");
        assert_eq!(unicode::is_lowercase(c), c.is_lowercase(), "{c:?}");
        assert_eq!(unicode::is_uppercase(c), c.is_uppercase(), "{c:?}");
        assert!(unicode::lower(c).eq(c.to_lowercase()), "{c:?}");
        assert!(unicode::upper(c).eq(c.to_uppercase()), "{c:?}");
    }
}

#[test]
fn texts_change_case_as_a_whole() {
    let texts = [
        "",
        "ASCII Text",
        "Straße",
        "ΟΔΥΣΣΕΥΣ",
        "Σ",
        "ΑΣ.",
        "ΑΣ.Α",
        "Α\u{301}Σ",
        "Α·Σ",
        "İstanbul",
        "ǅungla",
        "ﬃ",
        "\0",
        "ΣΑΣ ΣΑ",
    ];
    let lowered = [
        "",
        "ascii text",
        "straße",
        "οδυσσευς",
        "σ",
        "ας.",
        "ασ.α",
        "α\u{301}ς",
        "α·ς",
        "i\u{307}stanbul",
        "ǆungla",
        "ﬃ",
        "\0",
        "σας σα",
    ];
    for (text, lower) in texts.into_iter().zip(lowered) {
        assert_eq!(unicode::to_lowercase(text), lower);
    }
    assert_eq!(
        unicode::to_uppercase("Straße ﬃ ŉ ἴδε"),
        "STRASSE FFI ʼN ἼΔΕ"
    );
    assert_eq!(unicode::trim("\u{2003}\t a b \u{a0}"), "a b");
}
