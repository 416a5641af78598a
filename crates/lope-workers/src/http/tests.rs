//! Requests to a real server on loopback.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;

use super::*;
use crate::bench_tests::Bench;

/// A server that answers one request with `answer` and returns what it was asked.
fn serve(answer: &'static str) -> (String, std::thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let mut reader = BufReader::new(listener.accept().unwrap().0);
        let (mut head, mut length) = (String::new(), 0);
        while !head.ends_with("\r\n\r\n") {
            let start = head.len();
            reader.read_line(&mut head).unwrap();
            if let Some(text) = head[start..]
                .to_ascii_lowercase()
                .strip_prefix("content-length:")
            {
                length = text.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        reader.get_mut().write_all(answer.as_bytes()).unwrap();
        head + &String::from_utf8(body).unwrap()
    });
    (url, server)
}

fn bench() -> Bench<Requests> {
    Bench::new(|runtime| Requests::new(runtime).unwrap())
}

#[test]
fn a_request_carries_method_headers_body_and_key_and_json_comes_back_as_a_value() {
    let (url, server) = serve(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 7\r\n\r\n{\"n\":1}",
    );
    let arguments = format!(
        r#"{{"method": "post", "url": "{url}/x", "headers": {{"x-a": 5}}, "body": {{"b": [1]}}}}"#
    );
    let output = bench().run("http", &arguments).unwrap();
    assert_eq!(output.get("status"), Some(&Value::Int(200)));
    assert_eq!(
        output.get("body"),
        Some(&Value::map([("n", Value::Int(1))]))
    );
    let asked = server.join().unwrap();
    assert!(
        asked.starts_with("POST /x HTTP/1.1\r\n") && asked.ends_with(r#"{"b":[1]}"#),
        "{asked}"
    );
    for header in [
        "x-a: 5\r\n",
        "idempotency-key: key-1\r\n",
        "content-type: application/json\r\n",
    ] {
        assert!(asked.contains(header), "{header} in {asked}");
    }
}

#[test]
fn a_bad_status_fails_unless_it_is_accepted() {
    let answer = "HTTP/1.1 404 Not Found\r\ncontent-length: 4\r\n\r\ngone";
    let (url, _) = serve(answer);
    let failure = bench()
        .run("http", &format!(r#"{{"url": "{url}"}}"#))
        .unwrap_err();
    assert_eq!(&*failure.kind, failure::kind::HTTP_STATUS);
    assert_eq!(failure.detail.get("body"), Some(&Value::from("gone")));
    let (url, _) = serve(answer);
    let output = bench()
        .run("http", &format!(r#"{{"url": "{url}", "accept": [404]}}"#))
        .unwrap();
    assert_eq!(output.get("status"), Some(&Value::Int(404)));
}

#[test]
fn what_gets_no_answer_says_why() {
    let refused = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let failure = bench()
        .run("http", &format!(r#"{{"url": "http://{refused}"}}"#))
        .unwrap_err();
    assert_eq!(&*failure.kind, "HttpError");
    assert!(failure.message.contains("refused"), "{}", failure.message);
    assert_eq!(
        &*bench()
            .run("http", r#"{"url": "nonsense"}"#)
            .unwrap_err()
            .kind,
        "BadArguments"
    );
    assert_eq!(
        &*bench()
            .run("http", r#"{"url": "http://x", "headers": {"a b": 1}}"#)
            .unwrap_err()
            .kind,
        "BadArguments"
    );
    let (url, _) =
        serve("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1\r\n\r\n{");
    let failure = bench()
        .run("http", &format!(r#"{{"url": "{url}"}}"#))
        .unwrap_err();
    assert!(
        failure.message.contains("says it is JSON"),
        "{}",
        failure.message
    );
}

/// The address in an error is the one that was written, also when an answer came.
#[test]
fn an_error_shows_the_address_as_it_was_written() {
    let (url, _) = serve("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n");
    let arguments = format!(r#"{{"url": "{url}/A/../b c"}}"#);
    let failure = bench().run("http", &arguments).unwrap_err();
    assert_eq!(
        failure.message,
        format!("404 Not Found from {url}/A/../b c")
    );
    // One that hangs up.
    let (url, _) = serve("");
    let arguments = format!(r#"{{"url": "{url}/A/../b c"}}"#);
    let failure = bench().run("http", &arguments).unwrap_err();
    let shown = format!("({url}/A/../b c)");
    assert!(failure.message.contains(&shown), "{}", failure.message);
    assert!(!failure.message.contains("b%20c"), "{}", failure.message);
}

/// A server that repeats what it was asked tells no secret either.
#[test]
fn what_a_request_makes_of_a_secret_is_not_shown() {
    let secret = "Zq7_sEcReT-vAlue9";
    // `u:` and the secret, as a header has them; with padding, without, and in an address.
    for body in [
        "Basic dTpacTdfc0VjUmVULXZBbHVlOQ==/x",
        "Basic dTpacTdfc0VjUmVULXZBbHVlOQ/x",
        "Basic dTpacTdfc0VjUmVULXZBbHVlOQ%3D%3D/x",
    ] {
        for status in ["500 Oops", "200 OK"] {
            let length = body.len();
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}");
            let (url, server) = serve(answer.leak());
            let url = url.replace("http://", &format!("http://u:{secret}@"));
            let arguments = format!(r#"{{"url": "{url}/x"}}"#);
            let result = bench().run_masked("http", &arguments, secret);
            let asked = server.join().unwrap();
            let sent = "authorization: Basic dTpacTdfc0VjUmVULXZBbHVlOQ==\r\n";
            assert!(asked.contains(sent), "{asked}");
            let detail = result.unwrap_or_else(|failure| failure.detail);
            let shown = detail.get("body").and_then(Value::as_str).unwrap();
            assert_eq!(shown, "Basic ***/x", "{body}");
        }
    }
    let answer = "HTTP/1.1 501 No\r\ncontent-length: 20\r\n\r\nno ZQ7_SECRET-VALUE9";
    let (url, server) = serve(answer);
    let arguments = format!(r#"{{"url": "{url}/x", "method": "{secret}"}}"#);
    let failure = bench().run_masked("http", &arguments, secret).unwrap_err();
    assert!(server.join().unwrap().starts_with("ZQ7_SECRET-VALUE9 /x "));
    assert_eq!(failure.detail.get("body"), Some(&Value::from("no ***")));
    let arguments = format!(r#"{{"url": "http://h/x", "method": "{secret} x"}}"#);
    let failure = bench().run_masked("http", &arguments, secret).unwrap_err();
    assert_eq!(failure.message, "'*** x' is not a method");
}
