//! What a run came to, for the pages that show it. Of a large result only the beginning is read.

use lope::Redaction;
use lope::describe;
use lope::runs::RunRecord;
use lope_model::value::{from_msgpack, from_msgpack_head};
use maud::{Markup, html};
use serde_json::{Value as Json, json};

use super::parts::{brief, json as shown_json};
use crate::api_error::ApiError;
use crate::context::ServerContext;

/// Bytes of a result that are read.
const READ: usize = 64 * 1024;
/// Letters of one that is not read to its end.
const SHOWN: usize = 16 * 1024;

/// A result, or the beginning of it.
#[derive(PartialEq)]
pub(crate) struct RunResult {
    value: Json,
    /// How many bytes all of it has, where this is the beginning.
    total: Option<u64>,
}

impl RunResult {
    /// The result of a run; nothing if it has none, or one that says nothing.
    pub(crate) async fn of(
        context: &ServerContext,
        record: &RunRecord,
        redaction: Option<&Redaction>,
    ) -> Result<Option<Self>, ApiError> {
        // It was read with the run, because what is hidden is looked for in it.
        if redaction.is_some() && record.result.is_some() {
            let value = describe::run(record)["result"].take();
            return Ok(Self::unless_null(value, None));
        }
        let Some(head) = context.client.result_head(record.run, READ).await? else {
            return Ok(None);
        };
        if (head.bytes.len() as u64) < head.total {
            let value = from_msgpack_head(&head.bytes);
            let value = match redaction {
                Some(redaction) => redaction.result_head(value),
                None => value,
            };
            return Ok(Self::unless_null(json!(value), Some(head.total)));
        }
        let value = match (from_msgpack(&head.bytes), redaction) {
            (Ok(value), Some(redaction)) => json!(redaction.result(&value)),
            (Ok(value), None) => json!(value),
            (Err(error), _) => json!(format!("The result cannot be read: {error}")),
        };
        Ok(Self::unless_null(value, None))
    }

    fn unless_null(value: Json, total: Option<u64>) -> Option<Self> {
        let result = Self { value, total };
        (!result.value.is_null()).then_some(result)
    }

    pub(crate) fn markup(&self, context: &ServerContext, record: &RunRecord) -> Markup {
        let Some(total) = self.total else {
            return shown_json(&self.value);
        };
        let text = match &self.value {
            Json::String(text) => text.clone(),
            other => serde_json::to_string_pretty(other).unwrap_or_default(),
        };
        let all = context.path(&format!("/api/runs/{}/value?of=result", record.run));
        html! {
            pre { (brief(&text, SHOWN)) }
            p.dim { "This is the beginning of " (total) " bytes; " a href=(all) { "the API" } " has all of it, piece by piece." }
        }
    }
}
