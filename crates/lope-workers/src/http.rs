//! HTTP requests, as the executor of `http` steps.
//!
//! The output is `{status, headers, body}`, the body as JSON when it says it is. A status of 400
//! and above fails as `HttpStatus` unless `accept` lists it; a request that gets no answer fails as
//! `HttpError`. What an error says about the address is what the workflow wrote, without secrets.

mod address;

use std::collections::HashMap;
use std::error::Error;
use std::sync::{Arc, Mutex};

use lope_engine::executor::{Done, Executor, StartRight, Task, Token};
use lope_model::masks::Masks;
use lope_model::{Failure, Map, Value, failure, limit, value};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Method, Request, RequestBuilder, Response};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use self::address::ShownAddress;

const REDIRECTS_MAX: usize = 10;

/// Makes requests.
#[derive(Debug)]
pub struct Requests {
    runtime: Handle,
    client: Client,
    running: Arc<Mutex<HashMap<Token, AbortHandle>>>,
}

/// A client could not be made: no certificates, no randomness.
pub type NoClient = reqwest::Error;

impl Requests {
    pub fn new(runtime: Handle) -> Result<Self, NoClient> {
        // Another part of the program may have chosen a provider already; any will do.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder()
            .user_agent(concat!("lope/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::limited(REDIRECTS_MAX))
            .build()?;
        Ok(Self {
            runtime,
            client,
            running: Arc::default(),
        })
    }

    /// Post a document; what went wrong, if it was not taken.
    pub async fn post_json(&self, url: &str, body: String) -> Result<(), String> {
        let sent = self
            .client
            .post(url)
            .header(CONTENT_TYPE, "application/json");
        let answer = sent.body(body).send().await;
        let address = ShownAddress::of(url, &Masks::default());
        let answer = answer.map_err(|error| unanswered(error, &address).message)?;
        if answer.status().is_success() {
            return Ok(());
        }
        Err(format!("the answer is {}", answer.status()))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Token, AbortHandle>> {
        self.running
            .lock()
            .expect("no panic while the lock is held")
    }
}

impl Executor for Requests {
    fn returns_at_once(&self) -> bool {
        true
    }

    fn start(&self, task: Task, done: Done) {
        let (client, running) = (self.client.clone(), Arc::clone(&self.running));
        // The lock is held over the spawn, so that the entry is there before the task can take it
        // out.
        let token = task.token.clone();
        let mut entries = self.lock();
        let work = self.runtime.spawn(async move {
            let result = if done.start_right() == StartRight::Over {
                None
            } else {
                Some(request(&client, &task, done.masks()).await)
            };
            running
                .lock()
                .expect("no panic while the lock is held")
                .remove(&task.token);
            match result {
                Some(result) => done.finish(result, None),
                None => done.give_back(),
            }
        });
        entries.insert(token, work.abort_handle());
    }

    fn cancel(&self, token: &Token) {
        if let Some(work) = self.lock().remove(token) {
            work.abort();
        }
    }
}

async fn request(client: &Client, task: &Task, masks: &Masks) -> Result<Value, Failure> {
    let map = task
        .arguments
        .as_map()
        .ok_or_else(|| bad("the arguments of a request must be a map"))?;
    let text = |key| map.get(key).and_then(Value::as_str);
    let url = text("url").ok_or_else(|| bad("a request needs a 'url'"))?;
    let address = ShownAddress::of(url, masks);
    let request = built(client, task, map)?;
    let request = request
        .build()
        .map_err(|error| unanswered(error, &address))?;
    let made = made_of_secrets(&request, text("method"), masks);
    let response = client.execute(request).await;
    let result = match response {
        Ok(response) => answer(response, map.get("accept"), &address).await,
        Err(error) => Err(unanswered(error, &address)),
    };
    if made.is_empty() {
        return result;
    }
    result
        .map(|value| made.hide_in(value))
        .map_err(|failure| made.hide_in_failure(failure))
}

fn built(client: &Client, task: &Task, map: &Map) -> Result<RequestBuilder, Failure> {
    let text = |key| map.get(key).and_then(Value::as_str);
    let written = text("method").unwrap_or("GET");
    let method = Method::from_bytes(written.to_ascii_uppercase().as_bytes())
        .map_err(|_| bad(&format!("'{written}' is not a method")))?;
    let mut headers = headers(map)?;
    if let Some(key) = &task.idempotency_key {
        headers
            .entry("idempotency-key")
            .or_insert(header_value("idempotency-key", key)?);
    }
    if let Some(trace) = &task.trace {
        headers
            .entry("traceparent")
            .or_insert(header_value("traceparent", trace)?);
    }
    let mut request = client.request(method, text("url").unwrap_or_default());
    if let Some(body) = map.get("body").filter(|body| !body.is_null()) {
        request = request.body(body_bytes(body, &mut headers));
    }
    Ok(request.headers(headers))
}

/// What a request makes of secrets, and a server may repeat: the credentials of an address as a
/// header, a method in capitals.
fn made_of_secrets(request: &Request, method: Option<&str>, masks: &Masks) -> Masks {
    if masks.is_empty() {
        return Masks::default();
    }
    // One that the workflow wrote itself is not marked so.
    let header = request.headers().get(AUTHORIZATION);
    let header = header.filter(|header| header.is_sensitive());
    let basic = header.and_then(|header| header.to_str().ok()?.strip_prefix("Basic "));
    // With its padding and without.
    let basic = basic.map(|basic| [basic, basic.trim_end_matches('=')]);
    let has_secret = |method: &&str| masks.hide(method) != **method;
    let capitals = method.filter(has_secret).map(|_| request.method().as_str());
    Masks::of(basic.into_iter().flatten().chain(capitals).map(Arc::from))
}

fn headers(map: &Map) -> Result<HeaderMap, Failure> {
    let mut headers = HeaderMap::new();
    let said = match map.get("headers") {
        None | Some(Value::Null) => return Ok(headers),
        Some(Value::Map(said)) => said,
        Some(_) => return Err(bad("'headers' must be a map")),
    };
    for (name, value) in said.iter() {
        let text = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        let key = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| bad(&format!("'{name}' is not a header")))?;
        headers.insert(key, header_value(name, &text)?);
    }
    Ok(headers)
}

fn header_value(name: &str, text: &str) -> Result<HeaderValue, Failure> {
    HeaderValue::from_str(text)
        .map_err(|_| bad(&format!("the header '{name}' holds characters it may not")))
}

/// Text and bytes go as they are, everything else as JSON.
fn body_bytes(body: &Value, headers: &mut HeaderMap) -> Vec<u8> {
    match body {
        Value::Str(text) => text.as_bytes().to_vec(),
        Value::Bytes(bytes) => bytes.to_vec(),
        Value::Null
        | Value::Bool(_)
        | Value::Int(_)
        | Value::Float(_)
        | Value::List(_)
        | Value::Map(_)
        | Value::Tag(_) => {
            headers
                .entry(CONTENT_TYPE)
                .or_insert(HeaderValue::from_static("application/json"));
            body.to_string().into_bytes()
        }
    }
}

async fn answer(
    mut response: Response,
    accept: Option<&Value>,
    address: &ShownAddress,
) -> Result<Value, Failure> {
    let status = i64::from(response.status().as_u16());
    let reason = response.status().canonical_reason().unwrap_or_default();
    let is_json = response.headers().get(CONTENT_TYPE).is_some_and(says_json);
    let text =
        |value: &HeaderValue| Value::from(String::from_utf8_lossy(value.as_bytes()).into_owned());
    let headers = Value::map(
        response
            .headers()
            .iter()
            .map(|(name, value)| (name.as_str(), text(value))),
    );
    let body = body_value(read(&mut response, address).await?, is_json)?;
    let output = Value::map([
        ("status", Value::Int(status)),
        ("headers", headers),
        ("body", body),
    ]);
    let accepted = accept
        .and_then(Value::as_list)
        .is_some_and(|list| list.contains(&Value::Int(status)));
    if status < 400 || accepted {
        return Ok(output);
    }
    let mut failure = Failure::new(
        failure::kind::HTTP_STATUS,
        format!("{status} {reason} from {address}"),
    );
    failure.detail = output;
    Err(failure)
}

fn says_json(kind: &HeaderValue) -> bool {
    let kind = kind.to_str().unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    kind == "application/json" || kind.ends_with("+json")
}

async fn read(response: &mut Response, address: &ShownAddress) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let broken = |error| unanswered(error, address);
    while let Some(chunk) = response.chunk().await.map_err(broken)? {
        if bytes.len() + chunk.len() > limit::PAYLOAD_MAX {
            let message = format!("the answer has more than {} bytes", limit::PAYLOAD_MAX);
            return Err(Failure::new(failure::kind::LIMIT, message));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

fn body_value(bytes: Vec<u8>, is_json: bool) -> Result<Value, Failure> {
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => return Ok(Value::bytes(error.into_bytes())),
    };
    if is_json && !text.is_empty() {
        let bad = |error| {
            Failure::new(
                "HttpError",
                format!("the answer says it is JSON and is not: {error}"),
            )
        };
        return value::from_json(&text).map_err(bad);
    }
    Ok(Value::from(text))
}

fn unanswered(error: reqwest::Error, address: &ShownAddress) -> Failure {
    let has_address = error.url().is_some();
    let error = error.without_url();
    let mut message = error.to_string();
    if has_address {
        message = format!("{message} for url ({address})");
    }
    let mut source = error.source();
    while let Some(cause) = source {
        let said = address.hide_host(&cause.to_string());
        message = format!("{message}: {said}");
        source = cause.source();
    }
    let kind = if error.is_builder() {
        "BadArguments"
    } else {
        "HttpError"
    };
    Failure::new(kind, message)
}

fn bad(message: &str) -> Failure {
    Failure::new("BadArguments", message)
}

#[cfg(test)]
mod tests;
