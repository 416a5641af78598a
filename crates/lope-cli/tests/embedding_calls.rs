//! What a command can do, an embedder can do with a documented call: the table in
//! `docs/embedding.md` names every command, and every call that it names exists.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::bad_input::commands;
use crate::stage::Home;

const HEAD: &str = "| commands | calls, of `Client` where nothing else is said |";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What stands between backticks.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// The two columns of the table, and the line below it.
fn table(guide: &str) -> (String, String, &str) {
    let (_, rest) = guide.split_once(HEAD).expect("the guide has the table");
    let rows = rest
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    let (mut named, mut calls) = (String::new(), String::new());
    for row in rows {
        let cells: Vec<&str> = row.split('|').collect();
        assert_eq!(cells.len(), 4, "{row}");
        named += cells[1];
        calls += cells[2];
    }
    let own = rest.lines().find(|line| line.contains("line's own"));
    (named, calls, own.expect("the guide names the others"))
}

#[test]
fn every_command_stands_in_the_table_of_calls() {
    let guide = std::fs::read_to_string(root().join("docs/embedding.md")).unwrap();
    let (named, _, own) = table(&guide);
    let listed = [quoted(&named), quoted(own)].concat();
    let told: BTreeSet<String> = listed.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(told.len(), listed.len(), "each once");
    assert_eq!(told, commands(&Home::new(), &[]));
}

/// The crate `lope`, and those that an embedder sees through it.
fn within_reach() -> impl Iterator<Item = &'static str> {
    let rooms = "lope lope-agent-runner lope-agents lope-cells lope-definition lope-engine lope-flow lope-graph \
                 lope-mailbox lope-model lope-reactive lope-schedule lope-store lope-why lope-workers";
    rooms.split_whitespace()
}

#[test]
fn every_call_of_the_table_exists() {
    let guide = std::fs::read_to_string(root().join("docs/embedding.md")).unwrap();
    let (_, calls, _) = table(&guide);
    let mut sources = String::new();
    let mut folders: Vec<_> = within_reach()
        .map(|room| root().join("crates").join(room))
        .collect();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("tests") {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                sources += &std::fs::read_to_string(path).unwrap();
            }
        }
    }
    let exists = |call: &&str| {
        let name = call.rsplit("::").next().unwrap_or_default();
        ["fn", "async fn", "const fn"].iter().any(|kind| {
            ["(", "<"]
                .iter()
                .any(|end| sources.contains(&format!("pub {kind} {name}{end}")))
        })
    };
    let calls = quoted(&calls);
    let missing: Vec<&str> = calls.iter().copied().filter(|call| !exists(call)).collect();
    assert_eq!(missing, [""; 0]);
    assert!(calls.len() > 100, "{}", calls.len());
}
