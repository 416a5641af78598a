//! Rule `headers`: a file says first what it is. In: Rust and SQL files; out: a finding for each
//! that starts otherwise.

use super::report::TidyReport;
use crate::tree::{SourceTree, has_extension};

/// How a header starts, by extension.
const HEADERS: &[(&str, &str)] = &[("rs", "//!"), ("sql", "--")];

pub(super) fn check(tree: &SourceTree, report: &mut TidyReport) {
    for file in &tree.files {
        let Some((_, mark)) = HEADERS
            .iter()
            .find(|(extension, _)| has_extension(&file.path, extension))
        else {
            continue;
        };
        if !has_header(&file.text, mark) {
            report.find(
                &file.path,
                1,
                format!("the file must start with a `{mark}` header that says what is here"),
            );
        }
    }
}

fn has_header(text: &str, mark: &str) -> bool {
    let first = text
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .unwrap_or_default();
    first
        .strip_prefix(mark)
        .is_some_and(|words| words.contains(char::is_alphabetic))
}

#[cfg(test)]
mod tests {
    use super::super::report::lines;
    use super::*;

    #[test]
    fn files_with_headers_pass() {
        let files = [
            ("a.rs", "//! The queue.\nfn f() {}\n"),
            ("b.sql", "\n-- The tables.\n"),
            ("c.txt", "no header"),
        ];
        assert!(lines(check, &SourceTree::made_of(&files)).is_empty());
    }

    #[test]
    fn missing_late_and_empty_headers_are_found() {
        let files = [
            ("a.rs", "use a::b;\n"),
            ("b.rs", "// plain\n"),
            ("c.rs", "//!\nfn f() {}\n"),
            ("d.rs", ""),
        ];
        assert_eq!(lines(check, &SourceTree::made_of(&files)).len(), 4);
        assert_eq!(
            lines(
                check,
                &SourceTree::made_of(&[("e.sql", "create table t (a);\n-- late\n")])
            )
            .len(),
            1
        );
    }
}
