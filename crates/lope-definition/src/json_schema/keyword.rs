//! The words of JSON Schema: which are enforced, which only describe, which formats are known.
//!
//! A schema with any other word is refused when it is read: what nobody enforces would look like a
//! promise.

use std::net::{Ipv4Addr, Ipv6Addr};

use lope_model::Timestamp;
use lope_values::pattern::Pattern;
use lope_values::{EvalError, Fuel, unicode};

/// Words that decide whether a value fits.
pub(crate) const ENFORCED: [&str; 38] = [
    "$defs",
    "$ref",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "contains",
    "definitions",
    "dependentRequired",
    "else",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "if",
    "items",
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "oneOf",
    "pattern",
    "patternProperties",
    "prefixItems",
    "properties",
    "propertyNames",
    "required",
    "then",
    "type",
    "uniqueItems",
];
/// Words that only describe.
pub(crate) const DESCRIBING: [&str; 10] = [
    "$comment",
    "$id",
    "$schema",
    "default",
    "deprecated",
    "description",
    "examples",
    "readOnly",
    "title",
    "writeOnly",
];
/// Formats that are looked at.
pub(crate) const FORMATS: [&str; 8] = [
    "date",
    "date-time",
    "email",
    "ipv4",
    "ipv6",
    "regex",
    "uri",
    "uuid",
];
/// What one look at a text may cost.
const FUEL: u64 = 10_000_000;

/// Is a word one that a schema may have?
pub(crate) fn is_known(word: &str) -> bool {
    ENFORCED.contains(&word) || DESCRIBING.contains(&word) || word.starts_with("x-")
}

/// Does a text have the format?
pub(super) fn has_format(format: &str, text: &str) -> bool {
    match format {
        "date" => is_date(text),
        "date-time" => text.contains(['T', 't', ' ']) && text.parse::<Timestamp>().is_ok(),
        "email" => is_email(text),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "regex" => pattern(text).is_ok(),
        "uri" => is_uri(text),
        "uuid" => is_uuid(text),
        _ => true,
    }
}

/// A pattern, or what is wrong with it.
pub(crate) fn pattern(text: &str) -> Result<Pattern, EvalError> {
    Pattern::read(text, &mut Fuel::new(FUEL))
}

/// Is there a part of a text that fits a pattern?
pub(super) fn is_found(pattern_text: &str, text: &str) -> Result<bool, EvalError> {
    pattern(pattern_text)?.is_found_in(text, &mut Fuel::new(FUEL))
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && format!("{text}T00:00:00Z").parse::<Timestamp>().is_ok()
}

fn is_email(text: &str) -> bool {
    let whole = !text.contains(|c: char| unicode::is_whitespace(c) || c.is_control());
    whole
        && text
            .rsplit_once('@')
            .is_some_and(|(name, host)| !name.is_empty() && !host.is_empty())
}

fn is_uri(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_graphic() && !"\"<>\\^`{|}".contains(c);
    let is_scheme = |scheme: &str| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    };
    text.chars().all(is_plain)
        && text
            .split_once(':')
            .is_some_and(|(scheme, _)| is_scheme(scheme))
}

fn is_uuid(text: &str) -> bool {
    let groups: Vec<usize> = text.split('-').map(str::len).collect();
    let is_written = text.chars().all(|c| c == '-' || c.is_ascii_hexdigit());
    is_written && groups == [8, 4, 4, 4, 12]
}
