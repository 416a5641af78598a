//! The client: sends an order to a server and hands on what comes back.

use std::time::Duration;

use reqwest::{Certificate, Client, Response, StatusCode, Url};
use serde_json::Value as Json;
use thiserror::Error;

use crate::order::{Attached, Attachment, CommandFrame, CommandOrder, Need, OutputFile};

/// How long a server may take to take a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a server may be silent; it gives signs of life meanwhile.
const SILENCE: Duration = Duration::from_secs(60);
/// How often a command may ask for more before it is done.
const ROUNDS: usize = 16;
/// Longest line that is taken.
const LINE_MAX: usize = 256 * 1024 * 1024;

/// A server.
#[derive(Clone, Debug)]
pub struct ServerClient {
    http: Client,
    url: String,
    token: Option<String>,
}

/// What a client and a server know each other by.
#[derive(Clone, Default)]
pub struct ServerTrust {
    /// The token that the server asks for.
    pub token: Option<String>,
    /// Certificates in PEM: the server's own, or of those who signed it. No others are believed
    /// then; without them those that the machine knows are.
    pub authority: Option<Vec<u8>>,
}

impl std::fmt::Debug for ServerTrust {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ServerTrust")
    }
}

/// Why a server did not do what was asked.
#[derive(Debug, Error)]
pub enum CallError {
    /// Where it is, or whom it is known by, makes no sense.
    #[error("{0}")]
    BadUrl(String),
    /// Nobody is there, or it does not go on.
    #[error("{0}")]
    Unreachable(String),
    /// It says no: who asks is not known, or may not do this.
    #[error("{message}")]
    Denied {
        message: String,
        hint: Option<String>,
    },
    /// It says that what was asked makes no sense.
    #[error("{message}")]
    Refused {
        status: u16,
        message: String,
        hint: Option<String>,
    },
    /// What it says is not what servers say.
    #[error("{0}")]
    Broken(String),
    /// What came cannot be written where it belongs.
    #[error("{message}")]
    Unwritten {
        message: String,
        hint: Option<String>,
        /// Because something is there already.
        exists: bool,
    },
}

/// Whoever gave the order: where its words go, and what is asked of it.
pub trait OrderGiver {
    fn out(&mut self, text: &str);
    fn out_bytes(&mut self, bytes: &[u8]);
    fn err(&mut self, text: &str);
    /// Lines to draw over the picture before; the last picture stays.
    fn picture(&mut self, lines: &[String], is_last: bool);
    /// A file begins; its bytes follow.
    fn file(&mut self, file: &OutputFile) -> Result<(), CallError>;
    fn piece(&mut self, bytes: &[u8]) -> Result<(), CallError>;
    fn answer(&mut self, need: &Need) -> Attached;
}

/// How an order was answered.
enum Answered {
    Exit(u8),
    Needs(Vec<Need>),
}

