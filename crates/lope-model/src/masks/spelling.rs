//! The ways in which one character is written down: as it is, behind backslashes (JSON, Python,
//! JavaScript, also several times over), and with percent signs.
//!
//! Each character of a text is free to be written in its own way, since programs differ in what
//! they escape: `/` as `\/`, `<` as `\u003c`, capital digits or small ones.

/// Most backslashes in a row that stand for one thing: JSON in JSON in JSON.
const BACKSLASHES_MAX: usize = 8;

/// How far a text that is looked for reaches in another one.
pub(super) struct MaskReach {
    /// Where it ends, if it is there; the farthest of several.
    pub end: Option<usize>,
    /// It may be there, or reach farther, once more is known than this.
    pub is_open: bool,
}

/// Does `wanted` stand in `text` from `at` on, whichever way it is written?
pub(super) fn reach(wanted: &str, text: &[u8], at: usize) -> MaskReach {
    let mut ends = vec![at];
    let mut next = Vec::new();
    let mut is_open = false;
    for c in wanted.chars() {
        for &end in &ends {
            is_open |= spellings(c, text, end, &mut next);
        }
        next.sort_unstable();
        next.dedup();
        std::mem::swap(&mut ends, &mut next);
        next.clear();
        if ends.is_empty() {
            break;
        }
    }
    MaskReach {
        end: ends.last().copied(),
        is_open,
    }
}

/// The bytes with which a character may begin, however it is written.
pub(super) fn first_bytes(c: char) -> Vec<u8> {
    let mut bytes = vec![c.encode_utf8(&mut [0; 4]).as_bytes()[0], b'\\', b'%'];
    match c {
        ' ' => bytes.push(b'+'),
        '\n' => bytes.push(b'\r'),
        _ => {}
    }
    bytes.sort_unstable();
    bytes.dedup();
    bytes
}

/// Where the character that begins at `at` ends. The answer: is there more if more is known?
fn spellings(c: char, text: &[u8], at: usize, ends: &mut Vec<usize>) -> bool {
    let plain = c.encode_utf8(&mut [0; 4]).to_owned();
    let mut is_open = note(begins(text, at, plain.as_bytes()), ends);
    match text.get(at) {
        None => return true,
        Some(b'\\') => is_open |= escaped(c, text, at, ends),
        Some(b'%') => {
            let bytes: Vec<u8> = plain.bytes().collect();
            is_open |= note(percent(text, at, &bytes), ends);
            if c == '\n' {
                is_open |= note(percent(text, at, b"\r\n"), ends);
            }
        }
        Some(b'+') if c == ' ' => ends.push(at + 1),
        Some(b'\r') if c == '\n' => is_open |= note(begins(text, at, b"\r\n"), ends),
        Some(_) => {}
    }
    is_open
}

/// How something compares with what stands somewhere.
enum Compared {
    Ends(usize),
    /// The text ends before it does.
    Cut,
    Differs,
}

fn note(compared: Compared, ends: &mut Vec<usize>) -> bool {
    match compared {
        Compared::Ends(end) => {
            ends.push(end);
            false
        }
        Compared::Cut => true,
        Compared::Differs => false,
    }
}

fn begins(text: &[u8], at: usize, wanted: &[u8]) -> Compared {
    let rest = &text[at.min(text.len())..];
    if rest.starts_with(wanted) {
        Compared::Ends(at + wanted.len())
    } else if wanted.starts_with(rest) {
        Compared::Cut
    } else {
        Compared::Differs
    }
}

/// The same, whether letters are capital or small.
fn begins_in_any_case(text: &[u8], at: usize, wanted: &[u8]) -> Compared {
    let rest = &text[at.min(text.len())..];
    let both = rest.len().min(wanted.len());
    if !rest[..both].eq_ignore_ascii_case(&wanted[..both]) {
        Compared::Differs
    } else if both < wanted.len() {
        Compared::Cut
    } else {
        Compared::Ends(at + both)
    }
}

fn percent(text: &[u8], at: usize, bytes: &[u8]) -> Compared {
    let encoded: String = bytes.iter().map(|byte| format!("%{byte:02X}")).collect();
    begins_in_any_case(text, at, encoded.as_bytes())
}

fn escaped(c: char, text: &[u8], at: usize, ends: &mut Vec<usize>) -> bool {
    let mut is_open = false;
    if c == '\\' {
        let run = backslashes(text, at);
        ends.extend(
            [2, 4, BACKSLASHES_MAX]
                .iter()
                .filter(|count| **count <= run)
                .map(|count| at + count),
        );
        is_open |= at + run == text.len() && run < BACKSLASHES_MAX;
    }
    for units in escapes(c) {
        is_open |= note(behind_backslashes(text, at, &units), ends);
    }
    is_open
}

fn backslashes(text: &[u8], at: usize) -> usize {
    text[at..].iter().take_while(|byte| **byte == b'\\').count()
}

fn behind_backslashes(text: &[u8], at: usize, units: &[String]) -> Compared {
    let mut end = at;
    for unit in units {
        let run = backslashes(text, end);
        if end + run == text.len() && run <= BACKSLASHES_MAX {
            return Compared::Cut;
        }
        if !(1..=BACKSLASHES_MAX).contains(&run) {
            return Compared::Differs;
        }
        match begins_in_any_case(text, end + run, unit.as_bytes()) {
            Compared::Ends(next) => end = next,
            other => return other,
        }
    }
    Compared::Ends(end)
}

/// What stands behind a backslash, or behind each of several, for a character.
fn escapes(c: char) -> Vec<Vec<String>> {
    let number = u32::from(c);
    let mut escapes: Vec<Vec<String>> = letter(c)
        .map(|letter| vec![letter.to_owned()])
        .into_iter()
        .collect();
    if c == '\n' {
        escapes.push(vec!["r".to_owned(), "n".to_owned()]);
    }
    if c == ' ' || (c.is_ascii_punctuation() && c != '\\') {
        escapes.push(vec![c.to_string()]);
    }
    let utf16 = c
        .encode_utf16(&mut [0; 2])
        .iter()
        .map(|unit| format!("u{unit:04x}"))
        .collect();
    let utf8 = c
        .encode_utf8(&mut [0; 4])
        .bytes()
        .map(|byte| format!("x{byte:02x}"))
        .collect();
    escapes.extend([
        utf16,
        utf8,
        vec![format!("U{number:08x}")],
        vec![format!("u{{{number:x}}}")],
    ]);
    if number < 0x100 {
        escapes.push(vec![format!("x{number:02x}")]);
    }
    escapes
}

fn letter(c: char) -> Option<&'static str> {
    Some(match c {
        '\u{7}' => "a",
        '\u{8}' => "b",
        '\t' => "t",
        '\n' => "n",
        '\u{b}' => "v",
        '\u{c}' => "f",
        '\r' => "r",
        _ => return None,
    })
}
