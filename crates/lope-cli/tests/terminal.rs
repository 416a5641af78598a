//! `lope run` on a terminal and without one: a live tree or plain lines, and what Ctrl-C does.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::server::Up;
use crate::stage;

use std::fs::File;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use stage::{Home, Said, said};

/// How long a terminal is watched for something to appear.
const PATIENCE: Duration = Duration::from_secs(120);

/// A command whose stderr is a terminal.
struct Terminal {
    child: Child,
    shown: Arc<(Mutex<String>, Condvar)>,
    reading: Option<std::thread::JoinHandle<()>>,
}

impl Terminal {
    fn start(mut command: Command) -> Self {
        let master =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        tcsetwinsize(
            &master,
            Winsize {
                ws_row: 24,
                ws_col: 100,
                ws_xpixel: 0,
                ws_ypixel: 0,
            },
        )
        .unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let slave = File::options()
            .read(true)
            .write(true)
            .open(name.to_str().unwrap())
            .unwrap();
        command
            .env("TERM", "xterm-256color")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(slave);
        let child = command.spawn().unwrap();
        drop(command);
        let shown = Arc::new((Mutex::new(String::new()), Condvar::new()));
        let (to, mut screen) = (Arc::clone(&shown), File::from(master));
        let reading = std::thread::spawn(move || {
            let mut bytes = [0; 4_096];
            // The end of a terminal whose other side is gone is an error.
            while let Ok(count @ 1..) = screen.read(&mut bytes) {
                to.0.lock()
                    .unwrap()
                    .push_str(&String::from_utf8_lossy(&bytes[..count]));
                to.1.notify_all();
            }
        });
        Self {
            child,
            shown,
            reading: Some(reading),
        }
    }

    /// Wait until the terminal shows this.
    #[track_caller]
    fn until(&self, words: &str) {
        let shown = self.shown.0.lock().unwrap();
        let (shown, waited) = self
            .shown
            .1
            .wait_timeout_while(shown, PATIENCE, |shown| !shown.contains(words))
            .unwrap();
        assert!(!waited.timed_out(), "no '{words}' in {shown:?}");
    }

    fn interrupt(&self) {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
    }

    /// Wait for the end: exit code and stdout; what the terminal showed is in `err`.
    fn end(mut self) -> Said {
        let mut out = String::new();
        let watch = stage::Watch::over(&self.child);
        self.child
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut out)
            .unwrap();
        drop(watch);
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        self.reading.take().unwrap().join().unwrap();
        let err = self.shown.0.lock().unwrap().clone();
        Said { code, out, err }
    }
}

/// Three steps that leave marks; the second waits for a gate.
fn gated(home: &Home) -> String {
    let text = "name: gated\nsteps:\n  first: { run: 'echo first >> marks' }\n  second: { run: 'echo second >> marks; until [ -e gate ]; \
                do sleep 0.02; done', needs: [first] }\n  third: { run: 'echo third >> marks; echo 3', needs: [second] }\n";
    let place = home.path().display().to_string();
    home.file(
        "gated.yaml",
        &text
            .replace(">> marks", &format!(">> {place}/marks"))
            .replace("-e gate", &format!("-e {place}/gate")),
    )
}

fn marks(home: &Home) -> String {
    std::fs::read_to_string(home.path().join("marks")).unwrap_or_default()
}

fn open_gate(home: &Home) {
    home.file("gate", "");
}

/// The command that was printed, run by a shell as a person would.
fn typed(home: &Home, shown: &str) -> Said {
    let line = shown
        .lines()
        .find_map(|line| line.trim().strip_prefix("go on here: "))
        .unwrap_or_else(|| panic!("{shown:?}"));
    let mut shell = Command::new("sh");
    shell
        .args(["-c", line.trim()])
        .env_clear()
        .env("HOME", home.path())
        .env("PATH", std::env::var_os("PATH").unwrap());
    stage::said(&mut shell)
}

