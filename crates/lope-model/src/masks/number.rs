//! Numbers in a text, and secrets that are numbers: they are the same when their values are,
//! however they are written. `12345.60` is `12345.6` is `1.23456e4`.

/// Most characters of a number.
const NUMBER_MAX: usize = 512;

/// The value of a text that is a number and nothing else.
pub(super) fn value_of(text: &str) -> Option<f64> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let end = end_of(digits.as_bytes(), 0)?;
    let value: f64 = digits.parse().ok()?;
    (end == digits.len() && value.is_finite()).then_some(value)
}

/// The number that begins at `at`, without its sign: where it ends, and its value.
pub(super) fn number_at(text: &[u8], at: usize) -> Option<(usize, f64)> {
    let is_inside = at > 0 && (text[at - 1].is_ascii_digit() || text[at - 1] == b'.');
    let end = end_of(text, at).filter(|_| !is_inside)?;
    let value = std::str::from_utf8(&text[at..end]).ok()?.parse().ok()?;
    Some((end, value))
}

/// Would more of the text make this another number? Not if it is longer than numbers are.
pub(super) fn is_open(text: &[u8], at: usize) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_digit() || b".eE+-".contains(byte);
    text.len() - at <= NUMBER_MAX && text[at..].iter().all(is_part)
}

fn end_of(text: &[u8], at: usize) -> Option<usize> {
    let digits = |at: usize| {
        let rest = text.get(at..).unwrap_or_default();
        at + rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
    };
    let whole = digits(at);
    let mut end = whole;
    if text.get(whole) == Some(&b'.') {
        let fraction = digits(whole + 1);
        if fraction > whole + 1 {
            end = fraction;
        }
    }
    if end == at || end - at > NUMBER_MAX {
        return None;
    }
    if matches!(text.get(end), Some(b'e' | b'E')) {
        let signed = end + 1 + usize::from(matches!(text.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits(signed);
        if exponent > signed {
            end = exponent;
        }
    }
    Some(end)
}
