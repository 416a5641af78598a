//! Responses: JSON, text, errors, each with the headers that every response has.

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName};
use axum::http::{HeaderValue, Response, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value as Json;

use crate::api_error::ApiError;

pub type Reply = Response<Body>;

/// What pages may load: files of this server, nothing inline, nothing from elsewhere.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
     connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

pub fn json(value: &Json) -> Reply {
    json_with(StatusCode::OK, value)
}

pub fn json_with(status: StatusCode, value: &Json) -> Reply {
    typed(status, "application/json", format!("{value}\n"))
}

pub fn text(content_type: &'static str, body: impl Into<Body>) -> Reply {
    typed(StatusCode::OK, content_type, body)
}

pub fn error(error: &ApiError) -> Reply {
    json_with(error.kind.status(), &error.json())
}

pub fn typed(status: StatusCode, content_type: &'static str, body: impl Into<Body>) -> Reply {
    let mut reply = Response::new(body.into());
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply
}

/// Go and look there.
pub fn to(target: &str) -> Reply {
    let mut reply = typed(StatusCode::SEE_OTHER, "text/plain; charset=utf-8", "");
    if let Ok(target) = HeaderValue::from_str(target) {
        reply.headers_mut().insert("location", target);
    }
    reply
}

/// A text as a part of a path or a parameter.
pub fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// What every response says, whoever made it.
pub fn harden(reply: &mut Reply) {
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

/// A drawing as a response. An SVG carries its own style, which may be applied to it alone.
pub fn drawing(is_svg: bool, drawing: String) -> Reply {
    if !is_svg {
        return text("text/plain; charset=utf-8", drawing);
    }
    let mut reply = text("image/svg+xml", drawing);
    reply.headers_mut().insert(
        "content-security-policy",
        HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'"),
    );
    reply
}
