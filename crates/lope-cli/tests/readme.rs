//! What the README tells a stranger to type does what it says.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::stage;

use std::path::Path;
use std::process::Command;

use stage::{Home, Said};

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// "the first command of the quick start runs a real workflow on an embedded store, kills it in the
/// middle and resumes it".
#[test]
fn the_first_command_pulls_the_plug_and_goes_on() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let first = readme
        .split_once("```sh\n")
        .unwrap()
        .1
        .lines()
        .next()
        .unwrap();
    assert!(
        first.starts_with("cargo build --release && examples/pull-the-plug.sh"),
        "{first}"
    );
    let home = Home::new();
    let mut script = Command::new("sh");
    script
        .arg(root().join("examples/pull-the-plug.sh"))
        .env("LOPE", env!("CARGO_BIN_EXE_lope"))
        .env("HOME", home.path());
    let said = Said::of(&script.env_remove("LOPE_STORE").output().unwrap()).done();
    for words in [
        "kill -9",
        "adopted",
        "second attempt 2",
        "third step",
        "is sound",
    ] {
        assert!(said.out.contains(words), "{words}: {said:?}");
    }
    assert_eq!(
        said.out.matches("outcome    first").count(),
        1,
        "the first step ran once: {said:?}"
    );
}

#[test]
fn the_commands_in_its_table_are_there() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let home = Home::new();
    let mut tried = 0;
    for row in readme
        .lines()
        .filter_map(|line| line.strip_prefix("| `lope "))
    {
        let words = row.split('`').next().unwrap().replace('\\', "");
        let mut words = words.split_whitespace();
        let command = words.next().unwrap();
        let verbs = words
            .next()
            .filter(|verbs| verbs.contains('|') && !verbs.contains('['));
        let is_verb = |verb: &&str| verb.chars().all(|c| c.is_ascii_lowercase());
        for verb in verbs.unwrap_or_default().split('|').filter(is_verb) {
            let line: Vec<&str> = [command, verb, "--help"]
                .into_iter()
                .filter(|word| !word.is_empty())
                .collect();
            home.lope(&line).done();
            tried += 1;
        }
    }
    assert!(tried > 20, "{tried}");
}

/// "README promises link to their tests": each names tests that are where the link leads.
#[test]
fn every_promise_names_the_test_that_holds_it() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let (_, promises) = readme.split_once("## What it promises").unwrap();
    let (promises, _) = promises.split_once("\n## ").unwrap();
    let promises: Vec<&str> = promises.split("\n- ").skip(1).collect();
    assert!(promises.len() > 4, "{promises:?}");
    for promise in promises {
        let links: Vec<&str> = promise.split("[`").skip(1).collect();
        assert!(!links.is_empty(), "no test holds: {promise}");
        for link in links {
            let (test, rest) = link.split_once("`](").unwrap();
            let file = rest.split(')').next().unwrap();
            let source = std::fs::read_to_string(root().join(file)).unwrap();
            assert!(source.contains(&format!("fn {test}(")), "{test} in {file}");
        }
    }
}
