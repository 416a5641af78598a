//! Traces of the real binary: a collector gets them, and an action in Python is told its span; and
//! workflows in Python through a server.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::python::Ground;
use crate::stage::until;

const APP: &str = r#"
from lope import action, current_attempt, workflow

@action
async def span(word: str) -> str:
    attempt = current_attempt()
    return f"{word} {attempt.traceparent}"

@workflow
async def told(word: str) -> str:
    return await span(word)
"#;

/// What came to a collector on loopback.
type Collected = Arc<Mutex<Vec<Value>>>;

fn collector() -> (String, Collected) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let came = Collected::default();
    let all = Arc::clone(&came);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let all = Arc::clone(&all);
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stream);
                while let Some(body) = request(&mut reader) {
                    all.lock().unwrap().push(body);
                    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
                    if reader.get_mut().write_all(answer).is_err() {
                        return;
                    }
                }
            });
        }
    });
    (url, came)
}

/// The body of the next request; nothing: the connection is over.
fn request(reader: &mut impl BufRead) -> Option<Value> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim().to_ascii_lowercase();
        if let Some(said) = line.strip_prefix("content-length:") {
            length = said.trim().parse().ok()?;
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    serde_json::from_slice(&body).ok()
}

fn spans(came: &Collected) -> Vec<Value> {
    let came = came.lock().unwrap();
    let all = came.iter().filter_map(|body| {
        let scopes = &body["resourceSpans"][0]["scopeSpans"];
        scopes[0]["spans"].as_array().cloned()
    });
    all.flatten().collect()
}

struct Stopped(Child);

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn an_action_in_python_is_told_its_span_also_when_a_server_runs_its_workflow() {
    let Some(ground) = Ground::new() else { return };
    ground.file("app.py", APP);
    let (collector, came) = collector();
    let mut up = ground.command(&["up", "--http", "127.0.0.1:0", "--python", "app.py"]);
    up.env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector);
    let mut up = Stopped(up.stderr(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(up.0.stderr.take().unwrap()).lines();
    let said = lines.by_ref().map_while(Result::ok);
    let said = said
        .into_iter()
        .find(|line| line.contains("dashboard and API at"));
    let said = said.expect("it says where it serves");
    let server = format!("http://{}", said.rsplit("http://").next().unwrap());
    std::thread::spawn(move || lines.for_each(drop));
    // The module is compiled where the command is typed; the server works on its run.
    let input = "{\"word\": \"hello\"}";
    let words = [
        "run",
        "app.py:told",
        "--input",
        input,
        "--key",
        "k",
        "--json",
    ];
    let mut command = ground.command(&words);
    let ran = crate::stage::said(command.env("LOPE_SERVER", &server)).done();
    let ran = ran.json();
    let result = ran["result"].as_str().unwrap().to_owned();
    let (word, told) = result.split_once(' ').unwrap();
    assert_eq!(word, "hello");
    let run = ran["run_id"].as_str().unwrap().replace('-', "");
    let (trace, span) = (&told[3..35], &told[36..52]);
    assert_eq!(trace, run);
    until("the trace came", || {
        let found = spans(&came);
        found
            .iter()
            .any(|it| it["traceId"] == trace && it["spanId"] == span)
    });
    let found = spans(&came);
    let attempt = found.iter().find(|it| it["spanId"] == span).unwrap();
    let name = attempt["name"].as_str().unwrap();
    assert!(name.ends_with("attempt 1"), "{name}");
    assert!(
        found
            .iter()
            .any(|it| it["spanId"] == attempt["parentSpanId"])
    );
    // Which workflows there are is said by the caller's Python too.
    let mut command = ground.command(&["run", "app.py"]);
    let which = crate::stage::said(command.env("LOPE_SERVER", &server));
    assert_eq!(
        (which.code, which.err.contains("app.py:told")),
        (2, true),
        "{which:?}"
    );
}
