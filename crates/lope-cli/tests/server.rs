//! `lope up` as a server: the real binary, reached over loopback.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use serde_json::json;

use crate::fixture::http::{self, HttpAnswer, Request};
use crate::stage::Home;

/// A `lope up` that is stopped when the test is over.
pub(crate) struct Up {
    pub(crate) child: Child,
    pub(crate) address: String,
}

impl Up {
    pub(crate) fn start(home: &Home, args: &[&str]) -> Self {
        let mut command = home.command(&[&["up"], args].concat());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut lines = lines.map_while(Result::ok);
        let said = lines.find(|line| line.contains("dashboard and API at"));
        let said = said.expect("it says where it serves");
        let address = said.rsplit("://").next().unwrap();
        let address = address.trim_end_matches('/').to_owned();
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address }
    }

    pub(crate) fn send(&self, request: Request) -> HttpAnswer {
        let port: u16 = self.address.rsplit(':').next().unwrap().parse().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(http::send(([127, 0, 0, 1], port).into(), &request))
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn up_serves_the_runs_that_it_works_on_and_ends_when_it_is_asked() {
    let home = Home::new();
    let file = home.file("hi.yaml", "name: hi\nsteps: { a: { let: 1 } }\n");
    home.lope(&["workflows", "deploy", &file]).done();
    let mut up = Up::start(&home, &["--http", "127.0.0.1:0"]);
    assert_eq!(up.send(Request::get("/readyz")).status, 200);
    let start = Request::post("/api/runs").json(&json!({ "workflow": "hi", "key": "k" }));
    assert_eq!(up.send(start).status, 201);
    let ended = up.send(Request::get("/api/runs/k/wait?timeout=60s")).json();
    assert_eq!(
        (&ended["status"], &ended["result"]),
        (&json!("completed"), &json!(1))
    );
    let listed = home.lope(&["runs", "list", "--json"]).done().out;
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let served = up.send(Request::get("/api/runs")).json();
    assert_eq!(
        served["runs"], listed,
        "the server and the command line say the same"
    );
    let pid = rustix::process::Pid::from_child(&up.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(up.child.wait().unwrap().code(), Some(0));
}

/// The priority that is said, else that of the queue, else the usual one: whoever starts a run or
/// adds a schedule.
#[test]
fn a_run_that_names_no_priority_has_that_of_its_queue() {
    let home = Home::new();
    std::fs::create_dir(home.path().join(".lope")).unwrap();
    home.file(".lope/config.yaml", "queues: { urgent: { priority: 7 } }");
    let file = home.file("hi.yaml", "name: hi\nsteps: { a: { let: 1 } }\n");
    home.lope(&["workflows", "deploy", &file]).done();
    let up = Up::start(&home, &["--http", "127.0.0.1:0", "--queue", "nobodys"]);
    for (queue, said, priority) in [
        ("urgent", None, 7),
        ("urgent", Some(2), 2),
        ("usual", None, 4),
        ("usual", Some(9), 9),
    ] {
        let case = format!("{queue}-{said:?}");
        let level = said.map(|level: i64| level.to_string());
        let flags: Vec<&str> = level.iter().flat_map(|it| ["--priority", it]).collect();
        let typed = |words: &[&str]| {
            let more = ["--queue", queue, "--json"];
            home.lope(&[words, &more, &flags].concat()).done().json()
        };
        let asked = |path: &str, mut body: serde_json::Value| {
            body["workflow"] = json!("hi");
            body["queue"] = json!(queue);
            if let Some(level) = said {
                body["priority"] = json!(level);
            }
            let answer = up.send(Request::post(path).json(&body));
            assert_eq!(answer.status, 201, "{case}: {}", answer.text());
            answer.json()
        };
        let of_run = |key: &str| {
            let shown = home.lope(&["runs", "show", key, "--json"]).done().json();
            shown["priority"].clone()
        };
        typed(&["start", "hi", "--key", &format!("typed-{case}")]);
        asked("/api/runs", json!({ "key": format!("asked-{case}") }));
        let name = format!("typed-{queue}-{priority}");
        let added = typed(&["schedules", "add", &name, "hi", "--every", "1d"]);
        let name = format!("asked-{queue}-{priority}");
        let served = asked("/api/schedules", json!({ "name": name, "every": "1d" }));
        let found = [
            of_run(&format!("typed-{case}")),
            of_run(&format!("asked-{case}")),
            added["priority"].clone(),
            served["priority"].clone(),
        ];
        let is_meant = |found: &serde_json::Value| *found == json!(priority);
        assert!(found.iter().all(is_meant), "{case}: {found:?}");
    }
}

#[test]
fn an_address_that_others_reach_needs_a_token_that_the_command_line_makes() {
    let home = Home::new();
    let token = home
        .lope(&["tokens", "add", "ci", "--right", "read"])
        .done()
        .out;
    let up = Up::start(&home, &["--http", "0.0.0.0:0"]);
    let get = || Request::get("/api/runs");
    assert_eq!(up.send(get()).status, 401);
    assert_eq!(up.send(get().token(token.trim())).status, 200);
    let listed = home.lope(&["tokens", "list"]).done().out;
    assert!(
        listed.contains("ci") && !listed.contains(token.trim()),
        "{listed}"
    );
    home.lope(&["tokens", "revoke", "ci"]).done();
    assert_eq!(up.send(get().token(token.trim())).status, 401);
}

#[test]
fn a_second_runner_works_without_the_address_that_the_first_has() {
    let home = Home::new();
    let up = Up::start(&home, &["--http", "127.0.0.1:0"]);
    let said = home.lope(&["up", "--http", &up.address]);
    assert_eq!(
        (said.code, said.err.contains("is taken")),
        (3, true),
        "{said:?}"
    );
}

#[test]
fn open_shows_the_page_of_a_run_in_the_browser() {
    let home = Home::new();
    let file = home.file("hi.yaml", "name: hi\nsteps: { a: { let: 1 } }\n");
    home.lope(&["workflows", "deploy", &file]).done();
    home.lope(&["start", "hi", "--key", "k"]).done();
    let up = Up::start(&home, &["--http", "127.0.0.1:0"]);
    let all = format!("http://{}/", up.address);
    let printed = home.lope(&["open", "--print", "--http", &up.address]);
    assert_eq!(printed.done().out.trim(), all);
    // A browser of its own: it writes down what it is to show.
    let browser = home.path().join("browser.sh");
    crate::stage::program(&browser, "#!/bin/sh\necho \"$1\" > \"$HOME/shown\"\n");
    let mut command = home.command(&["open", "k", "--http", &up.address, "--json"]);
    let said = crate::stage::said(command.env("BROWSER", &browser)).done();
    let said: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    let url = said["url"].as_str().unwrap();
    let shown = home.path().join("shown");
    crate::stage::until("the browser was started", || {
        std::fs::read_to_string(&shown).is_ok_and(|text| text.trim() == url)
    });
    let page = up.send(Request::get(
        url.trim_start_matches(all.trim_end_matches('/')),
    ));
    assert_eq!(page.status, 200);
    assert!(page.text().contains("hi"), "{}", page.text());
}
