//! Runners that stand still, seen with the real binary: past their lease, on both stores, and in the
//! middle of a write of a file.

use crate::{fixture, stage};

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use stage::{Said, Watch, until};

/// A step that writes down that it has begun, and ends only when the file `go` is there.
const PATIENT: &str = "name: patient\nsteps:\n  a:\n    run: 'echo $LOPE_RUN_ID >> $HOME/begun; \
                       until [ -e $HOME/go ]; do sleep 0.05; done'\n";
/// Many writes, and little else.
const BUSY: &str = "name: busy\nsteps:\n  a: { each: '${{ range(60) }}', as: n, steps: { b: { js: '() => 1' } } }\n";

/// A store, a home and runners on it.
struct Stage {
    home: stage::Home,
    url: String,
    lease: &'static str,
}

impl Stage {
    fn new(url: Option<String>, lease: &'static str) -> Self {
        let home = stage::Home::new();
        let own = format!("sqlite:{}", home.path().join("lope.db").display());
        let url = url.unwrap_or(own);
        Self { home, url, lease }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.home.command(args);
        command
            .env("LOPE_STORE", &self.url)
            .env("LOPE_ENGINE_LEASE", self.lease);
        command
    }

    fn lope(&self, args: &[&str]) -> Said {
        stage::said(&mut self.command(args))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn deploy(&self, name: &str, text: &str) {
        let file = self.home.file(&format!("{name}.yaml"), text);
        self.lope(&["workflows", "deploy", &file]).done();
    }

    fn up(&self, name: &str) -> Up {
        let words = std::fs::File::create(self.path(name)).unwrap();
        let mut command = self.command(&["up", "--concurrency", "1"]);
        Up(command.stdout(Stdio::null()).stderr(words).spawn().unwrap())
    }

    fn lines(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.path(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn count(&self, status: &str) -> usize {
        let listed = self.lope(&["runs", "list", "--limit", "1000", "--json"]);
        let listed = listed.done().json();
        let runs = listed["runs"].as_array().or(listed.as_array()).unwrap();
        runs.iter().filter(|run| run["status"] == status).count()
    }
}

struct Up(Child);

impl Up {
    fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Stopped, for certain.
    fn stop(&self) {
        self.send(Signal::STOP);
        let stat = format!("/proc/{}/stat", self.pid());
        until("it is stopped", || {
            std::fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") T"))
        });
    }

    fn end(mut self, signal: Signal) -> Option<i32> {
        self.send(signal);
        let _watch = Watch::over(&self.0);
        self.0.wait().unwrap().code()
    }
}

/// "A thawed runner starts waiting steps before it looks at its lease (SIGSTOP 40 s: up to 7 starts
/// of steps settled elsewhere). The dispatcher holds starts back when the lease is over."
fn a_thawed_runner_starts_nothing_that_was_settled_elsewhere(url: Option<String>) {
    let stage = Stage::new(url, "2s");
    stage.deploy("patient", PATIENT);
    let frozen = stage.up("words of the frozen");
    for _ in 0..6 {
        stage.lope(&["start", "patient"]).done();
    }
    until("one step has begun, the others wait for its slot", || {
        stage.lines("begun").len() == 1 && stage.count("running") == 6
    });
    until("it is stopped, and not in a write", || {
        frozen.stop();
        let in_a_write = stage.path("lope.db-shm").exists() && is_in_a_write(&stage, frozen.pid());
        if in_a_write {
            frozen.send(Signal::CONT);
        }
        !in_a_write
    });
    std::fs::write(stage.path("go"), "").unwrap();
    let other = stage.up("words of the other");
    until("all is settled elsewhere", || stage.count("completed") == 6);
    assert_eq!(other.end(Signal::TERM), Some(0));
    let begun = stage.lines("begun");
    assert_eq!(begun.len(), 7, "one of them twice: {begun:?}");
    frozen.send(Signal::CONT);
    until("it knows that its session is over", || {
        let words = stage.lines("words of the frozen").join("\n");
        words.contains("begins again as")
    });
    let last = stage.lope(&["start", "patient", "--json"]).done().json();
    until("it works in another session", || {
        stage.count("completed") == 7
    });
    let after = stage.lines("begun");
    let last = last["run_id"].as_str().or(last["id"].as_str()).unwrap();
    assert_eq!(after[..7], begun, "nothing else has begun");
    assert_eq!(after[7..], [last.to_owned()]);
    assert_eq!(frozen.end(Signal::TERM), Some(0));
}

#[test]
fn a_thawed_runner_starts_nothing_that_was_settled_elsewhere_on_sqlite() {
    a_thawed_runner_starts_nothing_that_was_settled_elsewhere(None);
}

#[test]
fn a_thawed_runner_starts_nothing_that_was_settled_elsewhere_on_postgres() {
    let Some(url) = fixture::server() else { return };
    let url = format!("{url}?schema=thawed_{}", std::process::id());
    a_thawed_runner_starts_nothing_that_was_settled_elsewhere(Some(url));
}

/// Does this process hold SQLite's write lock? It is byte 120 of the index of the log.
fn is_in_a_write(stage: &Stage, pid: u32) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let inode = std::fs::metadata(stage.path("lope.db-shm")).unwrap().ino();
    let locks = std::fs::read_to_string("/proc/locks").unwrap();
    locks.lines().any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        matches!(words[..], [_, "POSIX", _, "WRITE", holder, file, "120", "120"]
            if holder == pid.to_string() && file.ends_with(&format!(":{inode}")))
    })
}

