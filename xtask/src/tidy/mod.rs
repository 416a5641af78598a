//! `cargo xtask tidy`: the rules that a reviewer should not have to remember. In: the tree; out:
//! one line per finding, `path:line: rule: message`, and exit code 1 when there is one. A rule is
//! one file here and one line in `RULES`.

mod crate_sizes;
mod cycles;
mod documents;
mod headers;
mod imports;
mod layers;
mod leftovers;
mod licences;
mod machine_paths;
mod modules;
mod names;
mod report;
mod sizes;
mod sql_names;
mod sql_schema;
mod test_programs;
mod text_rules;
mod tuple_lets;
mod tuple_parameters;
mod type_names;
mod walks;

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::tree::{self, SourceTree};
use report::TidyReport;

type Check = fn(&SourceTree, &mut TidyReport);

const RULES: &[(&str, Check)] = &[
    ("layers", layers::check),
    ("cycles", cycles::check),
    ("sizes", sizes::check),
    ("crate-sizes", crate_sizes::check),
    ("names", names::check),
    ("type-names", type_names::check),
    ("tuple-lets", tuple_lets::check),
    ("tuple-parameters", tuple_parameters::check),
    ("headers", headers::check),
    ("leftovers", leftovers::check),
    ("sql-names", sql_names::check),
    ("licences", licences::check),
    ("machine-paths", machine_paths::check),
    ("documents", documents::check),
    ("test-programs", test_programs::check),
    ("text-rules", text_rules::check),
    ("walks", walks::check),
];

pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    if let Some(argument) = arguments.first() {
        bail!("tidy takes no argument, not even `{argument}`");
    }
    Ok(if tidy()? {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Checks the project and prints what it finds; whether all is well.
pub(crate) fn tidy() -> Result<bool> {
    let report = run_checks(&SourceTree::load(&tree::root()?)?);
    for note in &report.notes {
        println!("note: {note}");
    }
    for finding in &report.findings {
        println!("{finding}");
    }
    match report.findings.len() {
        0 => println!("tidy: {} rules, nothing found", RULES.len()),
        count => println!("tidy: {count} findings"),
    }
    Ok(report.findings.is_empty())
}

fn run_checks(tree: &SourceTree) -> TidyReport {
    let mut report = TidyReport::default();
    for (rule, check) in RULES {
        report.rule = rule;
        check(tree, &mut report);
    }
    report.findings.sort();
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_sorted_lines_with_the_name_of_their_rule() {
        let report = run_checks(&SourceTree::made_of(&[
            ("crates/b/src/lib.rs", "fn f() {}\n"),
            ("crates/a/src/lib.rs", "\n"),
        ]));
        let lines: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(
            lines[0].starts_with("crates/a/src/lib.rs:1: headers: "),
            "{lines:?}"
        );
        assert!(
            lines[1].starts_with("crates/b/src/lib.rs:1: headers: "),
            "{lines:?}"
        );
    }
}
