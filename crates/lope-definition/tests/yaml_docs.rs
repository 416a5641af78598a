//! What `docs/workflow-files.md` says is so: every snippet checks clean, every key, function and
//! limit in it exists.
//!
//! A snippet marked `yaml` is a whole file, one marked `yaml steps` a map of steps.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(
    clippy::format_push_string,
    clippy::format_collect,
    reason = "tests may be slow where they are short"
)]

use std::path::Path;

use lope_definition::yaml::{self, ProblemReport};
use lope_definition::{NAME_MAX, NESTING_MAX, STEPS_MAX};
use lope_expr::functions::{self, FunctionKind};

fn document() -> String {
    std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/workflow-files.md"),
    )
    .unwrap()
}

/// The snippets with their mark and the line at which each starts.
fn snippets(document: &str) -> Vec<(String, usize, String)> {
    let mut found = Vec::new();
    let mut open: Option<(String, usize, String)> = None;
    for (number, line) in document.lines().enumerate() {
        match (&mut open, line.strip_prefix("```")) {
            (Some(_), Some(_)) => found.extend(open.take()),
            (Some((_, _, text)), None) => *text += &format!("{line}\n"),
            (None, Some(mark)) => open = Some((mark.to_owned(), number + 1, String::new())),
            (None, None) => {}
        }
    }
    found
}

#[test]
fn every_snippet_checks_clean() {
    let document = document();
    let mut checked = 0;
    for (mark, line, snippet) in snippets(&document) {
        let text = match &*mark {
            "yaml" => snippet,
            "yaml steps" => {
                let indented = snippet.lines().map(|line| format!("  {line}\n"));
                format!("name: snippet\nsteps:\n{}", indented.collect::<String>())
            }
            _ => continue,
        };
        if let Err(problems) = yaml::read(&text, "snippet") {
            panic!(
                "line {line}:\n{}",
                ProblemReport {
                    file_name: "snippet",
                    text: &text,
                    problems: &problems
                }
            );
        }
        checked += 1;
    }
    assert!(checked >= 9, "only {checked} snippets");
}

#[test]
fn every_function_is_named_and_every_preset_and_limit() {
    let document = document();
    let written = functions::all()
        .filter(|entry| matches!(entry.kind, FunctionKind::Function | FunctionKind::Method));
    for entry in written {
        assert!(
            document.contains(&format!("`{}`", entry.name)),
            "'{}' is not documented",
            entry.name
        );
    }
    for (name, _) in lope_definition::policy::PRESETS {
        assert!(
            document.contains(&format!("`{name}`")),
            "the preset '{name}' is not documented"
        );
    }
    let grouped = |number: u64| {
        let digits = number.to_string();
        let parts: Vec<&str> = digits
            .as_bytes()
            .rchunks(3)
            .rev()
            .map(|part| std::str::from_utf8(part).unwrap())
            .collect();
        parts.join(",")
    };
    assert_eq!(yaml::FILE_MAX, 16 * 1024 * 1024);
    for limit in [
        yaml::NODES_MAX,
        yaml::DEPTH_MAX as u64,
        STEPS_MAX as u64,
        NESTING_MAX as u64,
        NAME_MAX as u64,
    ] {
        assert!(
            document.contains(&grouped(limit)),
            "the limit {limit} is not documented"
        );
    }
}
