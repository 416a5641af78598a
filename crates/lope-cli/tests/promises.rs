//! Promises about processes: what runner deaths, stops, standstills and cancels may cost, seen with
//! the real binary and several processes on one store.

use crate::stage;

use std::collections::BTreeMap;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use stage::{Home, until};

/// A step that writes down that it has begun, and ends only when the file `go` is there.
const PATIENT: &str = "name: patient\nsteps:\n  a:\n    run: 'echo $LOPE_RUN_ID >> $HOME/begun; \
                       until [ -e $HOME/go ]; do sleep 0.05; done'\n";

struct Up(Child);

impl Up {
    fn begin(home: &Home, args: &[&str]) -> Self {
        let words = std::fs::File::options()
            .create(true)
            .append(true)
            .open(home.path().join("words"))
            .unwrap();
        let mut command = home.command(&[&["up"], args].concat());
        Self(command.stdout(Stdio::null()).stderr(words).spawn().unwrap())
    }

    fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    fn kill(mut self) {
        self.send(Signal::KILL);
        self.0.wait().unwrap();
    }

    /// Its exit code, once it has ended by itself.
    fn ended(mut self) -> Option<i32> {
        let _watch = stage::Watch::over(&self.0);
        self.0.wait().unwrap().code()
    }
}

fn begun(home: &Home) -> Vec<String> {
    let text = std::fs::read_to_string(home.path().join("begun")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn words(home: &Home) -> String {
    std::fs::read_to_string(home.path().join("words")).unwrap_or_default()
}

fn start(home: &Home, file: &str, runs: usize) {
    home.lope(&["workflows", "deploy", file]).done();
    for _ in 0..runs {
        home.lope(&["start", file]).done();
    }
}

/// All runs by id.
fn runs(home: &Home) -> BTreeMap<String, Value> {
    let listed = home
        .lope(&["runs", "list", "--limit", "1000", "--json"])
        .done()
        .json();
    let runs = listed["runs"].as_array().or(listed.as_array()).unwrap();
    let by_id = |run: &Value| (run["run_id"].as_str().unwrap().to_owned(), run.clone());
    runs.iter().map(by_id).collect()
}

fn count(home: &Home, status: &str) -> usize {
    let is = |run: &&Value| run["status"] == status;
    runs(home).values().filter(is).count()
}

/// "50 starts, concurrency 2, 22 × (`up`, 1 s, `kill -9`)": of those that never ran none fails.
#[test]
fn runner_deaths_fail_only_what_they_interrupted() {
    let home = Home::new();
    let file = home.file("patient.yaml", PATIENT);
    start(&home, &file, 50);
    for _ in 0..22 {
        let before = begun(&home).len();
        let up = Up::begin(&home, &["--concurrency", "2"]);
        until("two steps have begun", || begun(&home).len() >= before + 2);
        up.kill();
    }
    home.file("go", "");
    let mut interrupted: BTreeMap<String, usize> = BTreeMap::new();
    for run in begun(&home) {
        *interrupted.entry(run).or_default() += 1;
    }
    let up = Up::begin(&home, &["--concurrency", "2"]);
    until("all have ended", || {
        runs(&home)
            .values()
            .all(|run| run["status"] == "completed" || run["status"] == "failed")
    });
    up.send(Signal::TERM);
    assert_eq!(up.ended(), Some(0));
    for (run, shown) in runs(&home) {
        let times = interrupted.get(&run).copied().unwrap_or_default();
        assert!(
            shown["status"] == "completed" || times > 20,
            "{run} was interrupted {times} times: {shown}"
        );
    }
    assert!(count(&home, "completed") >= 46);
}

/// "One TERM drains what executors have begun and gives the rest back at once"; what never began is
/// not reported as lost, and nobody is said to have taken it.
#[test]
fn one_term_gives_back_at_once_what_has_not_begun() {
    let home = Home::new();
    let file = home.file("patient.yaml", PATIENT);
    start(&home, &file, 12);
    let up = Up::begin(&home, &["--concurrency", "2"]);
    until("two steps have begun", || begun(&home).len() == 2);
    until("the others wait for a slot", || {
        count(&home, "running") == 12
    });
    up.send(Signal::TERM);
    until("the others are given back", || {
        let owned = |run: &&Value| !run["owner"].is_null();
        runs(&home).values().filter(owned).count() == 2
    });
    home.file("go", "");
    assert_eq!(up.ended(), Some(0), "{}", words(&home));
    assert_eq!((begun(&home).len(), count(&home, "completed")), (2, 2));
    assert!(!words(&home).contains("another runner"), "{}", words(&home));
    let up = Up::begin(&home, &["--concurrency", "2"]);
    until("all are completed", || count(&home, "completed") == 12);
    up.send(Signal::TERM);
    assert_eq!(up.ended(), Some(0));
    for run in runs(&home).keys() {
        let shown = home.lope(&["runs", "show", run]).done();
        assert!(!shown.out.contains("lost"), "{}", shown.out);
    }
}

/// A second TERM does not wait for what has begun, and leaves nothing owned behind.
#[test]
fn a_second_term_stops_at_once_and_gives_everything_back() {
    let home = Home::new();
    let file = home.file("patient.yaml", PATIENT);
    start(&home, &file, 3);
    let up = Up::begin(&home, &["--concurrency", "2"]);
    until("two steps have begun", || begun(&home).len() == 2);
    up.send(Signal::TERM);
    until("it has heard", || words(&home).contains("once more"));
    let asked = Instant::now();
    up.send(Signal::TERM);
    assert_eq!(up.ended(), Some(0), "{}", words(&home));
    assert!(
        asked.elapsed() < Duration::from_secs(120),
        "{:?}",
        asked.elapsed()
    );
    for (run, shown) in runs(&home) {
        assert!(shown["owner"].is_null(), "{run}: {shown}");
    }
    assert!(!words(&home).contains("another runner"), "{}", words(&home));
}

/// "A slot or key is given back before its attempt has ended: `concurrency: 1`, timeout, a process
/// that ignores TERM: three at once."
#[test]
fn an_attempt_that_ignores_being_told_keeps_its_key_until_it_is_gone() {
    let home = Home::new();
    let line = "trap '' TERM; for p in $(cat $HOME/pids); do kill -0 $p 2>/dev/null && echo $p >> $HOME/beside; done; \
                echo $$ >> $HOME/pids; sleep 60 & wait; wait";
    let file = home.file(
        "stubborn.yaml",
        &format!(
            "name: stubborn\nsteps:\n  a:\n    run: \"{line}\"\n    timeout: 300ms\n    concurrency: 1\n    retries: 2\n"
        ),
    );
    home.file("pids", "");
    let said = home.lope(&["run", &file, "--json"]);
    assert!(said.out.contains("Timeout"), "{said:?}");
    let pids = std::fs::read_to_string(home.path().join("pids")).unwrap();
    assert_eq!(pids.lines().count(), 3, "{pids}");
    let beside = std::fs::read_to_string(home.path().join("beside")).unwrap_or_default();
    assert_eq!(beside, "", "they were at work beside another attempt");
}

/// Item by item what one process decides and another sees: a parent is cancelled from the command
/// line while its child waits under another runner.
#[test]
fn a_cancelled_parent_cancels_its_child_under_two_runners() {
    let home = Home::new();
    let child = home.file("child.yaml", "name: child\nsteps:\n  w: { wait: go }\n");
    let parent = home.file(
        "parent.yaml",
        "name: parent\nsteps:\n  k: { workflow: child }\n",
    );
    home.lope(&["workflows", "deploy", &child]).done();
    let ups = [Up::begin(&home, &[]), Up::begin(&home, &[])];
    start(&home, &parent, 5);
    until("all children wait and all have left memory", || {
        let idle = |run: &&Value| run["status"] == "waiting" && run["owner"].is_null();
        runs(&home).values().filter(idle).count() == 10
    });
    let parents = runs(&home);
    for (run, _) in parents
        .iter()
        .filter(|(_, run)| run["workflow"] == "parent")
    {
        home.lope(&["runs", "cancel", run]).done();
    }
    until("all are cancelled", || count(&home, "cancelled") == 10);
    for up in ups {
        up.send(Signal::TERM);
        assert_eq!(up.ended(), Some(0));
    }
}

/// A message that a settled step sent is not sent again when the run is taken up by another process.
#[test]
fn a_settled_send_happens_once_though_its_run_goes_from_process_to_process() {
    let home = Home::new();
    let file = home.file(
        "s.yaml",
        "name: s\nsteps:\n  s: { send: { mailbox: \"5\", id: order-1, payload: hello } }\n  w: { wait: go, needs: [s] }\n",
    );
    start(&home, &file, 1);
    let up = Up::begin(&home, &[]);
    until("it waits outside memory", || {
        let idle = |run: &Value| run["status"] == "waiting" && run["owner"].is_null();
        runs(&home).values().all(idle)
    });
    up.kill();
    let work = ["mailbox", "work", "5", "--until-idle", "--json", "--"];
    let handled = || home.lope(&[&work[..], &["true"]].concat()).done().json();
    let first = handled();
    assert_eq!(first["successes"], 1, "it was sent: {first}");
    let run = runs(&home).into_keys().next().unwrap();
    home.lope(&["runs", "signal", &run, "go"]).done();
    let up = Up::begin(&home, &[]);
    until("it is completed", || count(&home, "completed") == 1);
    up.send(Signal::TERM);
    assert_eq!(up.ended(), Some(0));
    let left = home.lope(&["mailbox", "list", "5", "--json"]).done();
    assert!(!left.out.contains("order-1"), "{}", left.out);
    let second = handled();
    assert_eq!(second["attempts"], 0, "it was sent again: {second}");
}

/// Twelve of them at once, of one run.
const CROWD: &str = "name: crowd\nsteps:\n  all:\n    each: '${{ range(12) }}'\n    parallel: max\n    steps:\n      \
                     a: { run: 'echo x >> $HOME/begun; until [ -e $HOME/go ]; do sleep 0.05; done' }\n";

/// "Start no further step": of a paused run nothing begins that waits for a slot, whether its runner
/// lives on or not; when it goes on, each begins once.
#[test]
fn nothing_of_a_paused_run_begins_that_waits_for_a_slot() {
    let home = Home::new();
    let file = home.file("crowd.yaml", CROWD);
    let up = Up::begin(&home, &["--http", "off", "--concurrency", "2"]);
    let key = ["--key", "k"];
    home.lope(&[&["start", &file], &key[..]].concat()).done();
    until("two have begun", || begun(&home).len() == 2);
    home.lope(&["runs", "pause", "k"]).done();
    until("it is paused", || count(&home, "paused") == 1);
    std::fs::write(home.path().join("go"), "").unwrap();
    let steps = || {
        let shown = home.lope(&["runs", "show", "k", "--json"]).done().json();
        shown["steps"].as_u64().unwrap()
    };
    until("those that had begun have ended", || steps() >= 2);
    until("nobody has it any more", || {
        home.lope(&["runs", "show", "k", "--json"]).done().json()["runner"].is_null()
    });
    assert_eq!((begun(&home).len(), count(&home, "paused")), (2, 1));
    home.lope(&["runs", "resume", "k"]).done();
    until("it ends", || count(&home, "completed") == 1);
    assert_eq!(begun(&home).len(), 12, "each has begun once");
    up.kill();
}

/// The same of a run that goes on while some of it is still at work.
#[test]
fn what_a_pause_held_back_begins_when_the_run_goes_on_beside_what_is_at_work() {
    let home = Home::new();
    let file = home.file("crowd.yaml", CROWD);
    let up = Up::begin(&home, &["--http", "off", "--concurrency", "2"]);
    home.lope(&["start", &file, "--key", "k"]).done();
    for _ in 0..3 {
        until("two have begun", || begun(&home).len() == 2);
        home.lope(&["runs", "pause", "k"]).done();
        until("it is paused", || count(&home, "paused") == 1);
        home.lope(&["runs", "resume", "k"]).done();
        until("it goes on", || count(&home, "running") == 1);
    }
    assert_eq!(begun(&home).len(), 2, "there is no room for more");
    std::fs::write(home.path().join("go"), "").unwrap();
    until("it ends", || count(&home, "completed") == 1);
    assert_eq!(begun(&home).len(), 12, "each has begun once");
    up.kill();
}
