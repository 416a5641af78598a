//! Hooks: what becomes of tasks is told, whoever brought it about, once, also when no runner is there.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::fixture::agent_project::{AgentProject, RunnerChild, is_there};
use crate::fixture::http::Request;
use crate::server::Up;
use crate::stage::until;

/// A project with a hook on these statuses that keeps what it hears, and fails as long as there is a
/// file `deaf`.
fn listening(on: &str) -> AgentProject {
    let command = "[sh, -c, 'cat >>$HOME/heard.$$; [ ! -e $HOME/deaf ] || exit 1; mv $HOME/heard.$$ $HOME/heard.d/']";
    let hooks = format!("  hooks:\n    - {{ on: [{on}], command: {command} }}\n");
    let shop = AgentProject::with(&hooks, "");
    std::fs::create_dir(shop.home.path().join("heard.d")).unwrap();
    shop
}

/// What was heard: event and task, oldest first.
fn heard(shop: &AgentProject) -> Vec<(String, String)> {
    let files = std::fs::read_dir(shop.home.path().join("heard.d")).unwrap();
    let mut all: Vec<Value> = files
        .flatten()
        .map(|file| serde_json::from_slice(&std::fs::read(file.path()).unwrap()).unwrap())
        .collect();
    all.sort_by_key(|it| it["task"]["updatedAt"].to_string());
    let words = |value: &Value| value.as_str().unwrap().to_owned();
    all.iter()
        .map(|it| (words(&it["event"]), words(&it["task"]["id"])))
        .collect()
}

/// Is nothing left that is to be told? Who is killed before it has written that is followed by
/// another, who tells it again.
fn is_all_told(shop: &AgentProject) -> bool {
    let db = rusqlite::Connection::open(shop.home.path().join(".lope/lope.db")).unwrap();
    let count = "SELECT count(*) FROM task_hooks";
    let left: i64 = db.query_row(count, [], |row| row.get(0)).unwrap();
    left == 0
}

fn pair(event: &str, task: &str) -> (String, String) {
    (event.to_owned(), task.to_owned())
}

/// "Hooks on task events", also on what people do when nobody works: the next wake-up tells it.
#[test]
fn what_people_decide_without_a_runner_is_told_by_the_next_wake_up_once() {
    let shop = listening("completed, skipped, pending, blocked, failed");
    let [done, skipped, asked, refused] = ["a", "b", "c", "d"].map(|title| shop.add(title, &[]));
    let steps: [(&[&str], &str, &String); 6] = [
        (
            &["tasks", "done", "by hand", "--task", &done],
            "completed",
            &done,
        ),
        (&["tasks", "skip", &skipped], "skipped", &skipped),
        (
            &["tasks", "ask", "which?", "--task", &asked],
            "blocked",
            &asked,
        ),
        (&["tasks", "answer", &asked, "that"], "pending", &asked),
        (&["tasks", "reject", &done], "pending", &done),
        (
            &["tasks", "fail", "no", "--task", &refused],
            "failed",
            &refused,
        ),
    ];
    let mut expected = Vec::new();
    for (words, status, task) in steps {
        shop.lope(words).done();
        expected.push(pair(&format!("task.{status}"), task));
    }
    assert_eq!(heard(&shop), []);
    shop.lope(&["projects", "disable", "shop"]).done();
    shop.lope(&["runners", "wakeup", "--dry-run"]).done();
    assert_eq!(heard(&shop), [], "it only says what would happen");
    shop.lope(&["runners", "wakeup"]).done();
    assert_eq!(heard(&shop), expected);
    shop.lope(&["runners", "wakeup"]).done();
    assert_eq!(heard(&shop), expected, "once");
}

/// A hook that leaves something in the background has heard when it has ended, and that ends with it.
#[test]
fn what_a_hook_leaves_in_the_background_ends_with_it() {
    let command = "[sh, -c, 'cat >>$HOME/heard; sleep 1000 & echo $! >$HOME/left']";
    let hook = format!("  hooks:\n    - {{ on: [skipped], command: {command}, timeout: 1h }}\n");
    let shop = AgentProject::with(&hook, "");
    let id = shop.add("a", &[]);
    shop.lope(&["tasks", "skip", &id]).done();
    let woken = shop.lope(&["runners", "wakeup", "--json"]).done().json();
    let left = std::fs::read_to_string(shop.home.path().join("left")).unwrap();
    assert!(!is_there(&left), "it is left");
    assert_eq!(woken["hooks"], json!([]), "{woken}");
    shop.lope(&["runners", "wakeup"]).done();
    let heard = std::fs::read_to_string(shop.home.path().join("heard")).unwrap();
    assert_eq!(heard.matches("task.skipped").count(), 1, "{heard}");
}

