//! Reactive spaces: which there are, what their cells hold, what runs in them; cells changed,
//! events sent, recipes run and stopped.

pub(crate) mod cells;
mod drawing;
pub(crate) mod list;
mod page;
pub(crate) mod recipes;
pub(crate) mod streams;
pub(crate) mod watch;

use std::sync::Arc;
use std::time::{Duration, Instant};

use lope::reactive::{
    Arrival, CellAddress, Json as CellJson, SpaceAction, SpaceCommand, SpaceName, StoredReceipt,
    process, wording,
};
use lope_http::api_error::ApiError;
use lope_http::call::ApiCall;
use lope_http::context::ServerContext;
use lope_http::endpoint::Endpoint;
use serde_json::{Value as Json, json};

/// How long whoever hosts spaces has to take one up, before it is hosted here.
const TAKE_UP: Duration = Duration::from_millis(500);
/// Longest wait of one request for a receipt.
const WAIT: Duration = Duration::from_secs(10);
/// How often a receipt is looked for when nobody says that anything changed.
const POLL: Duration = Duration::from_millis(50);

pub(crate) const PAGES: &[Endpoint] = &[
    Endpoint::page("/spaces", |context, call| {
        Box::pin(page::list(context, call))
    }),
    Endpoint::page("/spaces/{space}", |context, call| {
        Box::pin(page::show(context, call))
    }),
    Endpoint::form("/spaces/{space}/{verb}", |context, call| {
        Box::pin(page::act(context, call))
    }),
];

/// The space that the path names.
fn space(call: &ApiCall) -> Result<SpaceName, ApiError> {
    let name = call.param("space").parse::<SpaceName>();
    name.map_err(|error| ApiError::bad(error.to_string()))
}

/// The cell that the path names, with a path inside its document; and its name as people write it.
fn cell(call: &ApiCall, path: Option<&str>) -> Result<(CellAddress, String), ApiError> {
    let mut text = format!("{}/{}", call.param("space"), call.param("document"));
    if let Some(path) = path
        .map(|path| path.trim_matches('/'))
        .filter(|it| !it.is_empty())
    {
        text = format!("{text}/{path}");
    }
    Ok((address(&text)?, text))
}

fn address(text: &str) -> Result<CellAddress, ApiError> {
    let parsed = process::parse_cell(text);
    parsed.map_err(|error| {
        ApiError::bad(error.to_string()).hint("as in home/counter or home/counter/count")
    })
}

fn plain(value: &CellJson) -> Json {
    serde_json::to_value(value).unwrap_or_default()
}

fn stored(value: Json) -> CellJson {
    CellJson::from(value)
}

/// An id of the caller's, or a fresh one.
fn message_id(call: &ApiCall, said: Option<String>) -> Arc<str> {
    let said = said.or_else(|| call.header("idempotency-key").map(str::to_owned));
    let said = said.filter(|id| !id.is_empty());
    said.unwrap_or_else(|| uuid::Uuid::now_v7().to_string())
        .into()
}

/// Gives the document of an address the name that was written for it.
fn naming(text: &str, at: &CellAddress) -> Option<SpaceAction> {
    let name = process::given_name(text)?.to_owned();
    let at = at.clone();
    Some(SpaceAction::Name { at, name })
}

/// An error that names a cell as it was written.
fn worded(error: impl Into<ApiError>, at: &CellAddress, text: &str) -> ApiError {
    let mut error = error.into();
    let name = CellAddress::name_in(text).unwrap_or(at.id.as_str());
    error.message = error.message.replace(at.id.as_str(), name);
    error
}

/// Sends something to a space and waits for its receipt. None: it is on disk, and whoever hosts the
/// space has not come to it yet. What was sent before under the same id is not done again.
async fn asked(
    context: &ServerContext,
    space: &SpaceName,
    arrival: &Arrival,
) -> Result<Option<StoredReceipt>, ApiError> {
    let spaces = context.spaces().await?;
    let store = spaces.space(space);
    let id = arrival.id();
    if let Some(receipt) = store.receipt(id).await? {
        receipt.validate(arrival)?;
        return Ok(Some(receipt));
    }
    store.deliver(arrival).await?;
    let answered = async {
        let mut changes = spaces.watch();
        let from = Instant::now();
        while from.elapsed() < TAKE_UP {
            if let Some(receipt) = store.receipt(id).await? {
                return Ok(receipt);
            }
            let _ = tokio::time::timeout(POLL, changes.changed()).await;
        }
        spaces.await_receipt(&store, id).await
    };
    match tokio::time::timeout(WAIT, answered).await {
        Ok(receipt) => {
            let receipt = receipt?;
            // Somebody else's may have come first.
            receipt.validate(arrival)?;
            Ok(Some(receipt))
        }
        Err(_) => Ok(None),
    }
}

/// Has a space do something. What could not be done is an error of the caller's.
async fn commanded(
    context: &ServerContext,
    space: &SpaceName,
    id: Arc<str>,
    action: SpaceAction,
) -> Result<Option<StoredReceipt>, ApiError> {
    let arrival = Arrival::Command(SpaceCommand { id, action });
    let receipt = asked(context, space, &arrival).await?;
    if let Some(failure) = receipt.as_ref().and_then(|it| it.failure.as_ref()) {
        return Err(ApiError::conflict(wording::failure_text(
            &failure.kind,
            &failure.message,
        )));
    }
    Ok(receipt)
}

/// A receipt as programs see it.
fn receipt_json(id: &str, receipt: Option<&StoredReceipt>) -> Json {
    let mut value = json!({ "event": id, "outcome": receipt.map(|it| &it.outcome) });
    if let Some(failure) = receipt.and_then(|it| it.failure.as_ref()) {
        value["error"] = json!({ "type": failure.kind, "message": failure.message });
    }
    value
}
