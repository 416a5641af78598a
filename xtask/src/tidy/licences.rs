//! Rule `licences`: every dependency may be shipped under ours. In: the licence expressions of all
//! packages in the lock file, also those for other platforms; out: a finding per package whose
//! expression cannot be met from the list.

use super::report::TidyReport;
use crate::tree::{SourceTree, line_of};

const ALLOWED: &[&str] = &[
    "MIT",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "0BSD",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "Unicode-3.0",
    "Unicode-DFS-2016",
    "MPL-2.0",
    "CDLA-Permissive-2.0",
];

pub(super) fn check(tree: &SourceTree, report: &mut TidyReport) {
    let lock = tree.text("Cargo.lock").unwrap_or_default();
    for package in &tree.packages {
        let entry = format!("name = \"{}\"", package.name);
        let line = line_of(lock, |line| line == entry);
        let name = format!("{} {}", package.name, package.version);
        match &package.licence {
            None => report.find("Cargo.lock", line, format!("{name} names no licence")),
            Some(licence) if !allowed(licence) => {
                report.find(
                    "Cargo.lock",
                    line,
                    format!("{name} is under `{licence}`, which is not on the list"),
                );
            }
            Some(_) => {}
        }
    }
}

/// Whether the expression can be met with allowed licences. What does not parse is not allowed.
fn allowed(expression: &str) -> bool {
    let spaced = expression
        .replace('(', " ( ")
        .replace(')', " ) ")
        .replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    let met = either(&mut rest);
    met == Some(true) && rest.is_empty()
}

fn either(words: &mut &[&str]) -> Option<bool> {
    let mut met = both(words)?;
    while take(words, "OR") {
        met |= both(words)?;
    }
    Some(met)
}

fn both(words: &mut &[&str]) -> Option<bool> {
    let mut met = single(words)?;
    while take(words, "AND") {
        met &= single(words)?;
    }
    Some(met)
}

fn single(words: &mut &[&str]) -> Option<bool> {
    if take(words, "(") {
        let met = either(words)?;
        return take(words, ")").then_some(met);
    }
    let mut licence = next(words)?.to_owned();
    if take(words, "WITH") {
        licence = format!("{licence} WITH {}", next(words)?);
    }
    Some(ALLOWED.contains(&licence.as_str()))
}

fn take(words: &mut &[&str], wanted: &str) -> bool {
    let found = words.first() == Some(&wanted);
    if found {
        *words = &words[1..];
    }
    found
}

fn next<'text>(words: &mut &[&'text str]) -> Option<&'text str> {
    let (first, rest) = words.split_first()?;
    *words = rest;
    Some(first)
}

#[cfg(test)]
mod tests {
    use super::super::report::lines;
    use super::*;
    use crate::workspace::Package;

    #[test]
    fn expressions_that_can_be_met_pass() {
        let fine = [
            "MIT",
            "MIT OR Apache-2.0",
            "MIT/Apache-2.0",
            "GPL-3.0 OR MIT",
            "(MIT OR GPL-2.0) AND Unicode-3.0",
        ];
        assert!(fine.iter().all(|licence| allowed(licence)));
        assert!(allowed(
            "Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT"
        ));
    }

    #[test]
    fn expressions_that_cannot_be_met_or_read_do_not() {
        let wrong = [
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "GPL-2.0 WITH Classpath-exception-2.0",
            "",
            "MIT OR",
            "(MIT",
            "MIT MIT",
        ];
        for licence in wrong {
            assert!(!allowed(licence), "{licence}");
        }
    }

    #[test]
    fn a_package_is_found_with_its_line_in_the_lock_file() {
        let mut tree = SourceTree::made_of(&[("Cargo.lock", "[[package]]\nname = \"glue\"\n")]);
        let package = |licence: Option<&str>| Package {
            name: "glue".into(),
            version: "1.2.3".into(),
            licence: licence.map(str::to_owned),
            ..Package::default()
        };
        tree.packages = vec![
            package(Some("AGPL-3.0")),
            package(None),
            package(Some("MIT")),
        ];
        let expected = [
            "Cargo.lock:2: rule: glue 1.2.3 is under `AGPL-3.0`, which is not on the list",
            "Cargo.lock:2: rule: glue 1.2.3 names no licence",
        ];
        assert_eq!(lines(check, &tree), expected);
    }
}