/// What is not heard is told again by whoever looks then, and given up in the end.
#[test]
fn what_was_not_heard_is_told_again_by_a_later_wake_up() {
    let shop = listening("skipped");
    let (first, second) = (shop.add("a", &[]), shop.add("b", &[]));
    shop.lope(&["projects", "disable", "shop"]).done();
    shop.lope(&["tasks", "skip", &first]).done();
    let deaf = shop.home.path().join("deaf");
    std::fs::write(&deaf, "").unwrap();
    let woken = shop.lope(&["runners", "wakeup"]).done();
    let line = "hook sh: exit status: 1\n";
    assert!(woken.out.ends_with(line), "{woken:?}");
    assert_eq!(heard(&shop), []);
    std::fs::remove_file(&deaf).unwrap();
    until("the next try", || {
        shop.lope(&["runners", "wakeup"]).done();
        !heard(&shop).is_empty()
    });
    assert_eq!(heard(&shop), [pair("task.skipped", &first)]);
    shop.lope(&["tasks", "skip", &second]).done();
    std::fs::write(&deaf, "").unwrap();
    until("it is given up", || {
        let woken = shop.lope(&["runners", "wakeup"]).done();
        woken
            .out
            .contains("\nhook sh: exit status: 1; given up after 4 tries\n")
    });
    std::fs::remove_file(&deaf).unwrap();
    shop.lope(&["runners", "wakeup"]).done();
    assert_eq!(heard(&shop).len(), 1);
}

/// A runner that is there tells it, whatever it is at work on; so does `lope up`.
#[test]
fn who_is_there_tells_what_others_decide_at_once() {
    let shop = listening("skipped, completed");
    let busy = shop.add("wait for it", &[]);
    let (first, second) = (shop.add("a", &[]), shop.add("b", &[]));
    let runner = shop.start();
    until("its beginning", || shop.begun(&busy));
    shop.lope(&["tasks", "skip", &first]).done();
    until("the runner tells it", || {
        heard(&shop) == [pair("task.skipped", &first)] && is_all_told(&shop)
    });
    drop(runner);
    let mut up = shop.command(&["up", "--http", "off"]);
    let up = RunnerChild::of(up.stdin(Stdio::null()));
    shop.lope(&["tasks", "skip", &second]).done();
    until("it is told", || {
        heard(&shop).len() == 2 && is_all_told(&shop)
    });
    drop(up);
    shop.go();
    shop.work();
    let last = shop.task(&second);
    assert_eq!(last["status"], json!("skipped"));
    assert_eq!(heard(&shop).last(), Some(&pair("task.completed", &busy)));
    assert_eq!(heard(&shop).len(), 3, "each once");
}

/// "Hooks on task events (command or webhook with retry), from config"
#[test]
fn hooks_are_told_what_became_of_a_task_and_are_tried_again() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let web = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut text, mut bytes) = (String::new(), [0; 4096]);
        while !text.contains("task.failed") || !text.ends_with('}') {
            let count = stream.read(&mut bytes).unwrap();
            text.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
        stream
            .write_all(b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n")
            .unwrap();
        text
    });
    let command = "[sh, -c, 'cat >$HOME/told; [ -e $HOME/tried ] || { touch $HOME/tried; echo no >&2; exit 1; }; mv $HOME/told $HOME/heard']";
    let hooks = format!(
        "  hooks:\n    - {{ on: [completed], command: {command} }}\n    - {{ on: [failed], url: 'http://{address}/hook' }}\n"
    );
    let shop = AgentProject::with(&hooks, "");
    let (done, failed) = (shop.add("succeed", &[]), shop.add("fail", &[]));
    let said = shop.work();
    let heard = std::fs::read_to_string(shop.home.path().join("heard")).unwrap();
    let heard: Value = serde_json::from_str(&heard).unwrap();
    assert_eq!(
        (&heard["event"], &heard["task"]["id"]),
        (&"task.completed".into(), &done.as_str().into())
    );
    assert!(
        said.err.contains("hook sh: exit status: 1: no"),
        "the first try is told: {said:?}"
    );
    let text = web.join().unwrap();
    assert!(
        text.starts_with("POST /hook ") && text.contains(&failed),
        "{text}"
    );
    let config = shop.home.path().join(".lope/config.yaml");
    std::fs::write(
        &config,
        "runners:\n  hooks:\n    - { on: [flying], command: [x] }\n",
    )
    .unwrap();
    let bad = shop.lope(&["tasks", "list"]);
    assert_eq!((bad.code, bad.err.contains("line 3")), (2, true), "{bad:?}");
}

