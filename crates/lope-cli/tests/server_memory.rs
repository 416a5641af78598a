//! What a server holds in memory when much is asked of it: streams that wait, logs that are long.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::json;

use crate::fixture::http::Request;
use crate::server::Up;
use crate::stage::Home;

const STREAMS: u64 = 500;
/// Most bytes that a stream which says nothing may take.
const STREAM_BYTES: u64 = 100 * 1024;
/// Lines of a log, of a hundred bytes each with their time.
const LINES: u64 = 100_000;

/// Resident memory of a server in bytes.
fn resident(up: &Up) -> u64 {
    let status = format!("/proc/{}/status", up.child.id());
    let status = std::fs::read_to_string(status).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib: u64 = line
        .unwrap()
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    kib * 1024
}

fn stream(up: &Up, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(&up.address).unwrap();
    let asked = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    stream.write_all(asked.as_bytes()).unwrap();
    let mut head = [0; 12];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 200");
    stream
}

/// "500 idle event streams …: bounded memory, others unaffected."
#[test]
fn idle_streams_take_little_memory() {
    let home = Home::new();
    let up = Up::start(&home, &["--http", "127.0.0.1:0"]);
    drop(stream(&up, "/api/events"));
    let before = resident(&up);
    let streams: Vec<TcpStream> = (0..STREAMS).map(|_| stream(&up, "/api/events")).collect();
    assert_eq!(up.send(Request::get("/")).status, 200);
    let more = resident(&up).saturating_sub(before);
    assert!(more < STREAMS * STREAM_BYTES, "{more} bytes");
    drop(streams);
}

/// "a million-line log: bounded memory": a log is long, and a client that asks for all of it reads
/// nothing; others do so too. None of them holds more than a piece of it.
#[test]
fn downloads_of_a_long_log_take_little_memory() {
    let home = Home::new();
    let text = format!(
        "name: talks\nsteps: {{ a: {{ run: \"yes {} | head -n {LINES} >&2\" }} }}\n",
        "x".repeat(70)
    );
    let file = home.file("talks.yaml", &text);
    home.lope(&["workflows", "deploy", &file]).done();
    let up = Up::start(&home, &["--http", "127.0.0.1:0"]);
    let start = json!({ "workflow": "talks", "key": "k" });
    assert_eq!(up.send(Request::post("/api/runs").json(&start)).status, 201);
    while up.send(Request::get("/api/runs/k/wait")).json()["finished_at"].is_null() {}
    let all = up.send(Request::get("/api/runs/k/logs/text")).body;
    assert!(all.len() as u64 > LINES * 90, "{}", all.len());
    let before = resident(&up);
    let waiting: Vec<TcpStream> = (0..50)
        .map(|_| stream(&up, "/api/runs/k/logs/text"))
        .collect();
    assert_eq!(up.send(Request::get("/runs/k/logs")).status, 200);
    let more = resident(&up).saturating_sub(before);
    // Were the log held for each of them, it would be fifty times as much.
    assert!(more < 10 * all.len() as u64, "{more} bytes");
    drop(waiting);
}
