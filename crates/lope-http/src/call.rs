//! A request as handlers see it: names of the path, parameters, body, and who asks.

use std::str::FromStr;

use axum::http::HeaderMap;
use bytes::Bytes;
use lope::tokens::Right;
use lope_model::{Span, Timestamp};
use serde::de::DeserializeOwned;

use crate::api_error::{ApiError, ApiErrorKind};
use crate::clock;
use crate::guesses::Peer;
use crate::parameter::{Parameter, ParameterKind};

/// Who asks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Caller {
    pub right: Right,
    /// The name of the token; absent: somebody on this machine.
    pub token: Option<String>,
}

/// A request that the gate let through.
#[derive(Debug)]
pub struct ApiCall {
    pub params: Vec<(String, String)>,
    pub query: Vec<(String, String)>,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub caller: Caller,
    /// Who is at the other end of the connection.
    pub peer: Option<Peer>,
}

impl ApiCall {
    /// Only parameters, as if somebody on this machine had asked with them.
    pub fn of_query(query: &[(String, String)]) -> Self {
        Self {
            params: Vec::new(),
            query: query.to_vec(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
            caller: Caller {
                right: Right::Read,
                token: None,
            },
            peer: None,
        }
    }

    /// A name of the path.
    pub fn param(&self, name: &str) -> &str {
        let found = self.params.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value)
    }

    /// A parameter, if it is there and not empty.
    pub fn query(&self, name: &str) -> Option<&str> {
        let mut named = self.query.iter().filter(|(known, _)| known == name);
        let found = named.find(|(_, value)| !value.is_empty());
        found.map(|(_, value)| value.as_str())
    }

    pub fn query_all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let named = self.query.iter().filter(move |(known, _)| known == name);
        named
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    }

    /// A parameter that is read from its text.
    pub fn parsed<T: FromStr>(&self, name: &str) -> Result<Option<T>, ApiError>
    where
        T::Err: std::fmt::Display,
    {
        let parse = |text: &str| {
            text.parse()
                .map_err(|error: T::Err| ApiError::bad(format!("{name}: {error}")))
        };
        self.query(name).map(parse).transpose()
    }

    /// A parameter that is a whole number.
    pub fn number<T: FromStr>(&self, name: &str) -> Result<Option<T>, ApiError> {
        let parse = |text: &str| {
            let unread = |_| ApiError::bad(format!("{name}: '{text}' is no number that fits"));
            text.parse().map_err(unread)
        };
        self.query(name).map(parse).transpose()
    }

    pub fn flag(&self, name: &str) -> Result<bool, ApiError> {
        match self.query(name) {
            None | Some("false" | "0") => Ok(false),
            Some("true" | "1" | "on") => Ok(true),
            Some(other) => Err(ApiError::bad(format!(
                "{name}: '{other}' is neither true nor false"
            ))),
        }
    }

    /// A number of rows, within a bound.
    pub fn limit(&self, usual: usize, most: usize) -> Result<usize, ApiError> {
        let limit = self.number("limit")?.unwrap_or(usual);
        if (1..=most).contains(&limit) {
            return Ok(limit);
        }
        Err(ApiError::bad(format!("limit: 1 to {most}, not {limit}")))
    }

    /// Only what is described may be asked; a typing error is no silent "all".
    pub fn validate_query(&self, known: &[Parameter]) -> Result<(), ApiError> {
        for (name, _) in &self.query {
            let Some(parameter) = known.iter().find(|parameter| parameter.name == name) else {
                let names: Vec<&str> = known.iter().map(|parameter| parameter.name).collect();
                let error = ApiError::bad(format!("there is no parameter '{name}'"));
                return Err(if names.is_empty() {
                    error.hint("this path takes none")
                } else {
                    error.hint(format!("the parameters are {}", names.join(", ")))
                });
            };
            let once = parameter.kind != ParameterKind::Texts;
            if once && self.query.iter().filter(|(other, _)| other == name).count() > 1 {
                return Err(ApiError::bad(format!("'{name}' is given twice")));
            }
        }
        Ok(())
    }

    /// The body as JSON; nothing at all counts as an empty object.
    pub fn body<T: DeserializeOwned>(&self) -> Result<T, ApiError> {
        let bytes: &[u8] = if self.body.is_empty() {
            b"{}"
        } else {
            self.expect_type(&["application/json"])?;
            &self.body
        };
        // A list would be read as the fields of an object, in the order of the code.
        if bytes.trim_ascii_start().starts_with(b"[") {
            return Err(ApiError::bad("body: an object is needed, not a list"));
        }
        serde_json::from_slice(bytes).map_err(|error| ApiError::bad(format!("body: {error}")))
    }

    /// A path that takes no body is given none that could mean something.
    pub fn expect_no_body(&self) -> Result<(), ApiError> {
        if matches!(self.body.trim_ascii(), b"" | b"{}") {
            return Ok(());
        }
        Err(ApiError::bad("body: this path takes none"))
    }

    /// A field of a form that was sent; absent if it is empty.
    pub fn field(&self, name: &str) -> Option<String> {
        let mut pairs = form_urlencoded::parse(&self.body);
        let found = pairs.find(|(known, value)| known == name && !value.is_empty());
        found.map(|(_, value)| value.into_owned())
    }

    /// A body is of one of these types.
    pub fn expect_type(&self, types: &[&str]) -> Result<(), ApiError> {
        let said = self.header("content-type").unwrap_or_default();
        let bare = said.split(';').next().unwrap_or_default().trim();
        if types.iter().any(|known| bare.eq_ignore_ascii_case(known)) {
            return Ok(());
        }
        let message = format!("the body is of type '{bare}'");
        let error = ApiError::new(ApiErrorKind::UnsupportedMediaType, message);
        Err(error.hint(format!("send it as {}", types.join(" or "))))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// A time, or how long ago.
pub fn earlier(name: &str, text: &str) -> Result<Timestamp, ApiError> {
    if let Ok(span) = text.parse::<Span>() {
        return Ok(clock::now().minus(span));
    }
    time(name, text, "or how long ago, as in 30s, 5m, 2h, 7d")
}

/// A time, or in how long.
pub fn later(name: &str, text: &str) -> Result<Timestamp, ApiError> {
    if let Ok(span) = text.parse::<Span>() {
        return Ok(clock::now().plus(span));
    }
    time(name, text, "or in how long, as in 30s, 5m, 2h, 7d")
}

fn time(name: &str, text: &str, hint: &str) -> Result<Timestamp, ApiError> {
    text.parse()
        .map_err(|error: lope_model::time::BadTimestamp| {
            ApiError::bad(format!("{name}: {error}")).hint(hint)
        })
}
