//! What `docs/mailbox.md` says is so: its commands run in order on an empty home folder and print what stands under them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod stage;

use std::path::Path;
use std::process::Command;

/// The fenced blocks of a document: language and text.
fn blocks(document: &str) -> Vec<(String, String)> {
    let mut blocks = Vec::new();
    let mut open: Option<(String, String)> = None;
    for line in document.lines() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(language)) => open = Some((language.to_owned(), String::new())),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some((_, text)), None) => *text += &format!("{line}\n"),
            (None, None) => {}
        }
    }
    blocks
}

#[test]
fn every_command_of_the_guide_prints_what_the_guide_says() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/mailbox.md");
    let blocks = blocks(&std::fs::read_to_string(guide).unwrap());
    let folder = tempfile::tempdir().unwrap();
    let lope = Path::new(env!("CARGO_BIN_EXE_lope")).parent().unwrap();
    let path = format!("{}:{}", lope.display(), std::env::var("PATH").unwrap());
    let mut checked = 0;
    for pair in blocks.windows(2) {
        let [(language, commands), (shown, expected)] = pair else { continue };
        if (language.as_str(), shown.as_str()) != ("sh", "text") {
            continue;
        }
        let mut shell = Command::new("sh");
        shell.args(["-eu", "-c", commands]).current_dir(folder.path()).env_clear();
        let said = stage::said(shell.env("PATH", &path).env("HOME", folder.path()));
        assert_eq!((said.code, &said.out), (0, expected), "{commands}\n{}", said.err);
        checked += 1;
    }
    assert_eq!(checked, 3);
}
