//! What the tests of the binary share: an empty home, the binary, what it said.
#![allow(dead_code, unreachable_pub, reason = "each test target uses a part")]

use std::path::Path;
use std::process::{Command, Output};

pub struct Home(tempfile::TempDir);

impl Home {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lope"));
        command.args(args).env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", self.path());
        command.current_dir(self.path());
        command
    }

    pub fn lope(&self, args: &[&str]) -> Said {
        Said::of(&self.command(args).stdin(std::process::Stdio::null()).output().unwrap())
    }

    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    /// Everything in the home folder, by name and size: what changes when something is stored.
    pub fn contents(&self) -> Vec<String> {
        let mut found = Vec::new();
        walk(self.path(), &mut found);
        found.sort();
        found
    }
}

fn walk(folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        if entry.path().is_dir() {
            walk(&entry.path(), found);
        } else {
            found.push(entry.path().display().to_string());
        }
    }
}

/// What a command said.
#[derive(Debug)]
pub struct Said {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Said {
    pub fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Self { code: output.status.code().unwrap_or(-1), out: text(&output.stdout), err: text(&output.stderr) }
    }

    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    #[track_caller]
    pub fn done(self) -> Self {
        assert_eq!(self.code, 0, "{self:?}");
        self
    }
}
