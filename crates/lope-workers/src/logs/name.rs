//! The name of a log's file, from which its execution and attempt are read again: no two executions
//! have the same one. A path that is too long for a name stands in the first line of its file.
//!
//! Whoever hides logs goes by the execution, so a file whose execution cannot be known is no log.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use lope_model::Digest;

use super::LogEntry;

/// Bytes of a name that has its execution's whole path in it.
const PATH_MAX: usize = 150;
/// Bytes of a longer one that stand before its digest.
const BEGINNING: usize = 80;
/// What the first line of a file begins with whose name does not have the whole path.
const TITLE: &str = "the log of ";
/// Most bytes of that line.
const TITLE_MAX: u64 = 1024 * 1024;

/// `EXECUTION.ATTEMPT.log`.
pub(super) fn of(execution: &str, attempt: u32) -> String {
    format!("{}.{attempt}.log", stem(execution))
}

/// The first line of a log, if its name does not tell whose it is.
pub(super) fn title(execution: &str) -> Option<String> {
    let is_long = encoded(execution).len() > PATH_MAX;
    is_long.then(|| format!("{TITLE}{execution}\n"))
}

/// Whose log a file is; nothing if that cannot be known.
pub(super) fn read(path: &Path) -> Option<LogEntry> {
    let name = path.file_name()?.to_str()?.strip_suffix(".log")?;
    let (name, attempt) = name.rsplit_once('.')?;
    let execution = if name.contains('~') {
        titled(path)?
    } else {
        decoded(name)?
    };
    (stem(&execution) == name).then_some(LogEntry {
        execution,
        attempt: attempt.parse().ok()?,
        path: path.to_owned(),
    })
}

fn stem(execution: &str) -> String {
    let name = encoded(execution);
    if name.len() <= PATH_MAX {
        return name;
    }
    let digest = Digest::of(execution.as_bytes());
    format!("{}~{digest}", &name[..BEGINNING])
}

/// `/` is written as `,`. Capital letters have their code as well: there are file systems that take
/// them for small ones.
fn encoded(execution: &str) -> String {
    let mut name = String::with_capacity(execution.len());
    for byte in execution.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'@' => name.push(char::from(byte)),
            b'/' => name.push(','),
            other => {
                // A text takes everything.
                let _ = write!(name, "%{other:02x}");
            }
        }
    }
    name
}

fn decoded(name: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        rest = &rest[first.len_utf8()..];
        match first {
            ',' => bytes.push(b'/'),
            '%' => {
                bytes.push(u8::from_str_radix(rest.get(..2)?, 16).ok()?);
                rest = &rest[2..];
            }
            other => bytes.push(u8::try_from(other).ok()?),
        }
    }
    String::from_utf8(bytes).ok()
}

/// The execution that the first line of a file names.
fn titled(path: &Path) -> Option<String> {
    let mut line = String::new();
    let file = File::open(path).ok()?;
    BufReader::new(file.take(TITLE_MAX))
        .read_line(&mut line)
        .ok()?;
    let execution = line.strip_prefix(TITLE)?.strip_suffix('\n')?;
    Some(execution.to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;

    /// Paths that once had the same name, or one that named another.
    fn executions() -> Vec<String> {
        let short = [
            "a",
            "A",
            "a/0/b",
            "@2/a",
            "a.b",
            "a/b",
            "a+b",
            "a,b",
            "a%2cb",
            "a~b",
            "schl\u{fc}ssel",
            "schl/ssel",
            "schritt_\u{e4}",
            "schritt_\u{f6}",
            "a.1",
        ];
        let long = [150, 151, 500].map(|length| "z".repeat(length));
        let ends = ["x", "y"].map(|end| format!("{}/{end}", "\u{fc}".repeat(100)));
        let short = short.into_iter().map(str::to_owned);
        short.chain(long).chain(ends).collect()
    }

    #[test]
    fn every_execution_has_a_name_of_its_own_and_is_read_from_it() {
        let folder = tempfile::tempdir().unwrap();
        let mut names = BTreeSet::new();
        for execution in executions() {
            for attempt in [1, u32::MAX] {
                let name = of(&execution, attempt);
                assert!(name.len() < 250, "{name}");
                let path = folder.path().join(&name);
                assert!(names.insert(name.to_lowercase()), "{name} is of two");
                fs::write(&path, title(&execution).unwrap_or_default()).unwrap();
                let entry = LogEntry {
                    execution: execution.clone(),
                    attempt,
                    path: path.clone(),
                };
                assert_eq!(read(&path), Some(entry), "{name}");
            }
        }
        assert_eq!(of("mail/3/send", 2), "mail,3,send.2.log");
    }

    /// A name that is not what its execution would have is no log: it might be shown as another's.
    #[test]
    fn a_file_whose_execution_cannot_be_known_is_no_log() {
        let folder = tempfile::tempdir().unwrap();
        let long = of(&"z".repeat(200), 1);
        for (name, text) in [
            ("schl+ssel.1.log", ""),
            ("A.1.log", ""),
            ("%61.1.log", ""),
            ("%2E.1.log", ""),
            ("%fc.1.log", ""),
            ("%+1.1.log", ""),
            ("%2.1.log", ""),
            ("a.x.log", ""),
            ("a.log", ""),
            ("a.1.txt", ""),
            (&long, ""),
            (&long, "the log of zzz"),
            (&long, "the log of zzz\n"),
            (&long, "2026-11-18T15:43:59.313Z out z\n"),
        ] {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            assert_eq!(read(&path), None, "{name} {text}");
        }
    }
}