#[test]
fn a_terminal_shows_a_live_tree_and_stdout_has_the_result_alone() {
    let home = Home::new();
    let file = gated(&home);
    let terminal = Terminal::start(home.command(&["run", &file]));
    terminal.until("1 at work");
    terminal.until("⠹");
    open_gate(&home);
    let said = terminal.end();
    assert_eq!((said.code, said.out.as_str()), (0, "3\n"), "{said:?}");
    let last = said.err.rsplit('✓').take(4).collect::<Vec<_>>().join("|");
    assert!(
        last.contains("first") && last.contains("second") && last.contains("third"),
        "{last}"
    );
    assert!(
        said.err.contains("completed") && said.err.contains("\u{1b}["),
        "{said:?}"
    );
}

/// "does everything it does with a store": a tree that moves, too, where there is a terminal.
#[test]
fn a_terminal_shows_a_live_tree_of_a_run_that_a_server_does() {
    let there = Home::new();
    let up = Up::start(&there, &["--http", "127.0.0.1:0"]);
    let server = format!("http://{}", up.address);
    let home = Home::new();
    let file = gated(&home);
    let words = ["run", file.as_str(), "--server", &server, "--key", "k"];
    let terminal = Terminal::start(home.command(&words));
    terminal.until("1 at work");
    terminal.until("⠹");
    let watching = Terminal::start(home.command(&["runs", "watch", "k", "--server", &server]));
    watching.until("1 at work");
    // Drawn over what stood there: the cursor goes up, the line is cleared.
    watching.until("\u{1b}[2K");
    open_gate(&home);
    for (said, out) in [(terminal.end(), "3\n"), (watching.end(), "completed")] {
        assert_eq!(said.code, 0, "{said:?}");
        assert!(said.out.contains(out), "{said:?}");
        let last = said.err.rsplit('✓').take(4).collect::<Vec<_>>().join("|");
        assert!(
            last.contains("first") && last.contains("second") && last.contains("third"),
            "{last}"
        );
    }
    let mut plain = home.command(&["runs", "watch", "k", "--server", &server]);
    let plain = stage::said(&mut plain).done();
    assert!(!plain.err.contains('\u{1b}'), "{plain:?}");
}

#[test]
fn no_colour_means_no_colour() {
    let home = Home::new();
    let file = home.file("a.yaml", "{ name: a, steps: { a: { run: 'echo 1' } } }");
    let mut command = home.command(&["run", &file]);
    command.env("NO_COLOR", "1");
    let said = Terminal::start(command).end();
    assert_eq!((said.code, said.out.as_str()), (0, "1\n"), "{said:?}");
    for colour in ["\u{1b}[3", "\u{1b}[1m", "\u{1b}[2m"] {
        assert!(!said.err.contains(colour), "{colour:?} in {:?}", said.err);
    }
}

/// "Ctrl-C once asks the run to pause and says how to go on".
#[test]
fn ctrl_c_pauses_lets_what_is_at_work_finish_and_says_how_to_go_on() {
    let home = Home::new();
    let file = gated(&home);
    let terminal = Terminal::start(home.command(&["run", &file, "--key", "k"]));
    terminal.until("1 at work");
    terminal.until("second");
    terminal.interrupt();
    terminal.until("pausing");
    terminal.until("paused, 1 at work");
    open_gate(&home);
    let said = terminal.end();
    assert_eq!(
        (said.code, said.out.as_str(), marks(&home).as_str()),
        (1, "", "first\nsecond\n"),
        "{said:?}"
    );
    let listed = home.lope(&["runs", "list", "--json"]).done().json();
    assert_eq!(listed[0]["status"], "paused");
    let why = home.lope(&["runs", "why", "k", "--json"]).done().json();
    assert_eq!(why["reasons"][0]["why"], "paused", "{why}");
    let hint = why["reasons"][0]["hint"].as_str().unwrap();
    assert!(
        hint.starts_with("lope run --resume ") && hint.contains("lope runs resume "),
        "{hint}"
    );
    let gone_on = typed(&home, &said.err);
    assert_eq!(
        (gone_on.code, gone_on.out.as_str(), marks(&home).as_str()),
        (0, "3\n", "first\nsecond\nthird\n"),
        "{gone_on:?}"
    );
}