impl ServerClient {
    pub fn new(url: &str, trust: ServerTrust) -> Result<Self, CallError> {
        let parsed = Url::parse(url)
            .ok()
            .filter(|it| matches!(it.scheme(), "http" | "https") && it.host().is_some());
        if parsed.is_none() {
            return Err(CallError::BadUrl(format!(
                "'{url}' is no address of a server: write it as in http://127.0.0.1:7420"
            )));
        }
        // Another part of the program may have chosen a provider already; any will do.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut http = Client::builder()
            .user_agent(concat!("lope/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT)
            .read_timeout(SILENCE);
        if let Some(pem) = &trust.authority {
            let certificates = Certificate::from_pem_bundle(pem);
            let certificates = certificates.unwrap_or_default();
            if certificates.is_empty() {
                let message = "the file of --server-ca holds no certificate in PEM";
                return Err(CallError::BadUrl(message.to_owned()));
            }
            http = http.tls_certs_only(certificates);
        }
        let http = http.build();
        let http = http.map_err(|error| CallError::Broken(deepest(&error)))?;
        Ok(Self {
            http,
            url: url.trim_end_matches('/').to_owned(),
            token: trust.token,
        })
    }

    /// Where it is.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Has the server do a command; its exit code.
    pub async fn run(
        &self,
        mut order: CommandOrder,
        giver: &mut dyn OrderGiver,
    ) -> Result<u8, CallError> {
        for _ in 0..ROUNDS {
            let needs = match self.ask(&order, giver).await? {
                Answered::Exit(code) => return Ok(code),
                Answered::Needs(needs) => needs,
            };
            for need in needs {
                let given = giver.answer(&need);
                order.attachments.push(Attachment { need, given });
            }
        }
        let message = format!("the server at {} asks again and again", self.url);
        Err(CallError::Broken(message))
    }

    /// What a path answers with.
    pub async fn get(&self, path: &str) -> Result<Json, CallError> {
        let sent = self.http.get(format!("{}{path}", self.url));
        let answer = self.sent(sent).await?;
        let bytes = answer.bytes().await.map_err(|error| self.away(&error))?;
        serde_json::from_slice(&bytes).map_err(|error| self.strange(&error.to_string()))
    }

    async fn ask(
        &self,
        order: &CommandOrder,
        giver: &mut dyn OrderGiver,
    ) -> Result<Answered, CallError> {
        let body = serde_json::to_vec(order).map_err(|error| self.strange(&error.to_string()))?;
        let post = self.http.post(format!("{}/api/commands", self.url));
        let post = post.header("content-type", "application/json").body(body);
        let mut answer = self.sent(post).await?;
        let mut read: Vec<u8> = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(|error| self.away(&error))? {
            let mut rest: &[u8] = &chunk;
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                read.extend_from_slice(&rest[..end]);
                rest = &rest[end + 1..];
                let last = self.take(&read, giver)?;
                read.clear();
                if let Some(last) = last {
                    return Ok(last);
                }
            }
            read.extend_from_slice(rest);
            if read.len() > LINE_MAX {
                return Err(self.strange("a line without an end"));
            }
        }
        let message = format!(
            "the server at {} went away before the command had ended",
            self.url
        );
        Err(CallError::Unreachable(message))
    }

    /// Hands a line on; something if it was the last.
    fn take(&self, line: &[u8], giver: &mut dyn OrderGiver) -> Result<Option<Answered>, CallError> {
        // A sign of life.
        if line.is_empty() {
            return Ok(None);
        }
        let frame = serde_json::from_slice(line);
        match frame.map_err(|error| self.strange(&error.to_string()))? {
            CommandFrame::Out(text) => giver.out(&text),
            CommandFrame::OutBytes(bytes) => giver.out_bytes(&bytes),
            CommandFrame::Err(text) => giver.err(&text),
            CommandFrame::Picture { lines, is_last } => giver.picture(&lines, is_last),
            CommandFrame::File(file) => giver.file(&file)?,
            CommandFrame::Piece(bytes) => giver.piece(&bytes)?,
            CommandFrame::Needs(needs) => return Ok(Some(Answered::Needs(needs))),
            CommandFrame::Exit(code) => return Ok(Some(Answered::Exit(code))),
        }
        Ok(None)
    }

    async fn sent(&self, request: reqwest::RequestBuilder) -> Result<Response, CallError> {
        let request = match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        };
        let answer = request.send().await.map_err(|error| self.away(&error))?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        Err(self.refusal(answer).await)
    }

    /// What a server that says no means.
    async fn refusal(&self, answer: Response) -> CallError {
        let status = answer.status();
        let body = answer.bytes().await.unwrap_or_default();
        let said: Json = serde_json::from_slice(&body).unwrap_or_default();
        let text = |name: &str| said["error"][name].as_str().map(str::to_owned);
        let Some(message) = text("message") else {
            return self.strange(&format!("it answers {status}"));
        };
        let message = format!("the server at {}: {message}", self.url);
        let hint = text("hint");
        match status {
            StatusCode::UNAUTHORIZED => CallError::Denied {
                message,
                hint: Some(
                    "give --token TOKEN or set LOPE_TOKEN; 'lope tokens add NAME' makes one"
                        .to_owned(),
                ),
            },
            StatusCode::FORBIDDEN => CallError::Denied { message, hint },
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
                CallError::Unreachable(message)
            }
            other => CallError::Refused {
                status: other.as_u16(),
                message,
                hint,
            },
        }
    }

    fn away(&self, error: &reqwest::Error) -> CallError {
        let message = format!("no server answers at {}: {}", self.url, deepest(error));
        CallError::Unreachable(message)
    }

    fn strange(&self, what: &str) -> CallError {
        CallError::Broken(format!(
            "what answers at {} is no server of Lope, or of another version: {what}",
            self.url
        ))
    }
}

/// The cause behind the causes, which says most.
fn deepest(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(below) = cause.source() {
        cause = below;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_servers_are_taken() {
        for bad in ["", "here", "ftp://x", "127.0.0.1:7420", "http://"] {
            let client = ServerClient::new(bad, ServerTrust::default());
            assert!(client.is_err(), "{bad}");
        }
        let client = ServerClient::new("http://127.0.0.1:7420/lope/", ServerTrust::default());
        let client = client.unwrap();
        assert_eq!(client.url(), "http://127.0.0.1:7420/lope");
    }
}
