//! Rule `crate-sizes`: a room ends somewhere too. In: parsed Rust files below each member's `src`;
//! out: a finding for a crate with more lines of code than STYLE.md allows. Blank lines, comments and
//! code for tests are not counted.

use super::report::TidyReport;
use super::sizes::code_lines;
use crate::tree::SourceTree;

const CRATE_LINES: usize = 8_000;

/// All of it is code for tests, though it stands in a library so that every store can run it.
const TESTS_ALONE: &[&str] = &["lope-conformance"];

pub(super) fn check(tree: &SourceTree, report: &mut TidyReport) {
    for package in tree.members() {
        if TESTS_ALONE.contains(&package.name.as_str()) {
            continue;
        }
        let source = format!("{}/src/", package.folder());
        let files = tree.rust.iter().filter(|file| !file.test);
        let files = files.filter(|file| file.path.starts_with(&source));
        let lines: usize = files.map(code_lines).sum();
        if lines > CRATE_LINES {
            let name = &package.name;
            report.find(
                &package.manifest,
                1,
                format!("`{name}` has {lines} lines of code, more than {CRATE_LINES}"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::lines;
    use super::*;
    use crate::workspace::Package;

    fn found(code: &str) -> Vec<String> {
        let files = [
            ("crates/a/src/lib.rs", code),
            ("crates/a/src/b.rs", "fn g() {}\n"),
            ("crates/a/tests/c.rs", "fn t() {}\n"),
        ];
        let mut tree = SourceTree::made_of(&files);
        tree.packages.push(Package {
            name: "a".to_owned(),
            manifest: "crates/a/Cargo.toml".to_owned(),
            member: true,
            ..Package::default()
        });
        lines(check, &tree)
    }

    #[test]
    fn code_is_counted_over_the_files_of_a_crate() {
        let full = "const A: u8 = 1;\n".repeat(CRATE_LINES - 1);
        let rest = "// a comment\n\n#[cfg(test)]\nmod tests {\n    fn f() {}\n}\n";
        assert!(found(&format!("{full}{rest}")).is_empty());
        let expected = "crates/a/Cargo.toml:1: rule: `a` has 8001 lines of code, more than 8000";
        assert_eq!(found(&format!("{full}fn f() {{}}\n")), [expected]);
    }
}
