//! What is too large, too slow or too much is refused, and others are not held up.

use std::time::Duration;

use lope::tokens::Right;
use lope_server::Authentication;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::fixture::http::Request;
use super::fixture::{Ground, settings};

const WAITS: &str = "name: waits
steps:
  hold: { wait: go }
";

#[tokio::test(flavor = "multi_thread")]
async fn bodies_and_heads_are_bounded() {
    let mut small = settings("127.0.0.1:0");
    small.body_max = 1_000;
    let ground = Ground::with(small).await;
    let large = Request::post("/api/runs").body("application/json", vec![b' '; 2_000]);
    let answer = ground.send(large).await;
    assert_eq!(
        (answer.status, &answer.json()["error"]["kind"]),
        (413, &"too_large".into())
    );
    let long = format!("/api/runs?workflow={}", "x".repeat(17 * 1024));
    assert_eq!(ground.get(&long).await.status, 400);
    // A head that is too long is refused with words, whether it ends or not.
    for (length, end) in [
        (60 * 1024, "\r\n\r\n"),
        (66 * 1024, "\r\n\r\n"),
        (80 * 1024, "\r\n\r\n"),
        (90 * 1024, "\r\n\r\n"),
        (200 * 1024, ""),
        (700 * 1024, "\r\n\r\n"),
    ] {
        let mut stream = TcpStream::connect(ground.server.address()).await.unwrap();
        let close = "connection: close\r\n";
        let begin = format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\n{close}x: ");
        stream.write_all(begin.as_bytes()).await.unwrap();
        stream.write_all(&vec![b'x'; length]).await.unwrap();
        stream.write_all(end.as_bytes()).await.unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.unwrap();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let status = if length < 64 * 1024 { "200" } else { "431" };
        let expected = format!("HTTP/1.1 {status}");
        assert!(text.starts_with(&expected), "{length}: {text}");
    }
    ground.close().await;
}

/// "limits on … headers": a hundred are enough.
#[tokio::test(flavor = "multi_thread")]
async fn more_headers_than_a_hundred_are_refused() {
    let ground = Ground::open().await;
    for (count, status) in [(90, "200"), (120, "431")] {
        let mut stream = TcpStream::connect(ground.server.address()).await.unwrap();
        let begin = "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n";
        let head = format!("{begin}{}\r\n", "x: y\r\n".repeat(count));
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.unwrap();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let expected = format!("HTTP/1.1 {status}");
        assert!(text.starts_with(&expected), "{count}: {text}");
    }
    ground.close().await;
}

