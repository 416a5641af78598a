//! What the rules write down: findings, which fail the check, and notes, which do not. Knows no
//! rule.

use std::fmt;

#[derive(Debug, Default)]
pub(crate) struct TidyReport {
    /// The rule that is at work; every finding carries it.
    pub(super) rule: &'static str,
    pub(super) findings: Vec<Finding>,
    pub(super) notes: Vec<String>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    path: String,
    line: usize,
    rule: &'static str,
    message: String,
}

impl TidyReport {
    pub(super) fn find(&mut self, path: &str, line: usize, message: impl Into<String>) {
        self.findings.push(Finding {
            path: path.to_owned(),
            line,
            rule: self.rule,
            message: message.into(),
        });
    }

    pub(super) fn note(&mut self, message: impl Into<String>) {
        self.notes.push(message.into());
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{}:{}: {}: {}",
            self.path, self.line, self.rule, self.message
        )
    }
}

/// What one rule finds in a made-up tree, as the lines a person would see.
#[cfg(test)]
pub(super) fn lines(
    check: fn(&crate::tree::SourceTree, &mut TidyReport),
    tree: &crate::tree::SourceTree,
) -> Vec<String> {
    let mut report = TidyReport {
        rule: "rule",
        ..TidyReport::default()
    };
    check(tree, &mut report);
    report.findings.iter().map(ToString::to_string).collect()
}
