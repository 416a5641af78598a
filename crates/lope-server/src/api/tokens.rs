//! Tokens: who may use this server, and what for.

use std::sync::Arc;

use axum::http::StatusCode;
use lope::describe;
use lope::tokens::{Right, TokenError};
use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::api_error::{ApiError, ApiErrorKind};
use crate::call::ApiCall;
use crate::context::ServerContext;
use crate::endpoint::{Answer, ApiResult, Endpoint};
use crate::reply;

pub(crate) const ENDPOINTS: &[Endpoint] = &[
    Endpoint::get("/api/tokens", "listTokens", |context, call| {
        Box::pin(list(context, call))
    })
    .about("Tokens by name; what they open with is not known any more.")
    .does(&["tokens list"])
    .answers(Answer::Json("TokenPage"))
    .for_admins(),
    Endpoint::post("/api/tokens", "addToken", |context, call| {
        Box::pin(add(context, call))
    })
    .about("Make a token; this answer is the only place where it is told.")
    .does(&["tokens add"])
    .takes("TokenRequest")
    .answers(Answer::Created("FreshToken"))
    .for_admins(),
    Endpoint::delete("/api/tokens/{name}", "revokeToken", |context, call| {
        Box::pin(revoke(context, call))
    })
    .about("Take a token away, by its name or id; it opens nothing from then on.")
    .does(&["tokens revoke"])
    .answers(Answer::Json("Token"))
    .for_admins(),
];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenRequest {
    name: String,
    right: Option<Right>,
}

async fn list(context: Arc<ServerContext>, _: ApiCall) -> ApiResult {
    let all = context.client.tokens().await?;
    let all: Vec<Json> = all.iter().map(describe::token).collect();
    Ok(reply::json(&json!({ "tokens": all })))
}

async fn add(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let TokenRequest { name, right } = call.body()?;
    let added = context.client.add_token(&name, right.unwrap_or(Right::Act));
    let fresh = added.await.map_err(not_made)?;
    let mut value = describe::token(&fresh.record);
    value["token"] = json!(fresh.text);
    Ok(reply::json_with(StatusCode::CREATED, &value))
}

fn not_made(error: TokenError) -> ApiError {
    let kind = match error {
        TokenError::Store(store) => return store.into(),
        TokenError::BadName => ApiErrorKind::BadRequest,
        TokenError::NameTaken(_) | TokenError::TooMany => ApiErrorKind::Conflict,
        TokenError::NoRandomness(_) => ApiErrorKind::Unavailable,
    };
    ApiError::new(kind, error.to_string())
}

async fn revoke(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let name = call.param("name");
    let revoked = context.client.revoke_token(name).await?;
    let revoked = revoked.ok_or_else(|| {
        ApiError::missing(format!("there is no token '{name}'"))
            .hint("GET /api/tokens lists what there is")
    })?;
    Ok(reply::json(&describe::token(&revoked)))
}