/// "slow clients": one that sends its head letter by letter is let go, however steadily they come, and
/// others are served meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_drips_is_given_up() {
    let ground = Ground::open().await;
    let stream = TcpStream::connect(ground.server.address()).await.unwrap();
    let (mut hears, mut says) = stream.into_split();
    let drips = tokio::spawn(async move {
        let mut beat = tokio::time::interval(Duration::from_millis(200));
        let mut sent = says.write_all(b"GET /healthz HTTP/1.1\r\nx: ").await;
        while sent.is_ok() {
            beat.tick().await;
            sent = says.write_all(b"x").await;
        }
    });
    assert_eq!(ground.get("/healthz").await.status, 200);
    let mut bytes = Vec::new();
    let end = hears.read_to_end(&mut bytes);
    let end = tokio::time::timeout(Duration::from_secs(60), end).await;
    assert!(end.is_ok(), "it is held for ever");
    drips.abort();
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_does_not_come_is_given_up() {
    let mut hasty = settings("127.0.0.1:0");
    hasty.request_timeout = Duration::from_millis(200);
    let ground = Ground::with(hasty).await;
    let mut stream = TcpStream::connect(ground.server.address()).await.unwrap();
    let head = "POST /api/runs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 10\r\n\r\n{";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut bytes = vec![0; 1_000];
    let read = tokio::time::timeout(Duration::from_secs(60), stream.read(&mut bytes)).await;
    let text = String::from_utf8_lossy(&bytes[..read.unwrap().unwrap()]).into_owned();
    assert!(
        text.starts_with("HTTP/1.1 400") && text.contains("in time"),
        "{text}"
    );
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_requests_end_their_connection_alone() {
    let ground = Ground::open().await;
    for bytes in [
        &b"\x16\x03\x01\x02\x00\x01\x00"[..],
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /api/runs HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nZZ\r\n",
        b"GET /api/runs/%ff%fe HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
        b"GET /api/runs/%00 HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nconnection: close\r\n\r\n",
    ] {
        let mut stream = TcpStream::connect(ground.server.address()).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let _ = stream.shutdown().await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 4"),
            "{bytes:?}: {answer}"
        );
        assert_eq!(ground.get("/healthz").await.status, 200);
    }
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn five_hundred_idle_streams_hold_nobody_up_and_more_are_refused() {
    let ground = Ground::open().await;
    ground.deploy(WAITS).await;
    let mut streams = Vec::new();
    for _ in 0..512 {
        let mut stream = TcpStream::connect(ground.server.address()).await.unwrap();
        stream
            .write_all(b"GET /api/events HTTP/1.1\r\nhost: localhost\r\n\r\n")
            .await
            .unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).await.unwrap();
        assert_eq!(&head, b"HTTP/1.1 200");
        streams.push(stream);
    }
    assert_eq!(ground.get("/api/events").await.status, 429);
    let run = ground.start("waits", json!(null)).await;
    assert_eq!(ground.get(&format!("/api/runs/{run}")).await.status, 200);
    // Each of them is told.
    for stream in &mut streams {
        let mut text = String::new();
        while !text.contains(&run) {
            let mut bytes = [0; 4096];
            let read = stream.read(&mut bytes).await.unwrap();
            assert!(read > 0, "the stream ended");
            text.push_str(&String::from_utf8_lossy(&bytes[..read]));
        }
    }
    drop(streams);
    // Places of those who left are free again.
    while ground.get("/readyz").await.status == 200 {
        let mut stream = TcpStream::connect(ground.server.address()).await.unwrap();
        stream
            .write_all(b"GET /api/events HTTP/1.1\r\nhost: localhost\r\n\r\n")
            .await
            .unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).await.unwrap();
        if &head == b"HTTP/1.1 200" {
            break;
        }
    }
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_guesses_tokens_is_held_off() {
    let mut guarded = settings("127.0.0.1:0");
    guarded.authentication = Authentication::Always;
    let ground = Ground::with(guarded).await;
    let token = ground.token("one", Right::Read).await;
    let guess = || Request::get("/api/runs").token("lope_guess");
    let mut statuses = Vec::new();
    for _ in 0..40 {
        statuses.push(ground.send(guess()).await.status);
    }
    assert_eq!((statuses[0], statuses[39]), (401, 429));
    // Guessing at the login is the same guessing.
    let login =
        Request::post("/login").body("application/x-www-form-urlencoded", "token=lope_guess");
    assert_eq!(ground.send(login).await.status, 429);
    // A token that is one opens as before.
    assert_eq!(
        ground
            .send(Request::get("/api/runs").token(&token))
            .await
            .status,
        200
    );
    ground.close().await;
}

/// Clients that ask and ask and read nothing of the answers keep their places only for a while.
#[tokio::test(flavor = "multi_thread")]
async fn clients_that_read_nothing_do_not_keep_others_out() {
    let mut few = settings("127.0.0.1:0");
    few.connections_max = 2;
    few.request_timeout = Duration::from_millis(300);
    let ground = Ground::with(few).await;
    let mut greedy = Vec::new();
    for _ in 0..2 {
        let stream = TcpStream::connect(ground.server.address()).await.unwrap();
        let asked = "GET /assets/app.css HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(4_000);
        let (reading, mut writing) = stream.into_split();
        let asking = tokio::spawn(async move { writing.write_all(asked.as_bytes()).await });
        greedy.push((reading, asking));
    }
    let healthy = tokio::time::timeout(Duration::from_secs(60), ground.get("/healthz")).await;
    assert_eq!(healthy.expect("there is a place").status, 200);
    for (reading, asking) in greedy {
        drop(reading);
        let _ = asking.await;
    }
    ground.close().await;
}
