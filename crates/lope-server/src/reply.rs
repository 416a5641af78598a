//! Responses: JSON, text, errors, each with the headers that every response has.

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName};
use axum::http::{HeaderValue, Response, StatusCode};
use serde_json::Value as Json;

use crate::api_error::ApiError;

pub(crate) type Reply = Response<Body>;

/// What pages may load: files of this server, nothing inline, nothing from elsewhere.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
     connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

pub(crate) fn json(value: &Json) -> Reply {
    json_with(StatusCode::OK, value)
}

pub(crate) fn json_with(status: StatusCode, value: &Json) -> Reply {
    typed(status, "application/json", format!("{value}\n"))
}

pub(crate) fn text(content_type: &'static str, body: impl Into<Body>) -> Reply {
    typed(StatusCode::OK, content_type, body)
}

pub(crate) fn error(error: &ApiError) -> Reply {
    json_with(error.kind.status(), &error.json())
}

pub(crate) fn typed(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Body>,
) -> Reply {
    let mut reply = Response::new(body.into());
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply
}

/// What every response says, whoever made it.
pub(crate) fn harden(reply: &mut Reply) {
    let said = [
        ("content-security-policy", CONTENT_POLICY),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
    ];
    for (name, value) in said {
        reply
            .headers_mut()
            .entry(HeaderName::from_static(name))
            .or_insert(HeaderValue::from_static(value));
    }
}
