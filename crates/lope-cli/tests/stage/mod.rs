//! What the tests of the binary share: an empty home, the binary, what it said.
#![allow(dead_code, unreachable_pub, reason = "each test target uses a part")]

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How long a command may take, and how long something is waited for, before it counts as hanging.
const PATIENCE: Duration = Duration::from_secs(240);

/// Kills a process that hangs; dropped when the process has ended.
pub struct Watch {
    _ended: Sender<()>,
}

impl Watch {
    pub fn over(child: &Child) -> Self {
        let (sender, ended) = channel::<()>();
        let process = Pid::from_child(child);
        std::thread::spawn(move || {
            if ended.recv_timeout(PATIENCE) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                kill_process(process, Signal::KILL).unwrap();
            }
        });
        Self { _ended: sender }
    }
}

/// What a command says until it ends. One that hangs is killed, and its code is -1.
pub fn said(command: &mut Command) -> Said {
    Said::of(&output(command))
}

/// The same in bytes.
pub fn output(command: &mut Command) -> Output {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let _watch = Watch::over(&child);
    child.wait_with_output().unwrap()
}

/// A program of a test. Another process writes it: a file that this process has open for writing may be
/// inherited by what a neighbouring test starts, and what somebody writes cannot be started.
pub fn program(path: &Path, text: &str) {
    let mut install = Command::new("install");
    install.args(["-m", "755", "/dev/stdin"]).arg(path);
    let mut child = install.stdin(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(text.as_bytes()).unwrap();
    drop(input);
    assert!(child.wait().unwrap().success(), "{}", path.display());
}

/// Look until it holds. Nothing tells of what happens in another process; between two looks that
/// process has the core, the longer the longer it takes.
#[track_caller]
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        let waited = started.elapsed();
        assert!(waited < PATIENCE, "{what}: not after {PATIENCE:?}");
        std::thread::park_timeout((waited / 20).min(Duration::from_millis(20)));
    }
}

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

/// Run the commands of a guide in order on an empty home folder: they print what stands under them.
/// How many there were.
pub fn guide(name: &str) -> usize {
    guide_in(name, ".")
}

/// The same in a folder below the home folder. What a block exports holds for those after it.
pub fn guide_in(name: &str, folder: &str) -> usize {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs")
        .join(name);
    let blocks = blocks(&std::fs::read_to_string(guide).unwrap());
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join(folder);
    std::fs::create_dir_all(&folder).unwrap();
    let exported_file = tempfile::NamedTempFile::new().unwrap();
    let exported = exported_file.path().display();
    let lope = Path::new(env!("CARGO_BIN_EXE_lope")).parent().unwrap();
    let path = format!("{}:{}", lope.display(), std::env::var("PATH").unwrap());
    let mut checked = 0;
    for pair in blocks.windows(2) {
        let [(language, commands), (shown, expected)] = pair else {
            continue;
        };
        if (language.as_str(), shown.as_str()) != ("sh", "text") {
            continue;
        }
        let mut shell = Command::new("sh");
        let commands = format!(". {exported}\n{commands}\nexport -p >{exported}");
        shell
            .args(["-eu", "-c", &commands])
            .current_dir(&folder)
            .env_clear();
        let said = said(shell.env("PATH", &path).env("HOME", home.path()));
        assert_eq!(
            (said.code, &said.out),
            (0, expected),
            "{commands}\n{}",
            said.err
        );
        checked += 1;
    }
    checked
}

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
        command
            .args(args)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.path())
            .env("LOPE_HTTP", "off");
        command.current_dir(self.path());
        command
    }

    pub fn lope(&self, args: &[&str]) -> Said {
        said(&mut self.command(args))
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
        Self {
            code: output.status.code().unwrap_or(-1),
            out: text(&output.stdout),
            err: text(&output.stderr),
        }
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
