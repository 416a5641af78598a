//! Rule `leftovers`: no half-done work stays in the code. In: Rust, SQL and Python files; out: a
//! finding per line with a mark that somebody meant to come back to, a stub, or a test that is
//! switched off.

use super::report::TidyReport;
use crate::tree::{SourceTree, has_extension};

/// What is looked for. Each is written in two halves, or this file would find itself.
const MARKS: &[(&str, &str)] = &[
    (concat!("TO", "DO"), "open work belongs into an issue"),
    (concat!("FIX", "ME"), "open work belongs into an issue"),
    (concat!("todo", "!("), "finish it or leave it out"),
    (concat!("unimplemented", "!("), "finish it or leave it out"),
    (concat!("dbg", "!("), "a debugging aid was left behind"),
    (
        concat!("#[ig", "nore"),
        "a test that does not run protects nothing",
    ),
];

const EXTENSIONS: &[&str] = &["rs", "sql", "py"];

pub(super) fn check(tree: &SourceTree, report: &mut TidyReport) {
    for file in tree.files.iter().filter(|file| {
        EXTENSIONS
            .iter()
            .any(|kind| has_extension(&file.path, kind))
    }) {
        for (index, line) in file.text.lines().enumerate() {
            if let Some((mark, why)) = MARKS.iter().find(|(mark, _)| line.contains(mark)) {
                report.find(&file.path, index + 1, format!("`{mark}`: {why}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::lines;
    use super::*;

    #[test]
    fn finished_code_passes() {
        assert!(
            lines(
                check,
                &SourceTree::made_of(&[("a.rs", "//! Done.\n#[test]\nfn f() {}\n")])
            )
            .is_empty()
        );
    }

    #[test]
    fn every_mark_is_found_in_code_and_not_in_documents() {
        for (mark, _) in MARKS {
            let line = format!("// {mark}\n");
            assert_eq!(
                lines(check, &SourceTree::made_of(&[("a.rs", &line)])).len(),
                1,
                "{mark}"
            );
            assert!(
                lines(check, &SourceTree::made_of(&[("a.md", &line)])).is_empty(),
                "{mark}"
            );
        }
    }
}
