//! The style and the script, embedded in the program.

use axum::http::HeaderValue;

use crate::reply;

const STYLE: &str = include_str!("../assets/app.css");
const SCRIPT: &str = include_str!("../assets/app.js");

pub(crate) fn style() -> reply::Reply {
    kept("text/css; charset=utf-8", STYLE)
}

pub(crate) fn script() -> reply::Reply {
    kept("text/javascript; charset=utf-8", SCRIPT)
}

fn kept(content_type: &'static str, text: &'static str) -> reply::Reply {
    let mut reply = reply::text(content_type, text);
    reply
        .headers_mut()
        .insert("cache-control", HeaderValue::from_static("max-age=60"));
    reply
}