/// A web server on loopback that answers the first request with 500 and the others with 200; what
/// it heard, and its address.
fn web_hook() -> (Arc<Mutex<Vec<String>>>, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let hearing = Arc::clone(&heard);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let text = whole_request(&mut stream);
            let mut heard = hearing.lock().unwrap();
            let words = if heard.is_empty() {
                "500 Internal Server Error"
            } else {
                "200 OK"
            };
            heard.push(text);
            drop(heard);
            let answer =
                format!("HTTP/1.1 {words}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    (heard, address)
}

fn whole_request(stream: &mut TcpStream) -> String {
    let (mut text, mut bytes) = (String::new(), [0; 4096]);
    loop {
        let count = stream.read(&mut bytes).unwrap();
        text.push_str(&String::from_utf8_lossy(&bytes[..count]));
        let length = text.to_lowercase();
        let length = length.split_once("content-length: ");
        let length = length.and_then(|(_, rest)| rest.split_once("\r\n"));
        let is_whole = text.split_once("\r\n\r\n").is_some_and(|(_, body)| {
            length.is_some_and(|(length, _)| body.len() >= length.parse().unwrap())
        });
        if is_whole || count == 0 {
            return text;
        }
    }
}

/// "Whoever is there tells it at once": one hook that takes its time keeps nothing from another.
#[test]
fn a_hook_that_takes_long_delays_no_other() {
    let slow = "[sh, -c, 'cat >/dev/null; touch $HOME/slow; while [ ! -e $HOME/go ]; do sleep 0.05; done']";
    let quick = "[sh, -c, 'cat >$HOME/heard.$$; mv $HOME/heard.$$ $HOME/heard.d/']";
    let hooks = format!(
        "  hooks:\n    - {{ on: [skipped], command: {slow}, timeout: 1h }}\n    \
         - {{ on: [skipped], command: {quick} }}\n"
    );
    let shop = AgentProject::with(&hooks, "");
    let path = |name: &str| shop.home.path().join(name);
    std::fs::create_dir(path("heard.d")).unwrap();
    let ids = ["a", "b", "c"].map(|title| shop.add(title, &[]));
    let up = Up::start(&shop.home, &["--http", "127.0.0.1:0"]);
    for (place, id) in ids.iter().enumerate() {
        shop.lope(&["tasks", "skip", id]).done();
        until("the quick one hears it", || heard(&shop).len() > place);
        until("the slow one is at it", || path("slow").exists());
    }
    assert_eq!(heard(&shop), ids.map(|id| pair("task.skipped", &id)));
    std::fs::write(path("go"), "").unwrap();
    until("it is told", || is_all_told(&shop));
    drop(up);
}

/// What a hook started goes with it when it takes too long.
#[test]
fn a_hook_that_is_stopped_leaves_no_process() {
    let command = "[sh, -c, 'cat >/dev/null; sleep 1000 & echo $! >$HOME/left; wait']";
    // On a slow machine it has not begun when its time is up: then it has more.
    let left = [1, 4, 16, 64].into_iter().find_map(|seconds| {
        let hooks = format!(
            "  hooks:\n    - {{ on: [skipped], command: {command}, timeout: {seconds}s, retries: 0 }}\n"
        );
        let shop = AgentProject::with(&hooks, "");
        let id = shop.add("a", &[]);
        shop.lope(&["tasks", "skip", &id]).done();
        let woken = shop.lope(&["runners", "wakeup"]).done().out;
        let words = format!("hook sh: not within {seconds}s; given up after 1 tries\n");
        assert!(woken.ends_with(&words), "{woken}");
        assert!(is_all_told(&shop), "it is given up");
        let left = std::fs::read_to_string(shop.home.path().join("left"));
        left.ok().filter(|pid| pid.ends_with('\n'))
    });
    assert!(!is_there(&left.unwrap()), "what it started is there");
}

/// Nothing of a hook outlives a runner that is killed: neither the command nor what left its group, nor
/// what cleared its environment.
#[test]
fn a_hook_and_what_it_started_are_gone_when_its_runner_is_killed() {
    let script = "cat >/dev/null; sleep 1000 & a=$!; setsid sleep 1000 & b=$!; \
                  setsid env -i $(command -v sleep) 1000 & echo $$ $a $b $! >$HOME/part; \
                  mv $HOME/part $HOME/left; wait";
    let hooks = format!(
        "  hooks:\n    - {{ on: [completed], command: [sh, -c, '{script}'], timeout: 1h }}\n"
    );
    let shop = AgentProject::with(&hooks, "");
    shop.add("succeed", &[]);
    let left = shop.home.path().join("left");
    let mut runner = shop.start();
    until("the hook is at it", || left.exists());
    let left = std::fs::read_to_string(left).unwrap();
    let pids: Vec<&str> = left.split_whitespace().collect();
    assert_eq!(pids.len(), 4, "{left}");
    assert!(pids.iter().all(|pid| is_there(pid)), "{left}");
    runner.signal(Signal::KILL);
    runner.child.wait().unwrap();
    until("nothing of the hook is left", || {
        !pids.iter().any(|pid| is_there(pid))
    });
}

/// A runner that a hook leaves behind would be killed with its agent in the middle of a task: it is not
/// started, and it is said what is to be done instead.
#[test]
fn a_runner_that_would_end_with_a_hook_is_not_started() {
    let script = "cat >/dev/null; cd $HOME; lope runners wakeup --dry-run >$HOME/dry; \
                  lope runners wakeup 2>$HOME/woken; echo $? >>$HOME/woken; \
                  lope runners start --project shop 2>$HOME/part; echo $? >>$HOME/part; \
                  mv $HOME/part $HOME/started";
    let hooks = format!("  hooks:\n    - {{ on: [skipped], command: [sh, -c, '{script}'] }}\n");
    let shop = AgentProject::with(&hooks, "");
    shop.add("a", &[]);
    let skipped = shop.add("b", &[]);
    let mut up = shop.command(&["up", "--http", "off"]);
    let up = RunnerChild::of(up.stdin(Stdio::null()));
    shop.lope(&["tasks", "skip", &skipped]).done();
    let file = |name: &str| std::fs::read_to_string(shop.home.path().join(name));
    until("the hook", || file("started").is_ok());
    drop(up);
    let words =
        "error: a runner that is started here would end with the step or hook that calls this\n";
    for name in ["woken", "started"] {
        let said = file(name).unwrap();
        assert!(said.starts_with(words) && said.ends_with("\n3\n"), "{said}");
        assert!(said.contains("--foreground --until-idle"), "{said}");
    }
    assert_eq!(
        file("dry").unwrap(),
        format!("{}: start a runner\n", shop.project.display())
    );
    let all = shop.json(&["runners", "list", "--all"]);
    let mut all = all.as_array().unwrap().iter();
    assert!(
        all.all(|runner| runner["kind"] == "runs"),
        "that of lope up"
    );
}

/// "Hooks on task events (command or webhook with retry)": what is decided through HTTP, by a
/// program, on a page and by a command with `--server`, is told by the server at once; a web hook
/// that answers 500 is told the same again.
#[test]
fn what_is_decided_through_http_is_told_to_a_web_hook_until_it_hears_it() {
    let (heard, address) = web_hook();
    let hooks =
        format!("  hooks:\n    - {{ on: [skipped, completed], url: 'http://{address}/hook' }}\n");
    let shop = AgentProject::with(&hooks, "");
    let [api, page, command] = ["a", "b", "c"].map(|title| shop.add(title, &[]));
    let up = Up::start(&shop.home, &["--http", "127.0.0.1:0"]);
    let told = |count: usize| {
        until("it is told", || {
            heard.lock().unwrap().len() >= count && is_all_told(&shop)
        });
    };
    let skip = Request::post(&format!("/api/tasks/{api}/skip")).json(&json!({}));
    assert_eq!(up.send(skip).status, 200);
    told(2);
    let form = Request::post(&format!("/agents/tasks/{page}/skip"))
        .header("sec-fetch-site", "same-origin")
        .body("application/x-www-form-urlencoded", "text=");
    let answer = up.send(form);
    assert_eq!(answer.status, 303, "{}", answer.text());
    told(3);
    let server = format!("http://{}", up.address);
    let words = ["tasks", "done", "by hand", "--task", &command];
    shop.lope(&[&words[..], &["--server", &server]].concat())
        .done();
    told(4);
    drop(up);
    let heard = heard.lock().unwrap();
    let bodies: Vec<Value> = heard.iter().map(|text| web_body(text)).collect();
    let events: Vec<(&Value, &Value)> = bodies
        .iter()
        .map(|body| (&body["event"], &body["task"]["id"]))
        .collect();
    let (skipped, completed) = (json!("task.skipped"), json!("task.completed"));
    let [api, page, command] = [api, page, command].map(Value::from);
    let expected = [
        (&skipped, &api),
        (&skipped, &api),
        (&skipped, &page),
        (&completed, &command),
    ];
    assert_eq!(events, expected, "each once, but for what was not heard");
    assert_eq!(bodies[0], bodies[1], "the same is told again");
}

fn web_body(text: &str) -> Value {
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /hook HTTP/1.1\r\n"), "{head}");
    let head = head.to_lowercase();
    assert!(head.contains("content-type: application/json"), "{head}");
    serde_json::from_str(body).unwrap()
}