/// A runner that is stopped in the middle of a write, however many tries that takes. Not before it
/// has written something: the first process that opens a store makes the index of its log, and until
/// that is there nobody can read.
fn stopped_in_a_write(stage: &Stage) -> Up {
    let up = stage.up("words of the frozen");
    until("it works", || stage.count("running") > 0);
    until("it is stopped in a write", || {
        up.stop();
        let is_in_a_write = is_in_a_write(stage, up.pid());
        if !is_in_a_write {
            up.send(Signal::CONT);
        }
        is_in_a_write
    });
    up
}

/// "A process frozen in a write must not hold SQLite's writer gate against everybody": SQLite's own
/// lock cannot be broken, but who has it is said, everybody reads on, and nothing is lost, whether
/// it goes on or is killed.
#[test]
fn a_runner_that_is_stopped_in_a_write_is_named_and_nothing_is_lost() {
    for signal in [Signal::CONT, Signal::KILL] {
        let stage = Stage::new(None, "60s");
        stage.deploy("busy", BUSY);
        for _ in 0..20 {
            stage.lope(&["start", "busy"]).done();
        }
        let frozen = stopped_in_a_write(&stage);
        assert!(
            stage.count("completed") < 20,
            "it was stopped before the end"
        );
        let told = stage.lope(&["doctor", "--json"]);
        let told: Value = told.json();
        let writer = told.as_array().unwrap().iter().find(|line| {
            let message = line["message"].as_str().unwrap_or_default();
            message.contains(&format!("process {} (", frozen.pid()))
        });
        let writer = writer.unwrap_or_else(|| panic!("{told}"));
        assert_eq!(writer["health"], "fail");
        let hint = writer["hint"].as_str().unwrap();
        assert!(
            hint.contains(&format!("kill -CONT {}", frozen.pid())),
            "{hint}"
        );
        let remedy = format!("`kill -CONT {pid}` lets it go on", pid = frozen.pid());
        let listed = stage.lope(&["runs", "list", "--limit", "1000", "--json"]);
        let listed = listed.done().json();
        let runs = listed["runs"].as_array().or(listed.as_array()).unwrap();
        let open = runs
            .iter()
            .find(|run| run["status"] != "completed")
            .unwrap();
        let why = stage.lope(&["runs", "why", open["run_id"].as_str().unwrap()]);
        assert!(why.out.contains(&remedy), "{why:?}");
        // A command that has to write waits, says for whom, and is done once the store can be
        // written.
        let words = std::fs::File::create(stage.path("words of the start")).unwrap();
        let mut waits = stage.command(&["start", "busy"]);
        let mut waits = waits.stdout(Stdio::null()).stderr(words).spawn().unwrap();
        let other = stage.up("words of the other");
        for words in ["words of the start", "words of the other"] {
            until(words, || stage.lines(words).join("\n").contains(&remedy));
        }
        assert_eq!(waits.try_wait().unwrap(), None);
        frozen.send(signal);
        let _watch = Watch::over(&waits);
        assert!(waits.wait().unwrap().success());
        until("nothing is lost", || stage.count("completed") == 21);
        assert_eq!(other.end(Signal::TERM), Some(0));
        let code = frozen.end(Signal::TERM);
        assert_eq!(code, (signal == Signal::CONT).then_some(0));
        let checked = stage.lope(&["store", "check"]);
        assert_eq!(checked.code, 0, "{checked:?}");
    }
}