/// "twice stops at once, and nothing is lost".
#[test]
fn ctrl_c_twice_stops_at_once_and_nothing_is_lost() {
    let home = Home::new();
    let file = gated(&home);
    let terminal = Terminal::start(home.command(&["run", &file]));
    terminal.until("1 at work");
    stage::until("the second step", || marks(&home).contains("second"));
    terminal.interrupt();
    terminal.until("pausing");
    terminal.interrupt();
    let said = terminal.end();
    assert_eq!(
        (said.code, marks(&home).as_str()),
        (1, "first\nsecond\n"),
        "{said:?}"
    );
    open_gate(&home);
    let gone_on = typed(&home, &said.err);
    assert_eq!(
        (gone_on.code, gone_on.out.as_str()),
        (0, "3\n"),
        "{gone_on:?}"
    );
    assert_eq!(
        marks(&home),
        "first\nsecond\nsecond\nthird\n",
        "what was at work is made anew, what was settled is not"
    );
    home.lope(&["store", "check"]).done();
}

/// The second Ctrl-C may come before the run has read the first.
#[test]
fn a_pause_that_nobody_has_read_does_not_hold_a_run_that_is_resumed() {
    let home = Home::new();
    open_gate(&home);
    let file = gated(&home);
    home.lope(&["run", &file, "--key", "k", "--detach"]).done();
    home.lope(&["runs", "pause", "k"]).done();
    let said = home.lope(&["run", "--resume", "k"]).done();
    assert_eq!(
        (said.out.as_str(), marks(&home).as_str()),
        ("3\n", "first\nsecond\nthird\n"),
        "{said:?}"
    );
}

#[test]
fn without_a_terminal_there_are_plain_lines_and_quiet_says_nothing() {
    let home = Home::new();
    open_gate(&home);
    let file = gated(&home);
    let said = home.lope(&["run", &file]).done();
    let lines: Vec<&str> = said.err.lines().collect();
    assert_eq!((lines.len(), said.out.as_str()), (4, "3\n"), "{said:?}");
    assert!(
        lines[1].starts_with("  ✓ first (") && !said.err.contains('\u{1b}'),
        "{said:?}"
    );
    let said = home.lope(&["run", &file, "--quiet"]).done();
    assert_eq!((said.err.as_str(), said.out.as_str()), ("", "3\n"));
    let said = home.lope(&["run", &file, "--verbose"]).done();
    assert!(said.err.contains("  ▶ first"), "{said:?}");
}

/// "`tracing` logs as text or JSON with run and step": each attempt that fails is a line of its own,
/// and only for whoever asks for more.
#[test]
fn an_attempt_that_fails_is_reported_with_its_run_and_step() {
    let home = Home::new();
    let text = "name: shaky
steps:
  many:
    each: [1]
    as: n
    steps:
      one: { run: 'echo secret words >&2; exit 3', retries: 1, base_delay: 1ms }
";
    let file = home.file("shaky.yaml", text);
    let failed = |key: &str, format: &str, more: &[&str]| {
        let words = [&["run", &file, "--key", key][..], more].concat();
        let mut command = home.command(&words);
        let said = said(command.env("LOPE_LOG_FORMAT", format));
        assert_eq!(said.code, 1, "{said:?}");
        let run = home.lope(&["runs", "show", key, "--json"]).done().json();
        let run = run["run_id"].as_str().unwrap().to_owned();
        let lines = said
            .err
            .lines()
            .filter(|it| it.contains("an attempt failed"));
        let lines: Vec<String> = lines.map(|line| line.replace(&run, "RUN")).collect();
        lines
    };
    let lines = failed("text", "text", &["-v"]);
    let wanted = |attempt: u32| {
        format!(
            "info: an attempt failed (run: RUN, step: many/one, execution: many/0/one, attempt: {attempt}, kind: ExitStatus)"
        )
    };
    assert_eq!(lines, [wanted(1), wanted(2)]);
    let lines = failed("json", "json", &["-v"]);
    let lines: Vec<serde_json::Value> = lines
        .iter()
        .map(|line| {
            let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
            assert!(line["time"].take().is_string());
            line
        })
        .collect();
    let wanted = ["1", "2"].map(|attempt| {
        serde_json::json!({
            "time": null, "level": "info", "message": "an attempt failed", "run": "RUN",
            "step": "many/one", "execution": "many/0/one", "attempt": attempt, "kind": "ExitStatus",
        })
    });
    assert_eq!(lines, wanted);
    assert_eq!(failed("plain", "text", &[]), [""; 0]);
}
