//! Which spaces there are, and what is in one of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use lope::reactive::{CellAddress, EntityId, Json as CellJson, SpaceEntry, SpaceName, names_of};
use lope_http::api_error::ApiError;
use lope_http::call::ApiCall;
use lope_http::clock;
use lope_http::context::ServerContext;
use lope_http::endpoint::{Answer, ApiResult, Endpoint};
use lope_http::parameter::{count, text};
use lope_http::reply;
use serde_json::{Value as Json, json};

/// Spaces, and documents, of a page.
const USUAL: usize = 100;
const MOST: usize = 1_000;

pub(crate) const ENDPOINTS: &[Endpoint] = &[
    Endpoint::get("/api/spaces", "listSpaces", |context, call| {
        Box::pin(list(context, call))
    })
    .about("Spaces by name: who hosts them, and how much waits for them.")
    .query(&[
        text("after", "Behind this name"),
        count("limit", "1 to 1000; 100 unless it is said"),
    ])
    .answers(Answer::Json("SpacePage")),
    Endpoint::get("/api/spaces/{space}", "getSpace", |context, call| {
        Box::pin(show(context, call))
    })
    .about("A space with its documents, by id, those that people named first.")
    .query(&[count(
        "limit",
        "Documents, 1 to 1000; 100 unless it is said",
    )])
    .answers(Answer::Json("SpaceWithDocuments")),
];

/// A document as a list shows it.
pub(crate) struct ListedDocument {
    pub(crate) id: EntityId,
    pub(crate) name: Option<String>,
    /// `process`, `recipe`, `kept by the runner`, or `document`.
    pub(crate) kind: &'static str,
    pub(crate) value: CellJson,
}

/// A space that is there.
pub(crate) async fn found(
    context: &ServerContext,
    space: &SpaceName,
) -> Result<SpaceEntry, ApiError> {
    let missing = || {
        ApiError::missing(format!("there is no space '{space}'"))
            .hint("GET /api/spaces lists what there is")
    };
    let directory = context.client.spaces().await?.ok_or_else(missing)?;
    if !directory.spaces().await?.contains(space) {
        return Err(missing());
    }
    let entry = directory.entry(space, clock::now()).await?;
    (!entry.is_empty).then_some(entry).ok_or_else(missing)
}

/// All spaces behind a name, and whether there are more.
pub(crate) async fn entries(
    context: &ServerContext,
    after: Option<&str>,
    limit: usize,
) -> Result<(Vec<SpaceEntry>, bool), ApiError> {
    let Some(directory) = context.client.spaces().await? else {
        return Ok((Vec::new(), false));
    };
    let all = directory.spaces().await?;
    let behind = all
        .into_iter()
        .filter(|space| after.is_none_or(|after| space.as_str() > after));
    let now = clock::now();
    let mut entries = Vec::new();
    for name in behind {
        let entry = directory.entry(&name, now).await?;
        entries.extend((!entry.is_empty).then_some(entry));
        if entries.len() > limit {
            break;
        }
    }
    let more = entries.len() > limit;
    entries.truncate(limit);
    Ok((entries, more))
}

/// The documents of a space: those with names first, then what the runner keeps.
pub(crate) async fn documents(
    context: &ServerContext,
    space: &SpaceName,
) -> Result<Vec<ListedDocument>, ApiError> {
    let Some(directory) = context.client.spaces().await? else {
        return Ok(Vec::new());
    };
    let spaces = directory.space(space.clone()).load().await?;
    let snapshot = spaces.snapshot();
    let names = names_in(snapshot.at(&names_of(space)));
    let running = lope::reactive::process::running_set(space);
    let own = [names_of(space).id, running.id];
    let all = snapshot.documents(space).into_iter();
    let mut found: Vec<ListedDocument> = all
        .map(|(id, value)| ListedDocument {
            name: names.get(id.as_str()).cloned(),
            kind: kind(id, value, &own),
            id: id.clone(),
            value: value.clone(),
        })
        .collect();
    found.sort_by_key(|it| (it.name.is_none(), it.name.clone(), it.kind));
    Ok(found)
}

/// What people call documents, by id.
pub(crate) fn names_in(names: Option<&CellJson>) -> BTreeMap<String, String> {
    let names = names.and_then(CellJson::as_object).into_iter();
    let pairs = names.flat_map(lope::reactive::json::Object::iter);
    pairs
        .filter_map(|(id, name)| Some((id.to_string(), name.as_str()?.to_owned())))
        .collect()
}

fn kind(id: &EntityId, value: &CellJson, own: &[EntityId]) -> &'static str {
    if own.contains(id) {
        "kept by the runner"
    } else if value.child("TYPE").is_some() && value.child("resultRef").is_some() {
        "process"
    } else if value.child("nodes").is_some() && value.child("result").is_some() {
        "recipe"
    } else {
        "document"
    }
}

fn entry_json(entry: &SpaceEntry) -> Json {
    json!({
        "space": entry.space.as_str(),
        "host": entry.host.as_ref().map(|(owner, _)| owner),
        "waiting": entry.waiting,
        "dead": entry.dead,
        "active": entry.is_active,
    })
}

async fn list(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let limit = call.limit(USUAL, MOST)?;
    let (entries, more) = entries(&context, call.query("after"), limit).await?;
    let next = entries.last().filter(|_| more);
    let next = next.map(|entry| entry.space.as_str().to_owned());
    let spaces: Vec<Json> = entries.iter().map(entry_json).collect();
    Ok(reply::json(&json!({ "spaces": spaces, "next": next })))
}

async fn show(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let limit = call.limit(USUAL, MOST)?;
    let space = super::space(&call)?;
    let mut value = entry_json(&found(&context, &space).await?);
    let documents = documents(&context, &space).await?;
    let shown = documents.iter().take(limit).map(|it| {
        let at = CellAddress::document(space.clone(), it.id.clone());
        json!({ "id": it.id.as_str(), "name": it.name, "kind": it.kind, "cell": at.to_string() })
    });
    value["documents"] = shown.collect();
    value["more"] = json!(documents.len() > limit);
    Ok(reply::json(&value))
}
