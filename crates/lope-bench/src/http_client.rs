//! As much of an HTTP client as measuring needs: a connection that is kept, a stream of events.

use std::io;

use crate::error::{BenchError, BenchResult};
use serde_json::Value as Json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// One connection, one request at a time.
#[derive(Debug)]
pub(crate) struct HttpConnection {
    stream: TcpStream,
    address: String,
    read: Vec<u8>,
}

fn broken(error: impl std::fmt::Display) -> BenchError {
    BenchError::Broken(format!("the server: {error}"))
}

impl HttpConnection {
    pub(crate) async fn open(address: &str) -> BenchResult<Self> {
        let stream = TcpStream::connect(address).await.map_err(broken)?;
        stream.set_nodelay(true).map_err(broken)?;
        Ok(Self {
            stream,
            address: address.to_owned(),
            read: Vec::new(),
        })
    }

    /// How many bytes a page has.
    pub(crate) async fn get(&mut self, path: &str) -> BenchResult<usize> {
        let head = format!("GET {path} HTTP/1.1\r\nhost: {}\r\n\r\n", self.address);
        Ok(self.exchange(head.as_bytes()).await?.len())
    }

    pub(crate) async fn post(&mut self, path: &str, body: &str) -> BenchResult<Json> {
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        let answer = self.exchange(request.as_bytes()).await?;
        serde_json::from_slice(&answer).map_err(broken)
    }

    /// The body of a good answer.
    async fn exchange(&mut self, request: &[u8]) -> BenchResult<Vec<u8>> {
        self.stream.write_all(request).await.map_err(broken)?;
        let end = loop {
            if let Some(end) = position(&self.read, b"\r\n\r\n") {
                break end;
            }
            self.more().await?;
        };
        let head = String::from_utf8_lossy(&self.read[..end]).to_ascii_lowercase();
        let mut lines = head.lines();
        let status = lines.next().unwrap_or_default();
        if !status.contains(" 20") {
            return Err(broken(format!("it answered {status}")));
        }
        let length = lines.find_map(|line| line.strip_prefix("content-length:"));
        let length: Option<usize> = length.and_then(|length| length.trim().parse().ok());
        let length = length.ok_or_else(|| broken("an answer does not say how long it is"))?;
        while self.read.len() < end + 4 + length {
            self.more().await?;
        }
        let rest = self.read.split_off(end + 4 + length);
        let body = self.read.split_off(end + 4);
        self.read = rest;
        Ok(body)
    }

    async fn more(&mut self) -> BenchResult<()> {
        match self.stream.read_buf(&mut self.read).await {
            Ok(0) => Err(broken(io::Error::from(io::ErrorKind::UnexpectedEof))),
            Ok(_) => Ok(()),
            Err(error) => Err(broken(error)),
        }
    }
}

/// A stream of events.
#[derive(Debug)]
pub(crate) struct Events(HttpConnection);

impl Events {
    /// Listens; its first sign of life has come.
    pub(crate) async fn open(address: &str, path: &str) -> BenchResult<Self> {
        let mut connection = HttpConnection::open(address).await?;
        let head = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\n\r\n");
        let sent = connection.stream.write_all(head.as_bytes()).await;
        sent.map_err(broken)?;
        let mut events = Self(connection);
        events.until("\r\n\r\n").await?;
        Ok(events)
    }

    /// Returns when a text has come; what came before it is forgotten.
    pub(crate) async fn until(&mut self, text: &str) -> BenchResult<()> {
        loop {
            if let Some(at) = position(&self.0.read, text.as_bytes()) {
                self.0.read.drain(..at + text.len());
                return Ok(());
            }
            // The beginning of it may have come.
            let kept = self.0.read.len().min(text.len());
            let gone = self.0.read.len() - kept;
            self.0.read.drain(..gone);
            self.0.more().await?;
        }
    }
}

fn position(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes
        .windows(wanted.len())
        .position(|found| found == wanted)
}
