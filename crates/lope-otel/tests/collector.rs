//! A small collector on loopback, which also answers the requests of HTTP steps.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value as Json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// Only a program that hangs needs it.
const PATIENCE: Duration = Duration::from_secs(120);

/// A request that came.
#[derive(Clone, Debug)]
pub(crate) struct Came {
    pub(crate) path: String,
    pub(crate) head: String,
    pub(crate) body: Json,
}

#[derive(Clone, Debug)]
pub(crate) struct Collector {
    pub(crate) url: String,
    came: Arc<Mutex<Vec<Came>>>,
    /// Rings when a request was answered.
    answered: Arc<Notify>,
    /// Answers with 503 while it is set.
    pub(crate) away: Arc<std::sync::atomic::AtomicBool>,
}

impl Collector {
    pub(crate) async fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let collector = Self {
            url,
            came: Arc::default(),
            answered: Arc::default(),
            away: Arc::default(),
        };
        let own = collector.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(own.clone().answer(stream));
            }
        });
        collector
    }

    async fn answer(self, mut stream: TcpStream) {
        let mut read = Vec::new();
        loop {
            let Some(end) = read.windows(4).position(|it| it == b"\r\n\r\n") else {
                match stream.read_buf(&mut read).await {
                    Ok(0) | Err(_) => return,
                    Ok(_) => continue,
                }
            };
            let head = String::from_utf8(read[..end].to_vec()).unwrap();
            let length = head
                .lines()
                .find_map(|line| {
                    let (name, value) = line.split_once(':')?;
                    let named = name.eq_ignore_ascii_case("content-length");
                    named.then(|| value.trim().parse::<usize>().unwrap())
                })
                .unwrap_or(0);
            while read.len() < end + 4 + length {
                if matches!(stream.read_buf(&mut read).await, Ok(0) | Err(_)) {
                    return;
                }
            }
            let body = read[end + 4..end + 4 + length].to_vec();
            read.drain(..end + 4 + length);
            let path = head.split(' ').nth(1).unwrap().to_owned();
            let away = self.away.load(std::sync::atomic::Ordering::Acquire);
            if !away {
                let body = serde_json::from_slice(&body).unwrap_or_default();
                self.came.lock().unwrap().push(Came { path, head, body });
            }
            let status = if away { "503 Away" } else { "200 OK" };
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 2\r\n\r\n{{}}");
            let written = stream.write_all(answer.as_bytes()).await;
            self.answered.notify_waiters();
            if written.is_err() {
                return;
            }
        }
    }

    pub(crate) fn came(&self, path: &str) -> Vec<Came> {
        let came = self.came.lock().unwrap();
        came.iter().filter(|it| it.path == path).cloned().collect()
    }

    pub(crate) fn spans(&self) -> Vec<Json> {
        let came = self.came("/v1/traces");
        let all = came.iter().flat_map(|it| {
            let scopes = it.body["resourceSpans"][0]["scopeSpans"].clone();
            scopes[0]["spans"].as_array().unwrap().clone()
        });
        all.collect()
    }

    /// Returns when it holds, which it may after each request.
    pub(crate) async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        loop {
            let answered = self.answered.notified();
            if holds(self) {
                return;
            }
            let answered = tokio::time::timeout(PATIENCE, answered).await;
            assert!(answered.is_ok(), "{what}: {self:?}");
        }
    }
}
