//! A home with Python in it, for tests of the binary.

use crate::stage;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use stage::Watch;

pub(crate) struct Ground {
    home: tempfile::TempDir,
    python: PathBuf,
}

impl Ground {
    /// Nothing if the tests were told to go without Python.
    pub(crate) fn new() -> Option<Self> {
        let Some(python) = std::env::var_os("LOPE_TEST_PYTHON") else {
            assert!(
                std::env::var_os("LOPE_TEST_NO_PYTHON").is_some(),
                "LOPE_TEST_PYTHON is not set: run this by `cargo xtask test`, or beside `cargo xtask with`"
            );
            println!("left out: no Python");
            return None;
        };
        Some(Self {
            home: tempfile::tempdir().unwrap(),
            python: python.into(),
        })
    }

    pub(crate) fn path(&self) -> &Path {
        self.home.path()
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        self.dressed(Command::new(env!("CARGO_BIN_EXE_lope")), args)
    }

    /// The interpreter, as the binary would start it.
    #[allow(dead_code, reason = "not every test starts one by itself")]
    pub(crate) fn python(&self, args: &[&str]) -> Command {
        self.dressed(Command::new(&self.python), args)
    }

    fn dressed(&self, mut command: Command, args: &[&str]) -> Command {
        let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python");
        command
            .args(args)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.path());
        command
            .env("LOPE_PYTHON", &self.python)
            .env("PYTHONPATH", package)
            .current_dir(self.path());
        command
    }

    /// What a command says until it ends; one that hangs is killed.
    pub(crate) fn lope(&self, args: &[&str]) -> Output {
        let mut command = self.command(args);
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let _watch = Watch::over(&child);
        child.wait_with_output().unwrap()
    }

    pub(crate) fn json(&self, args: &[&str]) -> serde_json::Value {
        let output = self.lope(args);
        let read = serde_json::from_slice(&output.stdout);
        read.unwrap_or_else(|_| panic!("{args:?}: {}", String::from_utf8_lossy(&output.stderr)))
    }

    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        std::fs::write(self.path().join(name), text).unwrap();
        self.path().join(name).display().to_string()
    }
}
