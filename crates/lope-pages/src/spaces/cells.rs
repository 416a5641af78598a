//! Cells: what they hold, what they are changed to, where their links lead, what they held before.

use std::sync::Arc;

use lope::reactive::link::links_of;
use lope::reactive::{CellAddress, HistoryEntry, Json as CellJson, SpaceAction};
use lope_http::api_error::ApiError;
use lope_http::call::ApiCall;
use lope_http::context::ServerContext;
use lope_http::endpoint::{Answer, ApiResult, Endpoint};
use lope_http::parameter::{Parameter, count, flag, text};
use lope_http::reply;
use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::{cell, commanded, message_id, naming, plain, receipt_json, stored, worded};

const CHANGES: usize = 50;
const CHANGES_MOST: usize = 1_000;

const PATH: Parameter = text("path", "Inside the document, as in 'list/0/title'");

pub(crate) const ENDPOINTS: &[Endpoint] = &[
    Endpoint::get(
        "/api/spaces/{space}/cells/{document}",
        "getCell",
        |context, call| Box::pin(get(context, call)),
    )
    .about("What a cell holds, links followed. A document is named as people call it, or by its id.")
    .does(&["cells get"])
    .query(&[PATH, flag("raw", "As it is stored, no link followed")])
    .answers(Answer::Json("CellValue")),
    Endpoint::post(
        "/api/spaces/{space}/cells/{document}/set",
        "setCell",
        |context, call| Box::pin(set(context, call)),
    )
    .about("Change a cell, and wait until everything that depends on it is up to date. Without a value the cell is emptied.")
    .does(&["cells set"])
    .takes("CellChange")
    .answers(Answer::Json("Receipt")),
    Endpoint::get(
        "/api/spaces/{space}/cells/{document}/links",
        "listLinks",
        |context, call| Box::pin(links(context, call)),
    )
    .about("The links in a cell, and where they lead.")
    .does(&["cells links"])
    .query(&[PATH])
    .answers(Answer::Json("LinkPage")),
    Endpoint::get(
        "/api/spaces/{space}/cells/{document}/history",
        "cellHistory",
        |context, call| Box::pin(history(context, call)),
    )
    .about("What a cell held, newest last, and who changed it.")
    .does(&["cells history"])
    .query(&[PATH, count("limit", "1 to 1000; 50 unless it is said")])
    .answers(Answer::Json("HistoryPage")),
];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CellChangeRequest {
    path: Option<String>,
    #[serde(default, deserialize_with = "present")]
    value: Option<Json>,
    #[serde(default)]
    how: ChangeHow,
    id: Option<String>,
}

/// What a change does to what is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ChangeHow {
    #[default]
    Set,
    /// The list gets the value at its end.
    Append,
    /// The number grows by the value.
    Add,
}

/// A null that is written is a value.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(deserializer).map(Some)
}

async fn get(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let (at, text) = cell(&call, call.query("path"))?;
    let value = if call.flag("raw")? {
        read_stored(&context, &at).await?
    } else {
        match context.client.spaces().await? {
            Some(directory) => {
                let read = directory.space(at.space.clone()).read(&at).await;
                read.map_err(|error| worded(error, &at, &text))?
            }
            None => None,
        }
    };
    let value = value.ok_or_else(|| nothing(&text))?;
    Ok(reply::json(
        &json!({ "cell": at.to_string(), "value": plain(&value) }),
    ))
}

async fn read_stored(
    context: &ServerContext,
    at: &CellAddress,
) -> Result<Option<CellJson>, ApiError> {
    Ok(match context.client.spaces().await? {
        Some(directory) => directory.space(at.space.clone()).stored(at).await?,
        None => None,
    })
}

fn nothing(text: &str) -> ApiError {
    ApiError::missing(format!("there is nothing at {text}"))
}

async fn set(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let request: CellChangeRequest = call.body()?;
    let (at, text) = cell(&call, request.path.as_deref())?;
    let value = request.value.map(stored);
    let action = match (request.how, value) {
        (ChangeHow::Set, None) => SpaceAction::Remove { at: at.clone() },
        (ChangeHow::Set, value) => SpaceAction::Set {
            at: at.clone(),
            value,
        },
        (ChangeHow::Append, Some(element)) => SpaceAction::Append {
            at: at.clone(),
            elements: vec![element],
        },
        (ChangeHow::Add, Some(by)) if by.as_number().is_some() => {
            SpaceAction::Increment { at: at.clone(), by }
        }
        (ChangeHow::Add, Some(by)) => {
            return Err(ApiError::bad(format!("value: {by} is no number to add")));
        }
        (ChangeHow::Append | ChangeHow::Add, None) => {
            return Err(ApiError::bad("value: it is missing"));
        }
    };
    let actions = naming(&text, &at).into_iter().chain([action]).collect();
    let id = message_id(&call, request.id);
    let action = SpaceAction::All(actions);
    let receipt = commanded(&context, &at.space, Arc::clone(&id), action).await;
    let receipt = receipt.map_err(|error| worded(error, &at, &text))?;
    Ok(reply::json(&receipt_json(&id, receipt.as_ref())))
}

async fn links(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let (at, text) = cell(&call, call.query("path"))?;
    let value = read_stored(&context, &at).await?;
    let value = value.ok_or_else(|| nothing(&text))?;
    let found = links_of(&value, &at);
    let links = found.iter().map(|(from, link, to)| {
        json!({ "cell": from.to_string(), "target": to.to_string(), "redirect": link.redirect })
    });
    Ok(reply::json(&json!({ "links": links.collect::<Vec<_>>() })))
}

async fn history(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let limit = call.limit(CHANGES, CHANGES_MOST)?;
    let (at, text) = cell(&call, call.query("path"))?;
    let (at, all) = match context.client.spaces().await? {
        Some(directory) => {
            // What a link leads to has the values; the link itself has none.
            let led = directory.space(at.space.clone()).leads_to(&at).await;
            let at = led.map_err(|error| worded(error, &at, &text))?;
            let all = directory.space(at.space.clone()).history().await?;
            (at, all)
        }
        None => (at, Vec::new()),
    };
    let is_meant =
        |entry: &&HistoryEntry| entry.at.is_same_document(&at) && entry.at.path.overlaps(&at.path);
    let meant: Vec<Json> = all.iter().filter(is_meant).map(change_json).collect();
    let from = meant.len().saturating_sub(limit);
    Ok(reply::json(&json!({ "changes": meant[from..] })))
}

/// A change of a cell.
pub(crate) fn change_json(entry: &HistoryEntry) -> Json {
    json!({
        "at": entry.time.to_string(),
        "cell": entry.at.to_string(),
        "value": entry.value.as_ref().map(plain),
        "left_out": entry.is_left_out,
        "by": entry.by,
    })
}
