//! Logging in with a token, which a cookie then holds that no script can read, and out again.

use std::sync::Arc;

use axum::http::HeaderValue;
use maud::html;

use super::{shell, to};
use crate::api_error::{ApiError, ApiErrorKind};
use crate::call::ApiCall;
use crate::context::ServerContext;
use crate::endpoint::ApiResult;
use crate::gate::{COOKIE, wrong};
use crate::reply::Reply;

/// A month.
const KEPT_SECONDS: u32 = 30 * 24 * 3600;

pub(crate) fn show(context: &ServerContext, call: &ApiCall) -> Reply {
    ask(context, &own_path(call.query("to")), None)
}

/// The form that a token is asked for with, beside what was wrong with one before.
fn ask(context: &ServerContext, target: &str, refused: Option<&ApiError>) -> Reply {
    let body = html! {
        div.card {
            h1 { "Lope" }
            @if let Some(error) = refused { p.note.bad role="alert" { (error.message) @if let Some(hint) = &error.hint { ": " (hint) } } }
            p.dim { "This server needs a token: " code { "lope tokens add NAME" } " makes one." }
            form method="post" action=(context.path("/login")) {
                input type="hidden" name="to" value=(target);
                label.field { span { "Token" } input type="password" name="token" required autofocus autocomplete="current-password"; }
                button.main { "Log in" }
            }
        }
    };
    let mut reply = shell::plain(context, "Log in", &body);
    if let Some(error) = refused {
        *reply.status_mut() = error.kind.status();
    }
    reply
}

pub(crate) async fn enter(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    call.expect_type(&["application/x-www-form-urlencoded"])?;
    let token = call.field("token").unwrap_or_default();
    let target = own_path(call.field("to").as_deref());
    if context.client.token(token.trim()).await?.is_none() {
        let error = ApiError::new(ApiErrorKind::Forbidden, "no such token");
        let error = error.hint("'lope tokens list' shows what there is");
        let error = wrong(&context, call.peer, error);
        return Ok(ask(&context, &target, Some(&error)));
    }
    let mut reply = to(&context.path(&target));
    set_cookie(&context, &mut reply, token.trim(), KEPT_SECONDS);
    Ok(reply)
}

pub(crate) fn leave(context: &ServerContext, _: &ApiCall) -> Reply {
    let mut reply = to(&context.path("/login"));
    set_cookie(context, &mut reply, "", 0);
    reply
}

/// A path of this server and of no other.
fn own_path(said: Option<&str>) -> String {
    let own = |path: &&str| {
        path.starts_with('/') && !path.starts_with("//") && !path.contains(['\\', '\r', '\n'])
    };
    said.filter(own).unwrap_or("/").to_owned()
}

fn set_cookie(context: &ServerContext, reply: &mut crate::reply::Reply, value: &str, age: u32) {
    let path = context.path("/");
    let secure = match context.settings.certificate {
        Some(_) => "; Secure",
        None => "",
    };
    let text =
        format!("{COOKIE}={value}; Path={path}; Max-Age={age}; HttpOnly; SameSite=Lax{secure}");
    if let Ok(text) = HeaderValue::from_str(&text) {
        reply.headers_mut().insert("set-cookie", text);
    }
}
