//! The gate: is the request meant for this server, who asks, and may they?
//!
//! In: a request's head; out: a caller, or why not. It stands before every handler and every page.
//!
//! A page of another site can make a browser send requests here. Names other than this server's own
//! are refused (a name of theirs that leads here), and whatever changes something must come from
//! this server's own pages or from a program: browsers say where a request comes from.

use axum::http::request::Parts;
use axum::http::{HeaderMap, Method};
use lope::tokens::Right;

use crate::api_error::{ApiError, ApiErrorKind};
use crate::call::Caller;
use crate::context::ServerContext;
use crate::guesses::Peer;
use crate::settings::is_local;

/// The cookie that a login leaves.
pub const COOKIE: &str = "lope_token";

/// Longest path with parameters.
const TARGET_MAX: usize = 16 * 1024;

/// How a token came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Brought {
    Nothing,
    Header,
    Cookie,
}

/// The caller, if the request may come in and `right` is theirs. No right: anybody.
pub async fn admit(
    context: &ServerContext,
    head: &Parts,
    right: Option<Right>,
) -> Result<Caller, ApiError> {
    let host = host(context, head)?;
    if head.uri.to_string().len() > TARGET_MAX {
        return Err(ApiError::bad(format!(
            "a path has at most {TARGET_MAX} bytes"
        )));
    }
    let (token, brought) = token(&head.headers);
    if head.method != Method::GET && head.method != Method::HEAD {
        same_origin(&head.headers, &host, brought)?;
    }
    let Some(right) = right else {
        return Ok(Caller {
            right: Right::Read,
            token: None,
        });
    };
    let is_guarded = context.settings.guards(context.address, name_of(&host));
    let anybody = Caller {
        right: Right::Admin,
        token: None,
    };
    let caller = match token {
        // Browsers bring what another server on this machine has left with them.
        Some(token) if brought == Brought::Cookie && !is_guarded => {
            find(context, &token).await?.unwrap_or(anybody)
        }
        Some(token) => known(context, head, &token).await?,
        None if is_guarded => return Err(stranger("a token is needed")),
        None => anybody,
    };
    if caller.right < right {
        let message = format!("this takes the right '{right}'");
        let error = ApiError::new(ApiErrorKind::Forbidden, message);
        return Err(error.hint(format!("the token has the right '{}'", caller.right)));
    }
    Ok(caller)
}

async fn known(context: &ServerContext, head: &Parts, token: &str) -> Result<Caller, ApiError> {
    let peer = head.extensions.get::<Peer>().copied();
    let found = find(context, token).await?;
    found.ok_or_else(|| wrong(context, peer, stranger("no such token")))
}

async fn find(context: &ServerContext, token: &str) -> Result<Option<Caller>, ApiError> {
    let found = context.client.token(token).await?;
    Ok(found.map(|found| Caller {
        right: found.right,
        token: Some(found.name),
    }))
}

/// The token that a request brings.
pub fn brought(headers: &HeaderMap) -> Option<String> {
    token(headers).0
}

/// What somebody is told who brought a wrong token; whoever brings many is told to wait.
pub fn wrong(context: &ServerContext, peer: Option<Peer>, error: ApiError) -> ApiError {
    if context.guesses.note(peer) {
        return error;
    }
    let message = "too many wrong tokens came from this address";
    ApiError::new(ApiErrorKind::TooManyRequests, message).hint("wait a minute")
}

fn stranger(message: &str) -> ApiError {
    ApiError::new(ApiErrorKind::Unauthorized, message)
        .hint("'lope tokens add NAME' makes one; send it as 'Authorization: Bearer TOKEN'")
}

/// The name that the client used for this server, which must be one of its own.
fn host(context: &ServerContext, head: &Parts) -> Result<String, ApiError> {
    let said = head.headers.get("host").and_then(|host| host.to_str().ok());
    let said = said.or_else(|| head.uri.host());
    let Some(said) = said.filter(|host| !host.is_empty()) else {
        return Err(ApiError::bad("the request names no host"));
    };
    let name = name_of(said);
    let settings = &context.settings;
    let own = is_local(name)
        || settings
            .hosts
            .iter()
            .any(|known| known.eq_ignore_ascii_case(name))
        || (!context.address.ip().is_loopback() && is_address(name));
    if own {
        return Ok(said.to_owned());
    }
    let message = format!("this server is not called '{name}'");
    let error = ApiError::new(ApiErrorKind::Forbidden, message);
    Err(error.hint("name it in 'server.hosts' of the configuration"))
}

/// Without the port.
fn name_of(host: &str) -> &str {
    match host.rfind(':') {
        Some(colon) if !host[colon..].contains(']') => &host[..colon],
        _ => host,
    }
}

fn is_address(name: &str) -> bool {
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    bare.parse::<std::net::IpAddr>().is_ok()
}

fn token(headers: &HeaderMap) -> (Option<String>, Brought) {
    let bearer = headers.get("authorization").and_then(|it| it.to_str().ok());
    let bearer = bearer.and_then(|it| {
        let (scheme, token) = it.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
    });
    if let Some(token) = bearer {
        return (Some(token.to_owned()), Brought::Header);
    }
    match cookie(headers, COOKIE) {
        Some(token) => (Some(token), Brought::Cookie),
        None => (None, Brought::Nothing),
    }
}

/// A cookie's value.
pub fn cookie(headers: &HeaderMap, name: &str) -> Option<String> {
    let lines = headers.get_all("cookie").iter();
    let pairs = lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(';'));
    pairs
        .filter_map(|pair| pair.trim().split_once('='))
        .find(|(known, value)| *known == name && !value.is_empty())
        .map(|(_, value)| value.to_owned())
}

/// Whatever changes something comes from a page of this server or from a program that is no
/// browser. A token in a header is no browser's doing.
fn same_origin(headers: &HeaderMap, host: &str, brought: Brought) -> Result<(), ApiError> {
    if brought == Brought::Header {
        return Ok(());
    }
    let said = |name: &str| headers.get(name).and_then(|it| it.to_str().ok());
    let own = match (said("sec-fetch-site"), said("origin")) {
        (Some("same-origin" | "none"), _) => true,
        (Some(_), _) => false,
        (None, Some(origin)) => {
            let named = origin.split_once("://").map(|(_, named)| named);
            named.is_some_and(|named| named.eq_ignore_ascii_case(host))
        }
        // No browser: those say one of the two with everything that changes something.
        (None, None) => brought == Brought::Nothing,
    };
    if own {
        return Ok(());
    }
    let message = "a page of another site may not change anything here";
    Err(ApiError::new(ApiErrorKind::Forbidden, message))
}
