//! Routes: every endpoint of the table behind the gate, with the bounds that every request has.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{FromRequestParts, RawPathParams, Request};
use axum::http::request::Parts;
use axum::routing::on;
use bytes::Bytes;
use futures_util::FutureExt;
use http_body_util::{BodyExt, LengthLimitError, Limited};

use crate::api;
use crate::api_error::{ApiError, ApiErrorKind};
use crate::call::ApiCall;
use crate::context::ServerContext;
use crate::endpoint::{Answer, ApiResult, Endpoint, EndpointMethod};
use crate::event_stream;
use crate::gate;
use crate::guesses::Peer;
use crate::pages;
use crate::reply::{self, Reply};

/// Every route of the server.
pub(crate) fn router(context: &Arc<ServerContext>) -> Router {
    let mut router = Router::new();
    let pages = if context.settings.dashboard {
        pages::endpoints()
    } else {
        lope_pages::FILES
    };
    for endpoint in api::endpoints().iter().chain(pages) {
        let shared = Arc::clone(context);
        let handler = move |request: Request| {
            let context = Arc::clone(&shared);
            async move { answer(context, endpoint, request).await }
        };
        router = router.route(
            &context.path(endpoint.path),
            on(endpoint.method.filter(), handler),
        );
    }
    let missing = Arc::clone(context);
    let refused = Arc::clone(context);
    router
        .fallback(move |request: Request| nowhere(Arc::clone(&missing), request))
        .method_not_allowed_fallback(move |request: Request| not_so(Arc::clone(&refused), request))
}

/// Gate, body, handler; a panic is a bug of ours and ends one request.
async fn answer(
    context: Arc<ServerContext>,
    endpoint: &'static Endpoint,
    request: Request,
) -> Reply {
    let asked = request.uri().path_and_query();
    let path = asked.map_or("/", |it| it.as_str()).to_owned();
    let changes = !request.method().is_safe();
    let done = handled(Arc::clone(&context), endpoint, request);
    let probe = &context.store_probe;
    let done = probe.while_it_answers(&context.client, changes, done);
    let mut reply = match AssertUnwindSafe(done).catch_unwind().await {
        Ok(Ok(reply)) => reply,
        Ok(Err(error)) if endpoint.page => pages::error(&context, &error, &path),
        Ok(Err(error)) => reply::error(&error),
        Err(_) => {
            tracing::error!(endpoint = endpoint.name, "a handler panicked");
            let message = "this is a bug in Lope; please report it with the server's log";
            reply::error(&ApiError::new(ApiErrorKind::Bug, message))
        }
    };
    reply::harden(&mut reply);
    reply
}

async fn handled(
    context: Arc<ServerContext>,
    endpoint: &'static Endpoint,
    request: Request,
) -> ApiResult {
    let (mut head, body) = request.into_parts();
    let caller = gate::admit(&context, &head, endpoint.right).await?;
    let peer = head.extensions.get::<Peer>().copied();
    let params = path_params(&mut head).await?;
    let body = bounded(&context, body).await?;
    let query = form_urlencoded::parse(head.uri.query().unwrap_or_default().as_bytes());
    let call = ApiCall {
        params,
        query: query.into_owned().collect(),
        headers: head.headers,
        body,
        caller,
        peer,
    };
    if !endpoint.page {
        call.validate_query(endpoint.query)?;
    }
    if !endpoint.page && endpoint.body.is_none() && endpoint.method != EndpointMethod::Get {
        call.expect_no_body()?;
    }
    let token = gate::brought(&call.headers).filter(|_| call.caller.token.is_some());
    let reply = (endpoint.handle)(Arc::clone(&context), call).await?;
    Ok(match (endpoint.answer, token) {
        (Answer::Events(_), Some(token)) => event_stream::while_token_lives(reply, context, token),
        _ => reply,
    })
}

async fn path_params(head: &mut Parts) -> Result<Vec<(String, String)>, ApiError> {
    let found = RawPathParams::from_request_parts(head, &()).await;
    let found = found.map_err(|error| ApiError::bad(error.to_string()))?;
    let pairs = found.iter();
    Ok(pairs
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect())
}

/// The whole body, if it is not too large and comes in time.
async fn bounded(context: &ServerContext, body: Body) -> Result<Bytes, ApiError> {
    let most = context.settings.body_max;
    let all = Limited::new(body, most).collect();
    match tokio::time::timeout(context.settings.request_timeout, all).await {
        Ok(Ok(all)) => Ok(all.to_bytes()),
        Ok(Err(error)) if error.downcast_ref::<LengthLimitError>().is_some() => {
            let message = format!("a body has at most {most} bytes");
            Err(ApiError::new(ApiErrorKind::TooLarge, message))
        }
        Ok(Err(error)) => Err(ApiError::bad(format!("the body ended early: {error}"))),
        Err(_) => Err(ApiError::bad("the body did not come in time")),
    }
}

/// Whoever may not come in does not learn which paths there are.
async fn nowhere(context: Arc<ServerContext>, request: Request) -> Reply {
    let path = request.uri().path().to_owned();
    // The address without the slash at its end is the one that people type.
    if context.settings.dashboard && !path.is_empty() && path == context.settings.base {
        let mut reply = reply::to(&context.path("/"));
        reply::harden(&mut reply);
        return reply;
    }
    let error = ApiError::missing(format!("there is no path '{path}'"));
    let error = if wants_page(&context, &request) {
        error
    } else {
        error.hint("/api/openapi.json describes what there is")
    };
    refuse(&context, request, error).await
}

async fn not_so(context: Arc<ServerContext>, request: Request) -> Reply {
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let message = format!("'{path}' has no method {method}");
    let error = ApiError::new(ApiErrorKind::MethodNotAllowed, message);
    refuse(&context, request, error).await
}

/// Is it a person with a browser who asks for a page?
fn wants_page(context: &ServerContext, request: &Request) -> bool {
    let accepted = request.headers().get("accept");
    let accepted = accepted.and_then(|it| it.to_str().ok()).unwrap_or_default();
    let is_api = request.uri().path().starts_with(&context.path("/api/"));
    context.settings.dashboard && !is_api && accepted.contains("text/html")
}

async fn refuse(context: &ServerContext, request: Request, error: ApiError) -> Reply {
    let is_page = wants_page(context, &request);
    let (head, _) = request.into_parts();
    let admitted = gate::admit(context, &head, Some(lope::tokens::Right::Read));
    let probe = &context.store_probe;
    let admitted = probe.while_it_answers(&context.client, false, admitted);
    let error = admitted.await.err().unwrap_or(error);
    let mut reply = if is_page {
        pages::error(context, &error, head.uri.path())
    } else {
        reply::error(&error)
    };
    reply::harden(&mut reply);
    reply
}
