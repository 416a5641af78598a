//! Rule `text-rules`: what the law and its expressions say of a text does not change with the Unicode
//! version of a compiler: they ask their own pinned tables, or ASCII. In: the sources of the law's
//! rooms; out: a finding per line that asks the standard library.

use super::report::TidyReport;
use crate::tree::SourceTree;

const ROOMS: &[&str] = &["crates/lope-expr/src/", "crates/lope-flow/src/"];
const OF_THE_COMPILER: &[&str] = &[
    "is_alphabetic",
    "is_alphanumeric",
    "is_numeric",
    "is_whitespace",
    "is_uppercase",
    "is_lowercase",
    "to_uppercase",
    "to_lowercase",
    "split_whitespace",
    "trim",
    "trim_start",
    "trim_end",
];

pub(super) fn check(tree: &SourceTree, report: &mut TidyReport) {
    let of_the_law = |path: &str| ROOMS.iter().any(|room| path.starts_with(room));
    for file in tree.files.iter().filter(|file| of_the_law(&file.path)) {
        let code = file.text.split("#[cfg(test)]").next().unwrap_or_default();
        for (index, line) in code.lines().enumerate() {
            let called = OF_THE_COMPILER
                .iter()
                .find(|name| line.contains(&format!(".{name}()")));
            if let Some(name) = called {
                let message = format!("`{name}` follows the compiler's Unicode version");
                report.find(&file.path, index + 1, message);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::lines;
    use super::*;

    #[test]
    fn only_the_laws_own_code_is_held_to_its_tables() {
        let asks = "//! x\nfn f(c: char) -> bool { c.is_alphabetic() }\n";
        let tests = "//! x\n#[cfg(test)]\nmod tests { fn f() { \" a\".trim(); } }\n";
        let ascii = "//! x\nfn f(c: char) -> bool { c.is_ascii_alphabetic() }\n";
        let tree = SourceTree::made_of(&[
            ("crates/lope-flow/src/a.rs", asks),
            ("crates/lope-expr/src/b.rs", tests),
            ("crates/lope-expr/src/c.rs", ascii),
            ("crates/lope-cli/src/d.rs", asks),
        ]);
        let found = lines(check, &tree);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("lope-flow/src/a.rs:2"), "{found:?}");
    }
}
