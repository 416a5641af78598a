//! Live events of spaces: what some cells hold, and what each wave of a space changed. A client that
//! was cut off comes back with the id of its last event and is told what it has not seen.
//!
//! The id of a cell's event is a digest of what was told, so that any server can go on where another
//! one was; the id of a wave is its number.

use std::sync::Arc;
use std::time::Duration;

use lope::reactive::{
    CellAddress, HostError, Json as CellJson, SpaceClient, SpaceName, WaveNumber,
};
use lope_http::api_error::ApiError;
use lope_http::call::ApiCall;
use lope_http::context::{ServerContext, ended};
use lope_http::endpoint::{Answer, ApiResult, Endpoint};
use lope_http::event_stream::{self, EventSink, Gone};
use lope_http::parameter::{text, texts};
use lope_model::Digest;
use serde_json::{Value as Json, json};

use super::cells::change_json;
use super::{address, plain};

/// Most cells of one stream.
const CELLS: usize = 100;
/// Waves told at once; whoever is further behind reads anew.
const WAVES: usize = 1_000;
/// How late a change is seen whose hint was lost.
const LATE: Duration = Duration::from_secs(1);
/// Changes that come together are looked at once.
const TOGETHER: Duration = Duration::from_millis(20);
/// The digest of a cell that holds nothing.
const ABSENT: &str = "none";

pub(crate) const ENDPOINTS: &[Endpoint] = &[
    Endpoint::get("/api/cells/events", "watchCells", |context, call| {
        Box::pin(cells(context, call))
    })
    .about("What cells hold, now and whenever that changes: events 'value'. Whoever comes back with 'Last-Event-ID' is told of those that differ.")
    .does(&["cells watch"])
    .query(&[
        texts("cell", "SPACE/DOCUMENT/PATH; 1 to 100 of them"),
        text("after", "As 'Last-Event-ID'"),
    ])
    .answers(Answer::Events("WatchedCell")),
    Endpoint::get("/api/spaces/{space}/events", "watchSpace", |context, call| {
        Box::pin(space(context, call))
    })
    .about("What each wave of a space changes, from now on: events 'change', and 'reset' if too much was missed to be told.")
    .query(&[text("after", "As 'Last-Event-ID': waves behind this number")])
    .answers(Answer::Events("SpaceChange")),
];

struct WatchedCell {
    at: CellAddress,
    name: String,
    told: String,
}

async fn cells(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let asked = call.query_all("cell").map(|text| {
        Ok(WatchedCell {
            at: address(text)?,
            name: text.to_owned(),
            told: String::new(),
        })
    });
    let mut cells = asked.collect::<Result<Vec<_>, ApiError>>()?;
    if cells.is_empty() || cells.len() > CELLS {
        return Err(ApiError::bad(format!("cell: 1 to {CELLS} of them")));
    }
    let last = call.header("last-event-id").or_else(|| call.query("after"));
    let told: Vec<&str> = last.unwrap_or_default().split('.').collect();
    if told.len() == cells.len() {
        for (cell, told) in cells.iter_mut().zip(told) {
            told.clone_into(&mut cell.told);
        }
    }
    context.spaces().await?;
    let (sink, reply) = event_stream::open(&context)?;
    tokio::spawn(async move {
        let mut ending = context.ending.clone();
        tokio::select! {
            _ = follow_cells(&context, cells, &sink) => {}
            () = sink.gone() => {}
            () = ended(&mut ending) => {}
        }
    });
    Ok(reply)
}

async fn follow_cells(
    context: &ServerContext,
    mut cells: Vec<WatchedCell>,
    sink: &EventSink,
) -> Result<(), Gone> {
    let spaces = context.spaces().await.map_err(|_| Gone)?;
    let mut changes = spaces.watch();
    sink.beat().await?;
    loop {
        for index in 0..cells.len() {
            let cell = &cells[index];
            let value = match spaces.space(&cell.at.space).read(&cell.at).await {
                Ok(value) => value,
                Err(error) => {
                    tracing::debug!(%error, cell = cell.name, "a watched cell cannot be read");
                    continue;
                }
            };
            let digest = digest(value.as_ref());
            if digest == cell.told {
                continue;
            }
            cells[index].told = digest;
            let told: Vec<&str> = cells.iter().map(|cell| &*cell.told).collect();
            let event = told_json(&cells[index].name, value.as_ref());
            sink.send(&told.join("."), "value", &event).await?;
        }
        let _ = tokio::time::timeout(LATE, changes.changed()).await;
        tokio::time::sleep(TOGETHER).await;
        sink.keep_alive().await?;
    }
}

fn told_json(name: &str, value: Option<&CellJson>) -> Json {
    json!({ "cell": name, "value": value.map(plain), "present": value.is_some() })
}

fn digest(value: Option<&CellJson>) -> String {
    value.map_or_else(
        || ABSENT.to_owned(),
        |value| format!("{:016x}", Digest::of(value.to_string().as_bytes()).short()),
    )
}

async fn space(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let space = super::space(&call)?;
    let last = call.header("last-event-id").or_else(|| call.query("after"));
    let last = last.map(str::parse::<WaveNumber>).transpose();
    let last = last.map_err(|error| ApiError::bad(format!("after: {error}")))?;
    let after = match last {
        Some(after) => after,
        None => context.spaces().await?.space(&space).last_wave().await?,
    };
    let (sink, reply) = event_stream::open(&context)?;
    tokio::spawn(async move {
        let mut ending = context.ending.clone();
        tokio::select! {
            _ = follow_space(&context, &space, after, &sink) => {}
            () = sink.gone() => {}
            () = ended(&mut ending) => {}
        }
    });
    Ok(reply)
}

async fn follow_space(
    context: &ServerContext,
    space: &SpaceName,
    mut after: WaveNumber,
    sink: &EventSink,
) -> Result<(), Gone> {
    let spaces = context.spaces().await.map_err(|_| Gone)?;
    let mut changes = spaces.watch();
    sink.beat().await?;
    loop {
        match missed(spaces, space, after).await {
            Ok((events, last)) => {
                for (id, name, event) in events {
                    sink.send(&id.to_string(), name, &event).await?;
                }
                after = last;
            }
            Err(error) => tracing::debug!(%error, %space, "a watched space cannot be read"),
        }
        let _ = tokio::time::timeout(LATE, changes.changed()).await;
        tokio::time::sleep(TOGETHER).await;
        sink.keep_alive().await?;
    }
}

type SpaceEventFrame = (WaveNumber, &'static str, Json);

/// What came behind a wave, and the number of the last one.
async fn missed(
    spaces: &SpaceClient,
    space: &SpaceName,
    after: WaveNumber,
) -> Result<(Vec<SpaceEventFrame>, WaveNumber), HostError> {
    let store = spaces.space(space);
    let waves = store.changes_after(after, WAVES).await?;
    if waves.len() >= WAVES {
        let last = store.last_wave().await?;
        return Ok((vec![(last, "reset", json!({}))], last));
    }
    let last = waves.last().map_or(after, |(number, _)| *number);
    let events = waves.iter().map(|(number, changes)| {
        let changes: Vec<Json> = changes.iter().map(change_json).collect();
        let event = json!({ "wave": number.to_string(), "changes": changes });
        (*number, "change", event)
    });
    Ok((events.collect(), last))
}
