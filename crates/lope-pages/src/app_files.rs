//! Files for browsers: the client `lope.js`, and the pages of an app, from the folder that
//! `server.app` names, at `/app/`.
//!
//! They are served by the server itself because whatever changes something must come from its own
//! pages. A file is served if it lies in the folder, links followed, and no part of its path begins
//! with a dot.

use std::future::ready;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::http::HeaderValue;
use lope_http::api_error::ApiError;
use lope_http::call::ApiCall;
use lope_http::context::ServerContext;
use lope_http::endpoint::{ApiResult, Endpoint};
use lope_http::reply::{self, Reply, encoded};

const CLIENT: &str = include_str!("lope.js");

/// Largest file of an app.
const FILE_MAX: u64 = 16 * 1024 * 1024;

pub(crate) const ENDPOINTS: &[Endpoint] = &[
    Endpoint::page("/lope.js", |_, _| Box::pin(ready(Ok(client())))).for_all(),
    Endpoint::page("/app", |context, _| {
        Box::pin(ready(Ok(reply::to(&context.path("/app/")))))
    }),
    Endpoint::page("/app/", |context, call| Box::pin(file(context, call))),
    Endpoint::page("/app/{*file}", |context, call| {
        Box::pin(file(context, call))
    }),
];

fn client() -> Reply {
    let mut reply = reply::text("text/javascript; charset=utf-8", CLIENT);
    let kept = HeaderValue::from_static("max-age=60");
    reply.headers_mut().insert("cache-control", kept);
    reply
}

async fn file(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let Some(folder) = context.settings.app.clone() else {
        return Err(ApiError::missing("this server has no app")
            .hint("'lope up --app DIR' serves the pages of a folder here"));
    };
    let named = call.param("file").to_owned();
    let missing = || ApiError::missing(format!("the app has no file '{named}'"));
    let path = within(&folder, &named).await.ok_or_else(missing)?;
    if let Some(target) = with_slash(&folder, &call).await {
        return Ok(reply::to(&target));
    }
    let kind = content_type(&path);
    let bytes = tokio::fs::read(&path).await.map_err(|_| missing())?;
    Ok(reply::text(kind, bytes))
}

/// Where the page of a folder is that was asked for without the slash at its end: what it names lies
/// beside it, and a browser must know that.
async fn with_slash(folder: &Path, call: &ApiCall) -> Option<String> {
    let named = call.param("file");
    let last = named.rsplit('/').next().filter(|last| !last.is_empty())?;
    let about = tokio::fs::metadata(folder.join(named)).await.ok()?;
    let pairs = call.query.iter();
    let pairs = pairs.map(|(name, value)| format!("{}={}", encoded(name), encoded(value)));
    let query = pairs.collect::<Vec<_>>().join("&");
    let mark = if query.is_empty() { "" } else { "?" };
    about
        .is_dir()
        .then(|| format!("{}/{mark}{query}", encoded(last)))
}

/// The file of a name, if it is one and lies in the folder.
async fn within(folder: &Path, named: &str) -> Option<PathBuf> {
    let parts = named.split('/').filter(|part| !part.is_empty());
    let mut path = folder.to_path_buf();
    for part in parts {
        if part.starts_with('.') || part.contains(['\\', '\0']) {
            return None;
        }
        path.push(part);
    }
    let mut found = tokio::fs::canonicalize(&path).await.ok()?;
    if tokio::fs::metadata(&found).await.ok()?.is_dir() {
        found = tokio::fs::canonicalize(found.join("index.html"))
            .await
            .ok()?;
    }
    let folder = tokio::fs::canonicalize(folder).await.ok()?;
    let about = tokio::fs::metadata(&found).await.ok()?;
    let is_served = found.starts_with(folder) && about.is_file() && about.len() <= FILE_MAX;
    is_served.then_some(found)
}

fn content_type(path: &Path) -> &'static str {
    let end = path.extension().and_then(|end| end.to_str());
    match end.unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" => "application/json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "webp" => "image/webp",
        "ico" => "image/x-icon",
        "txt" | "md" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}
